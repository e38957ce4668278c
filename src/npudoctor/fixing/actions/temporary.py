"""Removes a temporary folder of Python or PyTorch in which there are only sockets that nobody answers."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from npudoctor.core.marks import FileMark
from npudoctor.core.messages import _
from npudoctor.facts.leftovers.temporary import TempFolder, library_of
from npudoctor.fixing.actions.directories import open_folder, open_subfolder, refuse_replaced
from npudoctor.fixing.actions.spilled import same_folder
from npudoctor.fixing.outcome import Observer, Refused, changing
from npudoctor.fixing.steps.steps import RemoveFiles
from npudoctor.host import Host
from npudoctor.host.fs.disk import Entry, entry_of
from npudoctor.host.fs.walk import files_in
from npudoctor.host.network.sockets import Listener
from npudoctor.proof.socket import why_untrusted
from npudoctor.proof.temporary import FolderMakers


def remove_temporary(step: RemoveFiles, host: Host, at: Observer) -> None:
    """Prove anew that its processes are gone; unlink its sockets by its descriptor, then the folder."""
    parent, name = step.directory.rsplit("/", 1)
    with open_folder(parent or "/") as (above, parents), open_subfolder(above, name) as descriptor:
        entry = entry_of(os.fstat(descriptor))
        same_folder(step, entry)
        names = tuple(os.listdir(descriptor))
        folder = TempFolder(step.directory, entry, library_of(name) or "", names)
        doubt = why_untrusted(parents, step.owner, host.identity.euid) or FolderMakers(host).why_not(folder)
        if doubt:
            raise Refused(doubt)
        marks = {mark.name: mark for mark in step.files}
        entries = dict(files_in(descriptor, names))
        _all_dead(step, marks, entries, host, descriptor)
        for socket in entries:
            _same_socket(marks[socket], step.owner, _now(socket, descriptor))
            with changing(at, f"unlink socket {socket}"):
                os.unlink(socket, dir_fd=descriptor)
        with refuse_replaced(step.directory):
            same_folder(step, entry_of(os.stat(name, dir_fd=above, follow_symlinks=False)))
            with changing(at, f"remove folder {name}"):
                os.rmdir(name, dir_fd=above)


def _all_dead(
    step: RemoveFiles,
    marks: Mapping[str, FileMark],
    entries: Mapping[str, Entry],
    host: Host,
    descriptor: int,
) -> None:
    if not marks.keys() >= entries.keys():
        raise Refused(_("{path} holds files that were not there before").format(path=step.directory))
    for name, entry in entries.items():
        _same_socket(marks[name], step.owner, entry)
        if host.sockets.probe(name, descriptor) is not Listener.REFUSED:
            raise Refused(_("a server may answer at {path}").format(path=f"{step.directory}/{name}"))


def _now(name: str, descriptor: int) -> Entry:
    return entry_of(os.stat(name, dir_fd=descriptor, follow_symlinks=False))


def _same_socket(mark: FileMark, owner: int, now: Entry) -> None:
    seen = (mark.device, mark.inode, mark.mtime_ns, owner, 1)
    if seen != (now.dev, now.ino, now.mtime_ns, now.uid, now.nlink) or not stat.S_ISSOCK(now.mode):
        raise Refused(_("{path} has changed since").format(path=mark.name))
