"""A snapshot: the facts of all sections, read beside the checks under the same deadlines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Optional

from npudoctor.checking.check import Check, CheckOutput
from npudoctor.core.frozen import dataclass, replace
from npudoctor.core.model import Report, Scope, Status
from npudoctor.facts.snapshot.sections import READERS, FactSection, read_section
from npudoctor.host import Host
from npudoctor.registry.collector import LoadedChecks
from npudoctor.runner import verdict
from npudoctor.runner.runner import Settings, run

PREFIX = "section "  # before the name of a section, in the id of what reads it: no check has a blank


@dataclass(frozen=True)
class TakenSnapshot:
    """What was read of the node, and the report of the checks that were asked with it."""

    report: Report
    sections: Mapping[str, FactSection]


def take(
    loaded: LoadedChecks, host: Host, settings: Settings, until: Optional[float] = None
) -> TakenSnapshot:
    """Read all sections and ask all checks of this host: what one of them does harms no other."""
    sections: dict[str, FactSection] = {}
    readers = tuple(_reader(name, sections) for name in READERS)
    both = replace(loaded, checks=(*readers, *loaded.checks))
    report = run(both, host, settings, until)
    rows = {row.check[len(PREFIX) :]: row for row in report.results if row.check.startswith(PREFIX)}
    known = dict(sections)  # a reader that was left behind may still add to it
    whole = {}
    for name, row in rows.items():
        whole[name] = known.get(name) or FactSection(  # one that was not read in time
            name, (), row.reason or row.status.value, crashed=row.status is Status.CRASHED
        )
    return TakenSnapshot(_without_readers(report, settings), whole)


def _reader(name: str, sections: dict[str, FactSection]) -> Check:
    """What reads a section, as the runner asks it: with a deadline, in a thread that may be left behind."""

    def ask(host: Host) -> Iterator[CheckOutput]:
        sections[name] = read_section(name, host)
        return iter(())

    return Check(PREFIX + name, Scope.NODE, {}, ask, title=name, page=partial(str, name), always=True)


def _without_readers(report: Report, settings: Settings) -> Report:
    """The report of the checks alone, with their verdict."""
    rows = [row for row in report.results if not row.check.startswith(PREFIX)]
    decided, status = verdict.judge(rows, settings.fail_on)
    return replace(
        report,
        results=tuple(rows),
        verdict=decided,
        exit_code=status,
        msg=verdict.one_line(decided, rows, settings.fail_on),
        counts=verdict.count(rows),
    )
