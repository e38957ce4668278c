"""The door to psutil. It is loaded by the first question, as it costs 10 ms and most commands ask none."""

from __future__ import annotations

from types import ModuleType
from typing import Callable, TypeVar

from npudoctor.core.errors import CannotTell
from npudoctor.core.messages import _

T = TypeVar("T")


def ask_psutil(subject: str, question: Callable[[ModuleType], T]) -> T:
    """What psutil answers; CannotTell where it does not, or where this machine does not load it.

    A part of it is compiled: a mount with noexec refuses to map it, as does a C library that is too old, and
    the one file has none for machines other than x86_64 and aarch64.
    """
    try:
        psutil = _load()
    except (ImportError, MemoryError, NotImplementedError, OSError) as error:
        why = (str(error) or type(error).__name__).partition("\n")[0]
        raise CannotTell(_("psutil cannot be loaded: {why}", why=why)) from error
    try:
        return question(psutil)
    # KeyError, RuntimeError, ValueError: /proc is not as psutil expects it, as in some sandboxes.
    except (psutil.Error, KeyError, OSError, RuntimeError, ValueError) as error:
        text = _("psutil cannot read {subject}: {why}", subject=subject, why=str(error))
        raise CannotTell(text) from error


def _load() -> ModuleType:
    """psutil, silent: where /proc/meminfo lacks a row that we do not ask for, as in gVisor, it would warn on
    standard error."""
    import warnings

    import psutil

    warnings.filterwarnings("ignore", category=RuntimeWarning, module="psutil")
    return psutil
