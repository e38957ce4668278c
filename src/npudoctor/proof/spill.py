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
from npudoctor.proof.segment import TOGETHER, SegmentKind, SegmentState, trusted_log
from npudoctor.proof.snapshot import Snapshot
from npudoctor.proof.socket import SocketState, State, why_untrusted
from npudoctor.proof.users import users_of

NAMED = 2000  # folders that the logs of one other owner may name


@dataclass(frozen=True)
class SpillState:
    """A folder that a log names. `why` is empty when it is proven a dead server's; `log` is the proof."""

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
    """When a server died, in whole seconds, and how that is known."""

    when: int
    known_by: str


def judge_spills(
    snapshot: Snapshot, segments: Sequence[SegmentState], sockets: Sequence[SocketState]
) -> list[SpillState]:
    """Every folder that a log names and that is still there, but for those of living servers.

    Only its owner's logs are heard: anybody may write one that names another's folder. When several name
    it, nothing may stand against it by any of them.
    """
    by_path: dict[str, list[SpillState]] = {}
    crowds = find_crowds(snapshot)
    for log in snapshot.logs:
        for path in log.spills if log.entry.uid not in crowds else ():
            state = _judge(snapshot, path, log, segments, sockets)
            if state is not None:
                by_path.setdefault(state.path, []).append(state)
    return [
        next((state for state in states if state.why), states[0])
        for states in by_path.values()
        if not any(state.living for state in states)
    ]


def find_crowds(snapshot: Snapshot) -> dict[int, int]:
    """The owners of logs that name more folders than are looked at, and how many those name. None of them is
    judged: each log could say that a folder which another one names is a living server's."""
    count: Counter[int] = Counter()
    for log in snapshot.logs:
        count[log.entry.uid] += len(log.spills)
    return {uid: many for uid, many in count.items() if many > NAMED and uid not in trusted_owners()}


def _judge(
    snapshot: Snapshot,
    named: str,
    log: ServerLog,
    segments: Sequence[SegmentState],
    sockets: Sequence[SocketState],
) -> Optional[SpillState]:
    path, folder, trouble, owner = _locate(snapshot, named)
    if folder is None and not trouble:
        return None
    if owner not in (log.entry.uid, None):
        return None
    death = _death(snapshot, log, segments, sockets)
    if death is None:
        return SpillState(path, folder, log, living=True)
    if folder is None or isinstance(death, str):
        return SpillState(path, folder, log, trouble or str(death))
    return SpillState(path, folder, log, next(_against(snapshot, folder, log, death), ""))


def _locate(snapshot: Snapshot, named: str) -> tuple[str, Optional[SpillFolder], str, Optional[int]]:
    """Where the folder really is, what it is, what keeps us from it, and its owner as far as that can be
    seen; all empty when it is gone.

    The folders above may be reached through links; judged and removed is where they lead.
    """
    files = snapshot.host.files
    try:
        entry, real = files.lstat(named), files.real(named)
        if entry is not None and entry.is_link:
            return named, None, _("it is a symbolic link"), entry.uid
        if entry is None or real is None:
            return named, None, "", None
        if files.may_block(real):
            return real, None, _("it is on a file system that may block"), entry.uid
        folder = spill_folder(real)
        return real, folder, "", folder.entry.uid if folder else None
    except (CannotTell, OSError):
        return named, None, _("this user has no permission to look into it"), _owner(snapshot, named)


def _owner(snapshot: Snapshot, named: str) -> Optional[int]:
    try:
        entry = snapshot.host.files.lstat(named)
    except CannotTell:
        return None
    return entry.uid if entry else None


