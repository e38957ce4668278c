"""Removes a folder with its files: spilled data of a cache server, or a temporary folder of Python or PyTorch
in which there are only sockets that nobody answers. All of it must still be what was looked at."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from npudoctor.core.marks import FileMark
from npudoctor.core.messages import _
from npudoctor.facts.leftovers.cache_server import SpillFolder
from npudoctor.facts.leftovers.temporary_folders import TempFolder, library_of
from npudoctor.fixing.actions.directories import open_folder, open_subfolder, refuse_replaced
from npudoctor.fixing.actions.endings import ActionRefused
from npudoctor.fixing.outcome import Observer, watch_change
from npudoctor.fixing.steps.steps import RemoveFiles
from npudoctor.host import Host
from npudoctor.host.fs.disk import PathStatus, entry_from_stat
from npudoctor.host.fs.walk import stat_entries
from npudoctor.host.network.sockets import Listener
from npudoctor.proof.socket import why_untrusted
from npudoctor.proof.temporary_folder import FolderMakers
from npudoctor.proof.users import why_open


def remove_folder(step: RemoveFiles, host: Host, at: Observer) -> None:
    """Unlink the known files of a folder by its descriptor, then remove the folder itself; never
    recursively.
    """
    parent, name = step.directory.rsplit("/", 1)
    library = library_of(name)
    with open_folder(parent or "/") as (above, parents), open_subfolder(above, name) as descriptor:
        # What is judged is what was opened, whatever has the name by now.
        folder = entry_from_stat(os.fstat(descriptor))
        _expect_folder(step, folder)
        names = tuple(os.listdir(descriptor))
        entries = dict(stat_entries(descriptor, names))
        doubt = why_untrusted(parents, step.owner, host.identity.euid)
        if library is not None:
            doubt = doubt or FolderMakers(host).why_not(TempFolder(step.directory, folder, library, names))
        else:
            spilled = SpillFolder(step.directory, folder, tuple(entries.items()), tuple(parents))
            doubt = doubt or why_open(host, spilled)
        if doubt:
            raise ActionRefused(doubt)
        _expect_known(step, entries, sockets=library is not None)
        for entry_name in entries if library is not None else ():
            # Only ECONNREFUSED means that nobody listens.
            if host.sockets.probe(entry_name, descriptor) is not Listener.REFUSED:
                raise ActionRefused(_("a server may answer at {path}", path=f"{step.directory}/{entry_name}"))
        for mark in step.files:
            if mark.name in entries:
                _unlink(mark, step.owner, descriptor, at, socket=library is not None)
        with refuse_replaced(step.directory):
            # rmdir goes by name: it must still be the name of the folder that was emptied.
            _expect_folder(step, entry_from_stat(os.stat(name, dir_fd=above, follow_symlinks=False)))
            with watch_change(at, f"remove folder {name}"):
                os.rmdir(name, dir_fd=above)


def _expect_known(step: RemoveFiles, entries: Mapping[str, PathStatus], *, sockets: bool) -> None:
    """Raise ActionRefused unless every entry of the folder was looked at before and is unchanged. Called
    before anything is removed.
    """
    # A file that is gone is no obstacle; one that is new is.
    marks = {mark.name: mark for mark in step.files}
    if not marks.keys() >= entries.keys():
        raise ActionRefused(_("{path} contains files that were not there before", path=step.directory))
    for name, entry in entries.items():
        (_expect_socket if sockets else expect_file)(marks[name], step.owner, entry)


def _unlink(mark: FileMark, owner: int, descriptor: int, at: Observer, *, socket: bool) -> None:
    try:
        entry = entry_from_stat(os.stat(mark.name, dir_fd=descriptor, follow_symlinks=False))
        (_expect_socket if socket else expect_file)(mark, owner, entry)
        with watch_change(at, f"unlink {'socket' if socket else 'file'} {mark.name}"):
            os.unlink(mark.name, dir_fd=descriptor)
    except FileNotFoundError:
        return  # gone already


def _expect_folder(step: RemoveFiles, now: PathStatus) -> None:
    """Raise ActionRefused unless this is the folder that was looked at, and closed to all others."""
    # mkdtemp and the cache server make their folders with 0700.
    expected = (step.device, step.inode, step.owner, 0o700)
    if expected != (now.dev, now.ino, now.uid, now.permissions) or not now.is_dir:
        raise ActionRefused(_("{path} has been replaced since", path=step.directory))


def expect_file(mark: FileMark, owner: int, now: PathStatus) -> None:
    """Raise ActionRefused unless this is the file that was looked at, unchanged and with one name."""
    expected = (mark.device, mark.inode, mark.size, mark.mtime_ns, owner, 1)
    if expected != (now.dev, now.ino, now.size, now.mtime_ns, now.uid, now.nlink) or not now.is_file:
        raise ActionRefused(_("{path} has changed since", path=mark.name))


def _expect_socket(mark: FileMark, owner: int, now: PathStatus) -> None:
    # Without the size: that of a socket is always 0.
    expected = (mark.device, mark.inode, mark.mtime_ns, owner, 1)
    if expected != (now.dev, now.ino, now.mtime_ns, now.uid, now.nlink) or not stat.S_ISSOCK(now.mode):
        raise ActionRefused(_("{path} has changed since", path=mark.name))
