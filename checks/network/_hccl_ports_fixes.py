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
# The default of torchrun's --master-port.
TORCHRUN = 29500
# The folders that `sysctl --system` reads (sysctl(8)); the first one is the administrator's.
BOOT = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
# sysctl.d(5): files are applied in the order of their names, and a later line wins.
KEPT = "/etc/sysctl.d/90-npudoctor-ports.conf"
# The kernel chooses the local port of an outgoing connection from the first, except those in the second
# (ip-sysctl.rst).
OUTGOING, RESERVED = "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports"


def reserve_fix(host: Host, outgoing: Span, reserved: Sequence[Span], more: Sequence[Span]) -> Optional[Fix]:
    """Return the fix that reserves the ports `more`; None if fewer than half of the ports would remain for
    outgoing connections."""
    if 2 * width(more) > width([outgoing]):
        return None
    current, planned = (spell(subtract(spans, ())) for spans in (reserved, [*reserved, *more]))
    step = SetKernel(RESERVED, planned, current)
    if host.system.is_container():  # its network may be the host's, and no boot reads its files
        title = _("Reserve the ports until the container ends, or on its host")
        return Fix(title, (step,), risk=Risk.MANUAL)
    deciding_path = _find_deciding_path(host)
    if deciding_path is not None:
        title = _(
            "Reserve the ports until the next boot; then {path} decides what is reserved", path=deciding_path
        )
        return Fix(title, (step,))
    boot_file = WriteFile.at(host, KEPT, f"{RESERVED}={planned}\n")
    # The step that ends the finding comes last: if a run is killed in between, the next one finishes the
    # work.
    return Fix(_("Reserve the ports now and at every boot"), (boot_file, step))


def _find_deciding_path(host: Host) -> Optional[str]:
    """Return the file that already sets the reserved ports at boot, or the sysctl.d folder if it is missing;
    None if there is no obstacle to writing our own file."""
    files = host.running_files
    paths = [f"{folder}/{name}" for folder in BOOT for name in files.names(folder) if name.endswith(".conf")]
    for path in ("/etc/sysctl.conf", *paths):
        if path == KEPT:
            continue
        # sysctl.d(5): a leading dash ignores errors of the line, and slashes may stand for dots.
        keys = [line.partition("=")[0].strip() for line in (files.text(path) or "").splitlines()]
        if any(key.lstrip("-").replace("/", ".") == RESERVED for key in keys):
            return path
    folder = files.stat(BOOT[0])
    return None if folder is not None and folder.is_dir else BOOT[0]


def other_ports_fix(
    host: Host, claim: PortClaim, bound: Sequence[TcpSocket], first: int = 0
) -> Optional[Fix]:
    """Return the line that moves the job to other ports: free, no defaults of the job, and not in the
    kernel's range for outgoing connections. None if there are none.

    `first`: the lowest port on which this user may listen. A claim below it moves to torchrun's own port.
    """
    try:
        outgoing, reserved = kernel_ports(host)
    except CannotTell:
        # Without the kernel's range no port is excluded by it.
        outgoing, reserved = None, ()
    avoid = [*subtract([outgoing], reserved)] if outgoing else []
    avoid += [*claim.spans, *((port, port) for port in DEFAULTS)]
    bound_ports = runs(socket.port for socket in bound)
    if not claim.hccl:
        lowest = claim.spans[0][0] if claim.spans[0][0] >= first else max(TORCHRUN, first)
        free = stretch(1, bound_ports, [*avoid, (HCCL_BASE, HCCL_BASE + HCCL_WIDTH - 1)], lowest)
        title, name = _("Use a free port for the rendezvous, the same on every node"), claim.variable
    else:
        wide = min(max(claim.count, HCCL_WIDTH), WIDEST) if claim.variable == RANGE else HCCL_WIDTH
        free = stretch(wide, bound_ports, avoid, HCCL_BASE)
        title = _("Move HCCL to free ports, the same on every node of the job")
        name = RANGE if claim.variable == RANGE else BASE
    if free is None:
        return None
    value = spell([free]) if name == RANGE else str(free[0])
    return Fix(title, (Export(name, value),), risk=Risk.MANUAL, needs_root=False)


def kernel_ports(host: Host) -> tuple[Optional[Span], tuple[Span, ...]]:
    """Return the kernel's range of ports for outgoing connections (None if unknown) and the reserved
    ports."""
    paths = (f"/proc/sys/{name.replace('.', '/')}" for name in (OUTGOING, RESERVED))
    # 1 MiB holds every list; the kernel refuses reads of 4 MiB and more from /proc/sys.
    low_high, reserved = (host.running_files.text(path, 1 << 20) for path in paths)
    return parse_kernel_range(low_high), parse_kernel_list(reserved)
