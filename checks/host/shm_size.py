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
MOST = 16 * GIB
NEARLY = 0.1  # of it free
# What the trial of shared memory says where it was refused.
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
    - `shm-size.small`: 64 MiB or less, which is what a container gets when nobody says more.
    - `shm-size.below-usual`: below 1 GiB.
    - `shm-size.nearly-full`: less than a tenth of it, and less than 1 GiB, is free.
      `npudoctor check shared-memory` lists what lies there.

    ## Why it matters

    Workers of data loaders and collective libraries pass data through it. A full one ends the job with
    "Bus error", "unable to open shared memory object" or "No space left on device".

    ## Fix safety

    A remount changes the limit of what is there, and loses nothing; it is back as it was after a reboot, and
    `npudoctor undo` brings the old size back as long as what lies there fits into it, and nobody has given
    it another since. It is CAUTION because
    what fills /dev/shm takes memory from everybody. The size is half of the memory, as the kernel's own
    default is, and at most 16 GiB. A container gets its size when it is made: that is shown only, as is
    everything where /dev/shm is no tmpfs.

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
    if space.total <= 64 * MIB:
        text = _("the shared memory in /dev/shm is only {size} large")
        yield Finding(
            "shm-size.small",
            text.format(**words),
            action=Action.CONFIG,
            fix=_larger(host, space.total),
            echo_of=TRIED,
        )
    elif space.total < GIB:
        text = _("the shared memory in /dev/shm is {size} large; many data loaders need more")
        yield Finding("shm-size.below-usual", text.format(**words), fix=_larger(host, space.total))
    if space.free < min(NEARLY * space.total, GIB):
        text = _("the shared memory in /dev/shm is nearly full: {free} of {size} are free")
        yield Finding("shm-size.nearly-full", text.format(**words), action=Action.CLEANUP, echo_of=TRIED)


def _larger(host: Host, now: int) -> Optional[Fix]:
    """A line for the size that a small machine can give too; None where it has that, or does not tell."""
    try:
        size = min(host.resources.memory().total // 2 // MIB * MIB, MOST)
    except CannotTell:
        return None
    if size <= now:
        return None
    text = f"{size // GIB}g" if size == MOST else f"{size // MIB}m"
    if host.system.container():
        return Fix(
            _(
                "ask whoever starts the container to add --shm-size={size}, or an emptyDir of medium Memory",
                size=text,
            ),
            risk=Risk.MANUAL,
            needs_root=False,
            container=("--shm-size", text),
        )
    # Whether it is a file system of its own that has a size.
    mounts = parse_mountinfo(host.running_files.text(MOUNTINFO) or "")
    if not (SHM in mounts and mounts[SHM].kind == "tmpfs"):
        return None
    step = Remount(SHM, size, now)
    return Fix(_("make it larger until the next boot"), steps=(step,), risk=Risk.CAUTION)
