"""Whether a folder of spilled data is a dead cache server's, by its log and the time of the death."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Optional, Union

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.facts.leftovers.cache_log import ServerLog
from npudoctor.facts.leftovers.cache_server import (
    CONTAINER,
    LOGINS,
    SPILL,
    SpillFolder,
    limit_by_owner,
    spill_folder,
    trusted_owners,
)
from npudoctor.host import CannotTell
from npudoctor.proof.creator import Life, creator_life
from npudoctor.proof.segment import TOGETHER, SegmentKind, SegmentState, is_trusted_log
from npudoctor.proof.snapshot import ServerSnapshot
from npudoctor.proof.socket import SocketLife, SocketState, why_untrusted
from npudoctor.proof.users import why_open

NAMED = 2000  # folders that the logs of one other owner may name


@dataclass(frozen=True)
class SpillState:
    """A folder that a log names. `why`: "" when it is proven a dead server's; `log`: the proof; `folder`:
    None when it cannot be looked into.
    """

    path: str
    folder: Optional[SpillFolder]
    log: ServerLog
    why: str = ""
    living: bool = False


@dataclass(frozen=True)
class ProvenSpill:
    """A folder proven a dead server's, and the log that names it."""

    folder: SpillFolder
    log: ServerLog


@dataclass(frozen=True)
class Death:
    """When a server died, in whole seconds since the epoch, and how that is known."""

    when: int
    known_by: str


def judge_spills(
    snapshot: ServerSnapshot, segments: Sequence[SegmentState], sockets: Sequence[SocketState]
) -> list[SpillState]:
    """Judge every folder that a log names and that still exists; without those of living servers.

    Only its owner's logs count: anybody may write one that names another user's folder. When several name it,
    none may contradict its removal.
    """
    by_path: dict[str, list[SpillState]] = {}
    crowds = find_crowds(snapshot)
    for log in snapshot.logs:
        for path in log.spills if log.entry.uid not in crowds else ():
            state = _judge_folder(snapshot, path, log, segments, sockets)
            if state is not None:
                by_path.setdefault(state.path, []).append(state)
    return [
        next((state for state in states if state.why), states[0])
        for states in by_path.values()
        if not any(state.living for state in states)
    ]


def find_crowds(snapshot: ServerSnapshot) -> dict[int, int]:
    """The owners (uid) of logs that name more folders than are looked at, and how many they name.

    None of them is judged: each log could say that a folder which another one names is a living server's.
    """
    count: Counter[int] = Counter()
    for log in snapshot.logs:
        count[log.entry.uid] += len(log.spills)
    return {uid: many for uid, many in count.items() if many > NAMED and uid not in trusted_owners()}


def _judge_folder(
    snapshot: ServerSnapshot,
    logged_path: str,
    log: ServerLog,
    segments: Sequence[SegmentState],
    sockets: Sequence[SocketState],
) -> Optional[SpillState]:
    path, folder, trouble, owner = _locate(snapshot, logged_path)
    if folder is None and not trouble:
        return None
    if owner not in (log.entry.uid, None):
        return None
    death = _find_death(snapshot, log, segments, sockets)
    if death is None:
        return SpillState(path, folder, log, living=True)
    if folder is None or isinstance(death, str):
        return SpillState(path, folder, log, trouble or str(death))
    return SpillState(path, folder, log, next(_find_against(snapshot, folder, log, death), ""))


def _locate(
    snapshot: ServerSnapshot, logged_path: str
) -> tuple[str, Optional[SpillFolder], str, Optional[int]]:
    """(real path, folder, what prevents looking into it, uid of its owner as far as that can be seen); all
    empty when it is gone.

    The folders above may be reached through links; judged and removed is where they lead.
    """
    files = snapshot.host.files
    try:
        entry, real = files.lstat(logged_path), files.real(logged_path)
        # The server makes folders; a link was put there by somebody.
        if entry is not None and entry.is_link:
            return logged_path, None, _("it is a symbolic link"), entry.uid
        if entry is None or real is None:
            return logged_path, None, "", None
        if files.may_block(real):
            return real, None, _("it is on a file system that may block"), entry.uid
        folder = spill_folder(real)
        return real, folder, "", folder.entry.uid if folder else None
    except (CannotTell, OSError):
        return (
            logged_path,
            None,
            _("this user has no permission to look into it"),
            _owner_of(snapshot, logged_path),
        )


def _owner_of(snapshot: ServerSnapshot, path: str) -> Optional[int]:
    try:
        entry = snapshot.host.files.lstat(path)
    except CannotTell:
        return None
    return entry.uid if entry else None


