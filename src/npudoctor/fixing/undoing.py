"""Taking a run of `fix` back: its steps reversed, the last first, each with a guard of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Callable, Optional

from npudoctor.core.frozen import dataclass, replace
from npudoctor.core.messages import _
from npudoctor.core.model import Finding, Fix, Risk, Step
from npudoctor.fixing.engine import decide, preview
from npudoctor.fixing.history import UNKNOWN, FixRun, StepRecord, runs_of
from npudoctor.fixing.journal import Journal
from npudoctor.fixing.outcome import ActionStatus, Observer, Outcome
from npudoctor.fixing.permission import why_forbidden
from npudoctor.fixing.plan import Confirm, FixRequest, Item, ItemResult
from npudoctor.fixing.report import FixReport, fix_report
from npudoctor.fixing.steps.steps import Command
from npudoctor.host import Host

if TYPE_CHECKING:
    from npudoctor.fixing.carry_out import ApplyContext


@dataclass(frozen=True)
class UndoContext:
    """What an undo works with; no check is asked, each guard says whether the old state is back."""

    host: Callable[[], Host]
    confirm: Confirm
    at: Observer = lambda name: None


def newest_undoable(runs: Sequence[FixRun]) -> Optional[FixRun]:
    """The newest run of which something can be undone and is not yet; None without such."""
    return next((run for run in runs if run.undoable), None)


def find_newest_lasting(runs: Sequence[FixRun]) -> Optional[FixRun]:
    """The newest run of `fix` of which something is not undone, whether it can be or not; None
    without such.
    """
    return next((run for run in runs if run.undoes is None and any(act.remains for act in run.acts)), None)


def find_runs(runs: Sequence[FixRun], name: str) -> list[FixRun]:
    """The runs that a name, or the beginning of a name, means."""
    # A whole name is never ambiguous, even where it begins another one.
    exact = [run for run in runs if run.name == name]
    return exact or [run for run in runs if name and run.name.startswith(name)]


def undo(
    run: Optional[FixRun], request: FixRequest, context: ApplyContext, show: Callable[[Sequence[Item]], None]
) -> FixReport:
    """Undo a run. `show` receives the whole plan before anything is asked or done."""
    items = items_of_run(run, context.host()) if run else []
    show(items)
    if run is None or not items:
        if run is None:
            nothing = _("nothing to undo")
        elif run.undone_by:
            nothing = _("run {run} is already undone", run=run.name)
        else:
            nothing = _("run {run} changed nothing", run=run.name)
        return fix_report((), None, changed=False, msg=nothing)
    if request.dry_run:
        decided = [ItemResult(item, preview(item)) for item in items]
    else:
        decided = [ItemResult(item, decide(item, request, context.confirm)) for item in items]
    # Nothing is loaded that changes a machine.
    if request.dry_run or not any(result.planned for result in decided):
        return fix_report(decided, None, changed=False)
    from npudoctor.fixing.carry_out import apply_with_journal

    return apply_with_journal(
        decided,
        context,
        lambda journal: _apply_undo(run, decided, context, journal),
        lambda done: fix_report(done, None, changed=False),
    )


def _apply_undo(
    run: FixRun, decided: Sequence[ItemResult], context: ApplyContext, journal: Journal
) -> FixReport:
    from npudoctor.fixing.carry_out import apply_item

    journal.write("undoes", undoes=run.name)  # without it nobody would know what these steps take back
    # The run as it is now that we hold the lock: while a person was asked, another undo may have ended, and
    # a program would be run twice.
    host = context.host()
    now = next((other for other in runs_of(host.records) if other.name == run.name), run)
    there = _steps_of(items_of_run(now, host))
    already = Outcome(ActionStatus.ALREADY, _("another run has already undone it"))
    still = [
        replace(result, outcome=already)
        if result.planned and not _steps_of([result.item]) <= there
        else result
        for result in decided
    ]
    done = [apply_item(result, number, context, journal) for number, result in enumerate(still)]
    return fix_report(done, journal.run, changed=any(result.outcome.changed for result in done))


def _steps_of(items: Iterable[Item]) -> set[Step]:
    return {step for item in items if item.finding.fix for step in item.finding.fix.steps}


def items_of_run(run: FixRun, host: Host) -> list[Item]:
    """What is to be taken back, the last step first; what cannot be is an item too, with the reason."""
    acts = [act for act in reversed(run.acts) if act.remains]
    # Steps of one finding that follow each other are one item.
    groups = groupby(acts, lambda act: (act.item, act.check, act.code, act.back is None))
    return [_item(run, list(group), host) for _key, group in groups]


def _item(run: FixRun, acts: Sequence[StepRecord], host: Host) -> Item:
    """One item for the acts that one finding led to, in the order in which they are taken back."""
    backs = tuple(act.back for act in acts if act.back is not None)
    first = acts[0]
    message = _("changes that run {run} made for {code}", run=run.name, code=first.code)
    doubts = [doubt for act in acts for doubt in [_doubt_text(act)] if doubt]
    fix = Fix(_("undo {code}", code=first.code), backs, risk=Risk.CAUTION, needs_root=False)
    finding = Finding(first.code, _("; ").join([message, *doubts]), fix=fix)
    return Item(first.check, finding, _undo_refusal(run, acts, host), takes_back=True)


def _doubt_text(act: StepRecord) -> str:
    """What is unknown about a program that was run; "" for files, whose guard will tell."""
    if not isinstance(act.step, Command):
        return ""
    if act.tried:
        return _("an undo was interrupted; whether this command ran is unknown")
    if act.status == UNKNOWN:
        return _("that run was interrupted; whether this command ran is unknown")
    if act.status == "failed":
        return _("it failed; what it did before that is unknown")
    return ""


def _undo_refusal(run: FixRun, acts: Sequence[StepRecord], host: Host) -> Optional[str]:
    if run.undoes is not None:
        return _("this run undid another one: `npudoctor fix` applies that fix again")
    for act in acts:
        if act.back is None:
            return _("this cannot be undone: {lines}", lines="; ".join(act.lines))
        forbidden = why_forbidden(act.back, host)
        if forbidden:
            return forbidden
    return None
