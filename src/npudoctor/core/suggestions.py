"""Which known names a mistyped one may have meant. Loaded for errors only."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from npudoctor.core.lazy import pattern

MOST = 3  # names that are suggested
LEAST = 3  # characters of which a part of a name is recognised
_ALIKE, _PART_ALIKE = 0.7, 0.75  # of 1, by difflib
# What joins the words of ids, codes, tags and variables.
_BETWEEN = pattern("[-._ ]+")


def near_names(word: str, names: Sequence[str]) -> list[str]:
    """The names nearest to a word, all in lower case: nearly the word itself, then those of which it is a
    part, the beginning, or nearly a part.
    """
    close = difflib.get_close_matches(word, names, n=MOST, cutoff=_ALIKE)
    if close:  # several only where they are equally near
        scores = {name: difflib.SequenceMatcher(None, name, word).ratio() for name in close}
        return [name for name in close if scores[name] > scores[close[0]] - 0.01]
    parts = [name for name in names if word in _BETWEEN.split(name)]
    parts = parts or [name for name in names if len(word) >= LEAST and name.startswith(word)]
    return _best(parts) or _with_near_part(word, names)


def _with_near_part(word: str, names: Iterable[str]) -> list[str]:
    """The names of which some parts in a row are nearly the word: `ded-cache` of dead-cache-server."""
    # Three letters are nearly everything.
    if len(word) <= LEAST:
        return []
    windows: dict[str, list[str]] = {}
    for name in names:
        parts = _BETWEEN.split(name)
        for begin in range(len(parts)):
            for end in range(begin + 1, len(parts) + 1):
                windows.setdefault("-".join(parts[begin:end]), []).append(name)
    near = difflib.get_close_matches(_BETWEEN.sub("-", word), windows, n=1, cutoff=_PART_ALIKE)
    return _best(windows[near[0]]) if near else []


def _best(names: Sequence[str]) -> list[str]:
    """The shortest first; codes only where there is no id."""
    ids = [name for name in names if "." not in name]
    return sorted(ids or names, key=lambda name: (len(name), name))[:MOST]
