"""The findings of the check cache-server: what is said, and the fix that goes with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from npudoctor import INFO, Action, Command, Finding, Fix, Host, Risk, Step, _
from npudoctor.host.cacheserver import SocketFile, SpillFolder
from npudoctor.host.identity import user_name
from npudoctor.proof import leftovers
from npudoctor.proof.leftovers import Seen, StaleSocket
from npudoctor.proof.segment import Judged
from npudoctor.proof.socket import SocketState, State
from npudoctor.proof.spill import ProvenSpill

MOST = 20  # unproven things of one kind that are shown one by one


def orphan_segment(host: Host, judged: Judged) -> Finding:
    """A segment that is proven a dead server's."""
    segment = judged.segment
    text = _("a dead cache server left the shared memory segment {shmid} of {size}")
    evidence = leftovers.segment_evidence(judged)
    if judged.socket is not None:
        gentle = _("MindSpore itself cleans socket and segment: dataset-cache --start -p {port}, then --stop")
        evidence = (*evidence, gentle.format(port=judged.socket.port))
    return Finding(
        "cache-server.orphan-segment",
        text.format(shmid=segment.shmid, size=leftovers.sized(segment.size)),
        evidence=evidence,
        action=Action.CLEANUP,
        fix=_safe(
            host,
            _("remove the shared memory of the dead cache server"),
            leftovers.remove_segment(segment, judged.log),
            segment.cuid,
        ),
    )


def client_attached(host: Host, judged: Judged) -> Finding:
    """A dead server's segment that clients still hold: they must end first."""
    segment = judged.segment
    pids = host.processes.mappers(segment.shmid)
    text = _("the cache server of segment {shmid} is dead, but clients hold its {size}: {clients}")
    named = ", ".join(f"{pid} ({host.processes.program(pid) or '?'})" for pid in pids)
    unseen = segment.nattch - len(pids)
    evidence = leftovers.segment_evidence(judged)
    if unseen > 0:
        evidence += (_("{count} attachments are not visible from here").format(count=unseen),)
    ending = (Command(("kill", *map(str, pids))),) if pids else ()
    return Finding(
        "cache-server.client-attached",
        text.format(shmid=segment.shmid, size=leftovers.sized(segment.size), clients=named or "?"),
        evidence=evidence,
        action=Action.RESTART_JOB,
        fix=Fix(_("end these clients first, then run the fix again"), steps=ending, risk=Risk.MANUAL),
    )


def orphan_socket(host: Host, stale: StaleSocket) -> Finding:
    """A socket file at which nobody listens any more."""
    entry = stale.file.entry
    seen = _("owner {owner} inode {inode} key 0x{key:08x}")
    return Finding(
        "cache-server.orphan-socket",
        _("a dead cache server left its socket {path}").format(path=stale.file.path),
        evidence=(seen.format(owner=user_name(entry.uid), inode=entry.ino, key=stale.file.key),),
        action=Action.CLEANUP,
        fix=_safe(
            host,
            _("remove the socket of the dead cache server"),
            leftovers.remove_socket(stale),
            stale.file.entry.uid,
        ),
    )


def displaced(host: Host, found: SocketFile) -> Finding:
    """A living server's socket that a killed removal of ours had renamed."""
    text = _("a removal that was interrupted took the name of a living server's socket {path}")
    return Finding(
        "cache-server.orphan-socket",
        text.format(path=found.original),
        action=Action.CLEANUP,
        fix=_safe(host, _("give the socket its name back"), leftovers.restore_socket(found), found.entry.uid),
    )


def orphan_spill(host: Host, proven: ProvenSpill) -> Finding:
    """Spilled data of a server that is proven dead."""
    folder = proven.folder
    size = leftovers.sized(folder.size)
    return Finding(
        "cache-server.orphan-spill",
        _("a dead cache server left spilled data in {path}: {size}").format(path=folder.path, size=size),
        evidence=(_("named in {path}").format(path=proven.log.path),),
        action=Action.CLEANUP,
        fix=_safe(
            host,
            _("remove the spilled data of the dead cache server"),
            leftovers.remove_spill(folder),
            folder.entry.uid,
        ),
    )


