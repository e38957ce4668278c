"""Loads checks of other distributions, found by their entry points, in child processes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple, Optional

from npudoctor.checking.check import is_name
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _, strerror
from npudoctor.core.trust.guard import Untrusted
from npudoctor.core.trust.paths import why_untrusted
from npudoctor.registry import foreign
from npudoctor.registry.collector import PLUG_IN_GROUP, Collector
from npudoctor.registry.dropins import ForeignCheck

_MODULE = pattern(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z")
UNNAMED = "unnamed-plug-in"


class EntryPoint(NamedTuple):
    """One line of an entry_points.txt; `file` is the path of that file."""

    name: str
    module: str
    file: str


def load_plug_ins(collector: Collector, points: Mapping[tuple[str, str], str], until: float) -> None:
    """Load the modules that the entry points name. `until`: a time on the monotonic clock."""
    loading = []
    for (name, module), file in points.items():
        point = EntryPoint(name, module, file)
        why = _why_rejected(point)
        if why is not None:
            collector.add_broken(point.name if _has_valid_name(point) else UNNAMED, PLUG_IN_GROUP, why)
            continue
        ask = partial(foreign.load_module, point.module, point.name)
        plug_in = ForeignCheck(collector, point.name, PLUG_IN_GROUP, ask, point.file)
        plug_in.begin()
        loading.append(plug_in)
    for plug_in in loading:
        plug_in.finish(until)


def _has_valid_name(point: EntryPoint) -> bool:
    return is_name(point.name.replace("_", "-"))


def _why_rejected(point: EntryPoint) -> Optional[str]:
    """Why a module is not imported: its name is invalid, or another user can modify its files. None: it
    is."""
    if not _has_valid_name(point):
        return _(
            "{file}: {value!r} is not the name of a check (lower-case words joined by hyphens)",
            file=point.file,
            value=point.name,
        )
    if not _MODULE.match(point.module):
        return _("{file}: {value} is not the name of a module", file=point.file, value=point.module)
    path = point.file
    try:
        for path in (point.file, *_find_files(point.module)):
            why = why_untrusted(path, os.geteuid())
            if why is not None:
                return why
    except Untrusted as error:
        return str(error)
    except OSError as error:
        return _("{path} cannot be read: {why}", path=path, why=strerror(error.errno))
    return None


def _find_files(module: str) -> Iterator[str]:
    """Yield the files from which a module and its parent packages would be loaded, without importing any.

    A module that is not found this way fails when it is imported, in a child.
    """
    from importlib.machinery import PathFinder
    from importlib.util import find_spec

    dotted_name, search_path = "", None
    for part in module.split("."):
        dotted_name = f"{dotted_name}.{part}".lstrip(".")
        try:
            # find_spec of a top-level name imports nothing, and asks the finders of editable installs, too.
            spec = (
                PathFinder.find_spec(dotted_name, search_path)
                if search_path is not None
                else find_spec(dotted_name)
            )
        except Untrusted:
            raise
        except (ImportError, ValueError):
            return
        if spec is None:
            return
        search_path = list(spec.submodule_search_locations or ())
        yield from search_path
        if spec.has_location and spec.origin:
            yield spec.origin
            # The .pyc that would be executed instead, or the __pycache__ in which another user could put one.
            if spec.cached and os.path.lexists(os.path.dirname(spec.cached)):
                yield spec.cached if os.path.lexists(spec.cached) else os.path.dirname(spec.cached)
