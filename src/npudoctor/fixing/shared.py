"""Removes a file of POSIX shared memory, once everything that proved it left behind holds again."""

from __future__ import annotations

import os

from npudoctor.fixing.opening import opened
from npudoctor.fixing.outcome import Gone, Observer, Refused, changing
from npudoctor.fixing.steps import RemoveSharedFile
from npudoctor.host import Host
from npudoctor.host.files import Entry
from npudoctor.host.shmfiles import FOLDER, SharedFile, maker
from npudoctor.host.walk import entry_of
from npudoctor.messages import _
from npudoctor.proof.shared import judge
from npudoctor.proof.socket import untrusted_parent


def remove_shared_file(step: RemoveSharedFile, host: Host, at: Observer) -> None:
    """Unlink it by its folder's descriptor. Between the last look and that, only its owner or root could put
    another file in its place: the folder is root's, with a sticky bit."""
    directory, name = step.path.rsplit("/", 1)
    made = maker(name)
    if directory != FOLDER or made is None or made[1] != step.pid:
        raise Refused(_("{path} is not what training makes").format(path=step.path))
    with opened(directory) as (descriptor, parents):
        entry = _same(step, name, descriptor)
        distrust = untrusted_parent(parents, step.owner, host.identity.euid)
        if distrust:
            raise Refused(distrust)
        (found,) = judge(host, [SharedFile(step.path, entry, "", step.pid)])
        if found.users:
            raise Refused(_("process {pid} uses it").format(pid=found.users[0]))
        if not found.proven:
            raise Refused(found.why or found.told)
        _same(step, name, descriptor)
        with changing(at, f"unlink shared file {name}"):
            os.unlink(name, dir_fd=descriptor)


def _same(step: RemoveSharedFile, name: str, descriptor: int) -> Entry:
    try:
        now = entry_of(os.stat(name, dir_fd=descriptor, follow_symlinks=False))
    except FileNotFoundError:
        raise Gone from None
    seen = (step.device, step.inode, step.ctime_ns, step.owner)
    if seen != (now.dev, now.ino, now.ctime_ns, now.uid) or not now.is_file:
        raise Refused(_("{path} was replaced since").format(path=step.path))
    return now
