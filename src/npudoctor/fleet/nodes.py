"""Node sets, as Slurm and ClusterShell spell them: `node[1-37,39]`. Folded and expanded by ClusterShell."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _
from npudoctor.core.optional import load

# What a name of a host may be made of. Anything else is data of a hostile or broken report: ClusterShell
# would read its brackets and operators, a shell its blanks.
_SAFE = pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")


_BRACKETS = pattern(r"\[([^\[\]]*)\]")
_RANGE = pattern(r"\s*(\d{1,18})-(\d{1,18})(?:/(\d{1,9}))?\s*")
_LONG = pattern(r"\d{19}")
LONGEST = 16 << 20  # characters of a set
MOST = 131_072  # nodes of a set; the largest machines have some 10,000


class InvalidNodes(ValueError):
    """The text is not a node set. The text is one line."""


def is_safe(name: str) -> bool:
    """Whether a name can stand in a node set and on a command line as it is."""
    return _SAFE.fullmatch(name) is not None


def fold(names: Iterable[str]) -> str:
    """The names as one set. Names that no node set can hold follow it as they are, separated by commas."""
    return _fold(frozenset(names))


@lru_cache(maxsize=64)
def _fold(names: frozenset[str]) -> str:
    """Kept: the same names are told many times."""
    safe = [name for name in names if is_safe(name)]
    odd = sorted(names.difference(safe))
    folded = [str(_library().NodeSet.fromlist(safe))] if safe else []
    return ",".join([*folded, *odd])


def expand(text: str, groups: bool = False) -> tuple[str, ...]:
    """The names of a node set, sorted as ClusterShell sorts them; InvalidNodes when it is none.

    `groups`: whether @group counts, which may run the program that the site's configuration names for it.
    """
    library = _library()
    shown = text if len(text) <= 80 else f"{text[:80]}..."
    if _count(text) > MOST:
        raise InvalidNodes(_("{text!r} expands to more than {most} nodes", text=shown, most=MOST))
    try:
        names = tuple(library.NodeSet(text, resolver=None if groups else library.RESOLVER_NOGROUP))
    except library.NodeSetException as error:
        raise InvalidNodes(
            _("{text!r} is not a node set: {why}", text=shown, why=str(error)[:200])
        ) from error
    odd = next((name for name in names if not is_safe(name)), None)
    if odd is not None:
        raise InvalidNodes(_("{text!r} is not a node name", text=odd[:80]))
    return names


def _count(text: str) -> int:
    """How many names a set has at most, without making one of them: the sets beside each other added, the
    ranges of one multiplied."""
    if len(text) > LONGEST or _LONG.search(text):
        return MOST + 1
    total, product, last = 0, 1, 0
    for brackets in _BRACKETS.finditer(text):
        between = text[last : brackets.start()]
        last = brackets.end()
        if any(sign in between for sign in ",!&^ \n\t"):
            total, product = total + product, 1
        numbers = 0
        for part in brackets[1].split(","):
            match = _RANGE.fullmatch(part)
            if match is None:
                numbers += 1
            else:
                numbers += max(0, int(match[2]) - int(match[1])) // (int(match[3] or 1) or 1) + 1
        product *= numbers
    return total + product + text.count(",")


def require_library() -> None:
    """MissingExtra when ClusterShell is not installed."""
    _library()


def _library() -> Any:
    return load("ClusterShell.NodeSet")
