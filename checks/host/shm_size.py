"""Is /dev/shm large enough for data loaders and collective libraries?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import INFO, WARNING, Action, Facts, Finding, Fix, Host, Remount, Risk, Scope, _, check
from npudoctor.core.errors import CannotTell
from npudoctor.core.mounts import MOUNTINFO, parse_mountinfo
from npudoctor.core.sizes import size_text

SHM = "/dev/shm"  # noqa: S108
MIB, GIB = 1 << 20, 1 << 30
# What fills /dev/shm takes memory from everyone, so the proposal has an upper limit.
MOST = 16 * GIB
NEARLY = 0.1  # of it free
# Codes of trial-shared-memory that follow from a small or missing /dev/shm.
TRIED = ("trial-shared-memory.no-room", "trial-shared-memory.refused")


@check(
    "shm-size",
    scope=Scope.NODE,
    codes={
        "shm-size.missing": WARNING,
        "shm-size.small": WARNING,
        "shm-size.below-usual": INFO,
        "shm-size.nearly-full": WARNING,
    },
)
def shm_size(host: Host) -> Iterator[Union[Finding, Facts]]:
    """Shared memory /dev/shm is large enough and not full.

    ## What it does

    Asks how large /dev/shm is and how much of it is free.

    - `shm-size.missing`: there is no /dev/shm.
    - `shm-size.small`: it is 64 MiB or less, the default size in a container.
    - `shm-size.below-usual`: it is smaller than 1 GiB.
    - `shm-size.nearly-full`: less than a tenth of it, and less than 1 GiB, is free.
      `npudoctor check shared-memory` lists what is in it.

    ## Why it matters

    Data loader workers and collective libraries pass data through it. When it is full, the job ends with "Bus
    error", "unable to open shared memory object" or "No space left on device".

    ## Fix safety

    A remount changes the size limit and loses no data. It lasts until the next reboot. `npudoctor undo`
    restores the old size if the content still fits and nobody has changed the size since. The risk is CAUTION
    because what fills /dev/shm takes memory from everyone. The new size is half of the memory, like the
    kernel's default, but at most 16 GiB. The fix is shown only in a container, which gets its size when it is
    created, and where /dev/shm is not a tmpfs.

    ## References

    tmpfs(5); Docker, `docker run --shm-size`; PyTorch, torch.utils.data: shared memory in containers.
    """
    space = host.running_files.space(SHM)
    if space is None:
        text = _("there is no /dev/shm: workers of data loaders cannot share memory")
        yield Finding("shm-size.missing", text, action=Action.CONFIG, echo_of=TRIED)
        return
    yield Facts({"bytes": space.total, "free": space.free})
    words = {"size": size_text(space.total), "free": size_text(space.free)}
    # 64 MiB is Docker's default (`docker run --shm-size`).
    if space.total <= 64 * MIB:
        text = _("the shared memory in /dev/shm is only {size}")
        yield Finding(
            "shm-size.small",
            text.format(**words),
            action=Action.CONFIG,
            fix=_enlarge_fix(host, space.total),
            echo_of=TRIED,
        )
    elif space.total < GIB:
        text = _("the shared memory in /dev/shm is {size}; many data loaders need more")
        yield Finding("shm-size.below-usual", text.format(**words), fix=_enlarge_fix(host, space.total))
    if space.free < min(NEARLY * space.total, GIB):
        text = _("the shared memory in /dev/shm is nearly full: {free} of {size} is free")
        yield Finding("shm-size.nearly-full", text.format(**words), action=Action.CLEANUP, echo_of=TRIED)


def _enlarge_fix(host: Host, current_size: int) -> Optional[Fix]:
    """Return a fix that enlarges /dev/shm to half of the memory, at most 16 GiB; None if it is that large, if
    the memory is unknown, or if it is not a tmpfs of its own. `current_size` is in bytes."""
    try:
        # Half of the memory is the kernel's own default for a tmpfs (tmpfs(5)).
        size = min(host.resources.memory().total // 2 // MIB * MIB, MOST)
    except CannotTell:
        # Without the size of the memory no size can be proposed.
        return None
    if size <= current_size:
        return None
    text = f"{size // GIB}g" if size == MOST else f"{size // MIB}m"
    if host.system.is_container():
        return Fix(
            _(
                "ask whoever starts the container to add --shm-size={size}, or an emptyDir of medium Memory",
                size=text,
            ),
            risk=Risk.MANUAL,
            needs_root=False,
            container=("--shm-size", text),
        )
    # Only a tmpfs mounted at /dev/shm has a size that a remount changes.
    mounts = parse_mountinfo(host.running_files.text(MOUNTINFO) or "")
    if not (SHM in mounts and mounts[SHM].kind == "tmpfs"):
        return None
    step = Remount(SHM, size, current_size)
    return Fix(_("make it larger until the next boot"), steps=(step,), risk=Risk.CAUTION)
