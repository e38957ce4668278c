"""Whether a System V segment is a dead cache server's: proof A by its socket, proof B by its log."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.facts.leftovers.cache_log import ServerLog
from npudoctor.facts.leftovers.cache_server import SocketFile
from npudoctor.host.process.sysvipc import Segment
from npudoctor.proof.creator import Life, creator_life
from npudoctor.proof.snapshot import ServerSnapshot
from npudoctor.proof.socket import SocketLife, SocketState

GIB = 1 << 30
PROJECT = 0x61  # the project id of ftok(): the highest byte of every cache server's key
TOGETHER = 3  # seconds within which a server binds its socket, makes its segment and logs the key
# 0600 since the path scheme of 2.x; r1.0 made segments with 0666.
MODES, OLD_MODES = (0o600,), (0o600, 0o666)


class SegmentKind(enum.Enum):
    """What a segment is to us."""

    LIVING = "living"  # a living server's, or another living program's
    ORPHAN = "orphan"  # proven dead, nobody attached
    ATTACHED = "attached"  # proven dead, but clients hold it
    UNPROVEN = "unproven"


@dataclass(frozen=True)
class SegmentState:
    """A segment and its kind. `proof`: "A" or "B"; `socket` and `log`: what it rests on; `why`: what was
    missing.

    `ready_in`: the seconds after which it can be judged, where only the youth of its socket prevented that.
    """

    segment: Segment
    kind: SegmentKind
    proof: str = ""
    socket: Optional[SocketFile] = None
    log: Optional[ServerLog] = None
    why: str = ""
    ready_in: float = 0.0


def is_candidate(segment: Segment) -> bool:
    """Return whether a segment could belong to a cache server, by its key, size and mode; no evidence by
    itself.
    """
    return segment.key >> 24 == PROJECT and is_cache_size(segment.size) and segment.permissions in OLD_MODES


def is_cache_size(size: int) -> bool:
    """Return whether a size in bytes is a whole number of GiB, as cache servers make them."""
    return size > 0 and size % GIB == 0


def judge_segment(snapshot: ServerSnapshot, segment: Segment, sockets: Sequence[SocketState]) -> SegmentState:
    """Judge a candidate by the judged sockets and the logs."""
    states = [state for state in sockets if state.file.entry.is_socket and state.file.key == segment.key]
    if any(
        state.state is SocketLife.ALIVE and were_created_together(state.file, segment) for state in states
    ):
        return SegmentState(segment, SegmentKind.LIVING)
    # Before the socket: a living creator is enough, whatever its socket looks like.
    made_by = creator_life(snapshot.host, segment.cpid, segment.ctime)
    if made_by.life is Life.ALIVE:
        return SegmentState(segment, SegmentKind.LIVING, why=made_by.why)
    doubts = [made_by.why] if made_by.life is Life.UNKNOWN else []
    unclear = [state for state in states if state.state in (SocketLife.UNKNOWN, SocketLife.ALIVE)]
    doubts += [state.why for state in unclear]
    crowded = snapshot.why_crowded(segment.cuid)
    if crowded:
        doubts.append(crowded)
    # ipcrm on a living server's segment: the key becomes 0, attached processes go on.
    if segment.is_destroyed:
        doubts.append(_("it is already marked for destruction"))
    if doubts:
        young = len(doubts) == len(unclear) and all(state.ready_in for state in unclear)
        ready_in = max(state.ready_in for state in unclear) if young else 0.0
        return SegmentState(segment, SegmentKind.UNPROVEN, why=_("; ").join(doubts), ready_in=ready_in)
    return _prove_orphan(snapshot, segment, states)


def _prove_orphan(snapshot: ServerSnapshot, segment: Segment, states: Sequence[SocketState]) -> SegmentState:
    kind = SegmentKind.ATTACHED if segment.nattch else SegmentKind.ORPHAN
    reasons: list[str] = []
    for state in states:
        against = list(_find_against_a(segment, state.file))
        # One socket that proves it is enough.
        if not against:
            return SegmentState(segment, kind, "A", socket=state.file, log=_find_log(snapshot, segment))
        reasons += against
    against_b = _find_against_b(snapshot, segment)
    log = _find_log(snapshot, segment)
    if log is not None and not against_b:
        return SegmentState(segment, kind, "B", log=log)
    reasons += against_b or [_("no socket has its key, and no log of its creator mentions it")]
    return SegmentState(segment, SegmentKind.UNPROVEN, why=_("; ").join(dict.fromkeys(reasons)))


def _find_against_a(segment: Segment, socket_file: SocketFile) -> Iterator[str]:
    """Yield what contradicts proof A, where the socket is dead and has the segment's key."""
    if not segment.uid == segment.cuid == socket_file.entry.uid:
        yield _("the segment and the socket do not belong to the same user")
    modes = OLD_MODES if socket_file.old else MODES
    if segment.permissions not in modes:
        expected = "|".join(f"{mode:o}" for mode in modes)
        yield _(
            "its mode is {mode:o}, but a cache server creates segments with mode {expected}",
            mode=segment.permissions,
            expected=expected,
        )
    if not is_cache_size(segment.size):
        yield _("its size is not a whole number of GiB")
    if not were_created_together(socket_file, segment):
        yield _("the segment and the socket were not created at the same time")


def were_created_together(socket_file: SocketFile, segment: Segment) -> bool:
    """Return whether both were made within the seconds that a server needs for them."""
    return abs(segment.ctime - socket_file.entry.mtime_ns // 1_000_000_000) <= TOGETHER


def _find_against_b(snapshot: ServerSnapshot, segment: Segment) -> list[str]:
    """What contradicts proof B besides the log itself."""
    against = []
    if segment.uid != segment.cuid:
        against.append(_("its owner is not its creator"))
    if segment.key >> 24 != PROJECT or not is_cache_size(segment.size):
        against.append(_("its size is not a whole number of GiB"))
    for server in snapshot.living.servers:
        logged = any(
            log.pid == server.pid and any(line.key == segment.key for line in log.created)
            for log in snapshot.logs
        )
        # What another user's server maps cannot be read; but it does not own what is not that user's.
        hides = server.keys is None and segment.cuid in server.users
        if hides or segment.key in (server.keys or ()) or logged:
            against.append(_("the running server {pid} may own this key", pid=server.pid))
    return against


def _find_log(snapshot: ServerSnapshot, segment: Segment) -> Optional[ServerLog]:
    """A log of the creator that names this key at the time when the segment was made, and that nobody else
    could have written; None without one.
    """
    for log in snapshot.logs:
        if log.pid == segment.cpid and is_trusted_log(log, segment.cuid):
            for line in log.created:
                if line.key == segment.key and abs(line.when - segment.ctime) <= TOGETHER:
                    return log
    return None


def is_trusted_log(log: ServerLog, owner: int) -> bool:
    """Return whether only `owner` (a uid) or root could have written this log and put it there."""
    entry = log.entry
    own = entry.is_file and entry.nlink == 1 and entry.uid == owner and not entry.permissions & 0o022
    # Whoever may write in a folder above could have put the log there.
    way = all(parent.uid in (0, owner) and not parent.is_writable_by_others for parent in log.parents)
    return own and way
