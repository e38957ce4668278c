"""Checks that other distributions bring along, by entry points: loaded and asked in child processes."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import partial
from typing import Optional

from npudoctor import foreign
from npudoctor.dropins import Foreign
from npudoctor.entrypoints import EntryPoint
from npudoctor.messages import _, strerror
from npudoctor.registry import PLUG_IN_GROUP, Collector
from npudoctor.trust import why_untrusted

_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z")


def load(collector: Collector, points: Sequence[EntryPoint], until: float) -> None:
    """Load the modules that the entry points name; the steady clock says until when."""
    begun = []
    for point in points:
        plug_in = Foreign(
            collector, point.name, PLUG_IN_GROUP, partial(foreign.load_module, point.module, point.name)
        )
        why = _why_not(point)
        if why is not None:
            plug_in.breaks(why)
            continue
        plug_in.begin()
        begun.append(plug_in)
    for plug_in in begun:
        plug_in.finish(until)


def _why_not(point: EntryPoint) -> Optional[str]:
    """Why a module is not imported: its name is none, or others could have put it there."""
    if not _MODULE.match(point.module):
        return _("{file}: {value} is no name of a module").format(file=point.file, value=point.module)
    try:
        return why_untrusted(point.file, os.geteuid())
    except OSError as error:
        return _("{path} cannot be read: {why}").format(path=point.file, why=strerror(error.errno))
