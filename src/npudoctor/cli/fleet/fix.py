"""`npudoctor fleet fix`: one plan for all nodes, one confirmation, and a journal on each node."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Optional

from npudoctor.cli.config import UsageError, not_one_of
from npudoctor.cli.fleet import asking as a
from npudoctor.core.messages import _
from npudoctor.fleet.fixes import FleetFix, NodeFix, merge_fixes, parse_fix_answer

if TYPE_CHECKING:
    from npudoctor.cli.arguments import fleet_options as f
    from npudoctor.cli.arguments import options as o
    from npudoctor.cli.caller import Caller


def fix(
    caller: Caller,
    cache_server: o.CacheServer = False,
    dry_run: o.DryRun = False,
    yes: Annotated[
        bool, o.switch("--yes", "-y", help=_("Do not ask; apply the safe fixes on all nodes."))
    ] = False,
    risk: o.Risk = None,
    owner: o.Owner = None,
    on: f.On = None,
    source: f.From = None,
    engine: f.Engine = None,
    fanout: f.Fanout = None,
    login: f.Login = None,
    connect_timeout: f.Connect = None,
    node_timeout: f.NodeTimeout = None,
    program: f.Program = None,
    tree: f.Tree = None,
    push: f.Push = False,
    file: f.File = None,
    format: o.Format = None,
    lang: o.Lang = None,
    config: o.ConfigFile = None,
) -> int:
    """Clean up many nodes at once."""
    from npudoctor.cli.arguments.settings import load_settings
    from npudoctor.cli.terminal.signals import StoppedBySignal

    if not cache_server:
        raise UsageError(_("fleet fix requires a selection: --cache-server"))
    if risk not in (None, "safe", "caution"):
        raise UsageError("--risk: " + not_one_of(risk, ("safe", "caution")))
    settings = load_settings({"format": format, "lang": lang, "config": config}, caller)
    run = _FleetFixRun(
        a.parse_target(caller.parameters, caller), _build_words(risk, owner or ()), settings["format"]
    )
    try:
        if not yes:
            run.ask("--dry-run", run.target.nodes)
        if yes or (run.fleet.planning_nodes and not dry_run and run.ask_consent()):
            run.ask("--yes", run.target.nodes if yes else run.fleet.planning_nodes)
    except StoppedBySignal:
        run.deliver()
        raise
    return run.deliver()


def _build_words(risk: Optional[str], owners: Sequence[str]) -> tuple[str, ...]:
    """The command for each node, without --dry-run or --yes."""
    owner_words = [word for owner in owners for word in ("--owner", owner)]
    return ("fix", "--cache-server", "--format", "json", *(("--risk", risk) if risk else ()), *owner_words)


class _FleetFixRun:
    """One run of fleet fix, with the answers so far."""

    def __init__(self, target: a.FleetTarget, words: Sequence[str], format: str) -> None:
        self.target, self._words, self._format = target, words, format
        self._started = time.time()
        self._answers: list[NodeFix] = []

    @property
    def fleet(self) -> FleetFix:
        """The merged answers."""
        return merge_fixes(self._answers, self.target.nodes)

    def ask(self, word: str, nodes: Sequence[str]) -> None:
        """Run the command with --dry-run or --yes on these nodes."""
        self.target.ask(
            (*self._words, word), lambda answer: self._answers.append(parse_fix_answer(answer)), nodes
        )

    def ask_consent(self) -> bool:
        """Show the plan and ask at the terminal; False when there is no terminal."""
        from npudoctor.render.fleet.fixes import fleet_fix_text

        if not sys.stdin or not sys.stdin.isatty():
            return False
        question = _("do this on {n} nodes? [y/N] ", n=len(self.fleet.planning_nodes))
        sys.stderr.write(fleet_fix_text(self.fleet) + question)
        sys.stderr.flush()
        # The Chinese "yes", as the question may be in Chinese.
        return sys.stdin.readline().strip().lower() in ("y", "yes", "是")

    def deliver(self) -> int:
        """Write the result; returns the exit code."""
        from npudoctor.cli.terminal.reports import deliver
        from npudoctor.render.fleet.fixes import fleet_fix_object, fleet_fix_text

        fleet = self.fleet
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._started))
        seconds = max(0.0, time.time() - self._started)
        deliver(
            self._format,
            lambda: fleet_fix_object(fleet, stamp, seconds, self.target.engine),
            lambda: fleet_fix_text(fleet),
        )
        return fleet.exit_code
