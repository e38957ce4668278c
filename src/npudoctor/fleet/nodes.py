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
    safe = [name for name in names if is_safe(name)]
    odd = sorted(names.difference(safe))
    folded = [str(_library().NodeSet.fromlist(safe))] if safe else []
    return ",".join([*folded, *odd])


def expand(text: str, groups: bool = False) -> tuple[str, ...]:
    """The names of a node set, sorted as ClusterShell sorts them; InvalidNodes when it is none.

    `groups`: whether @group counts, which may run the program that the site's configuration names for it.
    """
    library = _library()
    try:
        names = tuple(library.NodeSet(text, resolver=None if groups else library.RESOLVER_NOGROUP))
    except library.NodeSetException as error:
        raise InvalidNodes(_("{text!r} is not a node set: {why}").format(text=text, why=error)) from error
    odd = next((name for name in names if not is_safe(name)), None)
    if odd is not None:
        raise InvalidNodes(_("{text!r} is not a node name").format(text=odd))
    return names


def require_library() -> None:
    """MissingExtra when ClusterShell is not installed."""
    _library()


def _library() -> Any:
    return load("ClusterShell.NodeSet")
