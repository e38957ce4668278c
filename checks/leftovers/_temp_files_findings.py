"""The findings of the check temp-files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor import Action, Command, FileMark, Finding, Fix, Host, RemoveFiles, RemoveUnused, Risk, _
from npudoctor.checks.cann._caches import held_by_nobody
from npudoctor.core.mounts import mount_of, parse_mountinfo
from npudoctor.facts.leftovers.temporary import TempFolder
from npudoctor.host.fs.files import Entry
from npudoctor.host.process.users import user_names
from npudoctor.proof.shared_storage import why_shared
from npudoctor.proof.temporary import FolderMakers
from npudoctor.proof.unused import LEASED, mark_of

YOUNG, OLD = 600, 3600  # seconds: a build of an extension takes minutes
SHOWN = 20  # folders of one finding
FEW = 100  # sockets of one folder that is removed by us


def lock(host: Host, path: str) -> Iterator[Finding]:
    """A build's lock: nothing is said of a young one, nor of one that a living build holds."""
    entry = host.running_files.lstat(path)
    age = host.clock.now() - entry.mtime_ns / 1e9 if entry else 0.0
    if entry is None or age < YOUNG:
        return
    kind = _file_system(host, path)
    free = held_by_nobody(host, path, entry.uid) if not why_shared(host, path) else None
    words = {"path": path, "minutes": int(age // 60)}
    line = f"{path} uid={entry.uid} size={entry.size} ino={entry.ino}"
    if free:
        text = _(
            "{path} is {minutes} minutes old and no process holds it: training would wait for it for ever"
        )
        yield Finding(
            "temp-files.stale-lock",
            text.format(**words),
            evidence=(line,),
            action=Action.CLEANUP,
            fix=_unlocking(host, path, entry, kind),
        )
    elif free is None and age >= OLD:
        text = _("{path} is {minutes} minutes old; whether its build lives cannot be told from here")
        fix = _removal(host, entry.uid, (Command(("rm", "--", path)),), unproven=True)
        yield Finding("temp-files.lock", text.format(**words), evidence=(line,), fix=fix)


def _file_system(host: Host, path: str) -> str:
    """The type of the file system on which a file lies; empty where that cannot be told."""
    mounts = parse_mountinfo(host.running_files.text("/proc/self/mountinfo") or "")
    mount = mount_of(mounts, path)
    return mount.kind if mount else ""


def _unlocking(host: Host, path: str, entry: Entry, kind: str) -> Fix:
    """By a step that proves anew that nobody has the lock open, where the file system can tell."""
    if kind not in LEASED:
        return _removal(host, entry.uid, (Command(("rm", "--", path)),), unproven=False)
    needs_root = entry.uid != host.identity.euid
    steps = (RemoveUnused(path.rpartition("/")[0], entry.uid, (mark_of(path, entry),)),)
    return Fix(_("remove what nobody uses"), steps=steps, risk=Risk.SAFE, needs_root=needs_root)


def left_over(host: Host, folders: Sequence[TempFolder]) -> Iterator[Finding]:
    """The folders whose processes are proven gone."""
    owners = FolderMakers(host)
    left = [
        folder for folder in folders if folder.names is not None and not owners.why_not(folder)
    ]  # what is in a folder that is closed to us, others know
    steps = {folder.path: step for folder in left if (step := _removable(host, folder))}
    for owner in sorted({folder.entry.uid for folder in left if folder.path in steps}):
        mine = [folder for folder in left if folder.entry.uid == owner and folder.path in steps]
        yield _left(host, mine, _removing(host, owner, [steps[folder.path] for folder in mine]))
    rest = [folder for folder in left if folder.path not in steps]
    if rest:
        yield _left(host, rest, _emptied(host, rest[:SHOWN]))


def _left(host: Host, left: Sequence[TempFolder], fix: Fix) -> Finding:
    names = user_names(host.files)
    lines = [_line(host, folder, names) for folder in left[:SHOWN]]
    if left[SHOWN:]:
        lines.append(_("and {count} more folders").format(count=len(left) - SHOWN))
    text = _("temporary folders of training that has ended: {count}")
    return Finding(
        "temp-files.left-over",
        text.format(count=len(left)),
        evidence=tuple(lines),
        action=Action.CLEANUP,
        fix=fix,
    )


def _removable(host: Host, folder: TempFolder) -> Optional[RemoveFiles]:
    """The step for one in which there is nothing but sockets: files may hold what somebody wants."""
    if folder.names is None or folder.entry.permissions != 0o700 or len(folder.names) > FEW:
        return None
    marks = []
    for name in folder.names:
        entry = host.running_files.lstat(f"{folder.path}/{name}")
        if entry is None or not entry.is_socket:
            return None
        marks.append(FileMark(name, entry.dev, entry.ino, entry.size, entry.mtime_ns))
    return RemoveFiles(
        folder.path, folder.entry.dev, folder.entry.ino, folder.entry.uid, tuple(sorted(marks, key=_by_name))
    )


def _by_name(mark: FileMark) -> str:
    return mark.name


def _removing(host: Host, owner: int, steps: Sequence[RemoveFiles]) -> Fix:
    title = _("remove the folders and the sockets in them, to which nobody answers")
    needs_root = owner != host.identity.euid
    return Fix(title, steps=tuple(steps), risk=Risk.SAFE, needs_root=needs_root)


def _owner(host: Host, folders: Sequence[TempFolder]) -> int:
    """Whose they are: somebody else's, when one is."""
    uids = [folder.entry.uid for folder in folders]
    return next((uid for uid in uids if uid != host.identity.euid), host.identity.euid)


def _line(host: Host, folder: TempFolder, names: dict[int, str]) -> str:
    text = _("{path} ({library}), owner {owner}, {minutes} minutes old, {count} files")
    return text.format(
        path=folder.path,
        library=folder.library,
        owner=names.get(folder.entry.uid, str(folder.entry.uid)),
        minutes=int((host.clock.now() - folder.entry.ctime_ns / 1e9) // 60),
        count=len(folder.names or ()),
    )


def _removal(host: Host, owner: int, steps: Sequence[Command], *, unproven: bool) -> Fix:
    title = _("only when you are sure that nothing uses it") if unproven else _("remove what nobody uses")
    return _manual(host, owner, title, steps, unproven=unproven)


def _emptied(host: Host, folders: Sequence[TempFolder]) -> Fix:
    """By rm -r, which goes through no link: a folder may hold thousands of names, and folders."""
    title = _("remove the folders with all that is in them; look first whether something of it is wanted")
    steps = [Command(("rm", "-r", "--", folder.path)) for folder in folders]
    return _manual(host, _owner(host, folders), title, steps, unproven=False)


def _manual(host: Host, owner: int, title: str, steps: Sequence[Command], *, unproven: bool) -> Fix:
    needs_root = owner != host.identity.euid
    return Fix(title, steps=tuple(steps), risk=Risk.MANUAL, needs_root=needs_root, unproven=unproven)