def unproven(seen: Seen) -> Iterator[Finding]:
    """What looks like a cache server's leftover and is not proven one: shown, never removed.

    Anybody can make thousands of such things: of each kind some are shown, the rest is summed up.
    """
    # What nobody uses first: that is what a person may have to act on.
    segments = sorted(seen.unproven_segments, key=lambda judged: bool(judged.segment.nattch))
    for judged in segments[:MOST]:
        segment = judged.segment
        text = _("the segment {shmid} of {size} may be a dead cache server's; that is not proven")
        yield Finding(
            "cache-server.unproven",
            text.format(shmid=segment.shmid, size=leftovers.sized(segment.size)),
            severity=INFO if segment.nattch else None,
            evidence=leftovers.segment_evidence(judged),
            # What somebody uses is nothing that a person should be told to remove either.
            fix=None if segment.nattch else _by_hand(leftovers.remove_segment(segment)),
        )
    if segments[MOST:]:
        rest = [judged.segment for judged in segments[MOST:]]
        size = leftovers.sized(sum(segment.size for segment in rest))
        text = _("more segments that may be dead cache servers', none of them proven: {count}, {size} in all")
        yield Finding(
            "cache-server.unproven",
            text.format(count=len(rest), size=size),
            severity=INFO if all(segment.nattch for segment in rest) else None,
            fix=None if all(segment.nattch for segment in rest) else _by_hand(),
        )
    for state in seen.unproven_sockets[:MOST]:
        text = _("the socket {path} may be a dead cache server's; that is not proven")
        yield Finding(
            "cache-server.unproven",
            text.format(path=state.file.path),
            evidence=(state.why,),
            fix=_by_hand(_socket_step(state)),
        )
    if seen.unproven_sockets[MOST:]:
        text = _("more sockets that may be dead cache servers', none of them proven: {count}")
        count = len(seen.unproven_sockets) - MOST
        yield Finding("cache-server.unproven", text.format(count=count), fix=_by_hand())
    yield from _unproven_folders(seen)


def _unproven_folders(seen: Seen) -> Iterator[Finding]:
    folders = [(spill.path, spill.folder, spill.why) for spill in seen.unproven_spills]
    folders += [(folder.path, folder, _("no log names it")) for folder in seen.unlogged]
    for path, folder, why in folders[:MOST]:
        yield _unproven_folder(path, folder, why)
    rest = [folder for _path, folder, _why in folders[MOST:]]
    if rest:
        size = leftovers.sized(sum(folder.size for folder in rest if folder))
        text = _(
            "more folders that may hold dead cache servers' data, none of them proven: {count}, {size} in all"
        )
        yield Finding("cache-server.unproven", text.format(count=len(rest), size=size), fix=_by_hand())


def _unproven_folder(path: str, folder: Optional[SpillFolder], why: str) -> Finding:
    text = _("the folder {path} may be a dead cache server's spilled data; that is not proven")
    return Finding(
        "cache-server.unproven",
        text.format(path=path),
        evidence=(why,),
        # Lines that remove something else than containers are shown to nobody, whatever a log says.
        fix=_by_hand(leftovers.remove_spill(folder)) if folder and folder.plain else _by_hand(),
    )


def _socket_step(state: SocketState) -> Step:
    """For a person: a socket that answers under a name that a removal gave it wants its own name back."""
    if state.state is State.ALIVE:
        return leftovers.restore_socket(state.file)
    return leftovers.remove_socket(StaleSocket(state.file, ()))


def _safe(host: Host, title: str, step: Step, owner: int) -> Fix:
    return Fix(title, steps=(step,), risk=Risk.SAFE, needs_root=owner != host.identity.euid)


def _by_hand(*steps: Step) -> Fix:
    title = _("only when you are sure that nothing uses it")
    return Fix(title, steps=steps, risk=Risk.MANUAL, unproven=True)
