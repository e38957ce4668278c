"""Can the kernel put the memory of a job on a disk?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import INFO, Facts, Finding, Host, Scope, SetKernel, Skip, Unknown, _, check
from npudoctor.checks.tuning._settings import advise, read_or_empty
from npudoctor.core.frozen import dataclass
from npudoctor.core.sizes import size_text

SWAPS = "/proc/swaps"
# 0 to 200: how willing the kernel is to swap out anonymous memory rather than drop page cache (vm.rst).
NAME, PATH = "vm.swappiness", "/proc/sys/vm/swappiness"
# openEuler's A-Tune sets 10 for memory-intensive loads; the kernel's default is 60.
LOW = 10


@dataclass(frozen=True)
class SwapArea:
    """One swap area; sizes in bytes."""

    path: str
    size: int
    used: int


@check(
    "swap-space",
    scope=Scope.NODE,
    needs=("npu", "gpu"),
    advisory=True,
    codes={"swap-space.in-use": INFO, "swap-space.eager": INFO},
)
def swap_space(host: Host) -> Iterator[Union[Finding, Facts]]:
    """No memory of jobs is swapped out.

    ## What it does

    Reads /proc/swaps and `vm.swappiness`. Whether memory is left is the subject of the check `memory`.

    - `swap-space.in-use`: part of a swap area is in use.
    - `swap-space.eager`: there is a swap area, and `vm.swappiness` is above 10 (the kernel's default is 60):
      the kernel swaps out idle memory to keep files in its cache.

    ## Why it matters

    A rank whose pages must be read back from a disk is late, and all ranks wait for it at the next
    collective. Checkpoints and datasets fill the file cache, and that makes an eager kernel swap.

    Some nodes need swap: without any, a node that runs out of memory kills a process at once. A low value
    keeps that reserve. Kubernetes nodes usually have no swap.

    Gain: the sources state no figure.

    ## Fix safety

    Shown only. The change lasts until the next boot.

    ## References

    - Documentation/admin-guide/sysctl/vm.rst of the kernel, swappiness.
    - openEuler, A-Tune, profile memory-intensive: vm.swappiness = 10.
    """
    text = host.running_files.text(SWAPS)
    if text is None:
        raise Skip(_("{path} does not exist: nothing to set here", path=SWAPS))
    areas = parse_swaps(text)
    if areas is None:
        raise Unknown(_("{path} does not have the kernel's format", path=SWAPS))
    if not areas:
        raise Skip(_("this machine has no swap space"))
    value = read_or_empty(host, PATH)
    used, size = sum(area.used for area in areas), sum(area.size for area in areas)
    yield Facts({"bytes": size, "used": used, "swappiness": value})
    evidence = [f"{area.path}: {size_text(area.used)} / {size_text(area.size)}" for area in areas]
    if used:
        message = _(
            "{used} of memory is swapped out ({size} of swap space)",
            used=size_text(used),
            size=size_text(size),
        )
        title = _(
            "find the job that used more memory than was available; its pages return when they are used"
        )
        yield advise(host, "swap-space.in-use", message, title, (), *evidence)
    if value.isascii() and value.isdigit() and int(value[:9]) > LOW:
        message = _("the kernel swaps out idle memory to keep files in its cache ({name} is {value})")
        yield advise(
            host,
            "swap-space.eager",
            message.format(name=NAME, value=value),
            _("reserve swap for emergencies until the next boot"),
            [SetKernel(NAME, str(LOW), value)],
            *evidence,
        )


def parse_swaps(text: str) -> Union[list[SwapArea], None]:
    """Parse /proc/swaps: path, type, size and used in KiB, priority. None if the text has another format.
    psutil reports only the sum of all areas."""
    areas = []
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) < 5 or not all(word.isascii() and word.isdigit() for word in words[-3:-1]):
            return None
        # The path may contain blanks, so the last four fields are counted from the end.
        areas.append(SwapArea(" ".join(words[:-4]), int(words[-3][:15]) << 10, int(words[-2][:15]) << 10))
    return areas
