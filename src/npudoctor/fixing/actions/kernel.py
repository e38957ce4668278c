"""Sets a parameter of the kernel below /proc/sys."""

from __future__ import annotations

import os

from npudoctor.core.messages import _
from npudoctor.fixing.actions.endings import ActionRefused, AlreadyGone, CommandFailed
from npudoctor.fixing.outcome import Observer, watch_change
from npudoctor.fixing.steps.kernel import SYSCTL, SetKernel
from npudoctor.host import Host

LIMIT = 1 << 20  # bytes: the kernel refuses reads of 4 MiB and more there


def set_kernel(step: SetKernel, _host: Host, at: Observer) -> None:
    """Write the value, if nobody has set another one since; and verify that the kernel took it."""
    parts = step.name.split(".")
    # The name becomes a path below /proc/sys: no part may be "..".
    if not all(part.replace("_", "").replace("-", "").isalnum() and part.isascii() for part in parts):
        raise ActionRefused(_("{name} is not a kernel parameter", name=step.name))
    path = os.path.join(SYSCTL, *parts)
    now = _read(path)
    if now == step.value:
        raise AlreadyGone(_("{path} already has that value", path=path))
    if now != step.was:
        raise ActionRefused(_("{path} has changed since", path=path))
    with watch_change(at, f"set {step.name}"), open(path, "w", encoding="ascii") as file:
        file.write(step.value + "\n")
    now = _read(path)
    if now != step.value:
        # The kernel may clamp or round a value, or another process may have written at the same time.
        raise CommandFailed(_("{path} was set but reads {value}", path=path, value=now[:80]))


def _read(path: str) -> str:
    with open(path, "rb") as file:
        # The kernel separates several numbers by tabs.
        return " ".join(file.read(LIMIT).decode("ascii", "replace").split())
