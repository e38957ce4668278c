"""The ways out of hccl-ports: other ports that are free, and ports kept from outgoing connections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor import Export, Fix, Host, Risk, SetKernel, WriteFile, _
from npudoctor.core.ports import (
    HCCL_BASE,
    HCCL_WIDTH,
    Span,
    parse_kernel_list,
    parse_kernel_range,
    runs,
    spell,
    stretch,
    subtract,
    width,
)
from npudoctor.facts.job.ports import BASE, DEFAULTS, RANGE, PortClaim
from npudoctor.host import CannotTell
from npudoctor.host.network.sockets import TcpSocket

WIDEST = 1024  # of a range that is proposed
TORCHRUN = 29500
BOOT = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
KEPT = "/etc/sysctl.d/90-npudoctor-ports.conf"
OUTGOING, RESERVED = "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports"


def reserve(host: Host, outgoing: Span, reserved: Sequence[Span], more: Sequence[Span]) -> Optional[Fix]:
    """No line where it would take most of the ports away from outgoing connections."""
    if 2 * width(more) > width([outgoing]):
        return None
    now, then = (spell(subtract(spans, ())) for spans in (reserved, [*reserved, *more]))
    step = SetKernel(RESERVED, then, now)
    if host.system.container():  # its network may be the host's, and no boot reads its files
        title = _("Reserve the ports until the container ends, or on its host")
        return Fix(title, (step,), risk=Risk.MANUAL)
    other = _said_elsewhere(host)
    if other is not None:
        title = _("Reserve the ports until the next boot; then {path} decides what is reserved", path=other)
        return Fix(title, (step,))
    kept = WriteFile.at(host, KEPT, f"{RESERVED}={then}\n")
    # Last what ends the finding: a run that was killed in between is finished by the next one.
    return Fix(_("Reserve the ports now and at every boot"), (kept, step))


def _said_elsewhere(host: Host) -> Optional[str]:
    """The file that reserves ports at boot already, or the folder that is not there; None for neither."""
    files = host.running_files
    paths = [f"{folder}/{name}" for folder in BOOT for name in files.names(folder) if name.endswith(".conf")]
    for path in ("/etc/sysctl.conf", *paths):
        if path == KEPT:
            continue
        # A leading dash means that a line may fail, and slashes may stand for dots.
        keys = [line.partition("=")[0].strip() for line in (files.text(path) or "").splitlines()]
        if any(key.lstrip("-").replace("/", ".") == RESERVED for key in keys):
            return path
    folder = files.stat(BOOT[0])
    return None if folder is not None and folder.is_dir else BOOT[0]


def way_out(host: Host, claim: PortClaim, bound: Sequence[TcpSocket], first: int = 0) -> Optional[Fix]:
    """Other ports: free, not what else the job takes by default, not open to outgoing connections.

    `first`: the lowest on which this user may listen; what is below it gives way to torchrun's own port.
    """
    try:
        outgoing, reserved = kernel_ports(host)
    except CannotTell:
        outgoing, reserved = None, ()
    avoid = [*subtract([outgoing], reserved)] if outgoing else []
    avoid += [*claim.spans, *((port, port) for port in DEFAULTS)]
    taken = runs(socket.port for socket in bound)
    if not claim.hccl:
        lowest = claim.spans[0][0] if claim.spans[0][0] >= first else max(TORCHRUN, first)
        free = stretch(1, taken, [*avoid, (HCCL_BASE, HCCL_BASE + HCCL_WIDTH - 1)], lowest)
        title, name = _("Use a free port for the rendezvous, the same on every node"), claim.variable
    else:
        wide = min(max(claim.count, HCCL_WIDTH), WIDEST) if claim.variable == RANGE else HCCL_WIDTH
        free = stretch(wide, taken, avoid, HCCL_BASE)
        title = _("Move HCCL to free ports, the same on every node of the job")
        name = RANGE if claim.variable == RANGE else BASE
    if free is None:
        return None
    value = spell([free]) if name == RANGE else str(free[0])
    return Fix(title, (Export(name, value),), risk=Risk.MANUAL, needs_root=False)


def kernel_ports(host: Host) -> tuple[Optional[Span], tuple[Span, ...]]:
    """The kernel's ports for outgoing connections, and those that it leaves alone."""
    paths = (f"/proc/sys/{name.replace('.', '/')}" for name in (OUTGOING, RESERVED))
    # Below 4 MiB: at that size the kernel refuses to read anything of /proc/sys.
    low_high, reserved = (host.running_files.text(path, 1 << 20) for path in paths)
    return parse_kernel_range(low_high), parse_kernel_list(reserved)
