"""Asks psutil. It is loaded with the first question: that costs 10 ms, and most commands ask none."""

from __future__ import annotations

import errno
import os
from types import ModuleType
from typing import Callable, TypeVar

from npudoctor.core.errors import CannotTell
from npudoctor.core.messages import _, strerror
from npudoctor.core.trust.guard import Untrusted

T = TypeVar("T")


def ask_psutil(subject: str, question: Callable[[ModuleType], T]) -> T:
    """What `question` returns, given psutil; CannotTell if that fails, or if psutil cannot be loaded.

    `subject` is a noun phrase for the message: "the memory".

    A part of it is compiled: a mount with noexec refuses to map it, as does a C library that is too old, and
    the one file has none for machines other than x86_64 and aarch64.
    """
    try:
        import warnings

        os.stat("/proc/stat")  # without it psutil before 6.0 prints a traceback while it is loaded

        import psutil

        # It would warn where /proc/meminfo lacks a row that we do not ask for, as in gVisor.
        warnings.filterwarnings("ignore", category=RuntimeWarning, module="psutil")
    except (ImportError, MemoryError, NotImplementedError, OSError) as error:
        raise CannotTell(_why_not_loaded(error)) from error
    try:
        return question(psutil)
    except psutil.NoSuchProcess as error:
        raise _cannot_read(subject, strerror(errno.ESRCH)) from error
    except psutil.AccessDenied as error:
        raise _cannot_read(subject, strerror(errno.EPERM)) from error
    except OSError as error:
        raise _cannot_read(subject, strerror(error.errno or 0)) from error
    # KeyError, RuntimeError, ValueError: /proc is not as psutil expects it, as in some sandboxes.
    except (psutil.Error, KeyError, RuntimeError, ValueError) as error:
        raise _cannot_read(subject, str(error)) from error


def _cannot_read(subject: str, why: str) -> CannotTell:
    """The error for a question that psutil could not answer."""
    return CannotTell(_("psutil cannot read {subject}: {why}", subject=subject, why=why))


def _why_not_loaded(error: BaseException) -> str:
    path = getattr(error, "path", None) or ""
    if os.path.isfile(path) and os.statvfs(path).f_flag & os.ST_NOEXEC:
        return _(
            "psutil cannot be loaded: {path} is on a noexec mount; set TMPDIR to another folder",
            path=path,
        )
    why = (str(error) or type(error).__name__).partition("\n")[0]
    quoted = why if isinstance(error, Untrusted) else f"`{why}`"  # our own reason is in the reader's language
    return _("psutil cannot be loaded: {why}", why=quoted)
