"""What a dead MindSpore dataset cache server left behind."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Optional

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Command,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    Step,
    Unknown,
    _,
    check,
)
from npudoctor.host.users.identity import user_name

if TYPE_CHECKING:
    from npudoctor.facts.leftovers.cache_server import SpillFolder
    from npudoctor.proof.leftovers import Leftovers, StaleSocket
    from npudoctor.proof.segment import SegmentState
    from npudoctor.proof.socket import SocketState
    from npudoctor.proof.spill import ProvenSpill


@check(
    "cache-server",
    scope=Scope.NODE,
    tags={"mindspore", "ipc"},
    codes={
        "cache-server.orphan-segment": ERROR,
        "cache-server.orphan-socket": WARNING,
        "cache-server.orphan-spill": WARNING,
        "cache-server.client-attached": ERROR,
        "cache-server.unproven": WARNING,
    },
)
def cache_server(host: Host) -> Iterator[Finding]:
    """No leftovers of dead MindSpore dataset cache servers.

    ## What it does

    Looks for the sockets of cache servers in all places that any version has used, tests whether a process
    listens on each socket, and compares the sockets, the logs and the processes with the System V segments.
    - `orphan-segment`: shared memory that is proven to belong to a dead server and that no process has
      attached.
    - `orphan-socket`, `orphan-spill`: the socket of a dead server, and the folder of data that it spilled to
      disk.
    - `client-attached`: the server is dead, but living clients hold its shared memory until they end.
    - `unproven`: it looks like a leftover, but its owner, or that its server is dead, cannot be proven. It is
      shown and never removed.

    Living servers are never reported. `--user` limits the check to one owner. With `--job` the check is
    skipped, because nothing of a dead server names a Slurm job.

    ## Why it matters

    A server that was killed (kill -9, out of memory) leaves its segment (4 GiB by default), its socket file
    and its spilled data. The memory is lost until a reboot, a start on the same port may be refused, and no
    later server removes the spilled data.

    ## Fix safety

    SAFE for what is proven dead. A segment is proven dead by its socket (the key is derived from the socket,
    same user, created within the same seconds, creator dead, no process attached, no process listening in two
    samples 2 s apart) or by the log that its creator wrote. Spilled data is proven dead if the log of a
    server that is proven dead names it and no process has it open. Size, age and the form of a key prove
    nothing: what is not proven is shown and never removed. Only the objects that were examined are removed
    (by shmid, device and inode), and each is examined again right before its removal: first the segment, then
    the socket, then the spilled data. Logs are kept.

    ## References

    MindSpore documentation, "Single-Node Data Cache"; MindSpore FAQ on the cache server's leftovers.
    """
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.checks.leftovers._owner_selection import select_leftovers, select_owner
    from npudoctor.facts.leftovers.cache_traces import has_trace
    from npudoctor.proof import leftovers

    if not has_trace(host):
        return
    selected = select_owner(host)
    # Loaded only where there is something to judge: most machines never saw a cache server.
    from npudoctor.proof.snapshot import take_snapshot

    scene = take_snapshot(host)
    own_leftovers = select_leftovers(leftovers.judge_leftovers(scene), selected)
    yield from _report_proven(host, own_leftovers)
    yield from _report_unproven(host, own_leftovers)
    if scene.unseen:
        reasons = [_("could not examine {path}: {why}", path=path, why=why) for path, why in scene.unseen]
        raise Unknown("; ".join(first_few(reasons)))
    if scene.hidden:
        raise Unknown(
            _(
                "only root can examine {folders}, where other users' servers may be",
                folders=", ".join(first_few(scene.hidden)),
            ),
            advisory=not host.identity.is_root,
        )


SHOWN = 20


def first_few(texts: Sequence[str]) -> list[str]:
    """Return the first SHOWN texts: any user can create thousands of folders."""
    return [*texts[:SHOWN], *(["..."] if texts[SHOWN:] else [])]


def _report_orphan_segment(host: Host, state: SegmentState) -> Finding:
    """Report a segment that is proven to belong to a dead server."""
    from npudoctor.checks.leftovers import _cache_server_steps as steps
    from npudoctor.proof import leftovers

    segment = state.segment
    evidence = leftovers.segment_evidence(state)
    # A start on the same port removes a segment that nobody has attached, and --stop removes the rest; tried
    # with MindSpore 2.7.0 and 2.10.0.
    if state.socket is not None:
        evidence += (
            _(
                "MindSpore can remove the socket and the segment itself: dataset-cache --start -p {port}, "
                "then --stop",
                port=state.socket.port,
            ),
        )
    return Finding(
        "cache-server.orphan-segment",
        _(
            "a dead cache server left the shared memory segment {shmid} of {size}",
            shmid=segment.shmid,
            size=leftovers.format_size(segment.size),
        ),
        evidence=evidence,
        action=Action.CLEANUP,
        fix=_safe_fix(
            host,
            _("remove the shared memory of the dead cache server"),
            steps.remove_segment(segment, state.log),
            segment.cuid,
        ),
    )


def _report_attached_client(host: Host, state: SegmentState) -> Finding:
    """Report a dead server's segment that clients have attached: they must end first."""
    from npudoctor.proof import leftovers

    segment = state.segment
    pids = host.processes.mappers(segment.shmid)
    clients = ", ".join(f"{pid} ({host.processes.program(pid) or '?'})" for pid in pids)
    # nattch counts the attachments of every pid namespace; `pids` are those that are visible here.
    unseen = segment.nattch - len(pids)
    evidence = leftovers.segment_evidence(state)
    if unseen > 0:
        evidence += (_("{count} attachments are not visible from here", count=unseen),)
    steps = (Command(("kill", *map(str, pids))),) if pids else ()
    return Finding(
        "cache-server.client-attached",
        _(
            "the cache server of segment {shmid} is dead, but clients hold its {size}: {clients}",
            shmid=segment.shmid,
            size=leftovers.format_size(segment.size),
            clients=clients or "?",
        ),
        evidence=evidence,
        action=Action.RESTART_JOB,
        fix=Fix(_("end these clients first, then run the fix again"), steps=steps, risk=Risk.MANUAL),
    )


