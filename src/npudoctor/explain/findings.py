"""What the output means that a deep check has seen: its finding says it, and is folded under its cause."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Optional

from npudoctor.core.frozen import replace
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import language
from npudoctor.core.model import Finding, Fix, Result, Risk, Severity
from npudoctor.explain.answer import pick_language
from npudoctor.explain.engine import Engine, make_engine_for_table
from npudoctor.explain.signatures.prepared import prepare_table
from npudoctor.explain.signatures.signatures import Signature
from npudoctor.knowledge.site import Knowledge

GROUP = "deep"
# What also speaks of a module or a package that does not do: where it speaks of that very one.
ALWAYS = (
    *("package-requirements", "package-files", "virtual-environment", "source-shadowing"),
    *("protobuf-implementation", "numpy-version", "scipy-version", "setuptools"),
)
# A file, or a variable: whoever speaks of that in an error speaks of the cause.
_TELLING = pattern(r"/|\.so\b|[A-Z][A-Z_]{4,}\Z|ulimit ")
# Signatures of what a job's own code does say nothing of a framework that cannot be imported.
_SCRIPTS = "script-bug-not-environment"

Causes = Mapping[str, Mapping[str, object]]


def explain_findings(
    rows: Sequence[Result], knowledge: Knowledge, codes: Mapping[str, Sequence[str]]
) -> list[Result]:
    """The rows, with what the evidence of deep findings means. `codes`: of each check, by its id.

    A finding is folded under an error of another check that names the same cause, or that a signature of the
    failure names. What is ignored is no cause: then what was seen stands by itself.
    """
    engine = make_engine_for_table(prepare_table(knowledge).table)
    # An import that fails is a fact: it may be the echo of an error, never of what was thought harmless.
    other_rows = [row for row in rows if row.group != GROUP]
    errors = _errors_by_code(other_rows)
    deep = _errors_by_code([row for row in rows if row.group == GROUP])
    explainer = _Explainer(engine, codes, errors, {*errors, *deep})
    return [
        replace(row, findings=tuple(explainer.explain(finding, row) for finding in row.findings))
        if row.group == GROUP
        else row
        for row in rows
    ]


def _errors_by_code(rows: Sequence[Result]) -> dict[str, list[str]]:
    """What the errors say that are not ignored, by their codes."""
    errors: dict[str, list[str]] = {}
    for row in rows:
        for finding in row.findings:
            if finding.weight is Severity.ERROR and finding.ignored is None:
                text = "\n".join((finding.message, *finding.evidence))
                errors.setdefault(finding.code, []).append(text)
    return errors


class _Explainer:
    """Explains findings. `errors`: what the errors of other checks say, by code; `standing`: all codes that
    are neither warnings nor ignored."""

    def __init__(
        self,
        engine: Engine,
        codes: Mapping[str, Sequence[str]],
        errors: Mapping[str, Sequence[str]],
        standing: set[str],
    ) -> None:
        self._engine, self._codes, self._errors, self._standing = engine, codes, errors, standing

    def explain(self, finding: Finding, row: Result) -> Finding:
        """Returns the finding with the findings that caused it, a remedy and, if it is vague, the title of a
        signature that matches it.
        """
        cause = _find_cause(finding, row)
        about = cause.get("about")
        words = [word for word in about if isinstance(word, str)] if isinstance(about, list) else []
        signature = self._find_signature(finding, bool(words))
        echoes = [code for code in finding.echo_of if code in self._standing]
        echoes += self._codes_mentioning(words)
        # A signature also lists the checks that may have found the cause. Those in ALWAYS count only if the
        # cause names nothing that their findings could mention.
        for check in signature.checks if signature else ():
            if check not in ALWAYS or not words:
                echoes += [code for code in self._codes.get(check, ()) if code in self._errors]
        finding = replace(finding, echo_of=tuple(dict.fromkeys(echoes)))
        if signature is None or finding.fix is not None:
            return finding
        remedy = "; ".join(pick_language(signature.remedy, language()))
        finding = replace(finding, fix=Fix(remedy, steps=(), risk=Risk.MANUAL, needs_root=False))
        if not cause.get("vague", True):  # the sentence says it already
            return finding
        return replace(finding, message=f"{finding.message}: {pick_language(signature.title, language())}")

    def _find_signature(self, finding: Finding, first: bool) -> Optional[Signature]:
        """What the evidence means, as far as it is not the job's own code; with `first`, by the cause alone
        where that is enough: around it stands what came of it."""
        judgement = self._engine.judge([self._engine.scan_text(finding.evidence[0])]) if first else None
        if judgement is None or judgement.verdict not in ("environment", "not_environment"):
            judgement = self._engine.judge([self._engine.scan_text("\n".join(finding.evidence))])
        if judgement.verdict not in ("environment", "not_environment"):
            return None
        signature = judgement.diagnoses[0].signature
        if signature.fallback:  # says less than the finding itself
            return None
        scripts = judgement.verdict == "not_environment" and signature.category == _SCRIPTS
        return None if scripts else signature

    def _codes_mentioning(self, words: Sequence[str]) -> list[str]:
        """The codes of errors that speak of the cause: by its most telling word that any of them has."""
        for word in words:
            anybody = bool(_TELLING.search(word))
            # The word as a whole, - and _ being alike.
            parts = "[-_.]".join(re.escape(part) for part in re.split(r"[-_.]+", word))
            pattern = re.compile(rf"(?<![\w/-]){parts}(?![\w-])", re.IGNORECASE)
            codes = [
                code
                for code, texts in self._errors.items()
                if (anybody or code.partition(".")[0] in ALWAYS) and any(map(pattern.search, texts))
            ]
            if codes:
                return codes
        return []


def _find_cause(finding: Finding, row: Result) -> Mapping[str, object]:
    """Returns the cause, among those that the row has as facts, that a finding is about; {} for none.

    The first line of the finding's evidence is the type and message of its exception.
    """
    causes = row.facts.get("causes")
    first = finding.evidence[0] if finding.evidence else ""
    for cause in causes.values() if isinstance(causes, dict) and first else ():
        if not isinstance(cause, dict):
            continue
        message = str(cause.get("message") or "").strip().splitlines()
        text = f"{cause.get('type')}: {message[0].strip()}" if message else str(cause.get("type"))
        # Evidence may have been cut to a line of bounded length.
        if text.startswith(first[:200]):
            return cause
    return {}
