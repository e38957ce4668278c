"""Asks the checks side by side, holds every deadline, and turns every ending into a row."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Callable, Optional, Union

from npudoctor.checking.check import Check
from npudoctor.checking.validation import row_status
from npudoctor.core.frozen import dataclass, field, replace
from npudoctor.core.messages import _
from npudoctor.core.model import Facts, Finding, Report, Result, Severity, Status
from npudoctor.core.redact.redact import redact
from npudoctor.core.waiting import GRACE, wait
from npudoctor.host import Host
from npudoctor.registry.collector import LoadedChecks
from npudoctor.runner import verdict
from npudoctor.runner.check_run import AskUntil, CheckRun, Workers
from npudoctor.runner.description import Description
from npudoctor.runner.reporting import one_line

DEEP = "deep"  # a profile, and the group of the checks that only it asks: they run something of the job


@dataclass(frozen=True)
class Settings:
    """How a run is made. `select` empty: everything. `ignore`: id or code, and the reason if one was given.

    `timeout` bounds one check, `deadline` the whole run; both in seconds. `explain` says what the outputs
    mean that deep checks have seen.
    """

    select: tuple[str, ...] = ()
    ignore: Mapping[str, Optional[str]] = field(default_factory=dict)
    scope: str = "all"
    profile: str = "full"
    fail_on: Severity = Severity.ERROR
    timeout: float = 10.0
    deadline: float = 30.0
    explain: Optional[Callable[[Sequence[Result]], Sequence[Result]]] = None

    def timeout_of(self, check: Check) -> float:
        """How long a check may take: one that runs the frameworks has a deadline for each of them."""
        return self.deadline if check.group == DEEP else self.timeout


def run(loaded: LoadedChecks, host: Host, settings: Settings, until: Optional[float] = None) -> Report:
    """Ask the selected checks of this host and judge the answers. Start it before any other thread.

    `until`: when the deadline is over on the steady clock, where it began to run before this call.
    """
    from npudoctor import __version__

    clock, started = time.monotonic(), time.time()
    until = clock + settings.deadline if until is None else until
    asked = start_runs(loaded, host, settings, until)
    workers = Workers([one for one in asked if isinstance(one, CheckRun)], host)
    description = Description(host)
    workers.drive(until)
    rows = [*collect_rows(asked, settings, until), *_broken(loaded, settings)]
    # What is ignored is nobody's cause: a deep failure then stands by itself.
    rows = verdict.ignore(rows, settings.ignore)
    rows = verdict.fold(settings.explain(rows) if settings.explain else rows)
    reached, status = verdict.judge(rows, settings.fail_on)
    machine, target = description.by(until)
    return Report(
        version=__version__,
        started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        seconds=round(time.monotonic() - clock, 3),
        profile=settings.profile,
        scope=settings.scope,
        host=machine,
        target=target,
        verdict=reached,
        exit_code=status,
        msg=one_line(reached, rows, settings.fail_on),
        counts=verdict.count(rows),
        results=tuple(rows),
    )


def start_runs(
    loaded: LoadedChecks, host: Host, settings: Settings, until: float
) -> list[Union[Result, CheckRun]]:
    """What is to be asked; a row at once for each selected check that is not to be asked here."""
    selected = [check for check in loaded.checks if _selected(check.names, settings.select)]
    reasons = {check.id: _not_asked(check, settings) for check in selected}
    # All children are forked before any thread starts.
    asking = {
        check.id: loaded.foreign[check.id](host) if check.id in loaded.foreign else _plain(check, host)
        for check in selected
        if reasons[check.id] is None
    }
    begun: list[Union[Result, CheckRun]] = []
    for check in selected:
        if check.id in asking:
            # A foreign check looks for what it needs in its own process.
            mine = replace(check, needs=()) if check.id in loaded.foreign else check
            begun.append(CheckRun(mine, asking[check.id], settings.timeout_of(check), until))
        else:
            begun.append(_row(check, Status.SKIPPED, reason=reasons[check.id]))
    return begun


def collect_rows(begun: Sequence[Union[Result, CheckRun]], settings: Settings, until: float) -> list[Result]:
    """Wait for every answer, each until its own deadline, and make the rows."""
    return [row if isinstance(row, Result) else _gather(row, settings, until) for row in begun]


def _broken(loaded: LoadedChecks, settings: Settings) -> list[Result]:
    rows = (row for row in loaded.broken if _selected((row.check, row.group), settings.select))
    return [replace(row, reason=row.reason and redact(row.reason)) for row in rows]


def _selected(names: Sequence[str], wanted: Sequence[str]) -> bool:
    return not wanted or any(name in wanted for name in names)


def _not_asked(check: Check, settings: Settings) -> Optional[str]:
    """Why a selected check is not asked in this scope and profile."""
    if check.always:
        return None
    if settings.scope != "all" and settings.scope != check.scope.value:
        return _("not in the scope {scope}").format(scope=settings.scope)
    named = {DEEP, check.id, *check.codes} & {*settings.select}
    if check.group == DEEP and settings.profile != DEEP and not named:
        return _("not in the profile {profile}").format(profile=settings.profile)
    if settings.profile == "quick" and not check.quick and check.group != DEEP:
        return _("not in the profile quick")
    return None


def _plain(check: Check, host: Host) -> AskUntil:
    return lambda until: check.ask(host)


def _gather(asked: CheckRun, settings: Settings, until: float) -> Result:
    wait(asked.done, asked.by + GRACE)
    if not asked.done.is_set():
        if asked.started is None:
            return _row(
                asked.check, Status.TIMEOUT, reason=_("the deadline was reached before it was started")
            )
        which = settings.timeout_of(asked.check) if asked.by < until else settings.deadline
        text = _("no result within {seconds:g} s; it was abandoned").format(seconds=which)
        return _row(asked.check, Status.TIMEOUT, asked, reason=text)
    status = row_status(asked.status, asked.answers)
    return _row(asked.check, status, asked, reason=asked.reason)


def _row(
    check: Check, status: Status, asked: Optional[CheckRun] = None, *, reason: Optional[str] = None
) -> Result:
    answers = list(asked.answers) if asked else []
    facts: dict[str, object] = {}
    for answer in answers:
        if isinstance(answer, Facts):
            facts.update(answer.values)
    started = asked.started if asked else None
    seconds = 0.0 if asked is None or started is None else (asked.ended or time.monotonic()) - started
    advisory = check.advisory or (asked is not None and asked.advisory)
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
    )
