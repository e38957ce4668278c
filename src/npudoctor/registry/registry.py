"""Finds the checks: built-in by their files, drop-ins by a directory. A broken one becomes a row."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module

from npudoctor.checking import index
from npudoctor.core.trust import guard
from npudoctor.registry.collector import Collector, LoadedChecks
from npudoctor.registry.entrypoints import entry_points

DROP_INS = "/etc/npudoctor/checks.d"
LOAD_SECONDS = 5.0


def load_all(variables: Mapping[str, str], seconds: float = LOAD_SECONDS) -> LoadedChecks:
    """The built-in checks, the plug-ins, and the drop-ins that the caller's variables name; call it before
    any thread.

    `seconds`: how long plug-ins and drop-ins may take to load, all together.
    """
    collector = Collector()
    package = import_module("npudoctor.checks")
    known = index.load_index()
    for group, name in check_files(list(package.__path__)):
        expected = name.replace("_", "-")
        try:
            check = known.get((group, expected)) or index.load_check(group, expected)
        except Exception as error:
            collector.breaks(expected, group, f"{type(error).__name__}: {error}")
        else:
            collector.add(check)
    until = time.monotonic() + min(seconds, LOAD_SECONDS)
    named = entry_points([*sys.path, *guard.left_out])
    if named:
        from npudoctor.registry import plugins

        plugins.load(collector, named, until)
    directory = variables.get("NPUDOCTOR_CHECKS_DIR", DROP_INS)
    if directory and (directory != DROP_INS or os.path.lexists(DROP_INS)):
        from npudoctor.registry import dropins  # loaded only here: most machines have none

        left = max(0.1, until - time.monotonic())
        dropins.load(collector, directory, left, named=directory != DROP_INS)
    return collector.freeze()


def check_files(package_path: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Group and module name of every check file below the given folders, in order."""
    for base in package_path:
        for group in sorted(os.listdir(base)):
            if os.path.isfile(os.path.join(base, group, "__init__.py")):
                for name in sorted(os.listdir(os.path.join(base, group))):
                    if name.endswith(".py") and not name.startswith("_"):
                        yield group, name[:-3]
