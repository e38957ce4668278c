"""The public names for authors of checks; each is imported when it is first used.

The console script imports this package even for `--version`, so nothing heavy may load here.
"""

# Not imported from typing, which would take longer than everything else of `--version`.
TYPE_CHECKING = False

__version__ = "0.1.0"

if TYPE_CHECKING:
    from npudoctor.checking.check import Check, Skip, Unknown, check
    from npudoctor.core.marks import FileMark
    from npudoctor.core.messages import _, ngettext
    from npudoctor.core.model import (
        Action,
        Compared,
        Facts,
        Finding,
        Fix,
        Risk,
        Scope,
        Severity,
        Status,
        Step,
    )
    from npudoctor.fixing.steps.commands import change_variable
    from npudoctor.fixing.steps.steps import (
        Command,
        Export,
        InsertRule,
        Remount,
        RemoveFiles,
        RemoveSharedMemory,
        RemoveSocket,
        RemoveUnused,
        RestoreSocket,
        SetKernel,
        SignalProcess,
        WriteFile,
    )
    from npudoctor.host import Host

_NAMES_BY_MODULE = {
    "npudoctor.checking.check": ("Check", "Skip", "Unknown", "check"),
    "npudoctor.fixing.steps.commands": ("Command", "Export", "change_variable"),
    "npudoctor.fixing.steps.kernel": ("InsertRule", "Remount", "SetKernel"),
    "npudoctor.fixing.steps.leftovers": (
        "RemoveFiles",
        "RemoveSharedMemory",
        "RemoveSocket",
        "RemoveUnused",
        "RestoreSocket",
        "SignalProcess",
    ),
    "npudoctor.fixing.steps.texts": ("WriteFile",),
    "npudoctor.host": ("Host",),
    "npudoctor.core.marks": ("FileMark",),
    "npudoctor.core.messages": ("_", "ngettext"),
    "npudoctor.core.model": (
        "Action",
        "Compared",
        "Facts",
        "Finding",
        "Fix",
        "Risk",
        "Scope",
        "Severity",
        "Status",
        "Step",
    ),
}
_SEVERITIES = ("INFO", "WARNING", "ERROR")

# No import of the standard library either, not even `__future__`: until __main__ has put sys.path in order, a
# module of that name may be another user's file.
INFO: "Severity"
WARNING: "Severity"
ERROR: "Severity"

__all__ = [
    "ERROR",
    "INFO",
    "WARNING",
    "Action",
    "Check",
    "Command",
    "Compared",
    "Export",
    "Facts",
    "FileMark",
    "Finding",
    "Fix",
    "Host",
    "InsertRule",
    "Remount",
    "RemoveFiles",
    "RemoveSharedMemory",
    "RemoveSocket",
    "RemoveUnused",
    "RestoreSocket",
    "Risk",
    "Scope",
    "SetKernel",
    "Severity",
    "SignalProcess",
    "Skip",
    "Status",
    "Step",
    "Unknown",
    "WriteFile",
    "_",
    "change_variable",
    "check",
    "ngettext",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    # The members of Severity are names of their own: checks write `ERROR` in their declarations.
    if name in _SEVERITIES:
        value = getattr(import_module("npudoctor.core.model").Severity, name)
    else:
        home = next((module for module, names in _NAMES_BY_MODULE.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module 'npudoctor' has no attribute {name!r}")
        value = getattr(import_module(home), name)
    globals()[name] = value  # __getattr__ runs once per name: forty checks import a dozen names each
    return value
