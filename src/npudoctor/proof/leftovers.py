"""Sorts what cache servers left: proven dead, held by clients, unproven; and says why in words."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.facts.leftovers.cache_server import SocketFile, SpillFolder
from npudoctor.host.users.identity import user_name
from npudoctor.proof.creator import Life, creator_life
from npudoctor.proof.segment import SegmentKind, SegmentState, candidate, created_together, judge_segment
from npudoctor.proof.snapshot import YOUNG, Snapshot
from npudoctor.proof.socket import SocketState, State, judge_socket, was_displaced
from npudoctor.proof.spill import ProvenSpill, SpillState, find_crowds, judge_spills, unlogged_folders

UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))


@dataclass(frozen=True)
class StaleSocket:
    """A socket file proven dead, and the segments whose proof it is: they go first."""

    file: SocketFile
    after: tuple[int, ...]


@dataclass(frozen=True)
class PassedOver:
    """What of one owner is too much to be judged one by one: socket files, folders of login names, and
    folders that logs name."""

    uid: int
    sockets: int
    folders: int
    spills: int

    @property
    def count(self) -> int:
        return self.sockets + self.folders + self.spills


@dataclass(frozen=True)
class Leftovers:
    """Everything worth a word, sorted."""

    orphans: tuple[SegmentState, ...]
    attached: tuple[SegmentState, ...]
    unproven_segments: tuple[SegmentState, ...]
    sockets: tuple[StaleSocket, ...]
    displaced: tuple[SocketFile, ...]
    unproven_sockets: tuple[SocketState, ...]
    spills: tuple[ProvenSpill, ...]
    unproven_spills: tuple[SpillState, ...]
    unlogged: tuple[SpillFolder, ...]
    passed: tuple[PassedOver, ...] = ()


def judge_leftovers(snapshot: Snapshot) -> Leftovers:
    """Judge sockets, then segments by them, then spilled data by both."""
    states = [judge_socket(snapshot, socket_file) for socket_file in snapshot.sockets]
    of_key: dict[int, list[SocketState]] = {}
    for state in states:
        of_key.setdefault(state.file.key, []).append(state)
    segments = [
        judge_segment(snapshot, segment, of_key.get(segment.key, []))
        for segment in snapshot.segments
        if candidate(segment)
    ]
    spills = judge_spills(snapshot, segments, states)
    pending = [judged for judged in segments if judged.kind in (SegmentKind.ATTACHED, SegmentKind.UNPROVEN)]
    keys = {segment.key for segment in snapshot.segments}
    dead = [state.file for state in states if state.state is State.DEAD and not _proves(state.file, pending)]
    in_use = [
        state
        for socket_file in dead
        if socket_file.key in keys
        for state in _in_use(snapshot, socket_file, segments)
    ]
    used = {id(state.file) for state in in_use}
    parked = [state for state in states if state.file.parked and state.state is State.ALIVE]
    of_kind = {kind: tuple(judged for judged in segments if judged.kind is kind) for kind in SegmentKind}
    sockets, folders, logs = snapshot.passed_sockets, snapshot.passed_folders, find_crowds(snapshot)
    return Leftovers(
        orphans=of_kind[SegmentKind.ORPHAN],
        attached=of_kind[SegmentKind.ATTACHED],
        unproven_segments=of_kind[SegmentKind.UNPROVEN],
        sockets=tuple(
            StaleSocket(socket_file, _after(socket_file, segments) if socket_file.key in keys else ())
            for socket_file in dead
            if id(socket_file) not in used
        ),
        displaced=tuple(state.file for state in parked if was_displaced(snapshot, state.file)),
        unproven_sockets=(
            *(state for state in states if _worth_showing(snapshot, state)),
            *in_use,
            *(state for state in parked if not was_displaced(snapshot, state.file)),
        ),
        spills=tuple(
            ProvenSpill(state.folder, state.log) for state in spills if state.folder and not state.why
        ),
        unproven_spills=tuple(state for state in spills if state.why and not _is_of_pending(state, pending)),
        unlogged=tuple(unlogged_folders(snapshot)),
        passed=tuple(
            PassedOver(uid, sockets.get(uid, 0), folders.get(uid, 0), logs.get(uid, 0))
            for uid in sorted({*sockets, *folders, *logs})
        ),
    )


def _after(socket_file: SocketFile, segments: Sequence[SegmentState]) -> tuple[int, ...]:
    """The segments whose proof the file is: they go first. Apart, as the rules below, to be read alone."""
    return tuple(
        judged.segment.shmid
        for judged in segments
        if judged.kind is SegmentKind.ORPHAN and judged.segment.key == socket_file.key
    )


def _proves(socket_file: SocketFile, pending: Sequence[SegmentState]) -> bool:
    """Whether the file is the proof of a segment that cannot go yet: then it stays too."""
    return any(
        judged.segment.key == socket_file.key and created_together(socket_file, judged.segment)
        for judged in pending
    )


def _in_use(
    snapshot: Snapshot, socket_file: SocketFile, segments: Sequence[SegmentState]
) -> Iterator[SocketState]:
    """What says that the maker of a dead-looking socket lives: a segment made with it that is in use."""
    orphans = {judged.segment.shmid for judged in segments if judged.kind is SegmentKind.ORPHAN}
    for segment in snapshot.segments:
        if (
            segment.key == socket_file.key
            and created_together(socket_file, segment)
            and segment.shmid not in orphans
        ):
            made_by = creator_life(snapshot.host, segment.cpid, segment.ctime)
            if segment.nattch or made_by.life is not Life.DEAD:
                why = _("segment {id}, which was created with it, is in use", id=segment.shmid)
                yield SocketState(socket_file, State.UNKNOWN, why)


def _worth_showing(snapshot: Snapshot, state: SocketState) -> bool:
    """An unclear socket is shown to its owner; not one so young that its server may be starting."""
    entry = state.file.entry
    ours = entry.uid == snapshot.host.identity.euid or snapshot.host.identity.is_root
    return state.state is State.UNKNOWN and ours and snapshot.now - entry.mtime_ns / 1e9 > YOUNG


def _is_of_pending(state: SpillState, pending: Sequence[SegmentState]) -> bool:
    """Whether its server's segment, which cannot go yet, is told already."""
    return any(
        judged.segment.cpid == state.log.pid
        and judged.segment.key in {line.key for line in state.log.created}
        for judged in pending
    )


