"""The short form of a report, one screen: the machine, what is wrong and what to type, counts of the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _, ngettext
from npudoctor.core.model import ADVICE, UNANSWERED, Report, Severity, Status
from npudoctor.core.redact.redact import redact
from npudoctor.render.columns import join_head, paragraph, room, width
from npudoctor.render.machine import machine_text, python_text
from npudoctor.render.printable import printable
from npudoctor.render.problems import INDENT, ProblemPrinter, echoes_by_cause
from npudoctor.render.style import BOLD, Style, status_words, sum_paragraph

SCREEN = 24  # lines of a default terminal


@dataclass(frozen=True)
class BriefLayout:
    """Limits by which a report fits on one screen; -v shows the rest.

    `blank`: whether a blank line separates the parts; `names`: how many checks are named in one place;
    `commands`: lines of one remedy; `prose`: lines of a remedy that is only text; `head`: whether the
    distribution is named, and the interpreter is on a line of its own.
    """

    blank: bool = True
    names: int = 12
    commands: int = 4
    prose: int = 12
    head: bool = True


_LEVELS = (
    BriefLayout(),
    BriefLayout(blank=False, names=4),
    BriefLayout(blank=False, names=3, commands=3, prose=3, head=False),
    BriefLayout(blank=False, names=3, commands=2, prose=3, head=False),
    BriefLayout(blank=False, names=2, commands=1, prose=1, head=False),
)


def brief_lines(
    report: Report,
    style: Style,
    closing: Sequence[str],
    *,
    notes: bool = False,
    together: Sequence[str] = (),
) -> list[str]:
    """The lines of the report, ending with `closing`; in the loosest layout that fits on one screen.

    `notes`: show findings of severity info in full, as the reader selected these checks. `together`: lines
    before the end, when the screen has room for them; they also stand with their findings.
    """
    for ending in ((*together, *closing), closing) if together else (closing,):
        for level in _LEVELS:
            page = BriefReport(report, style, level).make_page(notes, ending)
            if len(page) <= SCREEN:
                return page
    return BriefReport(report, style, _LEVELS[0]).make_page(notes, closing)


class BriefReport:
    """One report in one style and one layout."""

    def __init__(self, report: Report, style: Style, level: BriefLayout) -> None:
        self._report, self._style, self._level = report, style, level

    def make_page(self, notes: bool, closing: Sequence[str]) -> list[str]:
        """All lines of the report."""
        level = self._level
        # The machine, its devices, the interpreter with its frameworks.
        title = f"npudoctor {self._report.version}"
        machine = machine_text(self._report, whole=level.head)
        python = python_text(self._report.target)
        is_separate = bool(python) and level.head
        message = machine if is_separate or not python else _("; ").join((machine, python))
        head = paragraph(_("{code}: {message}", code=title, message=message), "", "  ")
        head[0] = head[0].replace(title, self._style.paint(title, BOLD), 1)
        head += paragraph(python, "", "  ") if is_separate else []
        problems = ProblemPrinter(self._report, self._style, commands=level.commands, prose=level.prose)
        shown = problems.lines(Severity.INFO if notes else Severity.WARNING)
        parts = [list(part) for part in (head, shown, self._summarise(notes), closing)]
        gap = [""] if level.blank else []
        return [line for number, part in enumerate(filter(None, parts)) for line in (*gap[:number], *part)]

    def _summarise(self, notes: bool) -> Iterator[str]:
        """Yield one line each about checks that are ok, notes, ignored codes, open checks, and skipped
        ones."""
        groups = Counter(row.group for row in self._report.results if row.status is Status.OK)
        if groups:
            counts = (_("{group} {count}", group=group, count=n) for group, n in groups.items())
            yield from sum_paragraph("ok", _(", ").join(counts), self._style)
        if not notes:
            yield from self._summarise_notes()
        # What the user ignores, with the reasons.
        ignored = [
            _("{code} ({reason})", code=f.code, reason=redact(f.ignored.reason))
            if f.ignored.reason
            else f.code
            for row in self._report.results
            for f in row.findings
            if f.ignored is not None
        ]
        if ignored:
            yield from paragraph(_("ignored: {codes}", codes=self._list_names(ignored)), "", INDENT)
        yield from self._list_undecided()
        count = self._report.counts["skipped"]
        if count:
            yield from paragraph(
                ngettext(
                    "{count} check does not apply here (-vv shows why)",
                    "{count} checks do not apply here (-vv shows why)",
                    count,
                    count=count,
                ),
                "",
                INDENT,
            )

    def _summarise_notes(self) -> Iterator[str]:
        echoes = echoes_by_cause(self._report)
        rows = [row for row in self._report.results if row.group != ADVICE]
        findings = (finding for row in rows for finding in row.findings)
        notes = [f.code for f in findings if f.counts and f.weight is Severity.INFO]
        codes = [code for note in dict.fromkeys(notes) for code in (note, *echoes.get(note, ()))]
        if codes:
            text = _("{codes} (-v shows more)", codes=self._list_names(codes))
            yield from sum_paragraph("info", text, self._style)
        # The suggestions of the group tuning are one line, unless notes are shown.
        advice = (f for row in self._report.results if row.group == ADVICE for f in row.findings)
        count = sum(finding.counts for finding in advice)
        if count:
            line = ngettext(
                "tuning: {count} suggestion for more speed: npudoctor check tuning",
                "tuning: {count} suggestions for more speed: npudoctor check tuning",
                count,
                count=count,
            )
            yield from sum_paragraph("info", line, self._style)

    def _list_undecided(self) -> Iterator[str]:
        """Yield the checks without a result: with the reason when the verdict needs them, and what would
        help."""
        rows = [row for row in self._report.results if row.status in UNANSWERED]
        reasons: dict[str, list[str]] = {}
        for row in rows:
            if row.needed:
                why = row.reason or ""
                if row.status not in (Status.UNKNOWN, Status.TIMEOUT) or not why:
                    word = status_words()[row.status]
                    why = _("{status}: {reason}", status=word, reason=why) if why else word
                reasons.setdefault(why, []).append(row.check)
        for why, checks in reasons.items():
            text = _("{checks}: {why}", checks=self._list_names(checks), why=why)
            yield from sum_paragraph("open", text, self._style)
        timed_out = [row.check for row in rows if row.status is Status.TIMEOUT]
        # Checks that may get a result as root.
        root_may_see = [
            row.check for row in rows if row.status is Status.UNKNOWN and row.check != "accelerator"
        ]
        if self._report.host.user == "root" or self._report.target.root is not None:
            root_may_see = []
        # The command is never broken over lines, so that it can be copied.
        for words, command, checks in (
            (_("with more time:"), "npudoctor check {} --timeout 60 --deadline 120", timed_out),
            (_("root may see more:"), "npudoctor check {}", root_may_see),
        ):
            if not checks:
                continue
            # With too many names the command without names runs them all.
            names = " ".join(checks) if len(checks) <= self._level.names else ""
            line = printable(" ".join(command.format(names).split()))
            first, *rest = sum_paragraph("open", words, self._style)
            joined = join_head(join_head(self._style.heading("open"), words), line)
            if not rest and width(joined) <= room():
                yield join_head(first, line)
            else:
                yield from (first, *rest, f"{INDENT}{line}")
        advisory = [
            row.check for row in rows if not row.needed and row.check not in (*timed_out, *root_may_see)
        ]
        if advisory:
            text = _("not needed for the verdict: {checks} (-v shows why)")
            yield from sum_paragraph("open", text.format(checks=self._list_names(advisory)), self._style)

    def _list_names(self, names: Sequence[str]) -> str:
        """The names, each once; of too many, the first and the number of the others."""
        names = list(dict.fromkeys(names))
        most = self._level.names
        text = _(", ").join(names[:most])
        if len(names) <= most:
            return text
        return ngettext(
            "{names} and {count} more",
            "{names} and {count} more",
            len(names) - most,
            names=text,
            count=len(names) - most,
        )
