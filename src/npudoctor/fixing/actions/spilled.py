"""Removes spilled files and their folder: all of it must still be what was looked at."""

from __future__ import annotations

import os
from collections.abc import Sequence

from npudoctor.core.marks import FileMark
from npudoctor.core.messages import _
from npudoctor.facts.leftovers.cache_server import SpillFolder
from npudoctor.fixing.actions.directories import open_folder, open_subfolder, refuse_replaced
from npudoctor.fixing.outcome import Observer, Refused, changing
from npudoctor.fixing.steps.steps import RemoveFiles
from npudoctor.host import Host
from npudoctor.host.fs.disk import Entry, entry_of
from npudoctor.host.fs.walk import Parent, files_in
from npudoctor.proof.socket import why_untrusted
from npudoctor.proof.users import users_of


def remove_files(step: RemoveFiles, host: Host, at: Observer) -> None:
    """Unlink the known files of a folder by its descriptor, then the folder itself; never recursively."""
    parent, name = step.directory.rsplit("/", 1)
    with open_folder(parent or "/") as (above, parents), open_subfolder(above, name) as descriptor:
        folder = _look(step, descriptor, parents)
        distrust = why_untrusted(parents, step.owner, host.identity.euid) or users_of(host, folder)
        if distrust:
            raise Refused(distrust)
        there = dict(folder.files)
        for mark in step.files:
            if mark.name in there:
                _unlink(mark, step.owner, descriptor, at)
        with refuse_replaced(step.directory):
            same_folder(step, entry_of(os.stat(name, dir_fd=above, follow_symlinks=False)))
            with changing(at, f"remove folder {name}"):
                os.rmdir(name, dir_fd=above)


def _look(step: RemoveFiles, descriptor: int, parents: Sequence[Parent]) -> SpillFolder:
    """The folder with everything in it, all of which must be as it was before anything is removed."""
    entry = entry_of(os.fstat(descriptor))
    same_folder(step, entry)
    entries = dict(files_in(descriptor, os.listdir(descriptor)))
    marks = {mark.name: mark for mark in step.files}
    if not marks.keys() >= entries.keys():
        raise Refused(_("{path} holds files that were not there before").format(path=step.directory))
    for name, file in entries.items():
        same_file(marks[name], step.owner, file)
    return SpillFolder(step.directory, entry, tuple(entries.items()), tuple(parents))


def _unlink(mark: FileMark, owner: int, descriptor: int, at: Observer) -> None:
    try:
        same_file(mark, owner, entry_of(os.stat(mark.name, dir_fd=descriptor, follow_symlinks=False)))
        with changing(at, f"unlink file {mark.name}"):
            os.unlink(mark.name, dir_fd=descriptor)
    except FileNotFoundError:
        return  # gone already


def same_folder(step: RemoveFiles, now: Entry) -> None:
    """Refused unless this is the folder that was looked at, closed to all others."""
    seen = (step.device, step.inode, step.owner, 0o700)
    if seen != (now.dev, now.ino, now.uid, now.permissions) or not now.is_dir:
        raise Refused(_("{path} has been replaced since").format(path=step.directory))


def same_file(mark: FileMark, owner: int, now: Entry) -> None:
    """Refused unless this is the file that was looked at, with one name and unchanged."""
    seen = (mark.device, mark.inode, mark.size, mark.mtime_ns, owner, 1)
    if seen != (now.dev, now.ino, now.size, now.mtime_ns, now.uid, now.nlink) or not now.is_file:
        raise Refused(_("{path} has changed since").format(path=mark.name))
