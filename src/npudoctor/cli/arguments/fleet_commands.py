"""The commands of `npudoctor fleet`, and the choices of some of their options."""

from __future__ import annotations

from npudoctor.core.messages import _

COMMANDS = {
    "check": _("Check many nodes at once over ssh or Slurm, and merge their reports."),
    "fix": _("Clean up many nodes: one plan, one confirmation, a journal on each node."),
    "pairs": _("Try the connections between all nodes on the ports that the job will use."),
    "report": _("Merge the reports of many nodes, however they were collected."),
}
# Commands that help does not list; `fleet pairs` starts this one on each node.
HIDDEN = {"part": _("Take part in fleet pairs.")}
FORMATS = ("text", "json", "jsonl", "html", "junit", "prometheus", "csv")
STATES = ("ready", "not-ready", "undetermined", "silent")
