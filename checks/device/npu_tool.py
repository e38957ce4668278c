"""Is npu-smi here, and does it answer?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Union

from npudoctor import ERROR, INFO, WARNING, Action, Facts, Finding, Host, Scope, Skip, Unknown, _, check

if TYPE_CHECKING:
    from npudoctor.host.devices.npu_smi import NpuSmiInfo


@check(
    "npu-tool",
    scope=Scope.NODE,
    tags={"ascend"},
    needs=("npu",),
    codes={
        "npu-tool.hung": ERROR,
        "npu-tool.driver-not-ready": ERROR,
        "npu-tool.device-used": ERROR,
        "npu-tool.no-rights": WARNING,
        "npu-tool.library-missing": WARNING,
        "npu-tool.no-card": WARNING,
        "npu-tool.failed": WARNING,
        "npu-tool.fewer-devices": WARNING,
        "npu-tool.unknown-answer": INFO,
        "npu-tool.driver-incomplete": INFO,
        "npu-tool.not-found": INFO,
    },
    quick=False,
)
def npu_tool(host: Host) -> Iterator[Union[Finding, Facts]]:
    """npu-smi is installed and answers.

    ## What it does

    Looks for npu-smi in the system's folders, in the driver's `tools` and on PATH, and runs `npu-smi info`
    with the driver's own libraries. What it prints decides, not its exit status, which is 0 for some
    failures. The table is read by its headers; one that is not known is kept as evidence, and the row is
    "cannot tell".

    - `npu-tool.hung`: no answer twice, and a process that works with the driver (or the killed npu-smi
      itself) was in state D both times. Only a reboot ends that. Without such a process: "cannot tell".
    - `npu-tool.driver-not-ready`: -8005: the driver is not loaded, or was upgraded without a reboot. In a
      container a warning: there it may be for want of rights.
    - `npu-tool.device-used`: -8020: another container holds the device.
    - `npu-tool.no-rights`: -8002, or -8005 with `ret=4`: this user is not in the devices' group; in a
      container also a virtual NPU.
    - `npu-tool.library-missing`: a library is neither in the driver's folders nor in the system's.
    - `npu-tool.no-card`: it sees no card, but device nodes are here. `npu-tool.fewer-devices`: the table has
      fewer chips than there are device nodes, so a card may have dropped out.
    - `npu-tool.failed`: another of its codes.
    - `npu-tool.driver-incomplete`: it says that the driver may not be completely installed.
    - `npu-tool.not-found`: no npu-smi. Jobs do not need it, but the devices' health cannot be told.

    ## Why it matters

    npu-smi asks the driver what a job will ask it. Where it fails on the host, the job fails at its first
    line (`RuntimeError: Initialize`).

    ## References

    - npu-smi, public source: its messages, its codes, and that they are printed to stdout.
    - Ascend/cann-container-image and vllm-ascend, issues about -8005 and -8020.
    """
    if not host.npus.usable:
        raise Skip(_("this machine has no NPU device node"))
    from npudoctor.checks.device import _npu_tool_findings as findings
    from npudoctor.checks.device._screen import is_elsewhere

    smi = host.npu_smi
    path = smi.program()
    if path is None:
        yield findings.not_found(host)
        return
    look = smi.look()
    yield Facts({"path": path, **findings.facts(look)})
    if look.answer.ended == "exited":
        yield from findings.of_answer(host, path, look)
        if look.screen is None and look.failure is None:
            raise Unknown(_unknown(path, look), advisory=is_elsewhere(host, look))
    elif look.stuck:
        yield _hung(path, look)
    else:
        raise Unknown(_unknown(path, look), advisory=is_elsewhere(host, look))


def _hung(path: str, look: NpuSmiInfo) -> Finding:
    text = _(
        "{path} does not answer, and {process} is stuck in the driver (state D): only a reboot ends that"
    )
    processes = [f"pid {process.pid} ({process.name})" for process in look.stuck]
    return Finding(
        "npu-tool.hung",
        text.format(path=path, process=processes[0]),
        evidence=tuple(_("state D, seen twice: {process}").format(process=name) for name in processes),
        action=Action.REBOOT,
    )


def _unknown(path: str, look: NpuSmiInfo) -> str:
    answer = look.answer
    if answer.ended == "timeout":
        text = _("{path} did not answer in time; it was asked {count} times")
    elif answer.ended == "flooded":
        text = _("{path} prints without end")
    elif answer.ended == "untrusted":
        text = _("{path} is not run as root: users other than root can change it")
    elif answer.ended == "not-started":
        text = _("{path} cannot be started: {why}")
    elif answer.status is not None and answer.status < 0:
        text = _("{path} was ended by signal {signal}")
    elif not answer.stdout.strip():
        text = _("{path} printed nothing; its exit status is {status}")
    else:
        text = _("{path} prints a format that npudoctor does not know")
    signal = -(answer.status or 0)
    return text.format(path=path, count=look.asked, why=answer.stderr, signal=signal, status=answer.status)
