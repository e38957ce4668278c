"""How the host says that it cannot answer."""

from __future__ import annotations

import errno


class CannotTell(Exception):
    """The question applies, but the machine did not let us look: the row ends as unknown.

    `advisory` is for what cannot be seen from this place whatever the node's state; such a row is
    not needed for a verdict. `tried_by`: checks of the trial that do the very thing; where these have an
    answer, this one's is not needed either.
    """

    def __init__(self, reason: str, advisory: bool = False, tried_by: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.advisory = advisory
        self.tried_by = tried_by


class Silent(CannotTell):
    """What serves a file system did not answer in time: whoever uses it now waits as well."""


def has_ended(error: CannotTell) -> bool:
    """Whether what serves a file system is gone: then every use of it fails at once, a job's too. One that
    hangs is silent, which tells nothing."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in (errno.ENOTCONN, errno.ESTALE)


class DoesNotRun(CannotTell):
    """The job's interpreter cannot be asked because it exits with an error; the job will fail the same way.

    `status` is its exit status, negative for a signal; `said` its last line about it, which may be empty.
    """

    def __init__(self, reason: str, status: int, said: str) -> None:
        super().__init__(reason)
        self.status, self.said = status, said


class NotRunning(Exception):
    """What was asked for exists only on a running machine, and this host is an image under --root."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether it means that memory is short. Where `ulimit -v` lets no library be mapped, Python raises
    ImportError: seen of unicodedata, which is loaded for the first Chinese column."""
    if isinstance(error, ImportError) and "failed to map segment" in str(error):
        import resource

        # Without a limit it is a mount with noexec, or a damaged library.
        return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    return isinstance(error, MemoryError)