def _report_orphan_socket(host: Host, stale: StaleSocket) -> Finding:
    """Report a socket file on which no process listens any more."""
    from npudoctor.checks.leftovers import _cache_server_steps as steps

    entry = stale.file.entry
    return Finding(
        "cache-server.orphan-socket",
        _("a dead cache server left its socket {path}", path=stale.file.path),
        evidence=(
            _(
                "owner {owner} inode {inode} key 0x{key:08x}",
                owner=user_name(entry.uid),
                inode=entry.ino,
                key=stale.file.key,
            ),
        ),
        action=Action.CLEANUP,
        fix=_safe_fix(
            host,
            _("remove the socket of the dead cache server"),
            steps.remove_socket(stale),
            entry.uid,
        ),
    )


def _report_orphan_spill(host: Host, spill: ProvenSpill) -> Finding:
    """Report spilled data of a server that is proven dead."""
    from npudoctor.checks.leftovers import _cache_server_steps as steps
    from npudoctor.proof import leftovers

    folder = spill.folder
    size = leftovers.format_size(folder.size)
    return Finding(
        "cache-server.orphan-spill",
        _("a dead cache server left spilled data in {path}: {size}", path=folder.path, size=size),
        evidence=(_("named in {path}", path=spill.log.path),),
        action=Action.CLEANUP,
        fix=_safe_fix(
            host,
            _("remove the spilled data of the dead cache server"),
            steps.remove_spill(folder),
            folder.entry.uid,
        ),
    )


