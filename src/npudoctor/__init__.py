"""The names that a check's author uses; each is loaded when it is first asked for.

The console script imports this package even for `--version`, so nothing heavy may load here.
"""

# Not from typing: importing that would cost more than all the rest of `--version`.
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

_HOME = {
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

# Nothing of Python's own library either, `__future__` included: what is found by its name may be another
# user's until __main__ has put the path in order.
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

    if name in _SEVERITIES:
        value = getattr(import_module("npudoctor.core.model").Severity, name)
    else:
        home = next((module for module, names in _HOME.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module 'npudoctor' has no attribute {name!r}")
        value = getattr(import_module(home), name)
    globals()[name] = value  # asked for once: forty checks import a dozen names each
    return value
