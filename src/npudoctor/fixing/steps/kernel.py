"""A setting of the kernel below /proc/sys, as data."""

from __future__ import annotations

import os

from npudoctor.core.frozen import dataclass
from npudoctor.fixing.steps.shell import quote

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
