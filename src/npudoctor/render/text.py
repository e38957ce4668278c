"""A report for people: one screen, or all of it, and the verdict last."""

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
from npudoctor.render.problems import Problems
from npudoctor.render.style import PLAIN, Style


def report_text(
    report: Report,
    *,
    verbose: int = 0,
    quiet: bool = False,
    style: Style = PLAIN,
    notes: bool = False,
    subjects: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The report as text: one screen, or all of it; `quiet` leaves only its one line.

    `verbose`: 1 shows what was looked at and seen, 2 also each row that does not apply here.
    `subjects`: what each check looks at, by its id.

    `notes`: the reader asked for certain checks, so what is only worth knowing is shown in full too.
    """
    if quiet:
        return printable(report.msg) + "\n"
    closing = list(verdict_lines(report, style, whole=not notes))
    healing, _rooted, setting = _commands(report)
    together = combined_lines(report, healing, setting)
    if verbose:
        from npudoctor.render.full import full_lines

        lines = [*full_lines(report, style, subjects, everything=verbose > 1), *together, *closing]
    else:
        lines = brief_lines(report, style, closing, notes=notes, together=together)
    return "\n".join(lines) + "\n"


def verdict_lines(report: Report, style: Style, *, whole: bool = False) -> Iterator[str]:
    """The last lines: the answer, what it rests on, and the command to type next, which is never broken.

    `whole`: the machine was judged, and not only what somebody selected.
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
        # The report's one line without the verdict, which stands before it already.
        parts.append(re.split(": |：", report.msg, maxsplit=1)[-1])
    text = _(", ").join(parts) or (_without_framework(report) if whole else "")
    head = _("{verdict}: {text}", verdict=word, text=text) if text else word
    following = next_lines(report, whole=whole)
    lines = [printable(_("; ").join([head, *following]))]
    if width(lines[0]) > room():
        lines = [*paragraph(head, "", "  "), *(f"  {printable(line)}" for line in following)]
    yield lines[0].replace(word, style.paint_kind(kind, word, bold=True), 1)
    yield from lines[1:]


def _without_framework(report: Report) -> str:
    """That the interpreter has none, where all that could be judged is well."""
    target = report.target
    if report.verdict is not Verdict.READY or report.scope == "node" or target.python is None:
        return ""
    text = _("no framework is installed in {python}", python=target.python.path)
    return text if target.frameworks is not None and not target.frameworks else ""


def next_lines(report: Report, *, whole: bool = False) -> list[str]:
    """What to type next: what mends, what sets variables, what lets this machine be judged, or the job."""
    lines = []
    # Other commands than npudoctor's are shown with what they are for.
    healing, rooted, setting = _commands(report)
    if healing:
        text = _("next, as root: {command}") if rooted else _("next: {command}")
        lines.append(text.format(command=healing))
    if setting:
        lines.append(_("next, in the job's shell: {command}", command=setting))
    # What makes a machine say something on which no accelerator was found.
    silent = any(row.check == "accelerator" and row.status is Status.UNKNOWN for row in report.results)
    if silent and report.verdict is Verdict.UNDETERMINED and report.target.root is None:
        lines.append(_("if it needs no accelerator: {command}", command="npudoctor check --expect none"))
    if whole and not lines and report.verdict is Verdict.READY and report.target.root is None:
        lines.append(_("next: {command}", command="npudoctor run COMMAND"))
    return lines


def _commands(report: Report) -> tuple[str, bool, str]:
    """The command that heals, whether root has to type it, and the one for the shell that lacks variables; ""
    where npudoctor can do nothing, and where it would print nothing that helps."""
    findings = [(row.check, finding) for row in report.results for finding in row.findings]
    healing = [(check, finding) for check, finding in findings if can_fix(finding)]
    checks = dict.fromkeys(check for check, _finding in healing)
    arguments = ["--cache-server" if check == "cache-server" else check for check in checks]
    command = " ".join(["npudoctor fix", *arguments]) if arguments else ""
    needs_root = any(finding.fix and finding.fix.needs_root for _check, finding in healing)
    rooted = report.host.user != "root" and needs_root
    setting = ""
    if report.target.root is None and any(f.counts and f.weight > Severity.INFO for _check, f in findings):
        from npudoctor.environment.variable_checks import env_would_help  # a healthy machine is not asked

        setting = 'eval "$(npudoctor env)"' if env_would_help(report) else ""
    return command, rooted, setting


def decisive_text(report: Report) -> str:
    """What makes the report not ready, with its evidence, as nobody asks again; then the verdict."""
    # Without an error, warnings decided: they were asked to.
    least = Severity.ERROR if report.counts["errors"] else Severity.WARNING
    lines = [*Problems(report, PLAIN, evidence=True).lines(least), *verdict_lines(report, PLAIN)]
    return "\n".join(lines) + "\n"
