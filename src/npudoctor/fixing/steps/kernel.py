"""What changes the kernel's state, as data: settings below /proc/sys, mount options, firewall rules."""

from __future__ import annotations

import os

from npudoctor.core.frozen import dataclass
from npudoctor.fixing.steps.shell import line_of, quote

SYSCTL = "/proc/sys"


@dataclass(frozen=True)
class SetKernel:
    """Give a setting of the kernel a value, spelled as the kernel does. Guard: it still is what it `was`.

    It holds until the next boot; a setting of a network namespace, in this namespace.
    """

    name: str
    value: str
    was: str

    def lines(self) -> tuple[str, ...]:
        if not self.value:  # sysctl before procps-ng 4 takes no empty value
            return (f"echo > {quote(os.path.join(SYSCTL, *self.name.split('.')))}",)
        return (f"sysctl -w {quote(f'{self.name}={self.value}')}",)

    def back(self) -> SetKernel:
        """The step that takes it back."""
        return SetKernel(self.name, self.was, self.value)

    def undo_lines(self) -> tuple[str, ...]:
        return self.back().lines()


# Suffixes of tmpfs' option `size` (tmpfs(5)).
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
        # In the largest unit that spells all of it.
        words = (f"{self.size // unit}{name}" for unit, name in _UNITS if self.size % unit == 0)
        return ("mount", "-o", f"remount,size={next(words, self.size)}", self.path)

    def lines(self) -> tuple[str, ...]:
        return (line_of(self.argv),)

    def back(self) -> Remount:
        """The step that takes it back."""
        return Remount(self.path, self.was, self.size)

    def undo_lines(self) -> tuple[str, ...]:
        return self.back().lines()


@dataclass(frozen=True)
class InsertRule:
    """Insert a rule of nftables at the front of a chain. Guard: the chain is there, and has none with our
    comment. `place` is family, table and chain.

    Its handle is known only afterwards, so it is found again by its comment.
    """

    place: tuple[str, ...]
    rule: tuple[str, ...]
    comment: str

    @property
    def argv(self) -> tuple[str, ...]:
        """What is run."""
        return ("nft", "insert", "rule", *self.place, *self.rule, "comment", self.comment)

    def lines(self) -> tuple[str, ...]:
        return (line_of(self.argv),)

    def back(self) -> DeleteRule:
        """The step that takes it back."""
        return DeleteRule(self.place, self.rule, self.comment)

    def undo_lines(self) -> tuple[str, ...]:
        """In a shell, which looks the handle up as DeleteRule does."""
        words = " ".join(quote(word) for word in self.place)
        # nft -a prints the handle at the end of each rule.
        only = quote(f's/.*"{self.comment}" # handle //p')
        handle = f"nft -a list chain {words} | sed -n {only}"
        return (f'nft delete rule {words} handle "$({handle})"',)


@dataclass(frozen=True)
class DeleteRule:
    """Delete the rule of nftables that carries our comment. Guard: one such rule in that chain."""

    place: tuple[str, ...]
    rule: tuple[str, ...]
    comment: str

    def lines(self) -> tuple[str, ...]:
        return InsertRule(self.place, self.rule, self.comment).undo_lines()