def _report_proven(host: Host, leftovers: Leftovers) -> Iterator[Finding]:
    """Report what is proven to belong to dead servers, and segments of dead servers that clients hold."""
    from npudoctor.checks.leftovers import _cache_server_steps as steps
    from npudoctor.checks.leftovers._owner_summaries import summarize_by_owner

    text = _("dead cache servers left {count} shared memory segments of user {owner}, {size} in all: {names}")
    yield from summarize_by_owner(
        host, leftovers.orphans, _creator, partial(_report_orphan_segment, host), text, _shmid, _size
    )
    text = _(
        "clients hold {count} segments of user {owner}, {size} in all, whose cache servers are dead: {names}"
    )
    yield from summarize_by_owner(
        host, leftovers.attached, _creator, partial(_report_attached_client, host), text, _shmid, _size
    )
    text = _("dead cache servers left {count} sockets of user {owner}: {names}")
    yield from summarize_by_owner(
        host, leftovers.sockets, lambda stale: stale.file.entry.uid, partial(_report_orphan_socket, host),
        text, lambda stale: stale.file.path,
    )  # fmt: skip
    for socket in leftovers.displaced:
        # An interrupted removal of npudoctor renamed the socket of a server that still runs.
        yield Finding(
            "cache-server.orphan-socket",
            _("an interrupted removal renamed the socket {path} of a running server", path=socket.original),
            action=Action.CLEANUP,
            fix=_safe_fix(
                host, _("restore the socket's name"), steps.restore_socket(socket), socket.entry.uid
            ),
        )
    text = _(
        "dead cache servers left spilled data in {count} folders of user {owner}, {size} in all: {names}"
    )
    yield from summarize_by_owner(
        host, leftovers.spills, lambda spill: spill.folder.entry.uid, partial(_report_orphan_spill, host),
        text, lambda spill: spill.folder.path, lambda spill: spill.folder.size,
    )  # fmt: skip


def _report_unproven(host: Host, leftovers: Leftovers) -> Iterator[Finding]:
    """Report what looks like a cache server's leftover without proof: it is shown and never removed."""
    from npudoctor.checks.leftovers._owner_summaries import summarize_by_owner

    # Unattached segments first, because a person may have to act on them. Those that are only too new come
    # separately: a later run can prove them.
    for kind in ((False, False), (False, True), (True, False), (True, True)):
        segments = [
            state
            for state in leftovers.unproven_segments
            if (bool(state.segment.nattch), bool(state.ready_in)) == kind
        ]
        text = _(
            "{count} segments of user {owner}, {size} in all, may belong to dead cache servers; this is "
            "not proven: {names}"
        )
        yield from summarize_by_owner(host, segments, _creator, _report_unproven_segment, text, _shmid, _size)
    text = _("{count} sockets of user {owner} may belong to dead cache servers; this is not proven: {names}")
    yield from summarize_by_owner(
        host, leftovers.unproven_sockets, lambda state: state.file.entry.uid, _report_unproven_socket, text,
        lambda state: state.file.path,
    )  # fmt: skip
    folders = [
        *(((spill.folder or spill.log).entry.uid, spill.path, spill.folder, spill.why)
          for spill in leftovers.unproven_spills),
        *((folder.entry.uid, folder.path, folder, _("no log mentions it")) for folder in leftovers.unlogged),
    ]  # fmt: skip
    text = _(
        "{count} folders of user {owner}, {size} in all, may contain spilled data of dead cache "
        "servers; this is not proven: {names}"
    )
    yield from summarize_by_owner(
        host, folders, lambda row: row[0], lambda row: _report_unproven_folder(*row[1:]), text,
        lambda row: row[1], lambda row: row[2].size if row[2] else 0,
    )  # fmt: skip
    yield from _report_uninspected(leftovers)


def _creator(state: SegmentState) -> int:
    return state.segment.cuid


def _size(state: SegmentState) -> int:
    return state.segment.size


