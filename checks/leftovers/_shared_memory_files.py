"""The findings of the check shared-memory on files in /dev/shm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional, Union

from npudoctor import INFO, Action, Command, Facts, FileMark, Finding, Fix, Host, RemoveUnused, Risk, _
from npudoctor.core.frozen import replace
from npudoctor.facts.leftovers.shm_files import FOLDER, SharedFile
from npudoctor.host.process.users import user_names
from npudoctor.proof.leftovers import format_size
from npudoctor.proof.shared import SharedFileState, judge_shared_files

MOST = 5000  # files that are judged
SHOWN = 20  # evidence lines and shell lines of one finding
MUCH = 1 << 30  # bytes from which on it is a warning
LITTLE, FEW = 1 << 20, 100  # bytes and files below which what is not even proven is not worth a word


def findings(host: Host, files: Sequence[SharedFile]) -> Iterator[Union[Finding, Facts]]:
    """What is left over, and what may be."""
    biggest = sorted(files, key=lambda file: (-file.entry.held, file.path))
    judged, rest = judge_shared_files(host, biggest[:MOST]), biggest[MOST:]
    proven = [one for one in judged if one.proven]
    unproven = [one for one in judged if not one.in_use and one.why and not one.young]
    unseen = [one for one in unproven if one.unseen and one.file.entry.uid != host.identity.euid]
    unproven = [one for one in unproven if not (one.unseen and one.file.entry.uid != host.identity.euid)]
    yield Facts(
        {
            "files": len(files),
            "file_bytes": sum(file.entry.held for file in files),
            "files_not_judged": len(rest),
            "file_bytes_in_use": _bytes([one for one in judged if one.in_use]),
            "file_bytes_unseen": _bytes(unseen),
        }
    )
    # By owner: each is asked about his own.
    for owner in sorted({one.file.entry.uid for one in proven}):
        yield from _of_owner(host, [one for one in proven if one.file.entry.uid == owner], rest)
    # A container cannot see who else uses the place: only what would be missed is worth a word there.
    least = MUCH if host.system.container() else LITTLE
    if _bytes(unproven) >= least or len(unproven) >= FEW:
        yield _unproven(host, unproven, rest)


def _of_owner(host: Host, proven: Sequence[SharedFileState], rest: Sequence[SharedFile]) -> Iterator[Finding]:
    """What can be removed, and what somebody who lives may still know by its name."""
    from npudoctor.proof.unused import PossibleUsers

    knowers = PossibleUsers(host)
    told = [replace(one, why=knowers.why_not(one.file)) for one in proven]
    unknown, wanted = [one for one in told if not one.why], [one for one in told if one.why]
    if unknown:
        yield _left_over(host, unknown, rest, _unused(host, unknown))
    if wanted:
        yield _left_over(host, wanted, rest, _removal(host, wanted))


def _unused(host: Host, judged: Sequence[SharedFileState]) -> Fix:
    """Those of which nobody living knows: a lease proves, right before, that nobody has one open."""
    files = [(one.file.name, one.file.entry) for one in _biggest(judged)]
    marks = tuple(FileMark(name, file.dev, file.ino, file.size, file.mtime_ns) for name, file in files)
    owner = judged[0].file.entry.uid
    return Fix(
        _("remove them, each if the kernel grants a lease: if nobody has it open or mapped"),
        steps=(RemoveUnused(FOLDER, owner, marks),),
        risk=Risk.SAFE,
        needs_root=owner != host.identity.euid,
    )


def _left_over(
    host: Host, judged: Sequence[SharedFileState], rest: Sequence[SharedFile], fix: Optional[Fix]
) -> Finding:
    text = _(
        "{size} in /dev/shm (files: {count}) is of processes that are gone, and no process is seen to use it"
    )
    return Finding(
        "shared-memory.left-over",
        text.format(count=len(judged), size=format_size(_bytes(judged))),
        severity=None if _bytes(judged) >= MUCH else INFO,
        evidence=_listed(host, judged, rest),
        action=Action.CLEANUP,
        fix=fix,
    )


def _unproven(host: Host, judged: Sequence[SharedFileState], rest: Sequence[SharedFile]) -> Finding:
    text = _(
        "{size} in /dev/shm (files: {count}): no process is seen to use it; that it is left over is not known"
    )
    much = _bytes(judged) >= MUCH and not any(one.unseen for one in judged) and not host.system.container()
    return Finding(
        "shared-memory.unproven",
        text.format(count=len(judged), size=format_size(_bytes(judged))),
        severity=None if much else INFO,
        evidence=_listed(host, judged, rest),
        fix=_removal(host, judged),
    )


def _bytes(judged: Sequence[SharedFileState]) -> int:
    return sum(one.file.entry.held for one in judged)


def _biggest(judged: Sequence[SharedFileState]) -> list[SharedFileState]:
    return sorted(judged, key=lambda one: (-one.file.entry.held, one.file.path))


def _listed(host: Host, judged: Sequence[SharedFileState], unjudged: Sequence[SharedFile]) -> tuple[str, ...]:
    """A line for each of the biggest, one for the rest, and one for what was not judged at all."""
    names = user_names(host.files)
    now = host.clock.now()
    lines = [_line(one, names, now) for one in _biggest(judged)[:SHOWN]]
    rest = _biggest(judged)[SHOWN:]
    if rest:
        text = _("and {count} smaller files, {size} in all")
        lines.append(text.format(count=len(rest), size=format_size(_bytes(rest))))
    if unjudged:
        text = _("and {count} more in /dev/shm were not looked at: none is bigger than {size}")
        lines.append(text.format(count=len(unjudged), size=format_size(unjudged[0].entry.held)))
    return tuple(lines)


def _line(one: SharedFileState, names: dict[int, str], now: float) -> str:
    entry = one.file.entry
    text = _("{path} ({library}), {size}, owner {owner}, {minutes} minutes old: {why}")
    return text.format(
        path=one.file.path,
        library=one.file.library,
        size=format_size(entry.held),
        owner=names.get(entry.uid, str(entry.uid)),
        minutes=int((now - entry.ctime_ns / 1e9) // 60),
        why="; ".join(filter(None, dict.fromkeys((one.told, one.why)))),
    )


def _removal(host: Host, judged: Sequence[SharedFileState]) -> Optional[Fix]:
    """The lines for a person: not where the folder is another user's, who may put a link in its place."""
    trusted = (None, 0, host.identity.euid)
    biggest = [one.file for one in _biggest(judged) if one.file.folder in trusted][:SHOWN]
    if not biggest:
        return None
    return Fix(
        _("only when you are sure that nothing uses it"),
        steps=tuple(Command(("rm", "--", file.path)) for file in biggest),
        risk=Risk.MANUAL,
        needs_root=any(file.entry.uid != host.identity.euid for file in biggest),
        unproven=True,
    )
