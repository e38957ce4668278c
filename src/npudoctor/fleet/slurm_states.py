"""Nodes on which Slurm starts nothing now, and what it says about why: nobody need wait for them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from npudoctor.core.errors import CannotTell
from npudoctor.core.messages import _
from npudoctor.core.redact.redact import redact
from npudoctor.fleet.nodes import fold
from npudoctor.fleet.programs import trusted_program

_SECONDS = 10.0
_REASON = 200  # characters of what a person wrote
_CLOSED = ("drain", "drng", "down", "fail", "inval")  # how sinfo's short names of such states begin
_SILENT = "*"  # how they end where slurmd does not answer


def closed_nodes(nodes: Sequence[str]) -> Mapping[str, str]:
    """Those of the nodes that Slurm gives no job, each with a sentence that says why.

    A node that Slurm does not tell us about is not among them: it may be hidden from us, and srun will say.
    """
    try:
        command = [trusted_program("sinfo"), "-a", "-h", "-N", "-n", fold(nodes), "-o", "%N %t %E"]
        answer = subprocess.run(command, capture_output=True, timeout=_SECONDS, stdin=subprocess.DEVNULL)
    except (CannotTell, OSError, subprocess.TimeoutExpired):
        return {}
    return closed_in(answer.stdout.decode("utf-8", "replace"), nodes)


def closed_in(text: str, nodes: Sequence[str]) -> Mapping[str, str]:
    """The same out of what `sinfo -h -N -o "%N %t %E"` printed: a line for each partition of a node."""
    closed, asked = {}, frozenset(nodes)
    for line in text.splitlines():
        node, _blank, rest = line.partition(" ")
        state, _blank, reason = rest.partition(" ")
        why = _why_closed(state, reason.strip())
        if why and node in asked:
            closed[node] = why
    return closed


def _why_closed(state: str, reason: str) -> str:
    """A sentence, or "" where jobs start."""
    if not state.startswith(_CLOSED):
        return (
            _("Slurm gets no response from it (state {state})", state=state)
            if state.endswith(_SILENT)
            else ""
        )
    if reason in ("", "none"):
        return _("Slurm starts no jobs on it (state {state})", state=state)
    return _(
        "Slurm starts no jobs on it (state {state}: {reason})", state=state, reason=redact(reason[:_REASON])
    )
