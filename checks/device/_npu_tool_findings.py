"""What npu-smi's answers and failures mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from npudoctor import Action, Finding, Host, Severity, _
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
INCOMPLETE = "may not be completely installed"


def facts(look: NpuSmiInfo) -> dict[str, object]:
    """What was measured: versions, chips, seconds."""
    screen = look.screen
    return {
        "seconds": round(look.answer.seconds, 2),
        "tool": screen.tool if screen else None,
        "driver": screen.driver if screen else None,
        "chips": [f"{chip.npu}/{chip.chip} {chip.name}" for chip in screen.chips] if screen else [],
    }


def not_found(host: Host) -> Finding:
    text = _("npu-smi was not found: could not determine the devices' health")
    if host.system.container():
        text = _("npu-smi is not mounted into this container: could not determine the devices' health")
    return Finding("npu-tool.not-found", text, action=Action.CONFIG)


def of_answer(host: Host, path: str, look: NpuSmiInfo) -> Iterator[Finding]:
    """What a whole answer says of the tool, the driver and the number of devices."""
    if look.failure:
        yield _failed(host, path, look.failure, look)
    elif look.screen is None:
        lines = look.answer.stdout.splitlines() + look.answer.stderr.splitlines()
        if any(line.strip() for line in lines):
            text = _("npudoctor does not recognise the output of {path}")
            yield Finding("npu-tool.unknown-answer", text.format(path=path), evidence=_kept(lines))
    else:
        yield from _fewer(host, look)
    if INCOMPLETE in look.answer.stdout:
        yield Finding(
            "npu-tool.driver-incomplete",
            _("npu-smi says that the driver may not be completely installed"),
            evidence=("/etc/ascend_install.info: Driver_Install_Status",),
            action=Action.CONFIG,
            echo_of=("driver-firmware.incomplete",),
        )


def _kept(lines: list[str]) -> tuple[str, ...]:
    told = [line[:200] for line in lines if line.strip()][:LINES]
    return tuple(_("npu-smi printed: {line}").format(line=line) for line in told)


def _failed(host: Host, path: str, failure: NpuSmiFailure, look: NpuSmiInfo) -> Finding:
    inside = host.system.container()
    words = {"path": path, "code": failure.code, "user": host.identity.user, "line": failure.line}
    words["meaning"] = DCMI.get(failure.code or 0, "?")
    return Finding(
        CODES[failure.kind],
        _text(failure, inside).format(**words),
        severity=Severity.WARNING if inside and failure.kind == "no-driver" else None,
        evidence=_kept(look.answer.stdout.splitlines() + look.answer.stderr.splitlines()),
        action=Action.REBOOT if failure.kind == "no-driver" and not inside else Action.CONFIG,
        echo_of=CAUSES.get(failure.kind, ()),
    )


def _text(failure: NpuSmiFailure, inside: bool) -> str:
    if failure.kind == "no-driver":
        if inside:
            return _(
                "{path} cannot reach the driver ({code}): it is not loaded, this container lacks "
                "permissions, or another one holds the device"
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
        if inside:
            return _(
                "{path} may not use the driver as {user} ({code}): the group of the device nodes, "
                "or a virtual NPU"
            )
        return _("{path} may not use the driver as {user} ({code})")
    return texts[failure.kind]


def _fewer(host: Host, look: NpuSmiInfo) -> Iterator[Finding]:
    """Whether a card has dropped out. In a container the tool and /dev may show different ones."""
    nodes = [node for node in host.npus.nodes if "vdavinci" not in node]
    screen = look.screen
    if screen is None or screen.cut or host.system.container() or len(screen.chips) >= len(nodes):
        return
    missing = _missing(nodes, [chip.physical for chip in screen.chips])
    text = _(
        "npu-smi shows {chips} NPU chips, but there are {nodes} device nodes: a card may have dropped out"
    )
    yield Finding(
        "npu-tool.fewer-devices",
        text.format(chips=len(screen.chips), nodes=len(nodes)),
        evidence=tuple(_("not shown: {node}").format(node=node) for node in missing),
        device=missing[0] if len(missing) == 1 else None,
        action=Action.ISOLATE,
    )


def _missing(nodes: list[str], shown: list[Optional[int]]) -> list[str]:
    """The nodes that the table lacks, where it has their numbers."""
    if None in shown:
        return []
    return [node for node in nodes if int(node.rpartition("davinci")[2]) not in shown]
