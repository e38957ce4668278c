"""Is npu-smi here, and does it answer?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Facts,
    Finding,
    Host,
    Scope,
    Skip,
    Unknown,
    _,
    check,
)

if TYPE_CHECKING:
    from npudoctor.host.devices.npu_smi import NpuSmiFailure, NpuSmiInfo

# What each complaint is called here, and which other findings are its cause.
CODES = {
    "no-driver": "npu-tool.driver-not-ready",
    "used": "npu-tool.device-used",
    "no-rights": "npu-tool.no-rights",
    "library": "npu-tool.library-missing",
    "no-card": "npu-tool.no-card",
    "usage": "npu-tool.failed",
    "code": "npu-tool.failed",
}
# Findings of other checks that explain the complaint. npu-smi needs the same nodes and libraries as a job.
CAUSES = {
    "no-driver": ("device-nodes.missing", "device-nodes.no-access", "cann-driver.missing"),
    "no-rights": ("device-nodes.no-access",),
    "library": ("cann-driver.missing", "cann-driver.no-library", "container-mounts.driver"),
}
# The codes of DCMI, the library below npu-smi.
DCMI = {
    -8001: "parameter",
    -8003: "memory",
    -8006: "timeout",
    -8007: "invalid id",
    -8008: "no device",
    -8009: "ioctl",
    -8012: "not ready",
    -8013: "not in a container",
    -8017: "upgrading",
    -8255: "not supported",
    -9005: "no ready device",
}
LINES = 40  # of an answer that is not understood, kept as evidence
# The last line of stdout, after a complete table and with status 0; only hosts print it.
INCOMPLETE = "may not be completely installed"


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
    with the driver's own libraries. The output is judged, not the exit status, which is 0 for some failures.
    The table is read by its headers; if they are unknown, the output is kept as evidence, and the result is
    unknown.

    - `npu-tool.hung`: npu-smi did not answer twice, and a process that uses the driver (or the killed npu-smi
      itself) was in state D both times. Only a reboot ends that. Without such a process the result is
      unknown.
    - `npu-tool.driver-not-ready`: -8005: the driver is not loaded, or was upgraded without a reboot. In a
      container this is a warning, because permissions may be missing there.
    - `npu-tool.device-used`: -8020: another container holds the device.
    - `npu-tool.no-rights`: -8002, or -8005 with `ret=4`: this user is not in the devices' group; in a
      container it may also be a virtual NPU.
    - `npu-tool.library-missing`: a library is neither in the driver's folders nor in the system's.
    - `npu-tool.no-card`: npu-smi sees no card, but device nodes exist.
    - `npu-tool.fewer-devices`: the table has fewer chips than there are device nodes, so a card may have
      dropped out.
    - `npu-tool.failed`: npu-smi failed with another of its codes.
    - `npu-tool.unknown-answer`: npu-smi printed neither a table nor a message that npudoctor knows.
    - `npu-tool.driver-incomplete`: npu-smi says that the driver may not be completely installed.
    - `npu-tool.not-found`: npu-smi was not found. Jobs do not need it, but the devices' health is then
      unknown.

    ## Why it matters

    npu-smi sends the driver the same queries as a job. If it fails on the host, the job fails at its first
    line (`RuntimeError: Initialize`).

    ## References

    - npu-smi, public source: its messages, its codes, and that they are printed to stdout.
    - Ascend/cann-container-image and vllm-ascend, issues about -8005 and -8020.
    """
    if not host.npus.is_usable:
        raise Skip(_("this machine has no NPU device node"))
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.checks.device._npu_smi_screen import is_inconclusive

    smi = host.npu_smi
    path = smi.find_program()
    if path is None:
        text = _("npu-smi was not found: could not determine the devices' health")
        if host.system.is_container():
            text = _("npu-smi is not mounted into this container: could not determine the devices' health")
        yield Finding("npu-tool.not-found", text, action=Action.CONFIG)
        return
    look = smi.read_info()
    # What was measured: versions, chips, seconds.
    screen = look.screen
    yield Facts(
        {
            "path": path,
            "seconds": round(look.answer.seconds, 2),
            "tool": screen.tool if screen else None,
            "driver": screen.driver if screen else None,
            "chips": [f"{chip.npu}/{chip.chip} {chip.name}" for chip in screen.chips] if screen else [],
        }
    )
    # npu-smi prints its errors to stdout, some with status 0: the text decides, not the status.
    if look.answer.ended == "exited":
        yield from _judge_answer(host, path, look)
        if look.screen is None and look.failure is None:
            raise Unknown(_describe_failure(path, look), advisory=is_inconclusive(host, look))
    elif look.stuck:
        yield _report_hang(path, look)
    else:
        raise Unknown(_describe_failure(path, look), advisory=is_inconclusive(host, look))


