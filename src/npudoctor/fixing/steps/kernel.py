"""A setting of the kernel below /proc/sys: as data, and how it is set."""

from __future__ import annotations

import os

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.fixing.outcome import CommandFailed, Gone, Observer, Refused, changing
from npudoctor.fixing.steps.shell import quote

SYSCTL = "/proc/sys"
LIMIT = 1 << 20  # of 4 MiB and more the kernel refuses to read anything there


@dataclass(frozen=True)
class SetKernel:
    """Give a setting of the kernel a value, spelled as the kernel does. Guard: it still is what it `was`.

    It holds until the next boot, in this network namespace where the setting is of one.
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


def set_kernel(step: SetKernel, at: Observer) -> None:
    """Write it, if nobody has set it to something else since; and see that the kernel took it."""
    path = _path(step.name)
    now = _read(path)
    if now == step.value:
        raise Gone(_("{path} already has that value").format(path=path))
    if now != step.was:
        raise Refused(_("{path} has changed since").format(path=path))
    with changing(at, f"set {step.name}"), open(path, "w", encoding="ascii") as file:
        file.write(step.value + "\n")
    now = _read(path)
    if now != step.value:
        raise CommandFailed(_("{path} was set but reads {value}").format(path=path, value=now[:80]))


def _path(name: str) -> str:
    parts = name.split(".")
    if not all(part.replace("_", "").replace("-", "").isalnum() and part.isascii() for part in parts):
        raise Refused(_("{name} is not a kernel parameter").format(name=name))
    return os.path.join(SYSCTL, *parts)


def _read(path: str) -> str:
    with open(path, "rb") as file:
        return " ".join(file.read(LIMIT).decode("ascii", "replace").split())
