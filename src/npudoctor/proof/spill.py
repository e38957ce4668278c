"""Whether a folder of spilled data is a dead cache server's, by its log and the time of the death."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Optional, Union

from npudoctor.frozen import dataclass
from npudoctor.host import CannotTell, Host
from npudoctor.host.cachelog import ServerLog
from npudoctor.host.cacheserver import CONTAINER, SPILL, SpillFolder, spill_folder
from npudoctor.host.sysvipc import Segment
from npudoctor.messages import _
from npudoctor.proof.creator import Life, creator
from npudoctor.proof.scene import Scene
from npudoctor.proof.segment import TOGETHER, Judged, Kind, trusted_log
from npudoctor.proof.socket import SocketState, State, untrusted_parent


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
    scene: Scene, segments: Sequence[Judged], sockets: Sequence[SocketState]
) -> list[SpillState]:
    """Every folder that a log names and that is still there."""
    found = []
    for log in scene.logs:
        for path in log.spills:
            state = _judge(scene, path, log, segments, sockets)
            if state is not None:
                found.append(state)
    living = {state.path for state in found if state.living}
    return [state for state in found if state.living or state.path not in living]


def _judge(
    scene: Scene, path: str, log: ServerLog, segments: Sequence[Judged], sockets: Sequence[SocketState]
) -> Optional[SpillState]:
    try:
        entry = scene.host.files.lstat(path)
        real = scene.host.files.real(path)
        if entry is None or real is None:
            return None
        if entry.is_link:
            return SpillState(path, None, log, _("it is a link"))
        if scene.host.files.may_block(real):
            return SpillState(path, None, log, _("it is on a file system that may block"))
        # The folders above may be reached through links; judged and removed is where they lead.
        folder = spill_folder(real)
    except (CannotTell, OSError):
        return SpillState(path, None, log, _("we have no right to look into it"))
    if folder is None:
        return None
    death = _death(scene, log, segments, sockets)
    if death is None:
        return SpillState(path, folder, log, living=True)
    if isinstance(death, str):
        return SpillState(path, folder, log, death)
    return SpillState(path, folder, log, next(_against(scene, folder, log, death), ""))


def _death(
    scene: Scene, log: ServerLog, segments: Sequence[Judged], sockets: Sequence[SocketState]
) -> Union[Death, str, None]:
    """When the writer of a log died; None while it lives; a sentence when that cannot be said."""
    if log.last is None or log.machine != scene.host.system.name:
        return _("its log is of the machine {name}").format(name=log.machine or "?")
    for judged in segments:
        if _made(log, judged.segment.cpid, judged.segment.key, judged.segment.ctime):
            return _death_of(judged)
    removed = _recorded(scene, log)
    if removed is not None:
        return removed
    writer = creator(scene.host, log.pid, log.last)
    if writer.life is Life.ALIVE:
        return None
    if writer.life is Life.UNKNOWN:
        return writer.why
    if any(_may_be_its(state, log) for state in sockets):
        return _("a server still answers at its socket")
    return Death(log.entry.mtime_ns // 1_000_000_000, "log")


def _death_of(judged: Judged) -> Union[Death, str, None]:
    """A server's death is when it let go of its segment, once nobody holds that any more."""
    segment: Segment = judged.segment
    if judged.kind is Kind.LIVING:
        return None
    if judged.kind is not Kind.ORPHAN:
        return _("its server is not proven dead: {why}").format(why=judged.why or _("clients are attached"))
    return Death(segment.dtime, "segment") if segment.dtime else _("the time of its death is not known")


def _made(log: ServerLog, cpid: int, key: int, ctime: int) -> bool:
    """Whether this log's process says that it made this segment."""
    return log.pid == cpid and any(
        line.key == key and abs(line.when - ctime) <= TOGETHER for line in log.created
    )


def _recorded(scene: Scene, log: ServerLog) -> Optional[Death]:
    """The death as an earlier run of ours wrote it down before it removed the segment, in this boot."""
    boot = scene.host.system.boot_id()
    for record in scene.host.records.steps("RemoveSharedMemory"):
        step = record.step
        try:
            cpid, key, ctime, dtime = (int(str(step[name])) for name in ("cpid", "key", "ctime", "dtime"))
        except (KeyError, ValueError):
            continue
        if boot and record.data.get("boot_id") == boot and dtime and _made(log, cpid, key, ctime):
            return Death(dtime, "journal")
    return None


def _may_be_its(state: SocketState, log: ServerLog) -> bool:
    """Whether the socket at which a server answers may be the one of this log's writer.

    Its pid can be that of another namespace: then it seems gone and is not. A socket made after the
    log's last line belongs to a later server.
    """
    base = os.path.dirname(os.path.dirname(os.path.dirname(log.path)))
    made = state.file.entry.mtime_ns // 1_000_000_000
    return (
        state.state not in (State.DEAD, State.NO_SOCKET)
        and state.file.directory == base
        and log.port in (state.file.port, None)
        and made <= (log.last or 0) + TOGETHER
    )


def _against(scene: Scene, folder: SpillFolder, log: ServerLog, death: Death) -> Iterator[str]:
    """What stands against removing a folder that a dead server's log names."""
    entry = folder.entry
    if not SPILL.match(os.path.basename(folder.path)) or entry.permissions != 0o700:
        yield _("its name or its mode is not a cache server's")
    if not trusted_log(log, entry.uid):
        yield _("others could have written the log that names it")
    for name, file in folder.files:
        plain = file.is_file and file.nlink == 1 and file.uid == entry.uid
        if not CONTAINER.match(name) or not plain:
            yield _("it holds more than a cache server's containers")
            break
    if folder.newest is not None and folder.newest > death.when:
        yield _("it was written after its server died")
    way = untrusted_parent(folder.parents, entry.uid, scene.host.identity.euid)
    if way:
        yield way
    holder = users_of(scene.host, folder)
    if holder:
        yield holder


def users_of(host: Host, folder: SpillFolder) -> Optional[str]:
    """Who has a file of the folder open, or why that cannot be said; None when nobody has.

    Other users cannot pass a 0700 folder, so only its owner's processes must be readable.
    """
    processes = host.processes
    for pid, process in processes.all().items():
        if process.gone:
            continue
        opened = processes.open_files(pid)
        if opened is None:
            if process.uid == folder.entry.uid and processes.now(pid) is not None:
                return _("what process {pid} has open cannot be read").format(pid=pid)
            continue
        if any(_inside(target, folder.path) for _number, target in opened):
            return _("process {pid} has it open").format(pid=pid)
    return None


def _inside(target: str, folder: str) -> bool:
    """Whether a descriptor's target lies in the folder, by its own path or by another mount's."""
    target = target[: -len(" (deleted)")] if target.endswith(" (deleted)") else target
    same_name = f"/{os.path.basename(folder)}"
    return target == folder or target.endswith(same_name) or f"{same_name}/" in target


def unlogged_folders(scene: Scene) -> list[SpillFolder]:
    """Folders at the old default places that look like spilled data and that no log names."""
    tmp = scene.host.options.tmp
    named = {path for log in scene.logs for path in log.spills}
    found = []
    for root in (tmp, f"{tmp}/mindspore/cache"):
        for name in scene.host.files.names(root):
            path = f"{root}/{name}"
            if SPILL.match(name) and path not in named and not scene.host.files.may_block(path):
                folder = _look(path)
                if folder and any(CONTAINER.match(file) for file, _entry in folder.files):
                    found.append(folder)
    return found


def _look(path: str) -> Optional[SpillFolder]:
    try:
        return spill_folder(path)
    except OSError:
        return None
