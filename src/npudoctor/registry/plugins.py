"""Checks that other distributions bring along, by entry points: loaded and asked in child processes."""

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
    """One line of an entry_points.txt; `file` is where it stands."""

    name: str
    module: str
    file: str


def load(collector: Collector, points: Mapping[tuple[str, str], str], until: float) -> None:
    """Load the modules that the entry points name; the steady clock says until when."""
    begun = []
    for (name, module), file in points.items():
        point = EntryPoint(name, module, file)
        why = _why_not(point)
        if why is not None:
            collector.breaks(point.name if _has_valid_name(point) else UNNAMED, PLUG_IN_GROUP, why)
            continue
        ask = partial(foreign.load_module, point.module, point.name)
        plug_in = ForeignCheck(collector, point.name, PLUG_IN_GROUP, ask, point.file)
        plug_in.begin()
        begun.append(plug_in)
    for plug_in in begun:
        plug_in.finish(until)


def _has_valid_name(point: EntryPoint) -> bool:
    return is_name(point.name.replace("_", "-"))


def _why_not(point: EntryPoint) -> Optional[str]:
    """Why a module is not imported: its name is not valid, or other users could have written it."""
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
    """The files from which a module and the packages around it would be loaded; none of them is, here.

    What is not found this way has its say when it is imported, in a child.
    """
    from importlib.machinery import PathFinder
    from importlib.util import find_spec

    whole, places = "", None
    for part in module.split("."):
        whole = f"{whole}.{part}".lstrip(".")
        try:
            # Of a name without a parent nothing is imported; finders of development installs know it, too.
            spec = PathFinder.find_spec(whole, places) if places is not None else find_spec(whole)
        except Untrusted:
            raise
        except (ImportError, ValueError):
            return
        if spec is None:
            return
        places = list(spec.submodule_search_locations or ())
        yield from places
        if spec.has_location and spec.origin:
            yield spec.origin
            # The compiled copy that would be run instead, or the folder in which others could put one.
            if spec.cached and os.path.lexists(os.path.dirname(spec.cached)):
                yield spec.cached if os.path.lexists(spec.cached) else os.path.dirname(spec.cached)
