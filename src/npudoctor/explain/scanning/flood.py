"""Logs full of errors: after the first thousand lines of a kind the rest is counted, not judged."""

from __future__ import annotations

from typing import Optional

ENOUGH = 1000  # lines of a kind that were judged one by one
_MOST = 4096  # kinds that are told apart


class LineKinds:
    """Lines by the literals in them: of those with the same ones the same was found, again and again, or
    not."""

    def __init__(self) -> None:
        self._seen: dict[frozenset[int], tuple[frozenset[int], int]] = {}  # what was found, how often alike

    def known_owners(self, literals: frozenset[int]) -> Optional[frozenset[int]]:
        """Whose needles are found in any line with these literals; None as long as each has to be judged."""
        owners, count = self._seen.get(literals, (frozenset(), 0))
        return owners if count >= ENOUGH else None

    def note(self, literals: frozenset[int], owners: Optional[frozenset[int]]) -> None:
        """Note what was found in a line; None where other lines had a say in it."""
        before, count = self._seen.get(literals, (owners, 0))
        if owners is None or before != owners:
            # So low that the count never reaches ENOUGH.
            self._seen[literals] = (frozenset(), -1 << 60)  # of this kind every line is judged
        elif count or len(self._seen) < _MOST:
            self._seen[literals] = (owners, count + 1)
