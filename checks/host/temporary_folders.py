"""May the job write to /tmp, TMPDIR and /dev/shm?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import ERROR, WARNING, Facts, Finding, Host, Scope, check
from npudoctor.checks.host import _temporary_folders_places as places
from npudoctor.core.errors import CannotTell

TMP, SHM = "/tmp", "/dev/shm"  # noqa: S108  (looked at, never written)


@check(
    "temporary-folders",
    scope=Scope.JOB,
    tags={"files"},
    codes={
        "temporary-folders.not-writable": ERROR,
        "temporary-folders.mindspore-closed": ERROR,
    },
)
def temporary_folders(host: Host) -> Iterator[Union[Finding, Facts]]:
    """This user may write to /tmp, TMPDIR and /dev/shm.

    ## What it does

    Looks at owner, mode and mount of /tmp, of /dev/shm and of the folder that TMPDIR names; nothing is
    written to try it. How much room they have is a question of `disk-space` and `shm-size`, and a /dev/shm
    that is missing is one of `shm-size`.

    - `temporary-folders.not-writable`: the folder is missing, lies on a file system that is mounted
      read-only, or its mode keeps this user out. An error for /tmp and /dev/shm; a warning for TMPDIR, where
      most programs then take /tmp, and for /tmp where TMPDIR names a folder that can be written.
    - `temporary-folders.mindspore-closed`: /tmp/mindspore belongs to another user, who keeps this one out:
      the dataset cache server of MindSpore makes it with mode 0700 for the user who starts the first one. An
      error where MS_CACHE_HOST or MS_CACHE_PORT says that this job uses one, else a warning, and only where
      MindSpore is installed.

    Where a mode does not tell (an access list, a server of files), the kernel is asked, as access(2) does;
    for a process of another user (`--env-of`) that cannot be done, and the row is unknown. Quotas are not
    seen.

    ## Why it matters

    Semaphores and shared tensors of Python's multiprocessing are files in /dev/shm: without it a data loader
    with workers ends with `OSError: [Errno 30] Read-only file system` or `PermissionError`. Its sockets, the
    rendezvous of launchers and the files of compilers are in TMPDIR, or in /tmp. In a /tmp/mindspore that is
    another user's `dataset-cache --start` says that the server has started, and it dies at once.

    ## Fix safety

    Shown only. A file system that the kernel made read-only after an error must be repaired first; a
    container gets its mounts when it is started. Never remove another user's /tmp/mindspore: the socket in
    it may be a living server's.

    ## References

    - Python, tempfile: the folders that are tried; shm_overview(7), sem_overview(7).
    - MindSpore, single-node data cache: /tmp/mindspore.
    """
    named, own, silent = host.variables.get("TMPDIR", ""), None, None
    if named.startswith("/") and named.rstrip("/") != TMP:
        try:
            own = places.look(host, named)
        except CannotTell as error:
            silent = error
    found = {TMP: places.look(host, TMP), SHM: places.look(host, SHM)}
    if not found[SHM].there:
        del found[SHM]  # shm-size says so
    shown = [*found.values(), *([own] if own else [])]
    yield Facts({one.path: {"writable": one.writable} for one in shown})
    for one in found.values():
        instead = one.path == TMP and own is not None and own.writable is True
        if one.writable is False:
            yield places.not_writable(host, one, WARNING if instead else ERROR)
    if own is not None and own.writable is False:
        yield places.not_writable(host, own, WARNING, variable="TMPDIR")
    if found[TMP].writable is not False:
        yield from places.mindspore(host, f"{TMP}/mindspore")
    if silent is not None:
        raise silent
    places.expect_told(host, found.values())
