"""What is mounted on the running machine, and on which mount a folder lies.

Not psutil's partitions: they mix the options of the mount with those of its file system.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from npudoctor.core.mounts import MOUNTINFO, Mount, mount_of, parse_mountinfo
from npudoctor.host.host import Host
from npudoctor.host.users.access import NearestFolder


def mounts_of(host: Host) -> Mapping[str, Mount]:
    """The mounts of the running machine, by mount point."""
    return host.once("mounts", lambda: parse_mountinfo(host.running_files.text(MOUNTINFO) or ""))


def mount_at(host: Host, place: NearestFolder) -> Optional[Mount]:
    """The mount on which a folder lies; None where the machine does not tell."""
    # Without links: mount points have none.
    return mount_of(mounts_of(host), host.files.real(place.path) or "/")
