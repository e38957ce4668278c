"""How the host says that it cannot answer."""

from __future__ import annotations

import errno


class CannotTell(Exception):
    """The question applies, but the machine did not let us look: the row ends as unknown.

    `advisory`: it cannot be seen from this place whatever the node's state; such a row is not needed for a
    verdict. `tried_by`: checks of the trial that do the very thing; where these have an answer, the answer of
    this check is not needed either.
    """

    def __init__(self, reason: str, advisory: bool = False, tried_by: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.advisory = advisory
        self.tried_by = tried_by


class Silent(CannotTell):
    """The server of a file system did not answer in time: every process that uses it now waits as well."""


def has_ended(error: CannotTell) -> bool:
    """Return whether the server of a file system is gone, so that every use fails at once, a job's too.

    A server that hangs raises Silent, which does not say that it is gone.
    """
    # ENOTCONN: the FUSE daemon has exited. ESTALE: the NFS server no longer exports what is mounted.
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in (errno.ENOTCONN, errno.ESTALE)


class DoesNotRun(CannotTell):
    """The job's interpreter cannot be asked because it exits with an error; the job will fail the same way.

    `status` is its exit status, negative for a signal; `last_line` is the last line that it wrote to stderr,
    which may be empty.
    """

    def __init__(self, reason: str, status: int, last_line: str) -> None:
        super().__init__(reason)
        self.status, self.last_line = status, last_line


class NotRunning(Exception):
    """The question needs a running machine, and this host is an image under --root."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory is short.

    Where `ulimit -v` lets no library be mapped, Python raises ImportError: seen with unicodedata, which is
    loaded for the first Chinese column.
    """
    if isinstance(error, ImportError) and "failed to map segment" in str(error):
        import resource

        # Without a limit it is a mount with noexec, or a damaged library.
        return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    return isinstance(error, MemoryError)
