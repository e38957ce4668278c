"""Comparisons and verdict maps of nftables' JSON as tests of a packet; None if the answer is unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, Union

from npudoctor.firewall.fields import (
    Field,
    NoSuchField,
    Value,
    combine_bits,
    field_of,
    matches_name,
    matches_words,
)
from npudoctor.firewall.packet import (
    TCP,
    ZERO,
    Packet,
    Ranges,
    Test,
    Truth,
    all_true,
    any_true,
    is_among,
    join_ranges,
    list_values,
    negate,
)
from npudoctor.firewall.rules import Verdict
from npudoctor.firewall.sets import Elements, Sets, parse_verdict, resolve_elements

# One value that a field is compared with; None if it could not be parsed.
Expected = Union[Ranges, str, tuple[str, ...], None]

_STATES = ("new", "established", "related", "invalid", "untracked")
_FULL = 1 << 128


def comparison_test(body: Mapping[str, Any], sets: Sets) -> Test:
    """The test for one "match" statement."""
    op, left, right = body.get("op"), body.get("left"), body.get("right")
    special = special_test(left, right, str(op))
    if special is not None:
        return special
    if op in ("<", ">", "<=", ">="):
        return _order_test(field_of(left), str(op), right)
    if op not in ("==", "!=", "in", "!"):
        return lambda packet: None
    key = MatchKey(left)
    if key.bits and op in ("in", "!"):
        return _any_bits_test(key.fields[0], right, is_negated=op == "!")
    listed_elements = resolve_elements(right, sets)
    return _membership_test(key, listed_elements, is_negated=op in ("!=", "!"))


class MatchKey:
    """The field, or the concatenated fields, on the left side of a comparison or of a verdict map."""

    def __init__(self, left: Any) -> None:
        is_joint = isinstance(left, dict) and "concat" in left
        self.joint = is_joint
        self.fields = [field_of(part) for part in (left["concat"] if is_joint else [left])]
        self.bits = self.fields[0].bits and not is_joint
        self.words = isinstance(left, dict) and left.get("ct", {}).get("key") == "state"

    def read_element(self, raw: Any) -> tuple[Expected, ...]:
        """Parse one element of a set: a value for each field, None for one that could not be parsed."""
        parts = raw.get("concat", ()) if self.joint and isinstance(raw, dict) else [raw]
        if len(parts) != len(self.fields):
            return (None,) * len(self.fields)
        return tuple(_parse_value(field, part) for field, part in zip(self.fields, parts))

    def read_values(self, packet: Packet) -> list[Value]:
        """The values of the fields in a packet; NoSuchField if it lacks one."""
        return [field.read(packet) for field in self.fields]

    def matches(self, values: Sequence[Value], expected: Sequence[Expected]) -> Truth:
        """Whether the packet's values are those of an element."""
        return all_true(map(_compare, self.fields, values, expected))


def _parse_value(field: Field, raw: Any) -> Expected:
    if field.name:
        return raw if isinstance(raw, str) else None
    words = raw if isinstance(raw, list) else [raw]
    if words and all(isinstance(word, str) and word in _STATES for word in words):
        return tuple(words)
    try:
        return field.parse(raw)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None


def _compare(field: Field, value: Value, expected: Expected) -> Truth:
    if expected is None:
        return None
    if field.name:
        name = value if isinstance(value, str) else None
        return matches_name(name, expected) if isinstance(expected, str) else None
    if isinstance(value, frozenset):
        return matches_words(value, expected) if _are_words(expected) else None  # type: ignore[arg-type]
    if value is None or isinstance(expected, str) or isinstance(value, str) or _are_words(expected):
        return None
    return is_among(value, expected)  # type: ignore[arg-type]


def _are_words(expected: Expected) -> bool:
    return isinstance(expected, tuple) and bool(expected) and isinstance(expected[0], str)


