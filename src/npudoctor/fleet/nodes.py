"""Folds and expands node sets as Slurm and ClusterShell write them: `node[1-37,39]`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _
from npudoctor.core.optional import load

# The characters of a host name. Anything else comes from a hostile or broken report: ClusterShell would
# interpret brackets and operators, a shell would interpret blanks.
_SAFE = pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")


_BRACKETS = pattern(r"\[([^\[\]]*)\]")
_RANGE = pattern(r"\s*(\d{1,18})-(\d{1,18})(?:/(\d{1,9}))?\s*")
_LONG = pattern(r"\d{19}")
LONGEST = 16 << 20  # characters of a set
MOST = 131_072  # nodes of a set; the largest machines have some 10,000


class InvalidNodes(ValueError):
    """The text is not a node set; str() of the error is one line for people."""


def is_safe_name(name: str) -> bool:
    """Whether a name can be used in a node set and on a command line without quoting."""
    return _SAFE.fullmatch(name) is not None


def fold_nodes(names: Iterable[str]) -> str:
    """Fold the names into one node set; unsafe names follow it unchanged, separated by commas."""
    return _fold_names(frozenset(names))


@lru_cache(maxsize=64)
def _fold_names(names: frozenset[str]) -> str:
    """Cached: a report folds the same set of names many times."""
    safe = [name for name in names if is_safe_name(name)]
    odd = sorted(names.difference(safe))
    folded = [str(_load_library().NodeSet.fromlist(safe))] if safe else []
    return ",".join([*folded, *odd])


def expand_nodes(text: str, groups: bool = False) -> tuple[str, ...]:
    """The names in a node set, in ClusterShell's order. Raises InvalidNodes when the text is not one.

    `groups`: whether to resolve @group; ClusterShell then runs the command that its groups.conf names.
    """
    library = _load_library()
    shown = text if len(text) <= 80 else f"{text[:80]}..."
    # Counted before it is expanded: n[1-9999999999] would take all memory.
    if _count_at_most(text) > MOST:
        raise InvalidNodes(_("{text!r} expands to more than {most} nodes", text=shown, most=MOST))
    try:
        names = tuple(library.NodeSet(text, resolver=None if groups else library.RESOLVER_NOGROUP))
    except library.NodeSetException as error:
        raise InvalidNodes(
            _("{text!r} is not a node set: {why}", text=shown, why=str(error)[:200])
        ) from error
    odd = next((name for name in names if not is_safe_name(name)), None)
    if odd is not None:
        raise InvalidNodes(_("{text!r} is not a node name", text=odd[:80]))
    return names


def _count_at_most(text: str) -> int:
    """An upper bound of the number of names in a set, without expanding it.

    Sets next to each other are added, the ranges within one name are multiplied.
    """
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
    """Raise MissingExtra when ClusterShell is not installed."""
    _load_library()


def _load_library() -> Any:
    return load("ClusterShell.NodeSet")
