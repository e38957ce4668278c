"""Is there an accelerator that a job could open?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import ERROR, Action, Compared, Facts, Finding, Fix, Host, Scope, Unknown, _, check
from npudoctor.host import CannotTell
from npudoctor.host.devices.accelerators import Accelerators
from npudoctor.host.devices.driver import has_library

NODES = {"npu": "/dev/davinciN", "gpu": "/dev/nvidiaN"}


@check(
    "accelerator",
    scope=Scope.NODE,
    tags={"ascend", "nvidia"},
    codes={"accelerator.missing": ERROR, "accelerator.fewer": ERROR},
    always=True,
    compares=(Compared("npu.driver", "driver (NPU)"), Compared("gpu.driver", "driver (GPU)")),
)
def accelerator(host: Host) -> Iterator[Union[Finding, Facts]]:
    """This machine has the accelerator that the job needs.

    ## What it does

    Looks for the device nodes of Ascend NPUs (`/dev/davinciN`) and NVIDIA GPUs (`/dev/nvidiaN`). The PCI bus,
    the kernel driver of each card and the installed driver explain why nodes are missing. No tool is run. The
    check runs in every scope and profile.

    - `--expect npu` or `--expect gpu`: `accelerator.missing` if there is none. `--expect npu=8`:
      `accelerator.fewer` if there are fewer than that, for example after one has fallen off the bus.
    - `--expect auto`, the default: any accelerator is fine. Hardware without device nodes is `missing`,
      because its driver does not work. If there is neither, the result is "cannot tell": nothing says what
      this machine is for.
    - `--expect none`: nothing is looked for.

    In a container the host's PCI bus is visible, so only the device nodes decide there. Cards that are passed
    to virtual machines (`vfio-pci`) are not part of this machine.

    ## Why it matters

    A job that finds no device fails at its first line (`Can't get ascend_hal device count`), and a
    report on a machine without its accelerator would be a report on the wrong machine.

    ## References

    - Ascend driver installation guide: device nodes of the NPU.
    - vllm-ascend, installation with Docker: what a container must be given.
    """
    expected = host.options.expect
    if expected == "none":
        return
    kinds = {"npu": host.npus, "gpu": host.gpus}
    yield Facts({kind: _facts(accelerators) for kind, accelerators in kinds.items()})
    if expected != "auto":
        if not kinds[expected].is_usable:
            yield _report_missing(host, kinds[expected])
        elif len(kinds[expected].nodes) < host.options.expect_count:
            yield _report_fewer(host, kinds[expected], host.options.expect_count)
        return
    if any(accelerators.is_usable for accelerators in kinds.values()):
        return
    in_container = host.system.is_container()
    # A container sees the host's whole PCI bus in /sys, also cards that it was not given.
    waiting = (
        []
        if in_container
        else [accelerators for accelerators in kinds.values() if accelerators.available_cards]
    )
    if not waiting:
        raise Unknown(
            _("could not determine the accelerator: no NPU or GPU was found; use --expect npu, gpu or none")
        )
    for accelerators in waiting:
        yield _report_missing(host, accelerators)


def _facts(accelerators: Accelerators) -> dict[str, object]:
    return {
        "nodes": list(accelerators.nodes),
        "pci": list(accelerators.cards),
        "models": list(accelerators.models),
        "driver": accelerators.driver,
    }


def _report_fewer(host: Host, accelerators: Accelerators, expected: int) -> Finding:
    action = Action.CONFIG if host.system.is_container() else Action.ISOLATE
    return Finding(
        "accelerator.fewer",
        _(
            "this machine shows {count} of the {wanted} expected {kind}s",
            count=len(accelerators.nodes),
            wanted=expected,
            kind=accelerators.kind.upper(),
        ),
        evidence=accelerators.evidence,
        action=action,
    )


def _report_missing(host: Host, accelerators: Accelerators) -> Finding:
    text, action = _reason(host, accelerators)
    words = {
        "kind": accelerators.kind.upper(),
        "node": NODES[accelerators.kind],
        "models": ", ".join(accelerators.models),
    }
    return Finding(
        "accelerator.missing",
        text.format(**words),
        evidence=accelerators.evidence,
        action=action,
        fix=_fix_container(host, accelerators.kind) if host.system.is_container() else None,
    )


def _fix_container(host: Host, kind: str) -> Fix:
    """Return the options that give a container the accelerator; for an NPU also the shared nodes and mounts
    that are missing."""
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.checks.device._container_options import ask_for_options, ask_for_paths

    if kind == "gpu":
        options: Fix = ask_for_options([("--gpus", "all")])
        return options
    from npudoctor.checks.device.container_mounts import LIBRARIES, find_missing
    from npudoctor.checks.device.device_nodes import NEEDED

    shared = [
        f"/dev/{names[0]}" for names in NEEDED if not any(_exists(host, f"/dev/{name}") for name in names)
    ]
    try:
        has_driver = bool(has_library(host.files, host.variables.path_list("LD_LIBRARY_PATH")))
    except CannotTell:
        # A library that cannot be examined was given to the container: asking for it again would not help.
        has_driver = True
    library = [] if has_driver else [LIBRARIES]
    fix: Fix = ask_for_paths(["/dev/davinci0", *shared, *library, *find_missing(host)])
    return fix


def _exists(host: Host, path: str) -> bool:
    """Whether the node exists. One that this user may not examine was passed, so it counts as existing."""
    try:
        return host.running_files.lstat(path) is not None
    except CannotTell:
        return True


def _reason(host: Host, accelerators: Accelerators) -> tuple[str, Action]:
    """Return why there is no device node, as far as can be seen, and the action for provisioning."""
    if host.system.is_container():
        return _("no {kind} was passed to this container: there is no {node}"), Action.CONFIG
    if accelerators.available_cards:
        return _(
            "{kind} hardware is on the PCI bus ({models}), but there is no {node}: "
            "its driver is not installed or not loaded"
        ), Action.CONFIG
    if accelerators.cards:
        return _(
            "every {kind} on the PCI bus is passed to virtual machines (vfio-pci): there is no {node}"
        ), Action.CONFIG
    if accelerators.unread:
        return _("no {kind} was found: there is no {node}, and the PCI bus cannot be read"), Action.CONFIG
    return _("no {kind} was found: there is no {node}, and no such hardware on the PCI bus"), Action.ISOLATE