def segment_evidence(judged: SegmentState) -> tuple[str, ...]:
    """A segment in the words of ipcs, and what proves or is missing."""
    segment = judged.segment
    lines = [
        _(
            "shmid {shmid} key 0x{key:08x} owner {owner} mode {mode:o} bytes {size} nattch {nattch} cpid "
            "{cpid}",
            shmid=segment.shmid,
            key=segment.key,
            owner=user_name(segment.cuid),
            mode=segment.permissions,
            size=segment.size,
            nattch=segment.nattch,
            cpid=segment.cpid,
        ),
        _(
            "created {created}, last detached {detached}",
            created=format_time(segment.ctime),
            detached=format_time(segment.dtime),
        ),
    ]
    if judged.proof == "A" and judged.socket:
        lines.append(_("proof A: its key matches the key of socket {path}", path=judged.socket.path))
    if judged.proof == "B" and judged.log:
        lines.append(_("proof B: its creator logged the key in {path}", path=judged.log.path))
    if judged.why:
        lines.append(judged.why)
    return tuple(lines)


def format_size(size: int) -> str:
    """A size as a person says it."""
    unit, name = next(((unit, name) for unit, name in UNITS if size >= unit), UNITS[-1])
    value = size / unit
    return f"{value:.0f} {name}" if value >= 100 else f"{value:.3g} {name}"


def format_time(seconds: int) -> str:
    """A time of the kernel's tables, in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else "-"
