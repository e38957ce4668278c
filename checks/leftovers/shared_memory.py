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
    from npudoctor.facts.leftovers.shm_files import find_shared_files

    selected = select_owner(host)
    segments = [segment for segment in _foreign_segments(host) if selected(segment.uid, segment.cuid)]
    others = [other for other in host.sysvipc.others() if selected(other.uid, other.cuid)]
    queues = [other for other in others if other.kind == "msg"]
    yield Facts(
        {
            "segments": len(segments),
            "bytes": sum(segment.size for segment in segments),
            "unattached_bytes": sum(segment.size for segment in segments if not segment.nattch),
            "semaphore_sets": len(others) - len(queues),
            "queues": len(queues),
            "queued_bytes": sum(queue.held for queue in queues),
        }
    )
    if segments or others:
        yield from _kernel_objects(host, segments, others)
    try:
        files = [file for file in find_shared_files(host.running_files) if selected(file.entry.uid)]
    except CannotTell as error:
        raise Unknown(error.reason, advisory=not host.identity.is_root) from error
    if files:
        yield from _findings(host, files)


def _foreign_segments(host: Host) -> list[Segment]:
    """Those that no cache server can have made."""
    segments = host.sysvipc.segments()
    if not segments:
        return []
    from npudoctor.proof.segment import is_candidate

    return [segment for segment in segments if not is_candidate(segment)]


def _kernel_objects(
    host: Host, segments: Sequence[Segment], others: Sequence[IpcObject]
) -> Iterator[Finding]:
    """What other programs may have left in the tables of System V."""
    from npudoctor.proof.creator import Life, creator_life

    idle = [segment for segment in segments if not segment.nattch]
    odd = [
        segment
        for segment in segments
        if segment.nattch
        and (segment.destroyed or creator_life(host, segment.cpid, segment.ctime).life is not Life.ALIVE)
    ]
    users = {process.uid for process in host.processes.all().values() if not process.gone}
    lost = [other for other in others if not users & {other.uid, other.cuid}]
    if odd or lost:
        yield _report_foreign(host, odd, lost)
    if idle:
        size = _size(sum(segment.size for segment in idle))
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


def _report_foreign(host: Host, segments: Sequence[Segment], others: Sequence[IpcObject]) -> Finding:
    count = len(segments) + len(others)
    names = user_names(host.files)
    lines = _list_segments(host, segments, names)
    for other in others[:SHOWN]:
        if other.kind == "msg":
            text = _(
                "msqid {id}, key 0x{key:08x}, {held} bytes queued, owner {owner}: the owner has no process"
            )
        else:
            text = _(
                "semid {id}, key 0x{key:08x}, {held} semaphores, owner {owner}: the owner has no process"
            )
        lines.append(text.format(id=other.id, key=other.key, held=other.held, owner=_owner(other.uid, names)))
    if len(others) > SHOWN:
        lines.append(_("and {count} more semaphore sets and queues", count=len(others) - SHOWN))
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
    """A line for each of the biggest, and one for the rest."""
    ordered = sorted(segments, key=lambda segment: (-segment.size, segment.shmid))
    lines = [_segment_line(host, segment, names) for segment in ordered[:SHOWN]]
    rest = ordered[SHOWN:]
    if rest:
        size = _size(sum(segment.size for segment in rest))
        lines.append(_("and {count} smaller segments, {size} in all", count=len(rest), size=size))
    return lines


def _segment_line(host: Host, segment: Segment, names: dict[int, str]) -> str:
    from npudoctor.proof.creator import creator_life

    why = creator_life(host, segment.cpid, segment.ctime).why
    if segment.destroyed:
        why += _("; ") + _("marked for destruction")
    return _(
        "shmid {shmid}, key 0x{key:08x}, {size}, mode {mode:o}, owner {owner}, attached {nattch}: {why}",
        shmid=segment.shmid,
        key=segment.key,
        size=_size(segment.size),
        mode=segment.permissions,
        owner=_owner(segment.uid, names),
        nattch=segment.nattch,
        why=why,
    )


def _owner(uid: int, names: dict[int, str]) -> str:
    return f"{names[uid]} (uid {uid})" if uid in names else f"uid {uid}"


def _size(count: int) -> str:
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << power:
            return f"{count / (1 << power):.4g} {unit}"
    return f"{count} B"


MOST = 5000  # files that are judged
MUCH = 1 << 30  # bytes from which on it is a warning
LITTLE, FEW = 1 << 20, 100  # bytes and files below which what is not even proven is not worth a word


def _findings(host: Host, files: Sequence[SharedFile]) -> Iterator[Union[Finding, Facts]]:
    """What is left over, and what may be."""
    from npudoctor.proof.shared_file import judge_shared_files

    biggest = sorted(files, key=lambda file: (-file.entry.held, file.path))
    judged, rest = judge_shared_files(host, biggest[:MOST]), biggest[MOST:]
    proven = [state for state in judged if state.proven]
    unproven = [state for state in judged if not state.in_use and state.why and not state.young]
    unseen = [state for state in unproven if state.unseen and state.file.entry.uid != host.identity.euid]
    unproven = [
        state for state in unproven if not (state.unseen and state.file.entry.uid != host.identity.euid)
    ]
    yield Facts(
        {
            "files": len(files),
            "file_bytes": sum(file.entry.held for file in files),
            "files_not_judged": len(rest),
            "file_bytes_in_use": _bytes([state for state in judged if state.in_use]),
            "file_bytes_unseen": _bytes(unseen),
        }
    )
    # By owner: each is asked about his own.
    for owner in sorted({state.file.entry.uid for state in proven}):
        yield from _of_owner(host, [state for state in proven if state.file.entry.uid == owner], rest)
    # A container cannot see who else uses the place: only what would be missed is worth a word there.
    least = MUCH if host.system.container() else LITTLE
    if _bytes(unproven) >= least or len(unproven) >= FEW:
        yield _report_unproven(host, unproven, rest)


