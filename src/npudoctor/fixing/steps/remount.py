"""The size of a tmpfs that is mounted, as data."""

from __future__ import annotations

from npudoctor.core.frozen import dataclass
from npudoctor.fixing.steps.shell import line_of

_UNITS = ((1 << 30, "g"), (1 << 20, "m"), (1 << 10, "k"))


@dataclass(frozen=True)
class Remount:
    """Give a mounted tmpfs another size, in bytes. Guard: it still has the size that it `was`.

    It holds until the next boot, or until somebody remounts it.
    """

    path: str
    size: int
    was: int

    @property
    def argv(self) -> tuple[str, ...]:
        """What is run."""
        return ("mount", "-o", f"remount,size={_word(self.size)}", self.path)

    def lines(self) -> tuple[str, ...]:
        return (line_of(self.argv),)

    def back(self) -> Remount:
        """The step that takes it back."""
        return Remount(self.path, self.was, self.size)

    def undo_lines(self) -> tuple[str, ...]:
        return self.back().lines()


def _word(size: int) -> str:
    """A size in the largest unit that spells all of it."""
    return next((f"{size // unit}{name}" for unit, name in _UNITS if size % unit == 0), str(size))
