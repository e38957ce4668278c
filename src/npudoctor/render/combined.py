"""All that is to be typed for a report as one block, for whoever pastes it at once into `bash -e`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor.core.messages import _
from npudoctor.core.model import Finding, Report, Risk, Severity
from npudoctor.core.redact.redact import redact_lines
from npudoctor.render.printable import printable

_INSTALL = ("pip", "install")


def can_fix(finding: Finding) -> bool:
    """Whether `npudoctor fix` could do something: a child can set no variable, and MANUAL is for people."""
    fix = finding.fix
    if fix is None or not finding.counts or fix.risk is Risk.MANUAL or fix.unproven:
        return False
    return any(not line.startswith("export ") for line in fix.commands)


def combined_lines(report: Report, healing: str, setting: str) -> list[str]:
    """The head and the lines; empty where one finding alone has any, or where one line would undo another.

    `healing` and `setting`: the commands of npudoctor that do some of it, "" for none.
    """
    findings = [
        finding
        for row in report.results
        for finding in row.findings
        if finding.counts and finding.weight > Severity.INFO
    ]
    typed = [finding for finding in findings if finding.fix is not None and finding.fix.commands]
    block = _block(typed, healing, setting) if len(typed) > 1 else None
    rooted = [finding.fix is not None and finding.fix.needs_root for finding in typed]
    # One user may type all of it: root, or nothing of it is root's.
    if not block or not (report.host.user == "root" or all(rooted) or not any(rooted)):
        return []
    whole = all(finding in typed for finding in findings)
    head = _("to fix all of it:") if whole else _("to fix what commands can fix:")
    return [head, *(f"    {printable(line)}" for line in redact_lines(tuple(block)))]


def _block(typed: Sequence[Finding], healing: str, setting: str) -> Optional[list[str]]:
    """What installs, what else is done, what sets variables; None where two lines are of two minds."""
    installing: dict[tuple[str, ...], list[str]] = {}
    others: dict[str, None] = {}
    exports: dict[str, str] = {}
    for finding in typed:
        for line in _lines(finding, healing, setting):
            prefix, requirements = _installs(line)
            word, _blank, rest = line.partition(" ")
            name = rest.partition("=")[0].strip() if word in ("export", "unset") else ""
            if prefix:
                known = installing.setdefault(prefix, [])
                known += [word for word in requirements if word not in known]
            elif name:
                if exports.setdefault(name, line) != line:
                    return None
            else:
                others.setdefault(line)
    if any(_contradict(words) for words in installing.values()):
        return None
    merged = [shlex.join((*prefix, *words)) for prefix, words in installing.items()]
    own = [*merged, *others, *exports.values()]
    if not own:  # what npudoctor does itself stands in the last line
        return None
    return [line for line in (*merged, *others, healing, *exports.values(), setting) if line]


def _lines(finding: Finding, healing: str, setting: str) -> Iterator[str]:
    """The lines of a finding that no command of npudoctor's own does."""
    from npudoctor.environment.variable_checks import UNSOURCED, changes_of

    if (healing and can_fix(finding)) or (
        setting and (finding.code in UNSOURCED or changes_of(finding) is not None)
    ):
        return
    yield from finding.fix.commands if finding.fix else ()


def _installs(line: str) -> tuple[tuple[str, ...], list[str]]:
    """The words up to `pip install`, and what is installed; empty where the line does more than that."""
    try:
        words = shlex.split(line)
    except ValueError:
        return (), []
    for at in range(len(words) - 2):
        if tuple(words[at : at + 2]) == _INSTALL:
            rest = words[at + 2 :]
            plain = not any(word.startswith("-") or "/" in word or ";" in word for word in rest)
            return (tuple(words[: at + 2]), rest) if plain else ((), [])
    return (), []


def _contradict(requirements: Sequence[str]) -> bool:
    """Whether two exact releases of one package are asked for; asked of each interpreter's."""
    exact: dict[str, str] = {}
    pinned = (word.partition("==") for word in requirements)
    return any(bool(equal) and exact.setdefault(name, release) != release for name, equal, release in pinned)
