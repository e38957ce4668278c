"""What temporary-folders sees of a folder, and how to put it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from typing import Optional

from npudoctor import ERROR, WARNING, Action, Command, Finding, Fix, Host, Risk, Severity, Unknown, _
from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.mounts import Mount
from npudoctor.facts.job.working_directory import foreign_user, job_user
from npudoctor.facts.system.mounts import mount_at
from npudoctor.host.fs.access import first_barrier, may_make, nearest
from npudoctor.host.fs.files import Entry
from npudoctor.host.process.users import user_names

CACHE = ("MS_CACHE_HOST", "MS_CACHE_PORT")
WHEELS = ("mindspore", "mindspore-ascend", "mindspore-gpu")
OPEN = 0o1777


@dataclass(frozen=True)
class Place:
    """A folder. `entry`: what is there, None where nothing is or it cannot be looked at. `closed`: the folder
    above it that this user may not enter. `writable`: None where that cannot be told."""

    path: str
    there: bool
    writable: Optional[bool]
    entry: Optional[Entry] = None
    mount: Optional[Mount] = None
    closed: str = ""


def look(host: Host, path: str) -> Place:
    """What can be seen of a folder; CannotTell where what holds it gives no answer."""
    foreign = foreign_user(host)
    try:
        place = nearest(host.running_files, path)
        shut = first_barrier(host.files, place.path, foreign) if foreign else None
    except CannotTell as error:
        if not isinstance(error.__cause__, PermissionError):
            raise
        return Place(path, True, False, closed=path.rpartition("/")[0] or "/")
    if shut is not None:
        return Place(path, True, False, closed=shut)
    if not place.there:
        return Place(path, False, False)
    mount = mount_at(host, place)
    writable = may_make(place.entry, job_user(host), mount)
    if writable is None and foreign is None:  # an access list, or a server: the kernel knows
        writable = host.disk.accessible(host.running_files.real(path) or path, os.W_OK | os.X_OK)
    return Place(path, True, writable, place.entry, mount)


def expect_told(host: Host, found: Iterable[Place]) -> None:
    """Unknown where it cannot be told whether the job's user may write to one of them."""
    for one in found:
        if one.writable is None:
            text = _(
                "could not determine whether {user} may write to {path}: it may have an access control list"
            )
            raise Unknown(text.format(user=job_user(host).user, path=one.path))


def not_writable(host: Host, place: Place, severity: Severity, variable: str = "") -> Finding:
    """A folder that this user may not write to, and why."""
    words = {
        "path": f"{variable}={place.path}" if variable else place.path,
        "user": job_user(host).user,
        "mount": place.mount.point if place.mount else "",
        "closed": place.closed,
    }
    if place.entry is not None:
        words["owner"] = _name(host, place.entry.uid)
        words["mode"] = f"{place.entry.permissions:04o}"
    return Finding(
        "temporary-folders.not-writable",
        _why(place).format(**words),
        severity=severity,
        evidence=_evidence(place),
        action=Action.CONFIG,
        fix=_fix(host, place, variable),
    )


def _why(place: Place) -> str:
    if place.closed:
        return _("{user} may not write to {path}: this user may not enter {closed}")
    if place.entry is None:
        return _("{user} may not write to {path}: it does not exist")
    if not place.entry.is_dir:
        return _("{user} may not write to {path}: it is not a folder")
    if place.mount is not None and place.mount.read_only:
        return _("{user} may not write to {path}: {mount} is mounted read-only")
    return _("{user} may not write to {path}: it belongs to {owner}, mode {mode}")


def _evidence(place: Place) -> tuple[str, ...]:
    if place.entry is None:
        return ()
    entry, mount = place.entry, place.mount
    told = f"{place.path} uid={entry.uid} gid={entry.gid} mode={stat.filemode(entry.mode)}"
    options = ",".join(dict.fromkeys((*mount.own, *mount.options))) if mount else ""
    return (told, f"{mount.point} {mount.kind} {options}") if mount else (told,)


def _fix(host: Host, place: Place, variable: str) -> Optional[Fix]:
    """A line for root where one folder of this machine wants another mode; else who must do what."""
    if variable:
        steps = (Command(("unset", variable)),)
        title = _("use /tmp instead, in the shell that starts the job")
        return Fix(title, steps=steps, risk=Risk.MANUAL, needs_root=False)
    if place.mount is not None and place.mount.read_only:
        return _writable_again(host, place)
    if place.entry is None:
        steps = (Command(("mkdir", "-m", f"{OPEN:o}", place.path)),)
        return Fix(_("create the folder"), steps=steps, risk=Risk.MANUAL)
    if not place.entry.is_dir:
        return None
    return Fix(
        _("let everyone write to it but remove only their own files"),
        steps=(Command(("chmod", f"{OPEN:o}", place.path)),),
        undo=Command(("chmod", f"{place.entry.permissions:o}", place.path)).lines(),
        risk=Risk.MANUAL,
    )


def _writable_again(host: Host, place: Place) -> Fix:
    if host.system.container():
        text = _("ask whoever starts the container to provide a writable {path}: --tmpfs {path}")
        return Fix(text.format(path=place.path), risk=Risk.MANUAL)
    point = place.mount.point if place.mount else place.path
    steps = (Command(("mount", "-o", "remount,rw", point)),)
    title = _("mount it writable, once `dmesg` shows no error of that file system")
    return Fix(title, steps=steps, risk=Risk.MANUAL)


def mindspore(host: Host, path: str) -> Iterator[Finding]:
    """The folder of MindSpore's cache servers, where its owner keeps this user out."""
    named = [name for name in CACHE if host.variables.get(name)]
    closed = _closed(host, path)
    if closed is None or not (named or _installed(host)):
        return
    text = _(
        "no dataset cache server of {user} can start: {path} belongs to {owner}, mode {mode}; "
        "`dataset-cache --start` reports success and the server exits at once"
    )
    owner = _name(host, closed.uid)
    title = _("ask {owner} to remove {path} once no cache server uses it").format(owner=owner, path=path)
    yield Finding(
        "temporary-folders.mindspore-closed",
        text.format(user=job_user(host).user, path=path, owner=owner, mode=f"{closed.permissions:04o}"),
        severity=ERROR if named else WARNING,
        evidence=(f"{path} uid={closed.uid} gid={closed.gid} mode={stat.filemode(closed.mode)}",
                  *(f"{name}={host.variables[name]}" for name in named)),
        action=Action.CONFIG,
        fix=Fix(title, risk=Risk.MANUAL, needs_root=closed.uid == 0),
    )  # fmt: skip


def _closed(host: Host, path: str) -> Optional[Entry]:
    """What is there, where this user surely can make no server in it: neither in it, nor in a folder of the
    user's own below it, which servers take that know a login name."""
    who = job_user(host)
    try:
        entry = host.running_files.stat(path)
        if entry is None or may_make(entry, who) is not False:
            return None
        own = None if who.kept_from(entry, 1) else host.running_files.stat(f"{path}/{who.user}")
    except CannotTell:
        return None
    return entry if own is None or may_make(own, who) is False else None


def _installed(host: Host) -> bool:
    try:
        return any(host.interpreter.version_of(name) for name in WHEELS)
    except CannotTell:
        return False


def _name(host: Host, uid: int) -> str:
    return user_names(host.files).get(uid, f"uid {uid}")