def _describe_failure(path: str, look: NpuSmiInfo) -> str:
    answer = look.answer
    if answer.ended == "timeout":
        text = _("{path} did not answer in time (attempts: {count})")
    elif answer.ended == "flooded":
        text = _("{path} does not stop printing")
    elif answer.ended == "untrusted":
        text = _("npudoctor does not run {path} as root: users other than root can change it")
    elif answer.ended == "not-started":
        text = _("{path} cannot be started: {why}")
    elif answer.status is not None and answer.status < 0:
        text = _("{path} was killed by signal {signal}")
    elif not answer.stdout.strip():
        text = _("{path} printed nothing; its exit status is {status}")
    else:
        text = _("{path} prints a format that npudoctor does not know")
    signal = -(answer.status or 0)
    return text.format(path=path, count=look.attempts, why=answer.stderr, signal=signal, status=answer.status)


def _report_hang(path: str, look: NpuSmiInfo) -> Finding:
    processes = [f"pid {process.pid} ({process.name})" for process in look.stuck]
    return Finding(
        "npu-tool.hung",
        _(
            "{path} does not answer, and {process} is stuck in the driver (state D): only a reboot "
            "clears this",
            path=path,
            process=processes[0],
        ),
        evidence=tuple(_("state D, seen twice: {process}", process=name) for name in processes),
        action=Action.REBOOT,
    )


def _judge_answer(host: Host, path: str, look: NpuSmiInfo) -> Iterator[Finding]:
    """Judge a complete answer: errors of the tool or the driver, and the number of devices."""
    if look.failure:
        in_container = host.system.is_container()
        words = {
            "path": path,
            "code": look.failure.code,
            "user": host.identity.user,
            "line": look.failure.line,
        }
        words["meaning"] = DCMI.get(look.failure.code or 0, "?")
        yield Finding(
            CODES[look.failure.kind],
            _failure_text(look.failure, in_container).format(**words),
            # In a container -8005 may also mean missing permissions.
            severity=WARNING if in_container and look.failure.kind == "no-driver" else None,
            evidence=_quote_lines(look.answer.stdout.splitlines() + look.answer.stderr.splitlines()),
            action=Action.REBOOT if look.failure.kind == "no-driver" and not in_container else Action.CONFIG,
            echo_of=CAUSES.get(look.failure.kind, ()),
        )
    elif look.screen is None:
        lines = look.answer.stdout.splitlines() + look.answer.stderr.splitlines()
        if any(line.strip() for line in lines):
            yield Finding(
                "npu-tool.unknown-answer",
                _("npudoctor does not recognize the output of {path}", path=path),
                evidence=_quote_lines(lines),
            )
    else:
        yield from _report_fewer(host, look)
    if INCOMPLETE in look.answer.stdout:
        yield Finding(
            "npu-tool.driver-incomplete",
            _("npu-smi says that the driver may not be completely installed"),
            evidence=("/etc/ascend_install.info: Driver_Install_Status",),
            action=Action.CONFIG,
            echo_of=("driver-firmware.incomplete",),
        )


def _quote_lines(lines: list[str]) -> tuple[str, ...]:
    shown = [line[:200] for line in lines if line.strip()][:LINES]
    return tuple(_("npu-smi printed: {line}", line=line) for line in shown)


def _failure_text(failure: NpuSmiFailure, in_container: bool) -> str:
    if failure.kind == "no-driver":
        if in_container:
            return _(
                "{path} cannot reach the driver ({code}): it is not loaded, this container lacks "
                "permissions, or another container holds the device"
            )
        return _(
            "{path} cannot reach the driver ({code}): it is not loaded, or was upgraded without a reboot"
        )
    texts = {
        "used": _("{path} says that the device is in use ({code}): another container holds it"),
        "library": _("{path} does not find a library, even in the driver's folders: {line}"),
        "no-card": _("{path} sees no NPU card, but this machine has device nodes"),
        "usage": _("{path} does not support this query: {line}"),
        "code": _("{path} failed with {code} ({meaning})"),
    }
    if failure.kind == "no-rights":
        if in_container:
            return _(
                "{path} cannot use the driver as {user} ({code}): wrong device node group, or a virtual NPU"
            )
        return _("{path} cannot use the driver as {user} ({code})")
    return texts[failure.kind]


def _report_fewer(host: Host, look: NpuSmiInfo) -> Iterator[Finding]:
    """Report that the table has fewer chips than /dev has nodes. Not in a container, where the two may
    differ."""
    nodes = [node for node in host.npus.nodes if "vdavinci" not in node]
    screen = look.screen
    if screen is None or screen.is_cut or host.system.is_container() or len(screen.chips) >= len(nodes):
        return
    # Only a table with physical ids (A3) says which nodes it lacks.
    shown = [chip.physical for chip in screen.chips]
    missing: list[str]
    if None in shown:
        missing = []
    else:
        missing = [node for node in nodes if int(node.rpartition("davinci")[2]) not in shown]
    yield Finding(
        "npu-tool.fewer-devices",
        _(
            "npu-smi shows {chips} NPU chips, but there are {nodes} device nodes: a card may have dropped "
            "out",
            chips=len(screen.chips),
            nodes=len(nodes),
        ),
        evidence=tuple(_("not shown: {node}", node=node) for node in missing),
        device=missing[0] if len(missing) == 1 else None,
        action=Action.ISOLATE,
    )
