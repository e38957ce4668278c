"""Asks the environment checks, does to the variables what they want, and asks again until they are content."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

from npudoctor import registry, runner
from npudoctor.environment import folding, tables
from npudoctor.environment.delta import TIDY, Delta, entries_of, joined, tidied
from npudoctor.environment.owners import ATB, NAMING, Owners
from npudoctor.environment.sourced import left_by
from npudoctor.environment.trusted import trusted_tree
from npudoctor.frozen import dataclass
from npudoctor.host import CannotTell, Host, nnal
from npudoctor.host.cann import Install, set_env_script
from npudoctor.messages import _
from npudoctor.model import Finding, Report, Result, Severity, Status

MOST = 6  # rounds; each mends something that the one before uncovered
SECONDS = 20.0


class Rounds:
    """The variables as they become, round by round."""

    def __init__(self, host: Host, active: Install) -> None:
        self.host, self.active = host, active
        self.owners = Owners(host, active)
        self.variables: dict[str, str] = dict(host.variables)
        self.notes: list[str] = []
        self._until = time.monotonic() + SECONDS
        self._loaded = _environment_checks()
        self._base: Optional[Delta] = None
        self._taken: dict[str, Taken] = {}
        self._useless: set[str] = set()

    def go(self) -> None:
        """Ask and change until there is nothing left, or nothing that helps."""
        report = self._ask(self.host)
        seen = [self.variables]
        for _round in range(MOST):
            findings = folding.of_variables(report)
            if not self._take_back(findings):
                better = tidied(self._changed(findings), self.owners)
                if better in seen:
                    break
                self.variables = better
                seen.append(better)
            report = self._ask(self.host.with_variables(self.variables))
        self._take_back(folding.of_variables(report))
        said = (line for name in self._taken for line in self._taken[name].said)
        self.notes = [*self.notes, *said, *self._left(report)]

    def _take_back(self, findings: Sequence[Finding]) -> bool:
        """Undo each single remedy whose finding is still there: it is no matter of variables."""
        useless = {finding.message for finding in findings} & self._taken.keys()
        for message in useless:
            self._useless.add(message)
            self.variables = self._taken.pop(message).undone(self.variables)
        return bool(useless)

    def _ask(self, host: Host) -> Report:
        left = max(1.0, self._until - time.monotonic())
        settings = runner.Settings(timeout=min(host.options.timeout, left), deadline=left)
        report = runner.run(self._loaded, host, settings)
        for row in report.results:
            if row.check == "cann-env" and row.status in _NO_ANSWER:
                raise CannotTell(f"{row.check}: {row.reason}")
        return report

    def _changed(self, findings: Sequence[Finding]) -> dict[str, str]:
        """The variables after one round: what the script would set, then the single remedies."""
        codes = {finding.code for finding in findings}
        found = dict(self.variables)
        if codes & folding.MIXED:
            found = self._without_others(found)
        if codes & folding.UNSOURCED:
            found = self.owners.without_wrong(joined(self._without_gone(found), self._script(), self.owners))
        touched = {name for name in {*found, *self.variables} if found.get(name) != self.variables.get(name)}
        for finding in findings:
            found = self._one(finding, found, touched)
        return found

    def _one(self, finding: Finding, found: dict[str, str], touched: set[str]) -> dict[str, str]:
        """One finding's remedy, unless an earlier one has changed the same: it may be content already."""
        for words in folding.atb_scripts(finding):
            if "LD_LIBRARY_PATH" not in touched:
                touched |= {"LD_LIBRARY_PATH", "PATH"}
                return self._with_atb(found, words)
        if finding.code in folding.UNSOURCED:
            return found
        changes = None if finding.message in self._useless else folding.changes_of(finding)
        if changes is None or finding.caused_by or touched & changes.keys():
            return found
        touched |= changes.keys()
        self._taken[finding.message] = Taken.of(finding, changes, found)
        kept = {name: value for name, value in found.items() if name not in changes}
        return {**kept, **{name: value for name, value in changes.items() if value is not None}}

    def _script(self) -> Delta:
        """What the installation's own script sets; where it may not be run or is of no use, our tables."""
        if self._base is None:
            script = set_env_script(self.host.files, self.active)
            delta = left_by(self.host, script) if script and trusted_tree(self.host, self.active) else None
            if delta is None or not self._names_it(delta):
                delta = tables.told(self.host, self.active)
                self.notes += self._by_tables(script)
            self._base = delta
        return self._base

    def _names_it(self, delta: Delta) -> bool:
        """Whether a script set what names this very CANN."""
        named = (self.owners.root_of(name, delta.values.get(name, "")) for name in NAMING)
        return self.active.real in named

    def _by_tables(self, script: Optional[str]) -> Iterator[str]:
        if script and self.host.files.stat(script):
            text = _("{script} was not run, or names another CANN: what it sets is told by our tables")
            yield text.format(script=script)

    def _with_atb(self, found: dict[str, str], words: Sequence[str]) -> dict[str, str]:
        """With the variables of ATB; of its two C++ ABIs only the one that is asked for stays."""
        digit = "1" if words[-1].endswith("1") or len(words) < 2 else "0"
        folder = f"{words[0].rpartition('/')[0]}/latest/atb/cxx_abi_{digit}"
        delta = left_by(self.host, words[0], f"--cxx_abi={digit}")
        if delta is None or self.owners.real(delta.values.get(ATB, "")) != self.owners.real(folder):
            delta = tables.told_of_atb(folder)
        for name in TIDY:
            kept = [one for one in entries_of(found, name) if nnal.abi_of(one) in (None, int(digit))]
            if kept:
                found = {**found, name: ":".join(kept)}
        return joined(found, delta, self.owners)

    def _without_others(self, variables: Mapping[str, str]) -> dict[str, str]:
        return self._without(variables, self.owners.foreign)

    def _without_gone(self, variables: Mapping[str, str]) -> dict[str, str]:
        gone = tuple(f"{folder}/" for folder in self.owners.gone(variables))
        return self._without(
            variables, lambda entry: entry.startswith(gone) and self.owners.real(entry) is None
        )

    def _without(self, variables: Mapping[str, str], wrong: object) -> dict[str, str]:
        found = dict(variables)
        for name in TIDY:
            entries = entries_of(variables, name)
            kept = [entry for entry in entries if not wrong(entry)]  # type: ignore[operator]
            if len(kept) < len(entries):
                found[name] = ":".join(kept)
        return found

    def _left(self, report: Report) -> Iterator[str]:
        """What is still wrong, and what is not known."""
        for row in report.results:
            for finding in row.findings if row.check in folding.CHECKS else ():
                if finding.weight > Severity.INFO and finding.counts:
                    yield _("not a matter of variables: {code}: {message}").format(
                        code=finding.code, message=finding.message
                    )
        yield from folding.unanswered(report)