def _membership_test(key: MatchKey, listed_elements: Elements, is_negated: bool) -> Test:
    """Test whether the fields are one of the listed elements."""
    expected = [key.read_element(element) for element in listed_elements.values]
    numbers: Optional[Ranges] = None
    if not key.joint and not key.fields[0].name:
        # One joined range: a field with the values 1-20 is certainly in {1-10, 11-20}, but in neither alone.
        parts = [element[0] for element in expected if element[0] is not None]
        if not any(isinstance(part, str) or _are_words(part) for part in parts):
            numbers = join_ranges(pair for part in parts for pair in part)  # type: ignore[misc]
    has_unread = any(part is None for element in expected for part in element) or not listed_elements.sure

    def test(packet: Packet) -> Truth:
        try:
            values = key.read_values(packet)
        except NoSuchField:
            return False
        if is_negated and key.fields[0].name and "" in values:
            return None  # "no interface" compared with a name: kernels differ
        if numbers is not None and isinstance(values[0], tuple):
            truth = is_among(values[0], numbers)
        else:
            truth = any_true(key.matches(values, element) for element in expected)
        if has_unread and (truth is False or not listed_elements.sure):
            truth = None
        return negate(truth) if is_negated else truth

    return test


def _any_bits_test(field: Field, right: Any, is_negated: bool) -> Test:
    """Test whether any of the bits is set, as `tcp flags syn,ack` does."""
    words = right if isinstance(right, list) else [right]
    expected = [_parse_value(field, word) for word in words]
    if any(bits is None or _are_words(bits) or isinstance(bits, str) for bits in expected):
        return lambda packet: None
    mask = combine_bits(bits[0][0] for bits in expected)  # type: ignore[index,misc]

    def test(packet: Packet) -> Truth:
        try:
            value = field.read(packet)
        except NoSuchField:
            return False
        possible_numbers = list_values(value) if isinstance(value, tuple) else None
        hits = {bool(number & mask) for number in possible_numbers or ()}
        if len(hits) != 1:
            return None
        return negate(*hits) if is_negated else next(iter(hits))

    return test


def _order_test(field: Field, op: str, right: Any) -> Test:
    expected = _parse_value(field, right)
    if expected is None or isinstance(expected, str) or _are_words(expected):
        return lambda packet: None
    number: int = expected[0][0]  # type: ignore[assignment]
    ranges = {
        "<": ((0, number - 1),), "<=": ((0, number),),
        ">": ((number + 1, _FULL),), ">=": ((number, _FULL),),
    }[op]  # fmt: skip

    def test(packet: Packet) -> Truth:
        try:
            value = field.read(packet)
        except NoSuchField:
            return False
        return is_among(value, ranges) if isinstance(value, tuple) else None

    return test


def map_choices(body: Mapping[str, Any], sets: Sets) -> Callable[[Packet], Sequence[Optional[Verdict]]]:
    """A function that returns the verdicts which a verdict map may reach; None in them: it may reach none."""
    key = MatchKey(body.get("key"))
    listed_elements = resolve_elements(body.get("data"), sets)
    pairs = [
        (key.read_element(pair[0]), parse_verdict(pair[1]))
        for pair in listed_elements.values
        if isinstance(pair, list)
    ]

    def pick(packet: Packet) -> Sequence[Optional[Verdict]]:
        try:
            values = key.read_values(packet)
        except NoSuchField:
            return (None,)
        truths = [(key.matches(values, expected), verdict) for expected, verdict in pairs]
        if not listed_elements.sure:
            return (("unknown", ""),)
        certain_verdicts = [verdict for truth, verdict in truths if truth]
        if certain_verdicts:
            return certain_verdicts[:1]
        return (*dict.fromkeys(verdict for truth, verdict in truths if truth is None), None)

    return pick


# States of `ct status` that a new connection without NAT does not have.
_NOT_STATUS = {"dnat", "snat", "expected", "dying"}


def special_test(left: Any, right: Any, op: str) -> Optional[Test]:
    """The test for an expression that is not a field of the packet; None for all others."""
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
    """Judge a `fib` expression: the destination is ours, and the route to the sender leads back to `iif`."""
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
