"""Lists the faults that can be rehearsed: as text, and as npudoctor.rehearsals/1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npudoctor.core.messages import _
from npudoctor.rehearsal.fault import FIX, NOTHING, TYPED, Fault
from npudoctor.render.columns import pad, paragraph, width

SCHEMA = "npudoctor.rehearsals/1"


def rehearsals_object(faults: Sequence[Fault]) -> dict[str, Any]:
    """The npudoctor.rehearsals/1 document as plain data."""
    rows = [
        {
            "name": fault.name,
            "code": fault.code,
            "title": fault.title,
            "remedy": fault.remedy,
            "real": fault.real,
            "programs": list(fault.programs),
        }
        for fault in faults
    ]
    return {"schema": SCHEMA, "faults": rows}


def rehearsals_text(faults: Sequence[Fault]) -> str:
    """For each fault name and code, then its title and what repairs it."""
    ends = {
        FIX: _("npudoctor fix can repair it"),
        TYPED: _("the printed commands repair it"),
        NOTHING: _("no command can repair it"),
    }
    widest = max(width(fault.name) for fault in faults)
    lines = []
    for fault in faults:
        lines.append(f"{pad(fault.name, widest)}  {fault.code}")
        kind = _("real") if fault.real else _("simulated")
        text = _("{title} ({kind}; {end})", title=fault.title, kind=kind, end=ends[fault.remedy])
        lines += paragraph(text, " " * 4, " " * 4)
    return "\n".join(lines) + "\n"
