"""The rule for one entry: whose it is, who else may write it, who mounted what it lies on."""

from __future__ import annotations

import os
import stat
from collections.abc import Container, Iterable
from typing import Optional

from npudoctor.core.messages import _
from npudoctor.core.mounts import MOUNTINFO


def why_not_entry(
    path: str, uid: int, mode: int, owners: Container[int], *, place: bool = False
) -> Optional[str]:
    """Why another user could have written an entry; None when only `owners` (uids) could.

    `place`: names are looked up in it. In a sticky folder others touch only their own entries, so that ours
    are safe there; but they can add some, which a place must not have.
    """
    # Whoever owns a file can change its mode, whatever it is now.
    if uid not in owners:
        return _("{path} belongs to another user", path=path)
    if stat.S_ISLNK(mode):
        return None  # a link has no mode of its own; its owner and its folder are what counts
    # The sticky bit means this only on folders (chmod(1)).
    sticky = stat.S_ISDIR(mode) and mode & stat.S_ISVTX
    if mode & 0o022 and (place or not sticky):
        return _("{path} is writable by other users", path=path)
    return None


def why_not_mounted(path: str, points: Iterable[str]) -> Optional[str]:
    """Why the owners shown by a file system do not count: another user mounted it at one of these points, and
    chooses them. None where none did.
    """
    for point in points:
        if path == point or path.startswith(f"{point}/"):
            return _(
                "{path} is on the file system at {point}, which another user mounted", path=path, point=point
            )
    return None


def why_not_elsewhere(path: str, device: int, of_root: int) -> Optional[str]:
    """The same where nothing lists the mounts: only the file system of "/" is certainly not another user's.

    `device`: st_dev of the path; `of_root`: of "/".
    """
    if device == of_root:
        return None
    return _(
        "{path} is not on the same file system as /, and {mounts} does not show who mounted it",
        path=path,
        mounts=MOUNTINFO,
    )


def is_own_file(status: os.stat_result, uid: int) -> bool:
    """Return whether it is a regular file of this user, which nobody else may write."""
    return stat.S_ISREG(status.st_mode) and why_not_entry("", status.st_uid, status.st_mode, (uid,)) is None
