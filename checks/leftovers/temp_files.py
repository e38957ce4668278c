"""Temporary folders of ended training, and locks of builds that nobody finishes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import INFO, WARNING, Facts, Finding, Host, Scope, Unknown, check
from npudoctor.checks.leftovers._limits import limited
from npudoctor.core.errors import CannotTell
from npudoctor.facts.job.working_directory import job_user
from npudoctor.facts.leftovers.owners import selected_owner
from npudoctor.facts.leftovers.temporary import TempFolder, build_locks, temp_folders
from npudoctor.host.process.users import home_of

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
    """No dead build locks an extension of PyTorch, and no ended training left temporary folders.

    ## What it does

    - `temp-files.stale-lock`: PyTorch builds an extension under a file `lock` that it holds open and removes
      at its end, in TORCH_EXTENSIONS_DIR or `~/.cache/torch_extensions`. This one is empty, ten minutes old,
      beside a build or alone, and its owner has nothing in that folder open: its build died.
    - `temp-files.lock`: one that is an hour old and of which that cannot be proven: in a container, on a
      file system that another node may use (a network mount, or what this node itself gives to others by
      NFS), or when the owner's processes are hidden.
    - `temp-files.left-over`: folders of Python's multiprocessing (`pymp-`) and PyTorch (`torch-shm-dir-`) in
      /tmp and TMPDIR, where no other node uses these. No socket in them is in use, nobody has anything in
      them open, they are ten minutes old, and every Python process of their owner that lives began after
      they last changed, and is no orphan that may have inherited them.

    Folders of others are left to others: only root sees who uses them. Of a folder with more than 100000
    names only so many are read. MindSpore's own build.lock is the check `compile-cache`'s. `--user` looks at
    the files of that user, and at the extensions in that home; with `--job` the check is skipped, as nothing
    here names a job.

    ## Why it matters

    While a lock exists, every process that wants the extension waits for it for ever: training hangs at its
    start without a word. The folders are small; thousands of them use up inodes.

    ## Fix safety

    A stale lock on a local file system (ext4, xfs, btrfs, tmpfs) is removed by `fix` while we hold a lease of
    it (F_SETLEASE), which the kernel grants only where nobody has it open: a living build has. Elsewhere it
    is shown only; a lock of a build that runs on another node looks the same on shared storage. Folders in
    which there are only sockets that nobody answers are removed, with the proof made anew; those that hold
    files are shown only, as somebody may want them.

    ## References

    - PyTorch, torch/utils/file_baton.py and cpp_extension.py.
    - CPython, multiprocessing/util.py: get_temp_dir.
    """
    wanted = limited(host)
    # Loaded only where somebody may have left something.
    folders, unread = _folders(host)
    mine = [folder for folder in folders if wanted(folder.entry.uid)]
    paths = _locks(host)
    if mine or paths:
        from npudoctor.checks.leftovers import _temp_files_findings as say

        yield Facts({"folders": len(mine), "locks": len(paths)})
        for path in paths:
            yield from say.lock(host, path)
        yield from say.left_over(host, mine)
    if unread:
        raise Unknown(unread, advisory=True)


def _folders(host: Host) -> tuple[list[TempFolder], str]:
    """Those in all temporary folders, and why one could not be looked into."""
    found: dict[str, TempFolder] = {}
    unread = ""
    for place in dict.fromkeys((TMP, host.variables.get("TMPDIR", ""))):
        if not place.startswith("/"):
            continue
        try:
            found.update({folder.path: folder for folder in temp_folders(host.running_files, place)})
        except CannotTell as error:
            unread = error.reason
    return list(found.values()), unread


def _locks(host: Host) -> list[str]:
    """The locks of the job's user, or of --user; nothing where that user's home is closed to us."""
    root: Optional[str] = host.variables.get(EXTENSIONS) or None
    owner = selected_owner(host)
    if owner is not None and owner != host.identity.euid:
        root = None
    if root is None:
        home = job_user(host).home if owner is None else home_of(host.files, owner)
        root = f"{home}/.cache/torch_extensions" if home else ""
    try:
        return list(build_locks(host.running_files, root)) if root.startswith("/") else []
    except CannotTell:
        return []
