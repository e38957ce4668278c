"""Comparisons of nftables that are about more than a field of the packet: routes, translations, headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from npudoctor.firewall.packet import TCP, ZERO, Packet, Test, Truth, negate

# What a connection that no rule of ours has translated is not.
_NOT_STATUS = {"dnat", "snat", "expected", "dying"}


def special_question(left: Any, right: Any, op: str) -> Optional[Test]:
    """The questions that are not about a field of the packet itself."""
    if not isinstance(left, dict) or len(left) != 1:
        return None
    ((kind, body),) = left.items()
    if kind == "exthdr":
        absent = right is False and op == "=="
        return lambda packet: absent  # our packets have no extension headers
    if kind == "ct" and body.get("key") == "status":
        words = right if isinstance(right, list) else [right]
        surely_not = op in ("in", "==") and set(map(str, words)) <= _NOT_STATUS
        return lambda packet: False if surely_not and packet.translated is False else None
    if kind == "fib":
        return lambda packet: _routing(body, right, op, packet)
    return None


def _routing(body: Mapping[str, Any], right: Any, op: str, packet: Packet) -> Truth:
    """What the kernel's routes say: the destination is ours, and the sender lies where it comes from."""
    flags = body.get("flags", ())
    flags = {flags} if isinstance(flags, str) else set(flags)
    if packet.protocol != TCP or not packet.iif or op not in ("==", "!="):
        return None
    if body.get("result") == "type" and flags == {"daddr"}:
        truth: Truth = right == "local" if isinstance(right, str) else None
        if isinstance(right, dict) and "set" in right:
            truth = "local" in right["set"]
    elif "saddr" in flags and "iif" in flags and isinstance(right, bool):
        truth = right if packet.mark == ZERO else None
    else:
        return None
    return truth if op == "==" else negate(truth)