_NO_ANSWER = (Status.UNKNOWN, Status.TIMEOUT, Status.CRASHED, Status.BROKEN)


@dataclass(frozen=True)
class Taken:
    """A single remedy that was taken over: what the variables were before, and what is said of it."""

    before: Mapping[str, Optional[str]]
    after: Mapping[str, Optional[str]]
    said: tuple[str, ...]

    @staticmethod
    def of(finding: Finding, changes: Mapping[str, Optional[str]], variables: Mapping[str, str]) -> Taken:
        """Of what is CANN's own nothing is said: that is what was asked for."""
        said: list[str] = []
        for name, value in changes.items() if not finding.code.startswith(folding.ALWAYS) else ():
            text = _("{name} becomes {value}: {why}") if value is not None else _("{name} is unset: {why}")
            said.append(text.format(name=name, value=value, why=finding.message))
        return Taken({name: variables.get(name) for name in changes}, changes, tuple(said))

    def undone(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The variables without it, where they are still as it left them."""
        found = dict(variables)
        for name, value in self.before.items():
            if found.get(name) == self.after[name]:
                found.pop(name, None)
                found.update({} if value is None else {name: value})
        return found


def _environment_checks() -> registry.Loaded:
    """The built-in checks that are asked; those of a site or a plug-in do not speak of variables to us."""
    from npudoctor.index import listed

    wanted = (*folding.CHECKS, *folding.CAUSES)
    checks = tuple(check for check in listed().values() if check.id in wanted)
    broken: tuple[Result, ...] = ()
    return registry.Loaded(checks, broken, {})
