"""Whether the text of a report says what its JSON says: the same findings, and as many as are counted."""

from __future__ import annotations

import re
from collections import Counter

from npudoctor.core.model import Report, Severity, Status
from npudoctor.render.report_json import report_object
from npudoctor.render.text import report_text

_ALONE = re.compile(r"^(error|warning) ([a-z0-9-]+\.[a-z0-9-]+)(?=:|$)", re.MULTILINE)
_MORE = re.compile(r"^(error|warning) and (\d+) more ([a-z0-9-]+\.[a-z0-9-]+)", re.MULTILINE)
_NOTES = re.compile(r"^info: ((?:.|\n    )*?)\s+\(-v\s+shows\s+more\)$", re.MULTILINE)
_CODE = re.compile(r"[a-z0-9-]+\.[a-z0-9-]+")


def differences(report: Report) -> list[str]:
    """What the text leaves out or adds, what is counted otherwise than shown, what a hidden row carries."""
    text, rows = report_text(report), report_object(report)["results"]
    findings = [finding for row in rows for finding in row["findings"]]
    shown = Counter(_ALONE.findall(text))
    for severity, count, code in _MORE.findall(text):
        shown[severity, code] += int(count)
    heavy = [one for one in findings if one["severity"] != "info" and not one["caused_by"]]
    told = Counter((one["severity"], one["code"]) for one in heavy)
    notes = {one["code"] for one in findings if one["severity"] == "info" and not one["caused_by"]}
    named = {code for line in _NOTES.findall(text) for code in _CODE.findall(line)}
    echoes = {one["code"] for one in findings if one["caused_by"]}
    counts = {name: report.counts[f"{name}s"] for name in ("error", "warning")}
    wrong = []
    if shown != told:
        wrong.append(f"text {shown - told} JSON {told - shown}")
    if named - echoes != notes:
        wrong.append(f"notes {notes} named {named}")
    if not all(re.search(rf"\b{re.escape(code)}\b", text) for code in echoes):
        wrong.append(f"echoes {echoes}")
    if counts != {name: sum(n for (word, _code), n in shown.items() if word == name) for name in counts}:
        wrong.append(f"counted {counts}, shown {shown}")
    return wrong + _of_rows(report)


def _of_rows(report: Report) -> list[str]:
    return [
        f"{row.check} is {row.status.value} and carries {finding.code}"
        for row in report.results
        for finding in row.findings
        if row.status in (Status.OK, Status.SKIPPED) and finding.weight > Severity.INFO
    ]