def _death(
    snapshot: Snapshot, log: ServerLog, segments: Sequence[SegmentState], sockets: Sequence[SocketState]
) -> Union[Death, str, None]:
    """When the writer of a log died; None while it lives; a sentence when that cannot be said."""
    if log.machine != snapshot.host.system.name:
        return _("its log comes from the machine {name}", name=log.machine or "?")
    if log.last is None:
        return _("its log does not say when it was written")
    for judged in segments:
        if _is_logged(log, judged.segment.key, judged.segment.ctime):
            known = _death_of(judged)
            # The log may call its process by the pid of another namespace. Then this segment can show
            # that it is not dead, and not more.
            if judged.segment.cpid == log.pid or not isinstance(known, Death):
                return known
    removed = _find_recorded(snapshot, log)
    if removed is not None:
        return removed
    writer = creator_life(snapshot.host, log.pid, log.last)
    if writer.life is Life.ALIVE:
        return None
    if writer.life is Life.UNKNOWN:
        return writer.why
    if any(_may_be_its(state, log) for state in sockets):
        return _("a server may still answer at its socket")
    return snapshot.why_crowded(log.entry.uid) or Death(log.entry.mtime_ns // 1_000_000_000, "log")


def _death_of(judged: SegmentState) -> Union[Death, str, None]:
    """A server's death is when it let go of its segment, once nobody holds that any more."""
    if judged.kind is SegmentKind.LIVING:
        return None
    if judged.kind is not SegmentKind.ORPHAN:
        return _("its server is not proven dead: {why}", why=judged.why or _("clients are attached"))
    died = judged.segment.dtime
    return Death(died, "segment") if died else _("could not determine when it died")


def _is_logged(log: ServerLog, key: int, ctime: int) -> bool:
    """Whether this log says that its process made a segment of this key at this time."""
    return any(line.key == key and abs(line.when - ctime) <= TOGETHER for line in log.created)


def _find_recorded(snapshot: Snapshot, log: ServerLog) -> Optional[Death]:
    """The death as an earlier run of ours wrote it down before it removed the segment, in this boot."""
    boot = snapshot.host.system.boot_id()
    names = ("cpid", "key", "ctime", "dtime", "log_device", "log_inode")
    for record in snapshot.host.records.steps("RemoveSharedMemory"):
        if not boot or record.data.get("boot_id") != boot:
            continue
        try:
            cpid, key, ctime, dtime, *which = (int(str(record.step[name])) for name in names)
        except (KeyError, ValueError):
            continue
        same = cpid == log.pid and which == [log.entry.dev, log.entry.ino]
        if dtime and same and _is_logged(log, key, ctime):
            return Death(dtime, "journal")
    return None


def _may_be_its(state: SocketState, log: ServerLog) -> bool:
    """Whether the socket at which a server answers may be the one of this log's writer.

    Its pid can be that of another namespace: then it seems gone and is not. Depending on the version
    the log lies beside the socket, one folder below, or two. A socket made after the log's last line
    belongs to a later server.
    """
    beside = os.path.dirname(log.path)
    below = os.path.dirname(beside)
    made = state.file.entry.mtime_ns // 1_000_000_000
    return (
        state.state not in (State.DEAD, State.NO_SOCKET)
        and state.file.directory in (beside, below, os.path.dirname(below))
        and log.port in (state.file.port, None)
        and made <= (log.last or 0) + TOGETHER
    )


def _against(snapshot: Snapshot, folder: SpillFolder, log: ServerLog, death: Death) -> Iterator[str]:
    """What stands against removing a folder that a dead server's log names.

    That no living server spills to the folder above needs no look: a folder in a dead server's log is
    that server's, as its name was made up by it, and a folder in a living server's log got here never.
    """
    entry = folder.entry
    if not SPILL.match(os.path.basename(folder.path)) or entry.permissions != 0o700:
        yield _("its name or mode does not match a cache server's")
    if not trusted_log(log, entry.uid):
        yield _("other users could have written the log that mentions it")
    if not folder.plain:
        yield _("it contains more than spilled data of a cache server")
    if folder.newest is not None and folder.newest > death.when:
        yield _("it was written after its server died")
    way = why_untrusted(folder.parents, entry.uid, snapshot.host.identity.euid)
    if way:
        yield way
    holder = users_of(snapshot.host, folder)
    if holder:
        yield holder


def unlogged_folders(snapshot: Snapshot) -> list[SpillFolder]:
    """Folders of ours at the old default places that look like spilled data and that no log names; nor do
    logs of others than their owners count here."""
    named = {(path, log.entry.uid) for log in snapshot.logs for path in log.spills}
    identity = snapshot.host.identity
    folders = []
    for root in (snapshot.tmp, f"{snapshot.tmp}/mindspore/cache"):
        try:
            names = snapshot.host.files.names(root)
        except CannotTell:
            continue  # not ours to look into, which is said already
        paths = [f"{root}/{name}" for name in names if SPILL.match(name)]
        owners = {path: _owner(snapshot, path) for path in paths if not snapshot.host.files.may_block(path)}
        for path in limit_by_owner({path: uid for path, uid in owners.items() if uid is not None}, LOGINS)[0]:
            try:
                folder = spill_folder(path)
            except OSError:
                continue
            if folder is None or (path, folder.entry.uid) in named:
                continue
            ours = identity.is_root or folder.entry.uid == identity.euid
            if ours and any(CONTAINER.match(file) for file, _entry in folder.files):
                folders.append(folder)
    return folders
