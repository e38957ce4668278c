"""Runs the environment checks, applies their remedies to the variables, and repeats until they pass."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.core.model import UNANSWERED, Finding, Report, Severity
from npudoctor.environment import variable_checks
from npudoctor.environment.diff import TIDY, apply_diff, drop_entries, entries_of, remove_duplicates
from npudoctor.environment.owners import ATB, NAMING, CannOwners
from npudoctor.environment.scripts import CannScripts
from npudoctor.facts.cann.installations import Install
from npudoctor.host import CannotTell, Host
from npudoctor.registry.collector import LoadedChecks
from npudoctor.runner import runner

MOST = 6  # rounds; each fixes something that the one before uncovered
# For all rounds together: somebody waits for a prompt.
SECONDS = 20.0


class Rounds:
    """Changes the variables round by round; `variables` are the current ones, `notes` what a person should
    know.
    """

    def __init__(self, host: Host, active: Install) -> None:
        self.host = host
        self.variables: dict[str, str] = dict(host.variables)
        self.notes: list[str] = []
        self._owners = CannOwners(host, active)
        self._scripts = CannScripts(host, self._owners)
        self._until = time.monotonic() + SECONDS
        self._loaded = _environment_checks()
        self._applied: dict[str, AppliedRemedy] = {}
        self._useless: set[str] = set()

    def run(self) -> None:
        """Run checks and change variables until nothing is wrong, or nothing helps."""
        report = self._run_checks(self.host)
        earlier_variables = [self.variables]
        for _round in range(MOST):
            findings = variable_checks.findings_of(report)
            if not self._take_back(findings):
                # The variables after one round: what the scripts would set, then the single remedies.
                variables, owners = self._source_scripts(findings), self._owners
                words = variable_checks.atb_script(findings)
                # What was changed in this round may have answered it already.
                if words and variables == self.variables:
                    variables = owners.drop_wrong(self._scripts.add_atb(variables, words))
                touched = {
                    name
                    for name in {*variables, *self.variables}
                    if variables.get(name) != self.variables.get(name)
                }
                for finding in findings:
                    variables = self._apply_remedy(finding, variables, touched)
                tidied = remove_duplicates(variables, self._owners)
                # The remedies go round in circles.
                if tidied in earlier_variables:
                    break
                self.variables = tidied
                earlier_variables.append(tidied)
            report = self._run_checks(self.host.with_variables(self.variables))
        self._take_back(variable_checks.findings_of(report))
        lines = (line for remedy in self._applied.values() for line in remedy.notes)
        self.notes += [*self._scripts.notes, *lines, *_remaining_notes(report)]

    def cann_variables(self) -> dict[str, str]:
        """The variables that name CANN or lead into it, whether they were set before or not."""
        variables, owners = self.variables, self._owners
        lists = (name for name in TIDY if any(map(owners.is_of_ascend, entries_of(variables, name))))
        return {name: variables[name] for name in (*NAMING, ATB, *lists) if variables.get(name)}

    def _run_checks(self, host: Host) -> Report:
        seconds_left = max(1.0, self._until - time.monotonic())
        settings = runner.Settings(timeout=min(host.options.timeout, seconds_left), deadline=seconds_left)
        report = runner.run(self._loaded, host, settings)
        for row in report.results:
            # Without these nothing can be said about CANN's variables.
            if row.check in variable_checks.OWN and row.status in UNANSWERED:
                raise CannotTell(f"{row.check}: {row.reason}")
        return report

    def _take_back(self, findings: Sequence[Finding]) -> bool:
        """Undo each single remedy whose finding is still there, as variables do not fix it; return whether
        there was one.
        """
        useless = {finding.message for finding in findings} & self._applied.keys()
        for message in useless:
            self._useless.add(message)
            self.variables = self._applied.pop(message).undo(self.variables)
        return bool(useless)

    def _source_scripts(self, findings: Sequence[Finding]) -> dict[str, str]:
        variables, owners = dict(self.variables), self._owners
        codes = {finding.code for finding in findings}
        if codes & variable_checks.MIXED:
            variables = drop_entries(variables, owners.is_foreign)
        if codes & variable_checks.UNSOURCED:
            gone_folders = tuple(f"{folder}/" for folder in owners.find_gone(variables))
            variables = drop_entries(
                variables, lambda entry: entry.startswith(gone_folders) and owners.resolve(entry) is None
            )
            variables = owners.drop_wrong(apply_diff(variables, self._scripts.diff_of_cann(), owners))
            if variables == self.variables:  # it set all that it sets, and something is still missing
                variables = owners.drop_wrong(apply_diff(variables, self._scripts.diff_of_tables(), owners))
        return variables

    def _apply_remedy(self, finding: Finding, variables: dict[str, str], touched: set[str]) -> dict[str, str]:
        """The variables with one finding's own remedy, unless an earlier one has changed the same; `touched`
        collects what was changed.
        """
        passed = (
            finding.code in variable_checks.UNSOURCED or finding.message in self._useless or finding.caused_by
        )
        changes = None if passed else variable_checks.changes_of(finding)
        # Two remedies for one variable in one round would undo each other.
        if changes is None or touched & changes.keys():
            return variables
        # A remedy that names another CANN than the one in use leads away: half of each is no CANN.
        in_use = (None, self._owners.active.real)
        for name, value in changes.items():
            if name in NAMING and value and self._owners.root_of(name, value) not in in_use:
                return variables
        touched |= changes.keys()
        self._applied[finding.message] = AppliedRemedy.of(finding, changes, variables)
        merged = {**variables, **changes}
        return {name: str(value) for name, value in merged.items() if value is not None}


def _remaining_notes(report: Report) -> Iterator[str]:
    """Yield what is still wrong, and what is unknown; CannotTell where it is what was to be corrected."""
    for row in report.results:
        for finding in row.findings if row.check in variable_checks.CHECKS else ():
            if finding.weight is Severity.ERROR and finding.counts and row.check in variable_checks.OWN:
                raise CannotTell(finding.message)
            if finding.weight > Severity.INFO and finding.counts:
                yield _("not changed: {code}: {message}", code=finding.code, message=finding.message)
    yield from variable_checks.unanswered_checks(report)


@cache
def _environment_checks() -> LoadedChecks:
    """The built-in checks that are run; those of a site or a plug-in are not asked about variables."""
    from npudoctor.checking.index import load_index

    ids = (*variable_checks.CHECKS, *variable_checks.CAUSES)
    return LoadedChecks(tuple(check for check in load_index().values() if check.id in ids), (), {})


# Changes that `env` is for: nothing is printed about them.
SILENT = ("cann-env.", "library-path.", "aicpu-path.")
Changes = Mapping[str, Optional[str]]


@dataclass(frozen=True)
class AppliedRemedy:
    """What one remedy changed (None: not set), and the lines about it."""

    before: Changes
    after: Changes
    notes: tuple[str, ...]

    @staticmethod
    def of(finding: Finding, changes: Changes, variables: Mapping[str, str]) -> AppliedRemedy:
        """The remedy of this finding, for these variables."""
        lines: list[str] = []
        for name, value in () if finding.code.startswith(SILENT) else changes.items():
            text = _("{name} becomes {value}: {why}") if value is not None else _("{name} is unset: {why}")
            lines.append(text.format(name=name, value=value, why=finding.message))
        return AppliedRemedy({name: variables.get(name) for name in changes}, changes, tuple(lines))

    def undo(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The variables without it, where they are still as it left them."""
        result = dict(variables)
        for name, value in self.before.items():
            if result.get(name) == self.after[name]:
                result.pop(name, None)
                result.update({} if value is None else {name: value})
        return result