def _shmid(state: SegmentState) -> str:
    return str(state.segment.shmid)


def _report_unproven_segment(state: SegmentState) -> Finding:
    from npudoctor.checks.leftovers import _cache_server_steps as steps
    from npudoctor.proof import leftovers

    segment = state.segment
    words = {"shmid": segment.shmid, "size": leftovers.format_size(segment.size)}
    fix: Optional[Fix]
    if state.ready_in and not segment.nattch:
        # Its server may still be starting; a later run can decide, so nobody needs to remove it by hand.
        message = _(
            "the shared memory segment {shmid} of {size} is too new to be judged: its server may be starting",
            **words,
        )
        title = _("run the check again in {seconds} s", seconds=math.ceil(state.ready_in) + 1)
        fix = Fix(title, risk=Risk.MANUAL, needs_root=False, unproven=True)
    else:
        message = _(
            "the shared memory segment {shmid} of {size} may belong to a dead cache server; this is not "
            "proven",
            **words,
        )
        # No command for a segment that a process has attached: it is in use.
        fix = None if segment.nattch else _manual_fix(steps.remove_segment(segment))
    return Finding(
        "cache-server.unproven",
        message,
        severity=INFO if segment.nattch else None,
        evidence=leftovers.segment_evidence(state),
        fix=fix,
    )


def _report_unproven_socket(state: SocketState) -> Finding:
    # A socket that answers was renamed by an interrupted removal: the command restores its name.
    from npudoctor.checks.leftovers import _cache_server_steps as steps
    from npudoctor.proof.leftovers import StaleSocket
    from npudoctor.proof.socket import SocketLife

    is_alive = state.state is SocketLife.ALIVE
    step: Step = (
        steps.restore_socket(state.file) if is_alive else steps.remove_socket(StaleSocket(state.file, ()))
    )
    return Finding(
        "cache-server.unproven",
        _("the socket {path} may belong to a dead cache server; this is not proven", path=state.file.path),
        evidence=(state.why,),
        fix=_manual_fix(step),
    )


def _report_uninspected(leftovers: Leftovers) -> Iterator[Finding]:
    """Report how many more objects of each owner were only counted and not examined."""
    from npudoctor.checks.leftovers._owner_summaries import FEW

    for group in leftovers.passed[:FEW]:
        message = _(
            "user {owner} has {count} more sockets, folders and links named like a cache server's,"
            " too many to check",
            owner=user_name(group.uid),
            count=group.count,
        )
        yield Finding("cache-server.unproven", message, fix=_manual_fix())
    rest = leftovers.passed[FEW:]
    if rest:
        message = _(
            "{owners} more users have {count} sockets, folders and links named like a cache server's,"
            " too many to check",
            owners=len(rest),
            count=sum(group.count for group in rest),
        )
        yield Finding("cache-server.unproven", message, fix=_manual_fix())


def _report_unproven_folder(path: str, folder: Optional[SpillFolder], why: str) -> Finding:
    from npudoctor.checks.leftovers import _cache_server_steps as steps

    return Finding(
        "cache-server.unproven",
        _("the folder {path} may contain spilled data of a dead cache server; this is not proven", path=path),
        evidence=(why,),
        # A command only if the folder holds nothing but spill containers (IMG00000.LB): a log may name any
        # folder.
        fix=_manual_fix(steps.remove_spill(folder)) if folder and folder.plain else _manual_fix(),
    )


def _safe_fix(host: Host, title: str, step: Step, owner: int) -> Fix:
    return Fix(title, steps=(step,), risk=Risk.SAFE, needs_root=owner != host.identity.euid)


def _manual_fix(*steps: Step) -> Fix:
    title = _("only when you are sure that nothing uses it")
    if not steps:
        title = _("remove them by hand, only when you are sure that nothing uses them")
    return Fix(title, steps=steps, risk=Risk.MANUAL, unproven=True)
