"""Finds nodes on which Slurm starts no jobs now, and its reason: nobody need wait for them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from npudoctor.core.errors import CannotTell
from npudoctor.core.messages import _
from npudoctor.core.redact.redact import redact
from npudoctor.fleet.nodes import fold_nodes
from npudoctor.fleet.programs import find_trusted_program

# Seconds for sinfo, which asks a slurmctld that may be busy or down.
_SECONDS = 10.0
_REASON = 200  # characters of the reason that an administrator wrote
# Prefixes of sinfo's compact state names (%t) of such nodes: drain, drng, down, fail, failg, inval.
_CLOSED = ("drain", "drng", "down", "fail", "inval")
_SILENT = "*"  # sinfo's suffix for a node whose slurmd does not respond


def find_closed_nodes(nodes: Sequence[str]) -> Mapping[str, str]:
    """By node on which Slurm starts no job, a sentence that says why; {} when sinfo cannot be asked.

    A node that sinfo does not list is left out: it may be hidden from this user, and srun will tell.
    """
    try:
        # -a: hidden partitions too; -h: no header; -N: one line per node and partition.
        command = [find_trusted_program("sinfo"), "-a", "-h", "-N", "-n", fold_nodes(nodes), "-o", "%N %t %E"]
        answer = subprocess.run(command, capture_output=True, timeout=_SECONDS, stdin=subprocess.DEVNULL)
    except (CannotTell, OSError, subprocess.TimeoutExpired):
        return {}
    return parse_closed_nodes(answer.stdout.decode("utf-8", "replace"), nodes)


def parse_closed_nodes(text: str, nodes: Sequence[str]) -> Mapping[str, str]:
    """By closed node, a sentence why, from the output of `sinfo -h -N -o "%N %t %E"`."""
    closed, requested = {}, frozenset(nodes)
    for line in text.splitlines():
        node, _blank, rest = line.partition(" ")
        state, _blank, reason = rest.partition(" ")
        why = _why_closed(state, reason.strip())
        if why and node in requested:
            closed[node] = why
    return closed


def _why_closed(state: str, reason: str) -> str:
    """A sentence why the node is closed; "" when jobs start there."""
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
