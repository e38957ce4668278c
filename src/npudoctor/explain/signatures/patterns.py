"""What a signature's regular expression may use, and the literals one of which must be in what it matches.

The scan looks for literals only, with whichever engine is here, and `re` confirms on the line: so both
engines give the same answers, and a pattern without a literal could never be found.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple, Optional

if sys.version_info >= (3, 11):
    from re import _constants as c  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
else:
    import sre_constants as c
    import sre_parse as parser

from npudoctor.core.messages import _

LEAST = 4  # the shortest literal that is worth looking for
_RARE = 14  # a literal of so many bytes hardly stands in a line that has nothing to do with it
_MOST = 48  # so many alternatives at most are spelled out
_STRANGE = {"GROUPREF", "GROUPREF_EXISTS", "ASSERT", "ASSERT_NOT", "ATOMIC_GROUP", "POSSESSIVE_REPEAT"}
# Words that healthy logs are full of: looking for them costs more than for anything else.
COMMON = frozenset(
    "about accuracy address alloc allocate allocated attempt await backend batch before buffer cache "
    "called check client cluster communication compile config connect connected connection context "
    "copy count create created cuda data dataset debug default device devices died distributed driver "
    "during environment epoch errno error event event_id exec execute exist exit failed failure file "
    "files finish finished found function global graph group handle hccl host info init initialize "
    "input invalid job kernel launch launched length library limit load loaded loading local main "
    "memory message model module name nccl network node not_found notify number operator optimizer "
    "output package path peer platform port process processes python queue rank ranks read ready "
    "received recv register remote request resource result retry return root runtime save saved "
    "script self send server session shape share shared size socket space start started state status "
    "step stop store stream success successfully system table task tensor thread time timed timeout "
    "torch total train training type unknown update used user using value variable version visible "
    "wait waiting warn warning worker world write".split()
)


class UnsuitablePattern(ValueError):
    """A pattern that cannot be used; the text says why."""


class Literal(NamedTuple):  # thousands are made, and are keys: a named tuple does both five times as fast
    """A text that must occur; `caseless`: whatever the case of its ASCII letters."""

    text: str
    caseless: bool = False


Text = tuple[int, bytes, bool]  # a number, what is found, and whether in any case


def spellings(literals: Sequence[Literal]) -> list[Text]:
    """Number, bytes and caselessness of every literal; what is not ASCII also as Chinese systems write it."""
    texts = []
    for number, literal in enumerate(literals):
        for encoding in ("utf-8",) if literal.text.isascii() else ("utf-8", "gb18030"):
            texts.append((number, literal.text.encode(encoding), literal.caseless))
    return texts


@cache  # a row is judged first, and made ready to be found later
def analyse(pattern: str) -> tuple[tuple[Literal, ...], tuple[tuple[Literal, ...], ...]]:
    """Returns what a fast search can look for before the pattern itself is tried.

    First the literals of which every match contains at least one. Then the links: every match contains one
    literal of each link, in this order. Raises UnsuitablePattern if no literal is long enough.
    """
    tree = parse_pattern(pattern)
    # If any part of the pattern ignores case, all its literals are searched without regard to case: that may
    # find too much, never too little.
    caseless = bool(tree.state.flags & re.IGNORECASE) or any(
        kind is c.SUBPATTERN and value[1] & re.IGNORECASE for kind, value in _walk(tree)
    )
    pieces = _sequence(tree)
    best = _rarest_texts(pieces)
    if best is None or min(len(text.encode()) for text in best) < LEAST:
        text = _("{pattern}: has no literal of at least {least} bytes that every match must contain")
        raise UnsuitablePattern(text.format(pattern=pattern, least=LEAST))
    literals = {text.lower() if caseless else text for text in best}
    return _literals(literals, caseless), tuple(_literals(link, caseless) for link in _chain(pieces))


def _literals(texts: Iterable[str], caseless: bool) -> tuple[Literal, ...]:
    return tuple(Literal(text, caseless) for text in sorted(texts))


def parse_pattern(pattern: str) -> Any:
    """Its tree; Unsuitable when it is none, or uses what only some engines know."""
    try:
        tree = parser.parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UnsuitablePattern(f"{pattern}: {error}") from error
    # Other flags change what a literal or a dot matches.
    if tree.state.flags & ~(re.IGNORECASE | re.UNICODE):
        raise UnsuitablePattern(_("{pattern}: (?i) is the only flag allowed", pattern=pattern))
    _judge(pattern, tree, False)
    return tree


def _walk(tree: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    for kind, value in tree:
        yield kind, value
        for inner in _inside(kind, value):
            yield from _walk(inner)


def _judge(pattern: str, tree: Iterable[Any], repeated: bool) -> None:
    for kind, value in tree:
        if str(kind) in _STRANGE:
            raise UnsuitablePattern(
                _(
                    "{pattern}: backreferences, lookaround and possessive repeats are not allowed",
                    pattern=pattern,
                )
            )
        endless = kind in (c.MAX_REPEAT, c.MIN_REPEAT) and value[1] > _MOST * _MOST
        if endless and repeated:  # (a+)+ could divide a text in endless ways; (\w+\.)+ only in one
            raise UnsuitablePattern(_("{pattern}: nested repeats are not allowed", pattern=pattern))
        for inner in _inside(kind, value):
            _judge(pattern, inner, (repeated or endless) and not any(kind is c.LITERAL for kind, _ in inner))


def _inside(kind: Any, value: Any) -> Sequence[Any]:
    if kind is c.SUBPATTERN:
        return (value[3],)
    if kind is c.BRANCH:
        return tuple(value[1])
    return (value[2],) if kind in (c.MAX_REPEAT, c.MIN_REPEAT) else ()


# What stands at a place: all texts that it can be, None when they cannot be spelled out; and texts one of
# which it must contain even so.
_Piece = tuple[Optional[frozenset[str]], Optional[frozenset[str]]]


def _sequence(tree: Iterable[Any]) -> list[_Piece]:
    return [piece for kind, value in tree for piece in _pieces(kind, value)]


def _pieces(kind: Any, value: Any) -> list[_Piece]:
    if kind is c.AT:
        return []  # takes no room: what stands on both sides of it still touches
    if kind is c.LITERAL:
        return [(frozenset({chr(value)}), None)]
    if kind is c.IN:
        return [(_chars(value), None)]
    if kind is c.SUBPATTERN:
        return _sequence(value[3])
    if kind is c.BRANCH:
        ways = list(map(_sequence, value[1]))
        spelled_out = [texts for texts in map(_spell_out, ways) if texts is not None]
        if len(spelled_out) == len(ways) and sum(map(len, spelled_out)) <= _MOST:
            return [(frozenset().union(*spelled_out), None)]
        musts = [must for must in map(_rarest_texts, ways) if must is not None]
        return [(None, frozenset().union(*musts) if len(musts) == len(ways) else None)]
    if kind in (c.MAX_REPEAT, c.MIN_REPEAT):
        least, most, inner = value[0], value[1], _sequence(value[2])
        if least == 0:
            texts = _spell_out(inner) if most == 1 else None
            return [(texts and texts | {""}, None)]
        # More repetitions would only make the literal longer than is needed to find it.
        repeats = inner * min(least, 4)
        return repeats if least == most <= 4 else [*repeats, (None, None)]
    return [(None, None)]


def _chars(members: Sequence[Any]) -> Optional[frozenset[str]]:
    """The characters of a set such as [26] or [0-9], when they are few."""
    chars: set[str] = set()
    for kind, value in members:
        if kind is c.LITERAL:
            chars.add(chr(value))
        elif kind is c.RANGE and value[1] - value[0] < 10:
            chars.update(map(chr, range(value[0], value[1] + 1)))
        else:
            return None
    return frozenset(chars) if len(chars) <= 10 else None


def _spell_out(pieces: list[_Piece]) -> Optional[frozenset[str]]:
    """All texts that a sequence can be, when it can be spelled out."""
    texts_so_far = frozenset({""})
    for texts, _must in pieces:
        if texts is None or len(texts_so_far) * len(texts) > _MOST:
            return None
        texts_so_far = frozenset(prefix + suffix for prefix, suffix in itertools.product(texts_so_far, texts))
    return texts_so_far


def _rarest_texts(pieces: list[_Piece]) -> Optional[frozenset[str]]:
    """Of all sets one of whose texts must occur in a sequence, the one whose texts are the rarest."""
    choices: list[frozenset[str]] = [must for _texts, must in pieces if must]
    pieces = _merge(pieces)
    for start in range(len(pieces)):
        texts_so_far = frozenset({""})
        for texts, _must in pieces[start:]:
            if texts is None or len(texts_so_far) * len(texts) > _MOST:
                break
            texts_so_far = frozenset(
                prefix + suffix for prefix, suffix in itertools.product(texts_so_far, texts)
            )
            choices.append(texts_so_far)
    return max(choices, key=_rarity, default=None)


def _chain(pieces: list[_Piece]) -> Iterator[frozenset[str]]:
    """The sets that a match goes through, one after the other: of each, one text."""
    texts_so_far: frozenset[str] = frozenset({""})
    for texts, must in (*_merge(pieces), (None, None)):
        if texts is not None and len(texts_so_far) * len(texts) <= _MOST:
            texts_so_far = frozenset(
                prefix + suffix for prefix, suffix in itertools.product(texts_so_far, texts)
            )
            continue
        if min(map(len, texts_so_far)) > 1:
            yield texts_so_far
        texts_so_far = texts or frozenset({""})
        if must and min(map(len, must)) > 1:
            yield must


def _merge(pieces: list[_Piece]) -> list[_Piece]:
    """The pieces, those put together that can be one text only."""
    merged: list[_Piece] = []
    for texts, must in pieces:
        before = merged[-1][0] if merged else None
        if texts is not None and before is not None and len(texts) == len(before) == 1:
            merged[-1] = frozenset(prefix + suffix for prefix in before for suffix in texts), None
        else:
            merged.append((texts, must))
    return merged


def _rarity(texts: frozenset[str]) -> tuple[int, int]:
    """How rare the commonest of them is, by its length as far as that tells; then the fewest are best.
    Apart, as it is a key."""
    common = [text.strip().lower() in COMMON for text in texts]
    lengths = [len(text.encode()) for text in texts]
    worth = (min(LEAST, length) if usual else length for usual, length in zip(common, lengths))
    return min(_RARE, *worth), -len(texts)
