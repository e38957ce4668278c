"""Sets a parameter of the kernel below /proc/sys."""

from __future__ import annotations

import os

from npudoctor.core.messages import _
from npudoctor.fixing.actions.endings import CommandFailed, Gone, Refused
from npudoctor.fixing.outcome import Observer, watch_change
from npudoctor.fixing.steps.kernel import SYSCTL, SetKernel
from npudoctor.host import Host

LIMIT = 1 << 20  # bytes: the kernel refuses reads of 4 MiB and more there


def set_kernel(step: SetKernel, _host: Host, at: Observer) -> None:
    """Write it, if nobody has set it to something else since; and see that the kernel took it."""
    parts = step.name.split(".")
    if not all(part.replace("_", "").replace("-", "").isalnum() and part.isascii() for part in parts):
        raise Refused(_("{name} is not a kernel parameter", name=step.name))
    path = os.path.join(SYSCTL, *parts)
    now = _read(path)
    if now == step.value:
        raise Gone(_("{path} already has that value", path=path))
    if now != step.was:
        raise Refused(_("{path} has changed since", path=path))
    with watch_change(at, f"set {step.name}"), open(path, "w", encoding="ascii") as file:
        file.write(step.value + "\n")
    now = _read(path)
    if now != step.value:
        raise CommandFailed(_("{path} was set but reads {value}", path=path, value=now[:80]))


def _read(path: str) -> str:
    with open(path, "rb") as file:
        return " ".join(file.read(LIMIT).decode("ascii", "replace").split())
