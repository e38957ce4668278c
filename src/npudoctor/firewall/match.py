"""Comparisons and verdict maps of nftables' JSON as questions to a packet; None where we cannot say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, Union

from npudoctor.firewall.fields import (
    Field,
    NoSuchField,
    Value,
    any_bit,
    field_of,
    same_name,
    same_words,
)
from npudoctor.firewall.packet import (
    TCP,
    ZERO,
    Packet,
    Ranges,
    Test,
    Truth,
    all_true,
    among,
    any_true,
    few,
    join_ranges,
    negate,
)
from npudoctor.firewall.rules import Verdict
from npudoctor.firewall.sets import Elements, Sets, elements_of, verdict_of

# One value that a field is compared with; None where we cannot read it.
Wanted = Union[Ranges, str, tuple[str, ...], None]

_STATES = ("new", "established", "related", "invalid", "untracked")
_FULL = 1 << 128


def comparison(body: Mapping[str, Any], sets: Sets) -> Test:
    """The question of one "match"."""
    op, left, right = body.get("op"), body.get("left"), body.get("right")
    special = special_question(left, right, str(op))
    if special is not None:
        return special
    if op in ("<", ">", "<=", ">="):
        return _order(field_of(left), str(op), right)
    if op not in ("==", "!=", "in", "!"):
        return lambda packet: None
    key = MatchKey(left)
    if key.bits and op in ("in", "!"):
        return _any_bits(key.fields[0], right, contrary=op == "!")
    listed = elements_of(right, sets)
    return _membership(key, listed, contrary=op in ("!=", "!"))


class MatchKey:
    """The field, or the fields one after the other, that are looked up."""

    def __init__(self, left: Any) -> None:
        joint = isinstance(left, dict) and "concat" in left
        self.joint = joint
        self.fields = [field_of(part) for part in (left["concat"] if joint else [left])]
        self.bits = self.fields[0].bits and not joint
        self.words = isinstance(left, dict) and left.get("ct", {}).get("key") == "state"

    def read_element(self, raw: Any) -> tuple[Wanted, ...]:
        """One element of a set, read."""
        parts = raw.get("concat", ()) if self.joint and isinstance(raw, dict) else [raw]
        if len(parts) != len(self.fields):
            return (None,) * len(self.fields)
        return tuple(_read(field, part) for field, part in zip(self.fields, parts))

    def values(self, packet: Packet) -> list[Value]:
        """What the packet has there; raises Absent."""
        return [field.read(packet) for field in self.fields]

    def equals(self, values: Sequence[Value], wanted: Sequence[Wanted]) -> Truth:
        """Whether the packet's values are those of one element."""
        return all_true(map(_compare, self.fields, values, wanted))


def _read(field: Field, raw: Any) -> Wanted:
    if field.name:
        return raw if isinstance(raw, str) else None
    words = raw if isinstance(raw, list) else [raw]
    if words and all(isinstance(word, str) and word in _STATES for word in words):
        return tuple(words)
    try:
        return field.parse(raw)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None


def _compare(field: Field, value: Value, wanted: Wanted) -> Truth:
    if wanted is None:
        return None
    if field.name:
        name = value if isinstance(value, str) else None
        return same_name(name, wanted) if isinstance(wanted, str) else None
    if isinstance(value, frozenset):
        return same_words(value, wanted) if _are_words(wanted) else None  # type: ignore[arg-type]
    if value is None or isinstance(wanted, str) or isinstance(value, str) or _are_words(wanted):
        return None
    return among(value, wanted)  # type: ignore[arg-type]


def _are_words(wanted: Wanted) -> bool:
    return isinstance(wanted, tuple) and bool(wanted) and isinstance(wanted[0], str)


def _membership(key: MatchKey, listed: Elements, contrary: bool) -> Test:
    """Whether what the packet has there is one of the elements."""
    wanted = [key.read_element(element) for element in listed.values]
    numbers: Optional[Ranges] = None
    if not key.joint and not key.fields[0].name:
        # All ranges as one, so that a field may lie in several of them.
        parts = [element[0] for element in wanted if element[0] is not None]
        if not any(isinstance(part, str) or _are_words(part) for part in parts):
            numbers = join_ranges(pair for part in parts for pair in part)  # type: ignore[misc]
    unread = any(part is None for element in wanted for part in element) or not listed.sure

    def test(packet: Packet) -> Truth:
        try:
            values = key.values(packet)
        except NoSuchField:
            return False
        if contrary and key.fields[0].name and "" in values:
            return None  # "no interface" compared with a name: kernels differ
        if numbers is not None and isinstance(values[0], tuple):
            truth = among(values[0], numbers)
        else:
            truth = any_true(key.equals(values, element) for element in wanted)
        if unread and (truth is False or not listed.sure):
            truth = None
        return negate(truth) if contrary else truth

    return test


def _any_bits(field: Field, right: Any, contrary: bool) -> Test:
    """Whether any of the bits is set: what `tcp flags syn,ack` asks."""
    words = right if isinstance(right, list) else [right]
    wanted = [_read(field, word) for word in words]
    if any(bits is None or _are_words(bits) or isinstance(bits, str) for bits in wanted):
        return lambda packet: None
    mask = any_bit(bits[0][0] for bits in wanted)  # type: ignore[index,misc]

    def test(packet: Packet) -> Truth:
        try:
            value = field.read(packet)
        except NoSuchField:
            return False
        known = few(value) if isinstance(value, tuple) else None
        hits = {bool(number & mask) for number in known or ()}
        if len(hits) != 1:
            return None
        return negate(*hits) if contrary else next(iter(hits))

    return test


def _order(field: Field, op: str, right: Any) -> Test:
    wanted = _read(field, right)
    if wanted is None or isinstance(wanted, str) or _are_words(wanted):
        return lambda packet: None
    number: int = wanted[0][0]  # type: ignore[assignment]
    ranges = {
        "<": ((0, number - 1),), "<=": ((0, number),),
        ">": ((number + 1, _FULL),), ">=": ((number, _FULL),),
    }[op]  # fmt: skip

    def test(packet: Packet) -> Truth:
        try:
            value = field.read(packet)
        except NoSuchField:
            return False
        return among(value, ranges) if isinstance(value, tuple) else None

    return test


def choices(body: Mapping[str, Any], sets: Sets) -> Callable[[Packet], Sequence[Optional[Verdict]]]:
    """What a verdict map decides; None in it: it may decide nothing."""
    key = MatchKey(body.get("key"))
    listed = elements_of(body.get("data"), sets)
    pairs = [
        (key.read_element(pair[0]), verdict_of(pair[1])) for pair in listed.values if isinstance(pair, list)
    ]

    def pick(packet: Packet) -> Sequence[Optional[Verdict]]:
        try:
            values = key.values(packet)
        except NoSuchField:
            return (None,)
        truths = [(key.equals(values, wanted), verdict) for wanted, verdict in pairs]
        if not listed.sure:
            return (("unknown", ""),)
        sure = [verdict for truth, verdict in truths if truth]
        if sure:
            return sure[:1]
        return (*dict.fromkeys(verdict for truth, verdict in truths if truth is None), None)

    return pick


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
        return lambda packet: _judge_route(body, right, op, packet)
    return None


def _judge_route(body: Mapping[str, Any], right: Any, op: str, packet: Packet) -> Truth:
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
