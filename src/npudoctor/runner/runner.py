"""Runs the checks in parallel, enforces all deadlines, and turns every ending into a row."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Callable, Optional, Union

from npudoctor.checking.check import BUILT_IN, Check
from npudoctor.checking.validation import row_status
from npudoctor.core.frozen import dataclass, field, replace
from npudoctor.core.messages import _
from npudoctor.core.model import Facts, Finding, Report, Result, Severity, Status
from npudoctor.core.redact.redact import redact
from npudoctor.core.threads import GRACE, wait
from npudoctor.host import Host
from npudoctor.registry.collector import LoadedChecks
from npudoctor.runner import verdict
from npudoctor.runner.check_run import CheckRun, Workers
from npudoctor.runner.description import Description
from npudoctor.runner.verdict import verdict_line

DEEP = "deep"  # a profile, and the group of checks that only this profile runs: they import the frameworks
LIKE_SNAPSHOT = "like-snapshot"  # a check with a row only when a snapshot is given or it is selected by name


@dataclass(frozen=True)
class Settings:
    """The settings of a run. `select`: ids, codes, groups and tags, () for all; `ignore`: by id or code, the
    reason or None.

    `timeout` limits one check, `deadline` the whole run; both in seconds. `explain` adds to the rows what the
    output of deep checks means. `watch` makes a context that lasts while the checks run, as a progress line.
    """

    select: tuple[str, ...] = ()
    ignore: Mapping[str, Optional[str]] = field(default_factory=dict)
    scope: str = "all"
    profile: str = "full"
    fail_on: Severity = Severity.ERROR
    timeout: float = 10.0
    deadline: float = 30.0
    explain: Optional[Callable[[Sequence[Result]], Sequence[Result]]] = None
    watch: Optional[Callable[[Sequence[CheckRun], Host], AbstractContextManager[object]]] = None


def run(loaded: LoadedChecks, host: Host, settings: Settings, until: Optional[float] = None) -> Report:
    """Run the selected checks on this host and make the report. Call it before starting any thread.

    `until`: the end of the deadline on the monotonic clock; None: it starts with this call.
    """
    from npudoctor import __version__

    clock, started = time.monotonic(), time.time()
    until = clock + settings.deadline if until is None else until
    started_runs = start_runs(loaded, host, settings, until)
    check_runs = [item for item in started_runs if isinstance(item, CheckRun)]
    # After all children were forked: the context may start a thread.
    with settings.watch(check_runs, host) if settings.watch else nullcontext():
        workers = Workers(check_runs, host)
        description = Description(host)
        workers.drive(until)
        rows = collect_rows(started_runs, settings, until)
        machine, target = description.result_by(until)
    selected_names = {*settings.select}
    broken = (row for row in loaded.broken if not selected_names or selected_names & {row.check, row.group})
    rows += [replace(row, reason=row.reason and redact(row.reason)) for row in broken]
    # Before folding: an ignored finding is no cause, so that the findings which it explains count themselves.
    if settings.ignore:
        rows = verdict.mark_ignored(rows, settings.ignore)
    if settings.explain and any(row.group == DEEP and row.findings for row in rows):
        rows = list(settings.explain(rows))
    rows = verdict.fold_echoes(rows)
    decided, status = verdict.decide_verdict(rows, settings.fail_on)
    return Report(
        version=__version__,
        started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        seconds=round(time.monotonic() - clock, 3),
        profile=settings.profile,
        scope=settings.scope,
        host=machine,
        target=target,
        verdict=decided,
        exit_code=status,
        msg=verdict_line(decided, rows, settings.fail_on),
        counts=verdict.count_rows(rows),
        results=tuple(rows),
    )


def start_runs(
    loaded: LoadedChecks, host: Host, settings: Settings, until: float
) -> list[Union[Result, CheckRun]]:
    """A CheckRun for each selected check; a skipped Result for one that this scope or profile leaves out."""
    selected_names = {*settings.select}
    selected = [check for check in loaded.checks if not selected_names or selected_names & {*check.names}]
    if host.options.like is None and LIKE_SNAPSHOT not in selected_names:
        selected = [check for check in selected if check.id != LIKE_SNAPSHOT]
    reasons = {check.id: _why_skipped(check, settings) for check in selected}
    # All children are forked before any thread starts: a fork copies locks that another thread holds.
    foreign = {
        check.id: loaded.foreign[check.id](host)
        for check in selected
        if reasons[check.id] is None and check.id in loaded.foreign
    }
    rows: list[Union[Result, CheckRun]] = []
    for check in selected:
        if reasons[check.id] is not None:
            rows.append(_make_row(check, Status.SKIPPED, reason=reasons[check.id]))
            continue
        if check.id in foreign:  # its needs are examined in its own process
            check = replace(check, needs=())
        # A deep check imports all frameworks, and limits the time of each import itself.
        timeout = settings.deadline if check.group == DEEP else settings.timeout
        rows.append(CheckRun(check, foreign.get(check.id), timeout, until))
    return rows


def collect_rows(runs: Sequence[Union[Result, CheckRun]], settings: Settings, until: float) -> list[Result]:
    """Wait for every run until its own deadline, and make the rows in the order of the runs."""
    rows = []
    for run in runs:
        if isinstance(run, Result):
            rows.append(run)
            continue
        wait(run.done, run.due_at + GRACE)
        if run.done.is_set():
            rows.append(_make_row(run.check, row_status(run.status, run.answers), run, reason=run.reason))
        elif run.started is None:
            text = _("the deadline passed before the check started")
            rows.append(_make_row(run.check, Status.TIMEOUT, reason=text))
        else:
            limit_seconds = run.timeout if run.due_at < until else settings.deadline
            text = _("no result within {seconds:g} s; the check was abandoned", seconds=limit_seconds)
            rows.append(_make_row(run.check, Status.TIMEOUT, run, reason=text))
    tried_by = {run.check.id: run.tried_by for run in runs if isinstance(run, CheckRun)}
    return verdict.settle_by_trials(rows, tried_by)


def _why_skipped(check: Check, settings: Settings) -> Optional[str]:
    """Why a selected check does not run in this scope and profile; None when it does."""
    if check.always:
        return None
    if settings.scope != "all" and settings.scope != check.scope.value:
        return _("not in the scope {scope}", scope=settings.scope)
    selected_names = {DEEP, check.id, *check.codes} & {*settings.select}
    if check.group == DEEP and settings.profile != DEEP and not selected_names:
        return _("not in the profile {profile}", profile=settings.profile)
    if settings.profile == "quick" and not check.quick and check.group != DEEP:
        return _("not in the profile quick")
    return None


def _make_row(
    check: Check, status: Status, run: Optional[CheckRun] = None, *, reason: Optional[str] = None
) -> Result:
    answers = list(run.answers) if run else []
    facts: dict[str, object] = {}
    for answer in answers:
        if isinstance(answer, Facts):
            facts.update(answer.values)
    started = run.started if run else None
    seconds = 0.0 if run is None or started is None else (run.ended or time.monotonic()) - started
    advisory = check.advisory or (run is not None and run.advisory)
    return Result(
        check=check.id,
        title=_(check.title),
        group=check.group,
        status=status,
        scope=check.scope,
        tags=check.tags,
        needed=status is not Status.SKIPPED and not advisory,
        findings=tuple(answer for answer in answers if isinstance(answer, Finding)),
        reason=None if reason is None else redact(reason),
        seconds=round(seconds, 3),
        facts=facts,
        compares=() if check.origin == BUILT_IN else check.compares,
    )
