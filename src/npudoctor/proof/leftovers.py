"""Sorts what cache servers left: proven dead, held by clients, unproven; and says why in words."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.facts.leftovers.cache_server import SocketFile, SpillFolder
from npudoctor.host.users.identity import user_name
from npudoctor.proof.creator import Life, creator_life
from npudoctor.proof.segment import (
    SegmentKind,
    SegmentState,
    is_candidate,
    judge_segment,
    were_created_together,
)
from npudoctor.proof.snapshot import YOUNG, ServerSnapshot
from npudoctor.proof.socket import SocketLife, SocketState, judge_socket, was_displaced
from npudoctor.proof.spill import ProvenSpill, SpillState, find_crowds, find_unlogged_folders, judge_spills

UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))


@dataclass(frozen=True)
class StaleSocket:
    """A socket file proven dead, and the segments (shmid) whose proof it is: they are removed first."""

    file: SocketFile
    after: tuple[int, ...]


@dataclass(frozen=True)
class PassedOver:
    """What of one owner (uid) is too much to be judged one by one: socket files, folders of login names, and
    folders that logs name.
    """

    uid: int
    sockets: int
    folders: int
    spills: int

    @property
    def count(self) -> int:
        return self.sockets + self.folders + self.spills


@dataclass(frozen=True)
class Leftovers:
    """Everything worth reporting, sorted."""

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


def judge_leftovers(snapshot: ServerSnapshot) -> Leftovers:
    """Judge sockets, then segments by them, then spilled data by both."""
    states = [judge_socket(snapshot, socket_file) for socket_file in snapshot.sockets]
    of_key: dict[int, list[SocketState]] = {}
    for state in states:
        of_key.setdefault(state.file.key, []).append(state)
    segments = [
        judge_segment(snapshot, segment, of_key.get(segment.key, []))
        for segment in snapshot.segments
        if is_candidate(segment)
    ]
    spills = judge_spills(snapshot, segments, states)
    # Segments that are not removed: what proves them must stay.
    pending = [
        segment_state
        for segment_state in segments
        if segment_state.kind in (SegmentKind.ATTACHED, SegmentKind.UNPROVEN)
    ]
    keys = {segment.key for segment in snapshot.segments}
    dead = [
        state.file
        for state in states
        if state.state is SocketLife.DEAD and not _is_proof_of_pending(state.file, pending)
    ]
    in_use = [
        state
        for socket_file in dead
        if socket_file.key in keys
        for state in _find_living_makers(snapshot, socket_file, segments)
    ]
    used = {id(state.file) for state in in_use}
    # A parked socket at which a server answers: its name is to be given back.
    parked = [state for state in states if state.file.parked and state.state is SocketLife.ALIVE]
    of_kind = {
        kind: tuple(segment_state for segment_state in segments if segment_state.kind is kind)
        for kind in SegmentKind
    }
    sockets, folders, logs = snapshot.passed_sockets, snapshot.passed_folders, find_crowds(snapshot)
    return Leftovers(
        orphans=of_kind[SegmentKind.ORPHAN],
        attached=of_kind[SegmentKind.ATTACHED],
        unproven_segments=of_kind[SegmentKind.UNPROVEN],
        sockets=tuple(
            StaleSocket(
                socket_file, _segments_before(socket_file, segments) if socket_file.key in keys else ()
            )
            for socket_file in dead
            if id(socket_file) not in used
        ),
        displaced=tuple(state.file for state in parked if was_displaced(snapshot, state.file)),
        unproven_sockets=(
            *(state for state in states if _is_worth_showing(snapshot, state)),
            *in_use,
            *(state for state in parked if not was_displaced(snapshot, state.file)),
        ),
        spills=tuple(
            ProvenSpill(state.folder, state.log) for state in spills if state.folder and not state.why
        ),
        unproven_spills=tuple(
            state for state in spills if state.why and not _is_reported_with_segment(state, pending)
        ),
        unlogged=tuple(find_unlogged_folders(snapshot)),
        passed=tuple(
            PassedOver(uid, sockets.get(uid, 0), folders.get(uid, 0), logs.get(uid, 0))
            for uid in sorted({*sockets, *folders, *logs})
        ),
    )


def _segments_before(socket_file: SocketFile, segments: Sequence[SegmentState]) -> tuple[int, ...]:
    """The segments whose proof the file is: they are removed first."""
    return tuple(
        segment_state.segment.shmid
        for segment_state in segments
        if segment_state.kind is SegmentKind.ORPHAN and segment_state.segment.key == socket_file.key
    )


def _is_proof_of_pending(socket_file: SocketFile, pending: Sequence[SegmentState]) -> bool:
    """Return whether the file is the proof of a segment that cannot be removed yet: then it stays too."""
    return any(
        segment_state.segment.key == socket_file.key
        and were_created_together(socket_file, segment_state.segment)
        for segment_state in pending
    )


def _find_living_makers(
    snapshot: ServerSnapshot, socket_file: SocketFile, segments: Sequence[SegmentState]
) -> Iterator[SocketState]:
    """Yield why the maker of a dead-looking socket lives: a segment that was made with it is in use."""
    orphans = {
        segment_state.segment.shmid for segment_state in segments if segment_state.kind is SegmentKind.ORPHAN
    }
    for segment in snapshot.segments:
        if (
            segment.key == socket_file.key
            and were_created_together(socket_file, segment)
            and segment.shmid not in orphans
        ):
            made_by = creator_life(snapshot.host, segment.cpid, segment.ctime)
            if segment.nattch or made_by.life is not Life.DEAD:
                why = _("segment {id}, which was created with it, is in use", id=segment.shmid)
                yield SocketState(socket_file, SocketLife.UNKNOWN, why)


def _is_worth_showing(snapshot: ServerSnapshot, state: SocketState) -> bool:
    """Return whether an unclear socket is shown: to its owner, unless it is so young that its server may be
    starting.
    """
    entry = state.file.entry
    ours = entry.uid == snapshot.host.identity.euid or snapshot.host.identity.is_root
    return state.state is SocketLife.UNKNOWN and ours and snapshot.now - entry.mtime_ns / 1e9 > YOUNG


def _is_reported_with_segment(state: SpillState, pending: Sequence[SegmentState]) -> bool:
    """Return whether its server's segment, which cannot be removed yet, is reported already."""
    return any(
        segment_state.segment.cpid == state.log.pid
        and segment_state.segment.key in {line.key for line in state.log.created}
        for segment_state in pending
    )


def segment_evidence(segment_state: SegmentState) -> tuple[str, ...]:
    """The lines about a segment: as ipcs prints it, and what proves or is missing."""
    segment = segment_state.segment
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
    if segment_state.proof == "A" and segment_state.socket:
        lines.append(_("proof A: its key matches the key of socket {path}", path=segment_state.socket.path))
    if segment_state.proof == "B" and segment_state.log:
        lines.append(_("proof B: its creator logged the key in {path}", path=segment_state.log.path))
    if segment_state.why:
        lines.append(segment_state.why)
    return tuple(lines)


def format_size(size: int) -> str:
    """A size in bytes as a person writes it."""
    unit, name = next(((unit, name) for unit, name in UNITS if size >= unit), UNITS[-1])
    value = size / unit
    return f"{value:.0f} {name}" if value >= 100 else f"{value:.3g} {name}"


def format_time(seconds: int) -> str:
    """A time of the kernel's tables (epoch seconds) in local time; "-" for 0."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else "-"
