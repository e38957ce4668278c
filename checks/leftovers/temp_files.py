"""Temporary folders of ended training, and locks of builds that nobody finishes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Optional, Union

from npudoctor import (
    INFO,
    WARNING,
    Action,
    Command,
    Facts,
    FileMark,
    Finding,
    Fix,
    Host,
    RemoveFiles,
    RemoveUnused,
    Risk,
    Scope,
    Unknown,
    _,
    check,
)
from npudoctor.checks.leftovers._owner_selection import select_owner
from npudoctor.core.errors import CannotTell
from npudoctor.core.mounts import mount_of, parse_mountinfo
from npudoctor.facts.job.working_directory import job_user
from npudoctor.facts.leftovers.owners import selected_owner
from npudoctor.host.users.accounts import home_of, user_names

if TYPE_CHECKING:
    from npudoctor.facts.leftovers.temporary_folders import TempFolder
    from npudoctor.host.fs.files import PathStatus


# Replaces ~/.cache/torch_extensions (torch/utils/cpp_extension.py).
EXTENSIONS = "TORCH_EXTENSIONS_DIR"
TMP = "/tmp"  # noqa: S108  (looked at, never written)


@check(
    "temp-files",
    scope=Scope.JOB,
    tags={"files", "torch"},
    codes={
        "temp-files.stale-lock": WARNING,
        "temp-files.lock": INFO,
        "temp-files.left-over": INFO,
    },
)
def temp_files(host: Host) -> Iterator[Union[Finding, Facts]]:
    """No stale PyTorch build locks or leftover temporary folders.

    ## What it does

    - `temp-files.stale-lock`: PyTorch builds an extension under a file `lock` that it holds open and removes
      at the end, in TORCH_EXTENSIONS_DIR or `~/.cache/torch_extensions`. This one is empty, ten minutes old,
      next to a build or alone, and no process of its owner has a file in that folder open: its build died.
    - `temp-files.lock`: a lock that is an hour old, and whose build cannot be proven dead: in a container, on
      a file system that another node may use (a network mount, or one that this node exports over NFS), or if
      the owner's processes are hidden.
    - `temp-files.left-over`: folders of Python's multiprocessing (`pymp-`) and PyTorch (`torch-shm-dir-`) in
      /tmp and TMPDIR, if no other node uses these. No socket in the folder is in use, no process has a file
      in it open, the folder is ten minutes old, and every living Python process of its owner started after
      the folder last changed and is not an orphan that may have inherited it.

    Folders of other users are skipped: only root sees who uses them. In a folder with more than 100000 names
    only that many are read. MindSpore's own build.lock is the subject of the check `compile-cache`. `--user`
    selects the files of that user and the extensions in that user's home; with `--job` the check is skipped,
    because nothing here names a job.

    ## Why it matters

    While a lock exists, every process that needs the extension waits for it forever: training hangs at its
    start without a message. The folders are small, but thousands of them use up inodes.

    ## Fix safety

    `fix` removes a stale lock on a local file system (ext4, xfs, btrfs, tmpfs) while npudoctor holds a lease
    on it (F_SETLEASE), which the kernel grants only if no process has the file open; a running build has. On
    other file systems the fix is shown only, because on shared storage the lock of a build on another node
    looks the same. Folders that contain only sockets on which no process listens are removed after they are
    verified again. Folders that contain files are shown only, because somebody may need the files.

    ## References

    - PyTorch, torch/utils/file_baton.py and cpp_extension.py.
    - CPython, multiprocessing/util.py: get_temp_dir.
    """
    selected = select_owner(host)
    # Loaded only where somebody may have left something.
    folders, unread = _find_folders(host)
    owned = [folder for folder in folders if selected(folder.entry.uid)]
    paths = _find_locks(host)
    if owned or paths:
        yield Facts({"folders": len(owned), "locks": len(paths)})
        for path in paths:
            yield from _judge_lock(host, path)
        yield from _judge_folders(host, owned)
    if unread:
        raise Unknown(unread, advisory=True)


def _find_folders(host: Host) -> tuple[list[TempFolder], str]:
    """Return the leftover candidates in all temporary folders, and why one could not be read ("" if all
    could)."""
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.facts.leftovers.temporary_folders import find_temp_folders

    folders: dict[str, TempFolder] = {}
    unread = ""
    for place in dict.fromkeys((TMP, host.variables.get("TMPDIR", ""))):
        if not place.startswith("/"):
            continue
        try:
            folders.update({folder.path: folder for folder in find_temp_folders(host.running_files, place)})
        except CannotTell as error:
            # The other folders are still judged; the check ends as unknown.
            unread = error.reason
    return list(folders.values()), unread


def _find_locks(host: Host) -> list[str]:
    """Return the build locks of the job's user, or of --user; empty if that user's home cannot be read."""
    from npudoctor.facts.leftovers.temporary_folders import find_build_locks

    root: Optional[str] = host.variables.get(EXTENSIONS) or None
    owner = selected_owner(host)
    # TORCH_EXTENSIONS_DIR of this shell says nothing about the builds of another user.
    if owner is not None and owner != host.identity.euid:
        root = None
    if root is None:
        home = job_user(host).home if owner is None else home_of(host.files, owner)
        root = f"{home}/.cache/torch_extensions" if home else ""
    try:
        return list(find_build_locks(host.running_files, root)) if root.startswith("/") else []
    except CannotTell:
        # Builds in a home that cannot be read cannot be judged.
        return []


YOUNG, OLD = 600, 3600  # seconds: a build of an extension takes minutes
SHOWN = 20  # folders of one finding
FEW = 100  # sockets of one folder that is removed by us


def _judge_lock(host: Host, path: str) -> Iterator[Finding]:
    """Report a build lock that is old enough and not held by a running build."""
    from npudoctor.proof.build_lock import is_lock_unused
    from npudoctor.proof.shared_storage import why_shared

    entry = host.running_files.lstat(path)
    age = host.clock.now() - entry.mtime_ns / 1e9 if entry else 0.0
    if entry is None or age < YOUNG:
        return
    # The type of the file system on which a file lies; empty where that cannot be told.

    mounts = parse_mountinfo(host.running_files.text("/proc/self/mountinfo") or "")
    mount = mount_of(mounts, path)
    kind = mount.kind if mount else ""
    is_unused = is_lock_unused(host, path, entry.uid) if not why_shared(host, path) else None
    words = {"path": path, "minutes": int(age // 60)}
    line = f"{path} uid={entry.uid} size={entry.size} ino={entry.ino}"
    if is_unused:
        yield Finding(
            "temp-files.stale-lock",
            _(
                "{path} is {minutes} minutes old and no process holds it: training would wait for it forever",
                **words,
            ),
            evidence=(line,),
            action=Action.CLEANUP,
            fix=_unlock_fix(host, path, entry, kind),
        )
    elif is_unused is None and age >= OLD:
        fix = _removal_fix(host, entry.uid, (Command(("rm", "--", path)),), unproven=True)
        yield Finding(
            "temp-files.lock",
            _(
                "{path} is {minutes} minutes old; could not determine whether its build is still running",
                **words,
            ),
            evidence=(line,),
            fix=fix,
        )


def _judge_folders(host: Host, folders: Sequence[TempFolder]) -> Iterator[Finding]:
    """Report the folders whose processes are proven gone."""
    from npudoctor.proof.temporary_folder import FolderMakers

    owners = FolderMakers(host)
    leftover_folders = [
        folder for folder in folders if folder.names is not None and not owners.why_not(folder)
    ]  # what is in a folder that is closed to us, others know
    steps = {folder.path: step for folder in leftover_folders if (step := _removal_step(host, folder))}
    for owner in sorted({folder.entry.uid for folder in leftover_folders if folder.path in steps}):
        owned = [folder for folder in leftover_folders if folder.entry.uid == owner and folder.path in steps]
        title = _("remove the folders and the dead sockets in them")
        needs_root = owner != host.identity.euid
        yield _report_left_over(
            host,
            owned,
            Fix(
                title,
                steps=tuple([steps[folder.path] for folder in owned]),
                risk=Risk.SAFE,
                needs_root=needs_root,
            ),
        )
    rest = [folder for folder in leftover_folders if folder.path not in steps]
    if rest:
        yield _report_left_over(host, rest, _remove_folders(host, rest[:SHOWN]))


def _report_left_over(host: Host, leftover_folders: Sequence[TempFolder], fix: Fix) -> Finding:

    names = user_names(host.files)
    lines = [_line(host, folder, names) for folder in leftover_folders[:SHOWN]]
    if leftover_folders[SHOWN:]:
        lines.append(_("and {count} more folders", count=len(leftover_folders) - SHOWN))
    return Finding(
        "temp-files.left-over",
        _("temporary folders of training that has ended: {count}", count=len(leftover_folders)),
        evidence=tuple(lines),
        action=Action.CLEANUP,
        fix=fix,
    )


def _removal_step(host: Host, folder: TempFolder) -> Optional[RemoveFiles]:
    """Return the step that removes a folder which contains only sockets; None otherwise, because files may
    still be needed."""
    # mkdtemp() creates 0700 (Python, tempfile): with another mode somebody else may have put files in.
    if folder.names is None or folder.entry.permissions != 0o700 or len(folder.names) > FEW:
        return None
    marks = []
    for name in folder.names:
        entry = host.running_files.lstat(f"{folder.path}/{name}")
        if entry is None or not entry.is_socket:
            return None
        marks.append(FileMark(name, entry.dev, entry.ino, entry.size, entry.mtime_ns))
    return RemoveFiles(
        folder.path,
        folder.entry.dev,
        folder.entry.ino,
        folder.entry.uid,
        tuple(sorted(marks, key=lambda mark: mark.name)),
    )


def _line(host: Host, folder: TempFolder, names: dict[int, str]) -> str:
    return _(
        "{path} ({library}), owner {owner}, {minutes} minutes old, {count} files",
        path=folder.path,
        library=folder.library,
        owner=names.get(folder.entry.uid, str(folder.entry.uid)),
        minutes=int((host.clock.now() - folder.entry.ctime_ns / 1e9) // 60),
        count=len(folder.names or ()),
    )


def _unlock_fix(host: Host, path: str, entry: PathStatus, kind: str) -> Fix:
    """Return the fix for a stale lock: a step that takes a lease first, where the file system supports
    leases; else a command that is only shown."""
    from npudoctor.proof.unused import LEASED, mark_of

    if kind not in LEASED:
        return _removal_fix(host, entry.uid, (Command(("rm", "--", path)),), unproven=False)
    needs_root = entry.uid != host.identity.euid
    steps = (RemoveUnused(path.rpartition("/")[0], entry.uid, (mark_of(path, entry),)),)
    return Fix(_("remove the unused lock file"), steps=steps, risk=Risk.SAFE, needs_root=needs_root)


def _removal_fix(host: Host, owner: int, steps: Sequence[Command], *, unproven: bool) -> Fix:
    title = _("only when you are sure that nothing uses it") if unproven else _("remove the unused lock file")
    return _manual_fix(host, owner, title, steps, unproven=unproven)


def _remove_folders(host: Host, folders: Sequence[TempFolder]) -> Fix:
    """Return rm -r commands, which follow no links: a folder may contain thousands of names and
    subfolders."""
    heading = _("remove the folders with everything in them; first check that nothing in them is needed")
    commands = [Command(("rm", "-r", "--", folder.path)) for folder in folders]
    # Root is needed as soon as one folder belongs to another user.
    uids = [folder.entry.uid for folder in folders]
    return _manual_fix(
        host,
        next((uid for uid in uids if uid != host.identity.euid), host.identity.euid),
        heading,
        commands,
        unproven=False,
    )


def _manual_fix(host: Host, owner: int, title: str, steps: Sequence[Command], *, unproven: bool) -> Fix:
    needs_root = owner != host.identity.euid
    return Fix(title, steps=tuple(steps), risk=Risk.MANUAL, needs_root=needs_root, unproven=unproven)
