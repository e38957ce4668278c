"""Renders a report as text: one screen, or with -v all details, and the verdict last."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from npudoctor.core.messages import _, ngettext
from npudoctor.core.model import Report, Severity, Status, Verdict
from npudoctor.render.brief import brief_lines
from npudoctor.render.columns import paragraph, room, width
from npudoctor.render.combined import can_fix, combined_lines
from npudoctor.render.printable import printable
from npudoctor.render.problems import ProblemPrinter
from npudoctor.render.style import PLAIN, Style

_OF_A_PYTHON = {"python", "trial", "deep"}  # the groups of checks that examine the job's Python


def report_text(
    report: Report,
    *,
    verbose: int = 0,
    quiet: bool = False,
    style: Style = PLAIN,
    notes: bool = False,
    subjects: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The report as text; `quiet`: only its one line.

    `verbose`: 1 shows what was examined and found, 2 also the checks that do not apply here.
    `subjects`: by id, what each check examines.

    `notes`: show findings of severity info in full, as the reader selected these checks.
    """
    if quiet:
        # Who named no Python may compare the line with "ready".
        note = _without_framework(report) if report.target.python_from == "option" else ""
        text = _("{verdict}: {text}", verdict=report.msg, text=note) if note else report.msg
        return printable(text) + "\n"
    closing = list(verdict_lines(report, style, whole=not notes))
    fix_command, _rooted, env_command = _next_commands(report)
    block = combined_lines(report, fix_command, env_command)
    if verbose:
        from npudoctor.render.full import full_lines

        lines = [*full_lines(report, style, subjects, everything=verbose > 1), *block, *closing]
    else:
        lines = brief_lines(report, style, closing, notes=notes, together=block)
    return "\n".join(lines) + "\n"


def verdict_lines(report: Report, style: Style, *, whole: bool = False) -> Iterator[str]:
    """Yield the verdict, its numbers, and the command to type next, which is never broken over lines.

    `whole`: all checks ran, and not only selected ones.
    """
    word, kind = {
        Verdict.READY: (_("READY"), "ok"),
        Verdict.NOT_READY: (_("NOT READY"), "error"),
        Verdict.UNDETERMINED: (_("UNDETERMINED"), "open"),
    }[report.verdict]
    counts = report.counts
    if report.verdict is Verdict.NOT_READY and not counts["errors"]:
        kind = "warning"
    parts = []
    if counts["errors"]:
        parts.append(ngettext("{count} error", "{count} errors", counts["errors"], count=counts["errors"]))
    if counts["warnings"]:
        parts.append(
            ngettext("{count} warning", "{count} warnings", counts["warnings"], count=counts["warnings"])
        )
    if report.verdict is Verdict.UNDETERMINED:
        # The report's message without the verdict, which the line begins with already.
        # The message is in the language of the output: a Chinese colon is another character, without a blank.
        parts.append(re.split(": |：", report.msg, maxsplit=1)[-1])
    note = _without_framework(report)
    text = _(", ").join(filter(None, (*parts, note)))
    head = _("{verdict}: {text}", verdict=word, text=text) if text else word
    following = next_lines(report, whole=whole)
    lines = [printable(_("; ").join([head, *following]))]
    if width(lines[0]) > room():
        lines = [*paragraph(head, "", "  "), *(f"  {printable(line)}" for line in following)]
    yield lines[0].replace(word, style.paint_kind(kind, word, bold=True), 1)
    yield from lines[1:]


def _without_framework(report: Report) -> str:
    """A note that no framework is installed, when the verdict is ready and the report is about a Python; ""
    otherwise. Without it READY of a job's Python says that the job can start."""
    target = report.target
    if report.verdict is not Verdict.READY or report.scope == "node" or target.python is None:
        return ""
    groups = {row.group for row in report.results}
    if target.frameworks != {} or not (target.python_from == "option" or groups & _OF_A_PYTHON):
        return ""
    return _("no framework is installed in {python}", python=target.python.path)


def next_lines(report: Report, *, whole: bool = False) -> list[str]:
    """The lines with the commands to type next: a fix, the environment, another check, or the job."""
    lines = []
    # Only commands of npudoctor: all others are shown with their findings.
    fix_command, needs_root, env_command = _next_commands(report)
    if fix_command:
        text = _("next, as root: {command}") if needs_root else _("next: {command}")
        lines.append(text.format(command=fix_command))
    if env_command:
        lines.append(_("next, in the job's shell: {command}", command=env_command))
    # --expect none lets a machine without an accelerator get a verdict.
    is_undetermined = any(
        row.check == "accelerator" and row.status is Status.UNKNOWN for row in report.results
    )
    if is_undetermined and report.verdict is Verdict.UNDETERMINED and report.target.root is None:
        lines.append(_("if it needs no accelerator: {command}", command="npudoctor check --expect none"))
    is_ready = report.verdict is Verdict.READY and not _without_framework(report)
    if whole and not lines and is_ready and report.target.root is None:
        lines.append(_("next: {command}", command="npudoctor run COMMAND"))
    return lines


def _next_commands(report: Report) -> tuple[str, bool, str]:
    """The command `npudoctor fix` for this report, whether root must type it, and the one for `npudoctor
    env`; "" for a command that would not help."""
    findings = [(row.check, finding) for row in report.results for finding in row.findings]
    healing = [(check, finding) for check, finding in findings if can_fix(finding)]
    checks = dict.fromkeys(check for check, _finding in healing)
    arguments = ["--cache-server" if check == "cache-server" else check for check in checks]
    command = " ".join(["npudoctor fix", *arguments]) if arguments else ""
    needs_root = any(finding.fix and finding.fix.needs_root for _check, finding in healing)
    rooted = report.host.user != "root" and needs_root
    env_command = ""
    if report.target.root is None and any(f.counts and f.weight > Severity.INFO for _check, f in findings):
        from npudoctor.environment.variable_checks import env_would_help  # imported only when needed

        env_command = 'eval "$(npudoctor env)"' if env_would_help(report) else ""
    return command, rooted, env_command


def decisive_text(report: Report) -> str:
    """The findings that make the report not ready, with their evidence; then the verdict."""
    # Without errors, warnings decided (--fail-on warning).
    least = Severity.ERROR if report.counts["errors"] else Severity.WARNING
    lines = [*ProblemPrinter(report, PLAIN, evidence=True).lines(least), *verdict_lines(report, PLAIN)]
    return "\n".join(lines) + "\n"
