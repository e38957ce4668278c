"""Which TCP ports a job will bind on this machine: by its variables, and HCCL's own where NPUs are used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Callable, Union

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.core.ports import (
    HCCL_BASE,
    HCCL_WIDTH,
    Span,
    parse_base,
    parse_port,
    parse_spans,
    spell,
    width,
)
from npudoctor.facts.job.local_addresses import is_local
from npudoctor.host.host import Host

# The range beats the base port (documents of HCCL).
RANGE, BASE = "HCCL_HOST_SOCKET_PORT_RANGE", "HCCL_IF_BASE_PORT"

# Where a launcher or a library listens when nobody names a port. Those of MindSpore Serving are
# written into start scripts: no variable names them.
DEFAULTS = {
    29500: "torchrun",
    29688: "MASTER_PORT",
    50000: "MASTER_PORT",
    6000: "MASTER_PORT",
    8118: "msrun",
    5500: "MindSpore Serving",
    6500: "MindSpore Serving",
    6600: "MindSpore Serving",
}


@dataclass(frozen=True)
class PortClaim:
    """Ports that the job will bind here. `variable` moves them, and is "" where none is set.

    `unsure`: why only a name server knows whether the port is bound here, else "".
    """

    variable: str
    value: str
    spans: tuple[Span, ...]
    unsure: str = ""

    @property
    def hccl(self) -> bool:
        """Whether they are HCCL's host ports."""
        return self.variable in ("", RANGE, BASE)

    @property
    def count(self) -> int:
        """The number of ports."""
        return width(self.spans)

    @property
    def label(self) -> str:
        """How a message names the ports."""
        if not self.variable:
            return _("HCCL's default, {ports}", ports=spell(self.spans))
        return f"{self.variable}={self.value[:80]}" if self.hccl else self.variable


@dataclass(frozen=True)
class BadPorts:
    """A value that cannot be used; with `lenient`, one that only a lenient reader accepts."""

    variable: str
    value: str
    why: str
    lenient: bool = False


@dataclass(frozen=True)
class RemotePort:
    """A port that is bound on another machine: `variable` names it, and is empty where nothing says which."""

    port: int
    variable: str
    value: str = ""

    @property
    def is_elsewhere(self) -> bool:
        """Whether the variables name the other machine; False where they do not say where the port
        is bound.
        """
        return bool(self.value)


NamedPorts = Union[PortClaim, BadPorts, RemotePort]


def find_named_ports(host: Host) -> Iterator[NamedPorts]:
    """Yield all ports that the variables name; HCCL's default comes last, as it needs to know whether NPUs
    are used.
    """
    yield from _find_master_port(host, "MASTER_PORT", "MASTER_ADDR", 0)
    yield from _find_master_port(host, "MS_SCHED_PORT", "MS_SCHED_HOST", 1024)
    # The range beats the base port; HCCL reads both, and does not start when one of them is bad.
    base, ports = host.variables.get(BASE), host.variables.get(RANGE, "")
    hccl_ports: list[NamedPorts] = []
    if base is not None:
        hccl_ports.append(_parse_value(BASE, base, lambda text: (parse_base(text),)))
    # Blanks alone are as good as unset.
    if ports.strip(" "):
        hccl_ports.append(_parse_value(RANGE, ports, parse_spans))
        if " " in ports and isinstance(hccl_ports[-1], PortClaim):
            why = _("HCCL ignores the blanks, but its documentation does not allow them")
            yield BadPorts(RANGE, ports, why, lenient=True)
    yield from (bad for bad in hccl_ports if isinstance(bad, BadPorts))
    if hccl_ports and isinstance(hccl_ports[-1], PortClaim):
        yield hccl_ports[-1]
    elif not hccl_ports and host.wants_npus():
        yield PortClaim("", "", ((HCCL_BASE, HCCL_BASE + HCCL_WIDTH - 1),))


def _find_master_port(host: Host, variable: str, place: str, lowest: int) -> Iterator[NamedPorts]:
    """The port that is bound on the machine that `place` names; port 0 lets the system choose."""
    value, address = host.variables.get(variable, ""), host.variables.get(place, "")
    if not value:
        return
    try:
        port = parse_port(value, lowest)
    except ValueError as error:
        yield BadPorts(variable, value, str(error))
        return
    # The port is bound by whoever is the master, on whatever machine.
    if not address:
        yield RemotePort(port, place)
        return
    ours = is_local(host, address)
    if ours is False:
        yield RemotePort(port, place, address)
    elif port:
        unsure = (
            ""
            if ours
            else _(
                "could not determine whether {variable}={value} is this machine: only a name server knows",
                variable=place,
                value=address,
            )
        )
        yield PortClaim(variable, value, ((port, port),), unsure)


def _parse_value(
    variable: str, value: str, parse: Callable[[str], tuple[Span, ...]]
) -> Union[PortClaim, BadPorts]:
    try:
        return PortClaim(variable, value, parse(value))
    except ValueError as error:
        return BadPorts(variable, value, str(error))
