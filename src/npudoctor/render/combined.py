"""Combines all commands that a report shows into one block, which can be pasted into `bash -e`."""

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
    """Whether `npudoctor fix` can repair it. Not an export: a child cannot set its parent's variables."""
    fix = finding.fix
    if fix is None or not finding.counts or fix.risk is Risk.MANUAL or fix.unproven:
        return False
    return any(not line.startswith("export ") for line in fix.commands)


def combined_lines(report: Report, fix_command: str, env_command: str) -> list[str]:
    """The heading and the lines; [] when fewer than two findings have commands, or two lines contradict.

    `fix_command` and `env_command`: the commands `npudoctor fix` and `npudoctor env` when they help, ""
    otherwise.
    """
    findings = [
        finding
        for row in report.results
        for finding in row.findings
        if finding.counts and finding.weight > Severity.INFO
    ]
    with_commands = [finding for finding in findings if finding.fix is not None and finding.fix.commands]
    block = _build_block(with_commands, fix_command, env_command) if len(with_commands) > 1 else None
    root_flags = [finding.fix is not None and finding.fix.needs_root for finding in with_commands]
    # One user must be able to type all of it: root, or any user when no line needs root.
    if not block or not (report.host.user == "root" or all(root_flags) or not any(root_flags)):
        return []
    covers_all = all(finding in with_commands for finding in findings)
    head = _("to fix all of it:") if covers_all else _("to fix what commands can fix:")
    return [head, *(f"    {printable(line)}" for line in redact_lines(tuple(block)))]


def _build_block(with_commands: Sequence[Finding], fix_command: str, env_command: str) -> Optional[list[str]]:
    """Installations first, then other lines, then variables; None when two lines contradict each other."""
    installing: dict[tuple[str, ...], list[str]] = {}
    other_lines: dict[str, None] = {}
    exports: dict[str, str] = {}
    for finding in with_commands:
        for line in _unhandled_lines(finding, fix_command, env_command):
            prefix, requirements = _parse_install(line)
            word, _blank, rest = line.partition(" ")
            name = rest.partition("=")[0].strip() if word in ("export", "unset") else ""
            if prefix:
                requirement_list = installing.setdefault(prefix, [])
                requirement_list += [word for word in requirements if word not in requirement_list]
            elif name:
                if exports.setdefault(name, line) != line:
                    return None
            else:
                other_lines.setdefault(line)
    if any(_has_contradiction(words) for words in installing.values()):
        return None
    merged = [shlex.join((*prefix, *words)) for prefix, words in installing.items()]
    own = [*merged, *other_lines, *exports.values()]
    if not own:  # npudoctor's own commands are printed at the end of the report anyway
        return None
    return [line for line in (*merged, *other_lines, fix_command, *exports.values(), env_command) if line]


def _unhandled_lines(finding: Finding, fix_command: str, env_command: str) -> Iterator[str]:
    """Yield the lines of a finding that neither `npudoctor fix` nor `npudoctor env` covers."""
    from npudoctor.environment.variable_checks import UNSOURCED, changes_of

    if (fix_command and can_fix(finding)) or (
        env_command and (finding.code in UNSOURCED or changes_of(finding) is not None)
    ):
        return
    yield from finding.fix.commands if finding.fix else ()


def _parse_install(line: str) -> tuple[tuple[str, ...], list[str]]:
    """The words up to `pip install`, and the requirements; empty when the line does anything else."""
    try:
        words = shlex.split(line)
    except ValueError:
        return (), []
    for index in range(len(words) - 2):
        if tuple(words[index : index + 2]) == _INSTALL:
            rest = words[index + 2 :]
            is_plain = not any(word.startswith("-") or "/" in word or ";" in word for word in rest)
            return (tuple(words[: index + 2]), rest) if is_plain else ((), [])
    return (), []


def _has_contradiction(requirements: Sequence[str]) -> bool:
    """Whether two different exact releases of one package are required."""
    exact: dict[str, str] = {}
    pinned = (word.partition("==") for word in requirements)
    return any(bool(equal) and exact.setdefault(name, release) != release for name, equal, release in pinned)
