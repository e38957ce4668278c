"""Asks the checks side by side, holds every deadline, and turns every ending into a row."""

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
from npudoctor.runner.verdict import one_line

DEEP = "deep"  # a profile, and the group of the checks that only it asks: they run something of the job
LIKE = "like-snapshot"  # has a row only where a snapshot was given, or where it was asked for by name


@dataclass(frozen=True)
class Settings:
    """How a run is made. `select` empty: everything. `ignore`: id or code, and the reason if one was given.

    `timeout` bounds one check, `deadline` the whole run; both in seconds. `explain` says what the outputs
    mean that deep checks have seen. `watch` makes a context that lasts while the checks are asked.
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
    """Ask the selected checks of this host and judge the answers. Start it before any other thread.

    `until`: when the deadline is over on the steady clock, where it began to run before this call.
    """
    from npudoctor import __version__

    clock, started = time.monotonic(), time.time()
    until = clock + settings.deadline if until is None else until
    started_runs = start_runs(loaded, host, settings, until)
    asked = [item for item in started_runs if isinstance(item, CheckRun)]
    with settings.watch(asked, host) if settings.watch else nullcontext():  # after all children were forked
        workers = Workers(asked, host)
        description = Description(host)
        workers.drive(until)
        rows = collect_rows(started_runs, settings, until)
        machine, target = description.by(until)
    named = {*settings.select}
    broken = (row for row in loaded.broken if not named or named & {row.check, row.group})
    rows += [replace(row, reason=row.reason and redact(row.reason)) for row in broken]
    # An ignored finding is no cause: what it would have explained counts again.
    if settings.ignore:
        rows = verdict.ignore(rows, settings.ignore)
    if settings.explain and any(row.group == DEEP and row.findings for row in rows):
        rows = list(settings.explain(rows))
    rows = verdict.fold(rows)
    decided, status = verdict.judge(rows, settings.fail_on)
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
        msg=one_line(decided, rows, settings.fail_on),
        counts=verdict.count(rows),
        results=tuple(rows),
    )


def start_runs(
    loaded: LoadedChecks, host: Host, settings: Settings, until: float
) -> list[Union[Result, CheckRun]]:
    """The runs of the selected checks; a row for each that is not run in this scope or profile."""
    named = {*settings.select}
    selected = [check for check in loaded.checks if not named or named & {*check.names}]
    if host.options.like is None and LIKE not in named:
        selected = [check for check in selected if check.id != LIKE]
    reasons = {check.id: _not_asked(check, settings) for check in selected}
    # All children are forked before any thread starts.
    foreign = {
        check.id: loaded.foreign[check.id](host)
        for check in selected
        if reasons[check.id] is None and check.id in loaded.foreign
    }
    rows: list[Union[Result, CheckRun]] = []
    for check in selected:
        if reasons[check.id] is not None:
            rows.append(_row(check, Status.SKIPPED, reason=reasons[check.id]))
            continue
        if check.id in foreign:  # it looks for what it needs in its own process
            check = replace(check, needs=())
        # One that runs the frameworks has a deadline for each of them.
        timeout = settings.deadline if check.group == DEEP else settings.timeout
        rows.append(CheckRun(check, foreign.get(check.id), timeout, until))
    return rows


def collect_rows(begun: Sequence[Union[Result, CheckRun]], settings: Settings, until: float) -> list[Result]:
    """Wait for every answer, each until its own deadline, and make the rows."""
    rows = []
    for run in begun:
        if isinstance(run, Result):
            rows.append(run)
            continue
        wait(run.done, run.by + GRACE)
        if run.done.is_set():
            rows.append(_row(run.check, row_status(run.status, run.answers), run, reason=run.reason))
        elif run.started is None:
            text = _("the deadline passed before the check started")
            rows.append(_row(run.check, Status.TIMEOUT, reason=text))
        else:
            which = run.timeout if run.by < until else settings.deadline
            text = _("no result within {seconds:g} s; the check was abandoned", seconds=which)
            rows.append(_row(run.check, Status.TIMEOUT, run, reason=text))
    tried_by = {run.check.id: run.tried_by for run in begun if isinstance(run, CheckRun)}
    return verdict.settle(rows, tried_by)


def _not_asked(check: Check, settings: Settings) -> Optional[str]:
    """Why a selected check is not asked in this scope and profile."""
    if check.always:
        return None
    if settings.scope != "all" and settings.scope != check.scope.value:
        return _("not in the scope {scope}", scope=settings.scope)
    named = {DEEP, check.id, *check.codes} & {*settings.select}
    if check.group == DEEP and settings.profile != DEEP and not named:
        return _("not in the profile {profile}", profile=settings.profile)
    if settings.profile == "quick" and not check.quick and check.group != DEEP:
        return _("not in the profile quick")
    return None


def _row(
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