def _find_death(
    snapshot: ServerSnapshot, log: ServerLog, segments: Sequence[SegmentState], sockets: Sequence[SocketState]
) -> Union[Death, str, None]:
    """When the writer of a log died; None while it lives; a sentence when that cannot be determined."""
    # /tmp may be shared storage: the server may live on another machine.
    if log.machine != snapshot.host.system.name:
        return _("its log comes from the machine {name}", name=log.machine or "?")
    if log.last is None:
        return _("its log does not say when it was written")
    for segment_state in segments:
        if _is_logged(log, segment_state.segment.key, segment_state.segment.ctime):
            death = _death_of(segment_state)
            # The log may call its process by the pid of another namespace. Then this segment can show
            # that it is not dead, and not more.
            if segment_state.segment.cpid == log.pid or not isinstance(death, Death):
                return death
    removed = _find_recorded_death(snapshot, log)
    if removed is not None:
        return removed
    writer = creator_life(snapshot.host, log.pid, log.last)
    if writer.life is Life.ALIVE:
        return None
    if writer.life is Life.UNKNOWN:
        return writer.why
    if any(_may_be_socket_of(state, log) for state in sockets):
        return _("a server may still answer at its socket")
    return snapshot.why_crowded(log.entry.uid) or Death(log.entry.mtime_ns // 1_000_000_000, "log")


def _death_of(segment_state: SegmentState) -> Union[Death, str, None]:
    """When a server died: when it detached from its segment, once nobody is attached any more. None while it
    lives; a sentence when unknown.
    """
    if segment_state.kind is SegmentKind.LIVING:
        return None
    if segment_state.kind is not SegmentKind.ORPHAN:
        return _("its server is not proven dead: {why}", why=segment_state.why or _("clients are attached"))
    died = segment_state.segment.dtime
    return Death(died, "segment") if died else _("could not determine when it died")


def _is_logged(log: ServerLog, key: int, ctime: int) -> bool:
    """Return whether this log says that its process made a segment of this key at this time."""
    return any(line.key == key and abs(line.when - ctime) <= TOGETHER for line in log.created)


def _find_recorded_death(snapshot: ServerSnapshot, log: ServerLog) -> Optional[Death]:
    """The death as an earlier run of ours recorded it before it removed the segment, in this boot; None
    without such.
    """
    boot = snapshot.host.system.boot_id()
    names = ("cpid", "key", "ctime", "dtime", "log_device", "log_inode")
    for record in snapshot.host.records.steps_of_kind("RemoveSharedMemory"):
        if not boot or record.data.get("boot_id") != boot:
            continue
        try:
            cpid, key, ctime, dtime, *which = (int(str(record.step[name])) for name in names)
        # A journal of an older version, without these fields.
        except (KeyError, ValueError):
            continue
        # The inode tells the log of this server from one of a later server with the same pid.
        same = cpid == log.pid and which == [log.entry.dev, log.entry.ino]
        if dtime and same and _is_logged(log, key, ctime):
            return Death(dtime, "journal")
    return None


def _may_be_socket_of(state: SocketState, log: ServerLog) -> bool:
    """Return whether the socket at which a server answers may belong to the writer of this log.

    Its pid can be that of another namespace: then it seems gone and is not. Depending on the version the log
    lies beside the socket, one folder below, or two. A socket made after the log's last line belongs to a
    later server.
    """
    beside = os.path.dirname(log.path)
    below = os.path.dirname(beside)
    made = state.file.entry.mtime_ns // 1_000_000_000
    return (
        state.state not in (SocketLife.DEAD, SocketLife.NO_SOCKET)
        and state.file.directory in (beside, below, os.path.dirname(below))
        and log.port in (state.file.port, None)
        and made <= (log.last or 0) + TOGETHER
    )


def _find_against(
    snapshot: ServerSnapshot, folder: SpillFolder, log: ServerLog, death: Death
) -> Iterator[str]:
    """Yield what contradicts the removal of a folder that a dead server's log names.

    Whether a living server spills to the folder above need not be looked at: the dead server invented the
    name of this folder, and a folder in a living server's log is never judged here.
    """
    entry = folder.entry
    # The server makes the folder with 0700.
    if not SPILL.match(os.path.basename(folder.path)) or entry.permissions != 0o700:
        yield _("its name or mode does not match a cache server's")
    if not is_trusted_log(log, entry.uid):
        yield _("other users could have written the log that mentions it")
    if not folder.plain:
        yield _("it contains more than spilled data of a cache server")
    # Somebody else uses the folder since.
    if folder.newest is not None and folder.newest > death.when:
        yield _("it was written after its server died")
    way = why_untrusted(folder.parents, entry.uid, snapshot.host.identity.euid)
    if way:
        yield way
    holder = why_open(snapshot.host, folder)
    if holder:
        yield holder


def find_unlogged_folders(snapshot: ServerSnapshot) -> list[SpillFolder]:
    """Folders of ours at the old default places that look like spilled data and that no log of their owner
    names.
    """
    logged = {(path, log.entry.uid) for log in snapshot.logs for path in log.spills}
    identity = snapshot.host.identity
    folders = []
    for root in (snapshot.tmp, f"{snapshot.tmp}/mindspore/cache"):
        try:
            names = snapshot.host.files.names(root)
        except CannotTell:
            continue  # not ours to look into, which is said already
        paths = [f"{root}/{name}" for name in names if SPILL.match(name)]
        owners = {
            path: _owner_of(snapshot, path) for path in paths if not snapshot.host.files.may_block(path)
        }
        for path in limit_by_owner({path: uid for path, uid in owners.items() if uid is not None}, LOGINS)[0]:
            try:
                folder = spill_folder(path)
            # A link, or closed to us: such a folder is not shown.
            except OSError:
                continue
            if folder is None or (path, folder.entry.uid) in logged:
                continue
            ours = identity.is_root or folder.entry.uid == identity.euid
            if ours and any(CONTAINER.match(file) for file, _entry in folder.files):
                folders.append(folder)
    return folders
