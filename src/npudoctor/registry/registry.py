"""Finds all checks: built-in ones by their files, plug-ins, drop-ins. A broken one becomes a row."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module

from npudoctor.checking import index
from npudoctor.core.trust import guard
from npudoctor.registry.collector import Collector, LoadedChecks
from npudoctor.registry.entrypoints import find_entry_points

DROP_INS = "/etc/npudoctor/checks.d"
LOAD_SECONDS = 5.0  # for all plug-ins and drop-ins together


def load_all(variables: Mapping[str, str], seconds: float = LOAD_SECONDS) -> LoadedChecks:
    """Load the built-in checks, the plug-ins, and the drop-ins. Call it before starting any thread.

    `variables`: NPUDOCTOR_CHECKS_DIR in them names the directory of the drop-ins. `seconds`: how long all
    plug-ins and drop-ins together may take to load; at most LOAD_SECONDS.
    """
    collector = Collector()
    package = import_module("npudoctor.checks")
    indexed = index.load_index()
    for group, name in list_check_files(list(package.__path__)):
        expected = name.replace("_", "-")
        try:
            check = indexed.get((group, expected)) or index.load_check(group, expected)
        # A check of a damaged installation must not stop the others.
        except Exception as error:
            collector.add_broken(expected, group, f"{type(error).__name__}: {error}")
        else:
            collector.add(check)
    until = time.monotonic() + min(seconds, LOAD_SECONDS)
    plug_in_points = find_entry_points([*sys.path, *guard.left_out])
    if plug_in_points:
        from npudoctor.registry import plugins

        plugins.load_plug_ins(collector, plug_in_points, until)
    directory = variables.get("NPUDOCTOR_CHECKS_DIR", DROP_INS)
    if directory and (directory != DROP_INS or os.path.lexists(DROP_INS)):
        from npudoctor.registry import dropins  # loaded only here: most machines have none

        remaining_seconds = max(0.1, until - time.monotonic())
        dropins.load_drop_ins(collector, directory, remaining_seconds, is_required=directory != DROP_INS)
    return collector.freeze()


def list_check_files(package_path: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield group and module name of every check file in the directories of a package, sorted."""
    for base in package_path:
        for group in sorted(os.listdir(base)):
            if os.path.isfile(os.path.join(base, group, "__init__.py")):
                for name in sorted(os.listdir(os.path.join(base, group))):
                    if name.endswith(".py") and not name.startswith("_"):
                        yield group, name[:-3]
