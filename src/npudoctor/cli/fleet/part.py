"""`npudoctor fleet part`: a hidden command that `fleet pairs` starts on each node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

from npudoctor.cli.config import UsageError
from npudoctor.cli.fleet.asking import parse_positive
from npudoctor.core.errors import CannotTell
from npudoctor.core.messages import _

if TYPE_CHECKING:
    from npudoctor.cli.arguments import options as o
    from npudoctor.cli.caller import Caller


def part(
    caller: Caller,
    ports: Annotated[str, o.value("--ports", "PORTS", _("The ports to listen on."))],
    seconds: Annotated[
        o.Text, o.value("--seconds", "SECONDS", _("Seconds to take part at most; default 60."))
    ] = None,
    interface: Annotated[
        o.Text, o.value("--interface", "NAME", _("Tell the other nodes the address of this interface."))
    ] = None,
) -> int:
    """Take part in fleet pairs."""
    import asyncio

    from npudoctor.core.ports import parse_spans
    from npudoctor.fleet.part import take_part

    try:
        spans = parse_spans(ports)
    except ValueError as error:
        raise UsageError(f"--ports: {error}") from error
    listed = sorted({port for first, last in spans for port in range(first, last + 1)})
    limit = parse_positive("--seconds", seconds, 60.0)
    asyncio.run(take_part(listed, limit, _find_address(interface)))
    return 0


def _find_address(interface: Optional[str]) -> Optional[str]:
    """The first address of the interface, IPv4 before IPv6; raises UsageError when it has none."""
    from npudoctor.host.network.interfaces import addresses_of

    if interface is None:
        return None
    try:
        for address in addresses_of(interface):
            return address
    except CannotTell as error:
        raise UsageError(f"--interface: {error}") from error
    raise UsageError(
        _("{option}: interface {name} does not exist or has no address", option="--interface", name=interface)
    )
