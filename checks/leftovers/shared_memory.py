"""Shared memory that no cache server made, of System V and in /dev/shm: left over, or perhaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Optional, Union

from npudoctor import (
    INFO,
    WARNING,
    Action,
    Command,
    Facts,
    FileMark,
    Finding,
    Fix,
    Host,
    RemoveUnused,
    Risk,
    Scope,
    Unknown,
    _,
    check,
    ngettext,
)
from npudoctor.checks.leftovers._owner_selection import select_owner
from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import replace
from npudoctor.host.users.accounts import user_names

if TYPE_CHECKING:
    from npudoctor.facts.leftovers.shm_files import SharedFile
    from npudoctor.host.process.sysvipc import IpcObject, Segment
    from npudoctor.proof.shared_file import SharedFileState


SHOWN = 20  # evidence lines of one finding; a database or a leaking job may have hundreds of segments


@check(
    "shared-memory",
    scope=Scope.NODE,
    tags={"ipc"},
    codes={
        "shared-memory.left-over": WARNING,
        "shared-memory.unproven": WARNING,
        "shared-memory.foreign": INFO,
        "shared-memory.unattached": INFO,
    },
)
def shared_memory(host: Host) -> Iterator[Union[Finding, Facts]]:
    """No orphaned shared memory.

    ## What it does

    Lists the files of known libraries in /dev/shm (`torch_`, `paddle_`, `mindspore_`, `pym-`, `psm_`,
    `sem.mp-`, `nccl-`, `hccl`) and the System V segments that cannot belong to a MindSpore cache server, if
    no process seems to use them.

    - `shared-memory.left-over`: the file name contains the pid of its creator, which is gone or now belongs
      to a process that started later; no process is seen that maps the file or has it open; the processes of
      its owner, and of others if its mode lets them in, could be examined; no process in another pid
      namespace shares the folder; the file is at least ten minutes old.
    - `shared-memory.unproven`: no process is seen that uses the file, but one of the other conditions for
      `shared-memory.left-over` is not met: for example, the names that Python and NCCL choose contain no pid
      at all.
    - `shared-memory.unattached`: segments that no process has attached. The evidence says whether the creator
      is alive, because a program may keep its data in a segment that it attaches only now and then.
    - `shared-memory.foreign`: segments that processes have attached although the creator is gone or cannot be
      seen from here, or that are marked for destruction (they go when the last process detaches); and
      semaphore sets and message queues of a user with no visible process.

    Files are a warning when they hold 1 GiB or more, otherwise information. Not reported are files in use,
    other users' files whose use this user cannot determine, and unproven files if they are fewer than 100 and
    hold less than 1 MiB (in a container, which cannot see all processes that use the folder, less than 1
    GiB). Of more than 5000 files only the biggest are judged; the finding says how many were not.

    A segment with attached processes and a living creator, such as PostgreSQL's, is in normal use. Segments
    that a cache server could have created (key 0x61......, whole GiB, mode 0600 or 0666) are the subject of
    the check `cache-server` and are not repeated here. At most the 20 biggest of a kind are listed; the
    totals are in the facts. `--user` limits the check to one owner. With `--job` the check is skipped,
    because what a dead process left names no Slurm job.

    ## Why it matters

    A killed job may leave memory that no process owns any more and that only a reboot, `rm` or `ipcrm -m ID`
    gives back. A full /dev/shm ends the next job with a bus error.

    ## Fix safety

    `fix` removes a file that is left over only if its owner has no living process that could belong to a job
    and is as old as the file or an orphan: such a process may know the name of the file and open it later.
    Each file is removed while npudoctor holds a lease on it (F_SETLEASE). The kernel grants the lease only if
    no process has the file open or mapped, including hidden processes, processes in other containers, and
    descriptors in transit through a socket. Then no living process uses the file or can find it again, and
    its content is already lost to everyone.

    Everything else is shown only: only a person can know whether a segment, or a file without a pid, is still
    needed.

    ## References

    shm_overview(7), fcntl(2), shmget(2), shmctl(2), proc_sysvipc(5), ipcs(1), ipcrm(1);
    PaddlePaddle issue 49632.
    """
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.facts.leftovers.shm_files import find_shared_files

    selected = select_owner(host)
    segments = [segment for segment in _foreign_segments(host) if selected(segment.uid, segment.cuid)]
    other_objects = [
        other for other in host.sysvipc.queues_and_semaphores() if selected(other.uid, other.cuid)
    ]
    queues = [other for other in other_objects if other.kind == "msg"]
    yield Facts(
        {
            "segments": len(segments),
            "bytes": sum(segment.size for segment in segments),
            "unattached_bytes": sum(segment.size for segment in segments if not segment.nattch),
            "semaphore_sets": len(other_objects) - len(queues),
            "queues": len(queues),
            "queued_bytes": sum(queue.amount for queue in queues),
        }
    )
    if segments or other_objects:
        yield from _judge_kernel_objects(host, segments, other_objects)
    try:
        files = [file for file in find_shared_files(host.running_files) if selected(file.entry.uid)]
    except CannotTell as error:
        # Only root can examine a /dev/shm that is closed, so for other users that does not affect the
        # verdict.
        raise Unknown(error.reason, advisory=not host.identity.is_root) from error
    if files:
        yield from _judge_files(host, files)


def _foreign_segments(host: Host) -> list[Segment]:
    """Return the segments that no MindSpore cache server can have created."""
    segments = host.sysvipc.segments()
    if not segments:
        return []
    from npudoctor.proof.segment import is_candidate

    return [segment for segment in segments if not is_candidate(segment)]


def _judge_kernel_objects(
    host: Host, segments: Sequence[Segment], other_objects: Sequence[IpcObject]
) -> Iterator[Finding]:
    """Report segments, semaphore sets and queues that other programs may have left."""
    from npudoctor.proof.creator import Life, creator_life

    idle = [segment for segment in segments if not segment.nattch]
    # `destroyed` is SHM_DEST (mode 01000): such a segment goes when its last process detaches (shmctl(2)).
    suspicious = [
        segment
        for segment in segments
        if segment.nattch
        and (segment.is_destroyed or creator_life(host, segment.cpid, segment.ctime).life is not Life.ALIVE)
    ]
    # /proc/sysvipc/sem and msg name no creator's pid: only whether their owner has a process can be seen.
    users = {process.uid for process in host.processes.by_pid().values() if not process.has_exited}
    ownerless = [other for other in other_objects if not users & {other.uid, other.cuid}]
    if suspicious or ownerless:
        yield _report_foreign(host, suspicious, ownerless)
    if idle:
        size = _size_text(sum(segment.size for segment in idle))
        yield Finding(
            "shared-memory.unattached",
            ngettext(
                "{count} shared memory segment of another program, {size}, is attached to no process",
                "{count} shared memory segments of other programs, {size} in all, are attached to no process",
                len(idle),
                count=len(idle),
                size=size,
            ),
            evidence=tuple(_list_segments(host, idle, user_names(host.files))),
        )


def _report_foreign(host: Host, segments: Sequence[Segment], other_objects: Sequence[IpcObject]) -> Finding:
    count = len(segments) + len(other_objects)
    names = user_names(host.files)
    lines = _list_segments(host, segments, names)
    for other in other_objects[:SHOWN]:
        if other.kind == "msg":
            text = _(
                "msqid {id}, key 0x{key:08x}, {held} bytes queued, owner {owner}: the owner has no process"
            )
        else:
            text = _(
                "semid {id}, key 0x{key:08x}, {held} semaphores, owner {owner}: the owner has no process"
            )
        lines.append(
            text.format(id=other.id, key=other.key, held=other.amount, owner=_owner_text(other.uid, names))
        )
    if len(other_objects) > SHOWN:
        lines.append(_("and {count} more semaphore sets and queues", count=len(other_objects) - SHOWN))
    return Finding(
        "shared-memory.foreign",
        ngettext(
            "{count} System V object of another program may be left over; it is not judged",
            "{count} System V objects of other programs may be left over; they are not judged",
            count,
            count=count,
        ),
        evidence=tuple(lines),
    )


def _list_segments(host: Host, segments: Sequence[Segment], names: dict[int, str]) -> list[str]:
    """Return a line for each of the biggest segments and one for the rest."""
    ordered = sorted(segments, key=lambda segment: (-segment.size, segment.shmid))
    lines = [_segment_line(host, segment, names) for segment in ordered[:SHOWN]]
    rest = ordered[SHOWN:]
    if rest:
        size = _size_text(sum(segment.size for segment in rest))
        lines.append(_("and {count} smaller segments, {size} in all", count=len(rest), size=size))
    return lines


def _segment_line(host: Host, segment: Segment, names: dict[int, str]) -> str:
    from npudoctor.proof.creator import creator_life

    why = creator_life(host, segment.cpid, segment.ctime).why
    if segment.is_destroyed:
        why += _("; ") + _("marked for destruction")
    return _(
        "shmid {shmid}, key 0x{key:08x}, {size}, mode {mode:o}, owner {owner}, attached {nattch}: {why}",
        shmid=segment.shmid,
        key=segment.key,
        size=_size_text(segment.size),
        mode=segment.permissions,
        owner=_owner_text(segment.uid, names),
        nattch=segment.nattch,
        why=why,
    )


def _owner_text(uid: int, names: dict[int, str]) -> str:
    return f"{names[uid]} (uid {uid})" if uid in names else f"uid {uid}"


def _size_text(count: int) -> str:
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << power:
            return f"{count / (1 << power):.4g} {unit}"
    return f"{count} B"


MOST = 5000  # files that are judged
MUCH = 1 << 30  # bytes from which on it is a warning
LITTLE, FEW = 1 << 20, 100  # bytes and files below which what is not even proven is not worth a word


def _judge_files(host: Host, files: Sequence[SharedFile]) -> Iterator[Union[Finding, Facts]]:
    """Judge the files in /dev/shm and report those that are left over or may be."""
    from npudoctor.proof.shared_file import judge_shared_files

    biggest = sorted(files, key=lambda file: (-file.entry.allocated_bytes, file.path))
    states, rest = judge_shared_files(host, biggest[:MOST]), biggest[MOST:]
    proven = [state for state in states if state.proven]
    # Files younger than ten minutes may belong to a job that is starting.
    unproven = [state for state in states if not state.in_use and state.why and not state.young]
    # Only root sees which files the processes of other users have open.
    unseen = [state for state in unproven if state.unseen and state.file.entry.uid != host.identity.euid]
    unproven = [
        state for state in unproven if not (state.unseen and state.file.entry.uid != host.identity.euid)
    ]
    yield Facts(
        {
            "files": len(files),
            "file_bytes": sum(file.entry.allocated_bytes for file in files),
            "files_not_judged": len(rest),
            "file_bytes_in_use": _total_bytes([state for state in states if state.in_use]),
            "file_bytes_unseen": _total_bytes(unseen),
        }
    )
    # One finding for each owner, because each fix runs as that owner.
    for owner in sorted({state.file.entry.uid for state in proven}):
        yield from _report_owner_files(
            host, [state for state in proven if state.file.entry.uid == owner], rest
        )
    # A container cannot see all processes that use /dev/shm, so there only large files are reported.
    least = MUCH if host.system.is_container() else LITTLE
    if _total_bytes(unproven) >= least or len(unproven) >= FEW:
        yield _report_unproven(host, unproven, rest)


def _report_owner_files(
    host: Host, proven: Sequence[SharedFileState], rest: Sequence[SharedFile]
) -> Iterator[Finding]:
    """Report one owner's files: those that can be removed, and those that a living process may still open by
    name."""
    from npudoctor.proof.unused import PossibleUsers

    possible_users = PossibleUsers(host)
    states = [replace(state, why=possible_users.why_not(state.file)) for state in proven]
    removable = [state for state in states if not state.why]
    doubtful = [state for state in states if state.why]
    if removable:
        # No living process can know these names. RemoveUnused takes a lease on each file before it removes
        # it, which the kernel grants only if no process has the file open (fcntl(2), F_SETLEASE).
        from npudoctor.facts.leftovers.shm_files import FOLDER

        files = [(state.file.name, state.file.entry) for state in _sort_by_size(removable)]
        marks = tuple(FileMark(name, file.dev, file.ino, file.size, file.mtime_ns) for name, file in files)
        owner = removable[0].file.entry.uid
        title = _(
            "remove each file on which the kernel grants a lease, so that no process has it open or mapped"
        )
        steps = (RemoveUnused(FOLDER, owner, marks),)
        fix = Fix(title, steps, risk=Risk.SAFE, needs_root=owner != host.identity.euid)
        yield _report_left_over(host, removable, rest, fix)
    if doubtful:
        yield _report_left_over(host, doubtful, rest, _removal_fix(host, doubtful))


def _report_unproven(host: Host, states: Sequence[SharedFileState], rest: Sequence[SharedFile]) -> Finding:
    from npudoctor.proof.leftovers import format_size

    is_all_visible = not any(state.unseen for state in states) and not host.system.is_container()
    return Finding(
        "shared-memory.unproven",
        _(
            "{size} in /dev/shm (files: {count}): no visible process uses it; could not determine "
            "whether it is orphaned",
            count=len(states),
            size=format_size(_total_bytes(states)),
        ),
        severity=None if is_all_visible and _total_bytes(states) >= MUCH else INFO,
        evidence=_list_files(host, states, rest),
        fix=_removal_fix(host, states),
    )


def _report_left_over(
    host: Host, states: Sequence[SharedFileState], rest: Sequence[SharedFile], fix: Optional[Fix]
) -> Finding:
    from npudoctor.proof.leftovers import format_size

    return Finding(
        "shared-memory.left-over",
        _(
            "{size} in /dev/shm (files: {count}) belongs to processes that no longer exist; no visible "
            "process uses it",
            count=len(states),
            size=format_size(_total_bytes(states)),
        ),
        severity=None if _total_bytes(states) >= MUCH else INFO,
        evidence=_list_files(host, states, rest),
        action=Action.CLEANUP,
        fix=fix,
    )


def _total_bytes(states: Sequence[SharedFileState]) -> int:
    return sum(state.file.entry.allocated_bytes for state in states)


def _sort_by_size(states: Sequence[SharedFileState]) -> list[SharedFileState]:
    return sorted(states, key=lambda state: (-state.file.entry.allocated_bytes, state.file.path))


def _list_files(
    host: Host, states: Sequence[SharedFileState], unjudged: Sequence[SharedFile]
) -> tuple[str, ...]:
    """Return a line for each of the biggest files, one for the rest, and one for those that were not
    judged."""
    from npudoctor.proof.leftovers import format_size

    names = user_names(host.files)
    now = host.clock.now()
    lines = [_file_line(state, names, now) for state in _sort_by_size(states)[:SHOWN]]
    rest = _sort_by_size(states)[SHOWN:]
    if rest:
        lines.append(
            _(
                "and {count} smaller files, {size} in all",
                count=len(rest),
                size=format_size(_total_bytes(rest)),
            )
        )
    if unjudged:
        lines.append(
            _(
                "and {count} more in /dev/shm were not examined: none is larger than {size}",
                count=len(unjudged),
                size=format_size(unjudged[0].entry.allocated_bytes),
            )
        )
    return tuple(lines)


def _file_line(state: SharedFileState, names: dict[int, str], now: float) -> str:
    from npudoctor.proof.leftovers import format_size

    entry = state.file.entry
    return _(
        "{path} ({library}), {size}, owner {owner}, {minutes} minutes old: {why}",
        path=state.file.path,
        library=state.file.library,
        size=format_size(entry.allocated_bytes),
        owner=names.get(entry.uid, str(entry.uid)),
        minutes=int((now - entry.ctime_ns / 1e9) // 60),
        why="; ".join(filter(None, dict.fromkeys((state.creator_state, state.why)))),
    )


def _removal_fix(host: Host, states: Sequence[SharedFileState]) -> Optional[Fix]:
    """Return rm commands for a person, or None. Not for files in another user's folder: that user could
    replace a name by a link."""
    trusted = (None, 0, host.identity.euid)
    biggest = [state.file for state in _sort_by_size(states) if state.file.folder in trusted][:SHOWN]
    if not biggest:
        return None
    return Fix(
        _("only when you are sure that nothing uses it"),
        steps=tuple(Command(("rm", "--", file.path)) for file in biggest),
        risk=Risk.MANUAL,
        needs_root=any(file.entry.uid != host.identity.euid for file in biggest),
        unproven=True,
    )
