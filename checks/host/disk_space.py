"""Is there room where a job writes?"""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import ERROR, INFO, WARNING, Action, Facts, Finding, Host, Scope, Skip, Unknown, _, check
from npudoctor.core.errors import CannotTell, has_ended
from npudoctor.core.sizes import size_text
from npudoctor.facts.job.working_directory import working_directory
from npudoctor.host.fs.files import PathStatus, Space
from npudoctor.host.users.accounts import user_names

MIB, GIB = 1 << 20, 1 << 30
FULL, LOW = 16 * MIB, GIB
# trial-files tries how many files the start of this job needs.
FEW = 10000
TMP = "/tmp"  # noqa: S108
MOST = 20000  # entries that are looked at: a full /tmp may hold millions
SHOWN = 8


@check(
    "disk-space",
    scope=Scope.NODE,
    codes={
        "disk-space.full": ERROR,
        "disk-space.low": WARNING,
        "disk-space.no-inodes": ERROR,
        "disk-space.few-inodes": WARNING,
        "disk-space.tmp-owners": INFO,
    },
)
def disk_space(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The folders the job writes to have free space.

    ## What it does

    Reads the free space and the free inodes of the file systems of /tmp, the home directory, CANN's logs and
    the working directory. Folders on the same file system are reported together. A mount that does not answer
    is named and not examined further; a read-only mount is not judged.

    - `disk-space.full`: less than 16 MiB is free for ordinary users.
    - `disk-space.low`: less than 1 GiB is free for ordinary users.
    - `disk-space.no-inodes`: no more files can be created.
    - `disk-space.few-inodes`: fewer than 10000 files can be created. The check trial-files tries how many the
      start of the job needs.
    - `disk-space.tmp-owners`: the users whose files take the most space in /tmp, reported when /tmp is short
      of space.

    Quotas are not visible: only writing shows them.

    ## Why it matters

    A job that cannot write its log, its compiled operators or its checkpoint ends at that moment, and its log
    stops before it gives the reason.

    ## Fix safety

    Nothing is removed. Do not run `rm -rf /tmp/*`: it ends living MindSpore cache servers and destroys the
    evidence that others are dead. Ask the owners; `npudoctor fix --cache-server` removes what is proven dead.

    ## References

    statvfs(3); df(1); MindSpore FAQ on the cache server.
    """
    spaces, silent = _find_spaces(host)
    yield Facts({path: {"bytes": usage.total, "free": usage.free} for path, usage in spaces.items()})
    reported: set[int] = set()
    for space in spaces.values():
        if space.device not in reported:
            reported.add(space.device)
            same_device_paths = [other for other, usage in spaces.items() if usage.device == space.device]
            paths = ", ".join(same_device_paths)
            words = {"paths": paths, "free": size_text(space.free), "size": size_text(space.total)}
            evidence = (f"bytes {space.free} of {space.total}, inodes {space.inodes_free} of {space.inodes}",)
            code, text = _judge_room(space)
            if code:
                yield Finding(code, text.format(**words), evidence=evidence, action=Action.CLEANUP)
            if space.inodes and space.inodes_free < FEW:
                has_none = not space.inodes_free
                yield Finding(
                    "disk-space.no-inodes" if has_none else "disk-space.few-inodes",
                    _(
                        "only {count} more files can be created: {paths}",
                        count=space.inodes_free,
                        paths=paths,
                    ),
                    evidence=evidence,
                    action=Action.CLEANUP,
                )
    tmp = spaces.get(TMP)
    if tmp is not None and (tmp.free < LOW or (tmp.inodes > 0 and tmp.inodes_free < FEW)):
        lines: Optional[tuple[str, ...]] = _owner_lines(host, TMP)
        if lines:
            yield Finding(
                "disk-space.tmp-owners",
                _("see whose files take the most space in {path}; do not empty the whole folder", path=TMP),
                evidence=lines,
            )
    if not spaces and not silent:
        raise Skip(_("every folder that a job writes to is mounted read-only"))
    if silent:
        # trial-files writes to these folders and reports whether that works.
        raise Unknown("; ".join(dict.fromkeys(silent)), tried_by=("trial-files",))


def _find_spaces(host: Host) -> tuple[dict[str, Space], list[str]]:
    """Return the space of each folder that a job writes to, and why some could not be examined."""
    spaces: dict[str, Space] = {}
    silent = []
    for path in _job_folders(host):
        try:
            space = host.running_files.space(path)
        except CannotTell as error:
            # temporary-folders and identity report a folder that is closed to this user or no longer exists.
            if not (isinstance(error.__cause__, PermissionError) or has_ended(error)):
                silent.append(error.reason)
            continue
        # A read-only file system (an image, a CD, one that an administrator closed) has no free space by
        # nature.
        if space is not None and not space.read_only:
            spaces[path] = space
    return spaces, silent


def _job_folders(host: Host) -> list[str]:
    variables = host.variables
    home = variables.get("HOME") or host.identity.home
    candidates = [TMP, variables.get("TMPDIR", ""), home, variables.get("ASCEND_PROCESS_LOG_PATH", "")]
    with contextlib.suppress(CannotTell):  # the check working-directory says so
        candidates.append(working_directory(host) or "")
    return list(dict.fromkeys(path for path in candidates if path.startswith("/")))


def _judge_room(space: Space) -> tuple[str, str]:
    if not space.total:
        return "", ""  # a file system without blocks of its own, as of some overlays
    # min(): a small tmpfs may be smaller than 16 MiB as a whole.
    if space.free < min(FULL, space.total // 2):
        return "disk-space.full", _("no space left: {free} of {size} is free: {paths}")
    if space.free < min(LOW, space.total // 10):
        return "disk-space.low", _("little space left: {free} of {size} is free: {paths}")
    return "", ""


def _owner_lines(host: Host, folder: str) -> tuple[str, ...]:
    """Return a line for each owner who uses the most space, with that owner's biggest entry. Links are not
    followed, and file systems mounted below are left out, because they use other space."""
    bytes_by_uid: Counter[int] = Counter()
    biggest_by_uid: dict[int, tuple[int, str]] = {}
    todo, count, is_complete = deque([folder]), 0, True
    folder_entry = _entry(host, folder, follow=True)
    while todo:
        path = todo.popleft()
        try:
            child_names = host.running_files.names(path)
        except CannotTell:
            continue  # somebody's closed folder: its owner counts by what can be seen
        for name in child_names:
            count += 1
            if count > MOST:
                is_complete = False
                todo.clear()
                break
            child = f"{path}/{name}"
            entry = _entry(host, child)
            if entry is None or (folder_entry is not None and entry.dev != folder_entry.dev):
                continue
            # held, not size: a sparse file takes less room than its size says.
            bytes_by_uid[entry.uid] += entry.allocated_bytes
            if entry.allocated_bytes > biggest_by_uid.get(entry.uid, (-1, ""))[0]:
                biggest_by_uid[entry.uid] = (entry.allocated_bytes, child)
            if entry.is_dir:
                todo.append(child)

    names = user_names(host.files)
    lines = [
        _owner_line(uid, size, biggest_by_uid[uid], names)
        for uid, size in bytes_by_uid.most_common(SHOWN)
        if size
    ]
    if not is_complete:
        lines.append(_("only the first {count} entries were examined", count=MOST))
    return tuple(lines)


def _entry(host: Host, path: str, follow: bool = False) -> Optional[PathStatus]:
    files = host.running_files
    try:
        return files.stat(path) if follow else files.lstat(path)
    except CannotTell:
        return None


def _owner_line(uid: int, size: int, biggest: tuple[int, str], names: dict[int, str]) -> str:
    owner = names.get(uid, "?")
    return _(
        "{owner} (uid {uid}): {size}; the biggest: {path}, {most}",
        owner=owner,
        uid=uid,
        size=size_text(size),
        path=biggest[1],
        most=size_text(biggest[0]),
    )
