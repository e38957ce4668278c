"""Takes a snapshot: the facts of all sections, read in parallel with the checks under the same deadlines."""

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

# Prefix of the ids of the section readers: with a blank in it they can never equal the id of a check.
PREFIX = "section "


@dataclass(frozen=True)
class TakenSnapshot:
    """The sections that were read, by name, and the report of the checks that ran with them."""

    report: Report
    sections: Mapping[str, FactSection]


def take_snapshot(
    loaded: LoadedChecks, host: Host, settings: Settings, until: Optional[float] = None
) -> TakenSnapshot:
    """Read all sections and run all checks on this host; a section that hangs or crashes harms no other."""
    sections: dict[str, FactSection] = {}
    readers = tuple(_make_reader(name, sections) for name in READERS)
    with_readers = replace(loaded, checks=(*readers, *loaded.checks))
    report = run(with_readers, host, settings, until)
    rows = {row.check[len(PREFIX) :]: row for row in report.results if row.check.startswith(PREFIX)}
    finished_sections = dict(sections)  # a copy: an abandoned reader thread may still add to it
    section_by_name = {}
    for name, row in rows.items():
        section_by_name[name] = finished_sections.get(
            name
        ) or FactSection(  # it was not read in time, or its reader crashed
            name, (), row.reason or row.status.value, crashed=row.status is Status.CRASHED
        )
    return TakenSnapshot(_without_readers(report, settings), section_by_name)


def _make_reader(name: str, sections: dict[str, FactSection]) -> Check:
    """A check that reads a section, so that the runner gives it a deadline and a thread it can abandon."""

    def ask(host: Host) -> Iterator[CheckOutput]:
        sections[name] = read_section(name, host)
        return iter(())

    return Check(PREFIX + name, Scope.NODE, {}, ask, title=name, page=partial(str, name), always=True)


def _without_readers(report: Report, settings: Settings) -> Report:
    """The report without the rows of the readers, and with the verdict of the checks alone."""
    rows = [row for row in report.results if not row.check.startswith(PREFIX)]
    decided, status = verdict.decide_verdict(rows, settings.fail_on)
    return replace(
        report,
        results=tuple(rows),
        verdict=decided,
        exit_code=status,
        msg=verdict.verdict_line(decided, rows, settings.fail_on),
        counts=verdict.count_rows(rows),
    )