def _of_owner(host: Host, proven: Sequence[SharedFileState], rest: Sequence[SharedFile]) -> Iterator[Finding]:
    """What can be removed, and what somebody who lives may still know by its name."""
    from npudoctor.proof.unused import PossibleUsers

    knowers = PossibleUsers(host)
    judged = [replace(state, why=knowers.why_not(state.file)) for state in proven]
    unknown = [state for state in judged if not state.why]
    known = [state for state in judged if state.why]
    if unknown:
        # Those of which nobody living knows: a lease proves, right before, that nobody has one open.
        from npudoctor.facts.leftovers.shm_files import FOLDER

        files = [(state.file.name, state.file.entry) for state in _biggest(unknown)]
        marks = tuple(FileMark(name, file.dev, file.ino, file.size, file.mtime_ns) for name, file in files)
        owner = unknown[0].file.entry.uid
        title = _(
            "remove each file on which the kernel grants a lease, so that no process has it open or mapped"
        )
        steps = (RemoveUnused(FOLDER, owner, marks),)
        fix = Fix(title, steps, risk=Risk.SAFE, needs_root=owner != host.identity.euid)
        yield _left_over(host, unknown, rest, fix)
    if known:
        yield _left_over(host, known, rest, _removal(host, known))


def _report_unproven(host: Host, judged: Sequence[SharedFileState], rest: Sequence[SharedFile]) -> Finding:
    from npudoctor.proof.leftovers import format_size

    seen = not any(state.unseen for state in judged) and not host.system.container()
    return Finding(
        "shared-memory.unproven",
        _(
            "{size} in /dev/shm (files: {count}): no visible process uses it; could not determine "
            "whether it is orphaned",
            count=len(judged),
            size=format_size(_bytes(judged)),
        ),
        severity=None if seen and _bytes(judged) >= MUCH else INFO,
        evidence=_list_files(host, judged, rest),
        fix=_removal(host, judged),
    )


def _left_over(
    host: Host, judged: Sequence[SharedFileState], rest: Sequence[SharedFile], fix: Optional[Fix]
) -> Finding:
    from npudoctor.proof.leftovers import format_size

    return Finding(
        "shared-memory.left-over",
        _(
            "{size} in /dev/shm (files: {count}) belongs to processes that no longer exist; no visible "
            "process uses it",
            count=len(judged),
            size=format_size(_bytes(judged)),
        ),
        severity=None if _bytes(judged) >= MUCH else INFO,
        evidence=_list_files(host, judged, rest),
        action=Action.CLEANUP,
        fix=fix,
    )


def _bytes(judged: Sequence[SharedFileState]) -> int:
    return sum(state.file.entry.held for state in judged)


def _biggest(judged: Sequence[SharedFileState]) -> list[SharedFileState]:
    return sorted(judged, key=lambda state: (-state.file.entry.held, state.file.path))


def _list_files(
    host: Host, judged: Sequence[SharedFileState], unjudged: Sequence[SharedFile]
) -> tuple[str, ...]:
    """A line for each of the biggest, one for the rest, and one for what was not judged at all."""
    from npudoctor.proof.leftovers import format_size

    names = user_names(host.files)
    now = host.clock.now()
    lines = [_line(state, names, now) for state in _biggest(judged)[:SHOWN]]
    rest = _biggest(judged)[SHOWN:]
    if rest:
        lines.append(
            _("and {count} smaller files, {size} in all", count=len(rest), size=format_size(_bytes(rest)))
        )
    if unjudged:
        lines.append(
            _(
                "and {count} more in /dev/shm were not examined: none is larger than {size}",
                count=len(unjudged),
                size=format_size(unjudged[0].entry.held),
            )
        )
    return tuple(lines)


def _line(state: SharedFileState, names: dict[int, str], now: float) -> str:
    from npudoctor.proof.leftovers import format_size

    entry = state.file.entry
    return _(
        "{path} ({library}), {size}, owner {owner}, {minutes} minutes old: {why}",
        path=state.file.path,
        library=state.file.library,
        size=format_size(entry.held),
        owner=names.get(entry.uid, str(entry.uid)),
        minutes=int((now - entry.ctime_ns / 1e9) // 60),
        why="; ".join(filter(None, dict.fromkeys((state.creator_state, state.why)))),
    )


def _removal(host: Host, judged: Sequence[SharedFileState]) -> Optional[Fix]:
    """The lines for a person: not where the folder is another user's, who may put a link in its place."""
    trusted = (None, 0, host.identity.euid)
    biggest = [state.file for state in _biggest(judged) if state.file.folder in trusted][:SHOWN]
    if not biggest:
        return None
    return Fix(
        _("only when you are sure that nothing uses it"),
        steps=tuple(Command(("rm", "--", file.path)) for file in biggest),
        risk=Risk.MANUAL,
        needs_root=any(file.entry.uid != host.identity.euid for file in biggest),
        unproven=True,
    )
