"""The limits of a process, and of the control groups that it is in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.host.host import Host
from npudoctor.host.resources import Limit

UNLIMITED = 1 << 62  # from here on it means unlimited: cgroup v1 writes the largest number of pages
# Where systemd and container runtimes mount both versions.
CGROUPS = "/sys/fs/cgroup"
# Rows of memory.stat that the kernel reclaims before it kills.
GIVEN_BACK = ("inactive_file", "active_file", "slab_reclaimable")


@dataclass(frozen=True)
class MemoryGroup:
    """The control group that leaves the least memory: `limit` and `used` in bytes, and how many processes it
    killed.
    """

    path: str
    limit: int
    used: int
    kills: int = 0

    @property
    def left(self) -> int:
        """Bytes that may still be taken."""
        return max(0, self.limit - self.used)


def limit_of(host: Host, name: str) -> Limit:
    """A limit of the examined process, which the job inherits; CannotTell when the kernel does not
    report it.
    """
    limit = host.resources.limits(host.options.env_of).get(name)
    if limit is None:
        raise CannotTell(_("the kernel does not report the limit {name}", name=name))
    return limit


def memory_group(host: Host) -> Optional[MemoryGroup]:
    """The control group, ours or one above it, that leaves the least memory; None without a limit."""
    files = host.running_files
    groups = []
    for folder, unified in group_folders(host, "memory"):
        names = (
            ("memory.max", "memory.current")
            if unified
            else ("memory.limit_in_bytes", "memory.usage_in_bytes")
        )
        texts = [(files.text(f"{folder}/{name}") or "").strip() for name in names]
        limit, used = (int(text) if text.isdigit() else None for text in texts)
        if limit is not None and limit < UNLIMITED and used is not None:
            # What the kernel gives back before it kills is in the figure of what is used. Shared memory is
            # page cache too, in the rows of what is anonymous, and is not given back. In version 1 only the
            # total_ rows count the groups below, as that figure does.
            rows = _table(host, f"{folder}/memory.stat")
            unreclaimable = used - sum(rows.get(f"total_{name}", rows.get(name, 0)) for name in GIVEN_BACK)
            events = (_table(host, f"{folder}/{name}") for name in ("memory.events", "memory.oom_control"))
            kills = next((rows["oom_kill"] for rows in events if "oom_kill" in rows), 0)
            groups.append(MemoryGroup(folder, limit, unreclaimable, kills))
    return min(groups, key=lambda group: group.left, default=None)


def group_folders(host: Host, controller: str) -> Iterator[tuple[str, bool]]:
    """Yield the folder of our control group of a controller and of all groups above it, and whether it is
    cgroup v2.
    """
    # cgroups(7): ID:controllers:path; version 2 has the ID 0 and no controllers.
    for line in (host.running_files.text(f"/proc/{host.options.env_of or 'self'}/cgroup") or "").split("\n"):
        number, _colon, rest = line.partition(":")
        controllers, _colon, path = rest.partition(":")
        unified = number == "0" and not controllers
        if not unified and controller not in controllers.split(","):
            continue
        folder = f"{CGROUPS}{path}" if unified else f"{CGROUPS}/{controller}{path}"
        while folder.startswith(CGROUPS) and len(folder) >= len(CGROUPS):
            yield folder, unified
            folder = folder.rpartition("/")[0]


def _table(host: Host, path: str) -> dict[str, int]:
    """The lines of a name and a number, as a dict."""
    rows = (line.split() for line in (host.running_files.text(path) or "").splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
