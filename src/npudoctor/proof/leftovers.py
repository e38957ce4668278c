"""Sorts what cache servers left: proven dead, held by clients, unproven; and says why in words."""

from __future__ import annotations

import time
from collections.abc import Sequence

from npudoctor.fixing.steps import FileMark, RemoveFiles, RemoveSharedMemory, RemoveSocket, RestoreSocket
from npudoctor.frozen import dataclass
from npudoctor.host.cacheserver import SocketFile, SpillFolder
from npudoctor.host.identity import user_name
from npudoctor.host.records import Record
from npudoctor.host.sysvipc import Segment
from npudoctor.messages import _
from npudoctor.proof.scene import YOUNG, Scene
from npudoctor.proof.segment import TOGETHER, Judged, Kind, candidate, judge_segment
from npudoctor.proof.socket import SocketState, State, judge_socket
from npudoctor.proof.spill import ProvenSpill, SpillState, judge_spills, unlogged_folders


@dataclass(frozen=True)
class StaleSocket:
    """A socket file proven dead, and the segments whose proof it is: they go first."""

    file: SocketFile
    after: tuple[int, ...]


@dataclass(frozen=True)
class Seen:
    """Everything worth a word, sorted."""

    orphans: tuple[Judged, ...]
    attached: tuple[Judged, ...]
    unproven_segments: tuple[Judged, ...]
    sockets: tuple[StaleSocket, ...]
    displaced: tuple[SocketFile, ...]
    unproven_sockets: tuple[SocketState, ...]
    spills: tuple[ProvenSpill, ...]
    unproven_spills: tuple[SpillState, ...]
    unlogged: tuple[SpillFolder, ...]


def judge(scene: Scene) -> Seen:
    """Judge sockets, then segments by them, then spilled data by both."""
    states = [judge_socket(scene, found) for found in scene.sockets]
    segments = [
        judge_segment(scene, segment, states) for segment in scene.segments if candidate(segment)
    ]
    spills = [state for state in judge_spills(scene, segments, states) if not state.living]
    pending = [judged for judged in segments if judged.kind in (Kind.ATTACHED, Kind.UNPROVEN)]
    recorded = {_identity(record) for record in scene.host.records.steps("RemoveSocket")}
    known = [
        state
        for state in states
        if not state.file.parked or (state.file.entry.dev, state.file.entry.ino) in recorded
    ]
    return Seen(
        orphans=_of(segments, Kind.ORPHAN),
        attached=_of(segments, Kind.ATTACHED),
        unproven_segments=_of(segments, Kind.UNPROVEN),
        sockets=tuple(
            StaleSocket(state.file, _after(state.file, segments))
            for state in known
            if state.state is State.DEAD and not _withheld(state.file, pending)
        ),
        displaced=tuple(
            state.file for state in known if state.file.parked and state.state is State.ALIVE
        ),
        unproven_sockets=tuple(
            state for state in states if _worth_showing(scene, state) or state not in known
        ),
        spills=tuple(
            ProvenSpill(state.folder, state.log) for state in spills if state.folder and not state.why
        ),
        unproven_spills=tuple(
            state for state in spills if state.why and not _of_pending(state, pending)
        ),
        unlogged=tuple(unlogged_folders(scene)),
    )


def _of(segments: Sequence[Judged], kind: Kind) -> tuple[Judged, ...]:
    return tuple(judged for judged in segments if judged.kind is kind)


def _after(found: SocketFile, segments: Sequence[Judged]) -> tuple[int, ...]:
    return tuple(
        judged.segment.shmid
        for judged in segments
        if judged.kind is Kind.ORPHAN and judged.segment.key == found.key
    )


def _withheld(found: SocketFile, pending: Sequence[Judged]) -> bool:
    """Whether the file is the proof of a segment that cannot go yet: then it stays too."""
    made = found.entry.mtime_ns // 1_000_000_000
    return any(
        judged.segment.key == found.key and abs(judged.segment.ctime - made) <= TOGETHER
        for judged in pending
    )


def _worth_showing(scene: Scene, state: SocketState) -> bool:
    """An unclear socket is shown to its owner; not one so young that its server may be starting."""
    entry = state.file.entry
    ours = entry.uid == scene.host.identity.euid or scene.host.identity.is_root
    return state.state is State.UNKNOWN and ours and scene.now - entry.mtime_ns / 1e9 > YOUNG


def _of_pending(state: SpillState, pending: Sequence[Judged]) -> bool:
    return any(
        judged.segment.cpid == state.log.pid
        and judged.segment.key in {line.key for line in state.log.created}
        for judged in pending
    )


def _identity(record: Record) -> tuple[object, object]:
    return record.step.get("device"), record.step.get("inode")


def remove_segment(segment: Segment) -> RemoveSharedMemory:
    """The step that removes this very segment."""
    return RemoveSharedMemory(
        segment.shmid, segment.key, segment.cpid, segment.ctime, segment.dtime, segment.size, segment.cuid
    )


def remove_socket(stale: StaleSocket) -> RemoveSocket:
    """The step that removes this very socket file."""
    entry = stale.file.entry
    return RemoveSocket(stale.file.path, entry.dev, entry.ino, entry.uid, stale.file.port, stale.after)


def restore_socket(found: SocketFile) -> RestoreSocket:
    """The step that gives a living server's socket its name back."""
    entry = found.entry
    return RestoreSocket(found.path, found.original, entry.dev, entry.ino, entry.uid)


def remove_spill(folder: SpillFolder) -> RemoveFiles:
    """The step that removes the files of this very folder, then the folder."""
    marks = tuple(
        FileMark(name, file.dev, file.ino, file.size, file.mtime_ns) for name, file in folder.files
    )
    return RemoveFiles(folder.path, folder.entry.dev, folder.entry.ino, folder.entry.uid, marks)


def segment_evidence(judged: Judged) -> tuple[str, ...]:
    """A segment in the words of ipcs, and what proves or is missing."""
    segment = judged.segment
    lines = [
        f"shmid {segment.shmid} key 0x{segment.key:08x} owner {user_name(segment.cuid)}"
        f" mode {segment.permissions:o} bytes {segment.size} nattch {segment.nattch} cpid {segment.cpid}",
        f"created {moment(segment.ctime)} last detached {moment(segment.dtime)}",
    ]
    if judged.proof == "A" and judged.socket:
        lines.append(_("proof A: the key is that of {path}").format(path=judged.socket.path))
    if judged.proof == "B" and judged.log:
        lines.append(_("proof B: its creator logged the key in {path}").format(path=judged.log.path))
    if judged.why:
        lines.append(judged.why)
    return tuple(lines)


def gib(size: int) -> str:
    """A size as a person says it."""
    return f"{size / (1 << 30):.3g} GiB"


def moment(seconds: int) -> str:
    """A time of the kernel's tables, in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else "-"
