"""Which findings the variables can answer, and the remedies among theirs that are taken over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor.core.model import Finding, Report, Severity, Status
from npudoctor.fixing.shell_variables import CHECKS as CHECKS
from npudoctor.fixing.shell_variables import LEFT, answered_by_env
from npudoctor.fixing.steps.commands import Command, Export

# Whose errors are nothing but wrong variables.
OWN = ("cann-env", "aicpu-path")
# Asked too, to know causes from echoes: what is installed.
CAUSES = ("cann-install", "cann-driver", "accelerator")
# One of these, and what the installation's own script sets is missing or wrong.
UNSOURCED = frozenset(
    f"cann-env.{word}"
    for word in (
        *("not-sourced", "unset", "no-such-path"),
        *("mixed-installs", "other-install-first", "missing-entry"),
    )
)
# Entries of another CANN stand where they do harm, or would as soon as the order changes.
MIXED = frozenset(
    (
        *("cann-env.mixed-installs", "cann-env.other-install-first"),
        *("library-path.other-cann", "aicpu-path.other-install"),
    )
)
# Mended however little they weigh: where no NPU is to be used everything is only said.
ALWAYS = ("cann-env.", "library-path.", "aicpu-path.missing", "aicpu-path.other-install")
HARMLESS = ("log-settings.bad-value", "log-settings.pasted-punctuation")


def findings_of(report: Report) -> list[Finding]:
    """The findings that variables may answer, causes before echoes."""
    findings = [finding for row in report.results if row.check in CHECKS for finding in row.findings]
    return [
        finding
        for finding in sorted(findings, key=lambda finding: finding.caused_by is not None)
        if is_relevant(finding)
    ]


def env_would_help(report: Report) -> bool:
    """Return whether `npudoctor env` prints lines that answer a finding of this report: without
    CANN, none.
    """
    return _has_cann(report) and any(
        finding.counts
        and finding.weight > Severity.INFO
        and answered_by_env(finding)
        and (finding.code in UNSOURCED or bool(changes_of(finding)))
        for finding in findings_of(report)
    )


def _has_cann(report: Report) -> bool:
    """Return whether the report has seen an installation: some checks are only asked where CANN is."""
    facts = {row.check: row.facts for row in report.results}
    for check, name in (("cann-install", "active"), ("cann-env", "install")):
        if name in facts.get(check, {}):
            return bool(facts[check][name])
    return any(row.group == "cann" and row.status in (Status.OK, Status.PROBLEM) for row in report.results)


def is_relevant(finding: Finding) -> bool:
    """Return whether a finding is one that the variables are to answer."""
    if finding.code.startswith(ALWAYS) or finding.code in HARMLESS:
        return True
    return finding.weight > Severity.INFO


def unanswered_checks(report: Report) -> Iterator[str]:
    """Yield the checks of the variables that could not answer, with the reason."""
    for row in report.results:
        if row.check in CHECKS and row.status in (Status.UNKNOWN, Status.TIMEOUT, Status.CRASHED):
            yield f"{row.check}: {row.reason}"


def changes_of(finding: Finding) -> Optional[dict[str, Optional[str]]]:
    """What the remedy does to variables, None for unset; None where it does something else."""
    if finding.fix is None or not finding.fix.steps or finding.code.startswith(LEFT):
        return None
    changes: dict[str, Optional[str]] = {}
    for step in finding.fix.steps:
        if isinstance(step, Export):
            changes[step.name] = step.value
        elif isinstance(step, Command) and step.argv[:1] == ("unset",):
            changes.update(dict.fromkeys(step.argv[1:]))
        else:
            return None
    return changes


def atb_script(findings: Sequence[Finding]) -> tuple[str, ...]:
    """The words with which ATB's script is to be sourced: its path, and the C++ ABI if known; () where it
    need not be.
    """
    asking = [finding for finding in findings if finding.code.startswith(("nnal-atb.", "cann-env.atb-"))]
    # Fixing the cause will answer them.
    if all(finding.caused_by for finding in asking):
        return ()
    steps = (step for finding in asking for step in (finding.fix.steps if finding.fix else ()))
    words = (step.argv[1:] for step in steps if isinstance(step, Command) and step.argv[:1] == ("source",))
    # The longest has the ABI as a word of its own.
    return max(words, key=len, default=())
