"""Who refused a file, and what heals it."""

from __future__ import annotations

import errno
from typing import NamedTuple, Optional

from npudoctor import Command, Fix, Host, Risk, _
from npudoctor.checks.trial._folders import job_identity
from npudoctor.core.errors import CannotTell
from npudoctor.core.mounts import Mount
from npudoctor.facts.system.limits import limit_of
from npudoctor.facts.system.mounts import mount_at
from npudoctor.host.users.access import NearestFolder, may_create_in, nearest_folder
from npudoctor.host.users.accounts import user_names
from npudoctor.trial.trials import Attempt


class FileRefusal(NamedTuple):
    """Why a file or folder cannot be used, the evidence, and the fix (None if unknown)."""

    why: str
    evidence: tuple[str, ...] = ()
    fix: Optional[Fix] = None


def explain_refusal(host: Host, attempt: Attempt) -> FileRefusal:
    """Return why an attempt at a file or folder failed."""
    number = attempt.number
    if attempt.facts.get("silent"):
        return FileRefusal(str(attempt.facts["silent"]))
    # Python ignores SIGXFSZ, so write(2) beyond `ulimit -f` returns EFBIG.
    if number == errno.EFBIG:  # wherever it lies
        return _file_size_refusal(host)
    path = str(attempt.facts.get("at") or attempt.facts["path"])
    place, mount = place_and_mount(host, path)
    evidence = (place.label,) if place else ()
    if mount:
        options = ",".join(dict.fromkeys((*mount.own, *mount.options)))
        evidence = (*evidence, f"{mount.point} {mount.kind} {options}")
    point = mount.point if mount else path
    if number == errno.EROFS:
        # The kernel remounts a damaged file system read-only (ext4: errors=remount-ro), so the log comes
        # first.
        title = _("remount it writable once `dmesg` shows no errors for that file system")
        steps = (Command(("mount", "-o", "remount,rw", point)),)
        return FileRefusal(
            _("{mount} is mounted read-only", mount=point), evidence, Fix(title, steps, risk=Risk.MANUAL)
        )
    if number == errno.ENOSPC:
        has_no_inode = not _has_inodes(host, path)
        text = _("{mount} has no inode left") if has_no_inode else _("{mount} has no space left")
        title = _("remove files that are no longer needed from {mount}", mount=point)
        return FileRefusal(text.format(mount=point), evidence, Fix(title, risk=Risk.MANUAL, needs_root=False))
    if number == errno.EDQUOT:
        title = _("remove files of your own from {mount}, or ask for a larger quota", mount=point)
        return FileRefusal(
            _("the quota on {mount} is used up", mount=point),
            evidence,
            Fix(title, risk=Risk.MANUAL, needs_root=False),
        )
    if number == errno.ENOENT:
        user = job_identity(host)
        is_own = place is not None and may_create_in(place.entry, user, mount) is True
        line = ("mkdir", "-p", path) if is_own else ("install", "-d", "-o", user.user, path)
        fix = Fix(_("create the folder"), (Command(line),), risk=Risk.MANUAL, needs_root=not is_own)
        return FileRefusal(_("it does not exist"), evidence, fix)
    if number == errno.ENOTDIR:
        return FileRefusal(_("{path} is not a folder", path=path), evidence)
    if number in (errno.EACCES, errno.EPERM) and place is not None:
        owner = user_names(host.files).get(place.entry.uid, f"uid {place.entry.uid}")
        mode = f"{place.entry.permissions:04o}"
        text = _("{why}; {path} belongs to {owner}, mode {mode}")
        return FileRefusal(text.format(why=attempt.reason, path=place.path, owner=owner, mode=mode), evidence)
    return FileRefusal(attempt.reason, evidence)


def place_and_mount(host: Host, path: str) -> tuple[Optional[NearestFolder], Optional[Mount]]:
    """Return the nearest existing folder and its mount, for evidence; None and None if they cannot be
    examined."""
    try:
        place = nearest_folder(host.running_files, path)
        return place, mount_at(host, place)
    except CannotTell:
        return None, None


def _has_inodes(host: Host, path: str) -> bool:
    try:
        space = host.running_files.space(path)
    except CannotTell:
        # Unknown counts as having inodes: the message then speaks of space.
        return True
    # Some file systems (btrfs) report 0 inodes, because they create them on demand.
    return space is None or not space.inodes or space.inodes_free > 0


def _file_size_refusal(host: Host) -> FileRefusal:
    limit = limit_of(host, "Max file size")
    soft, hard = (None if value is None else value >> 10 for value in (limit.soft, limit.hard))
    why = _("ulimit -f limits files to {size} KiB", size=soft or 0)
    if limit.hard is None or limit.hard > (limit.soft or 0):
        steps = (Command(("ulimit", "-Sf", "unlimited" if hard is None else str(hard))),)
        fix = Fix(
            _("raise the limit in the shell that starts the job"), steps, risk=Risk.MANUAL, needs_root=False
        )
    else:
        title = _(
            "ask whoever sets the limits of this session to raise ulimit {flag}: the hard limit is too low",
            flag="-f",
        )
        fix = Fix(title, risk=Risk.MANUAL, needs_root=False)
    return FileRefusal(why, (f"ulimit -Sf {soft}, ulimit -Hf {'unlimited' if hard is None else hard}",), fix)


def give_owner_rights(umask: int, folder: str) -> tuple[tuple[str, ...], Fix]:
    """Return evidence and fix for a file that its own creator cannot open: a umask that removes the owner's
    bits, or a default ACL of the folder."""
    if umask & 0o700:
        title = _("let the job's user access its own files, in the shell that starts the job")
        step = Command(("umask", f"{umask & 0o077:04o}"))
        return (f"umask {umask:04o}",), Fix(title, (step,), risk=Risk.MANUAL, needs_root=False)
    title = _("remove the folder's default ACL")
    return (f"getfacl {folder}",), Fix(title, (Command(("setfacl", "-k", folder)),), risk=Risk.MANUAL)
