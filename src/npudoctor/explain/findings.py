"""What the output means that a deep check has seen: its finding says it, and is folded under its cause."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from npudoctor.core.frozen import replace
from npudoctor.core.messages import language
from npudoctor.core.model import Finding, Fix, Result, Risk, Severity
from npudoctor.explain.answer import said
from npudoctor.explain.engine import Engine, engine_of
from npudoctor.explain.ranking.judge import Judgement
from npudoctor.explain.signatures.signatures import all_signatures
from npudoctor.knowledge.site import Knowledge

GROUP = "deep"
# What also speaks of a module or a package that does not do: where it speaks of that very one.
ALWAYS = (
    *("package-requirements", "package-files", "virtual-environment", "source-shadowing"),
    *("protobuf-implementation", "numpy-version", "scipy-version", "setuptools"),
)
# A file, or a variable: whoever speaks of that in an error speaks of the cause.
_TELLING = re.compile(r"/|\.so\b|[A-Z][A-Z_]{4,}\Z|ulimit ")
# Signatures of what a job's own code does say nothing of a framework that cannot be imported.
_SCRIPTS = "script-bug-not-environment"

Causes = Mapping[str, Mapping[str, object]]


def explained(
    rows: Sequence[Result], knowledge: Knowledge, codes: Mapping[str, Sequence[str]]
) -> list[Result]:
    """The rows, with what the evidence of deep findings means. `codes`: of each check, by its id.

    A finding is folded under an error of another check that names the same cause, or that a signature of the
    failure names. What is ignored is no cause: then what was seen stands by itself.
    """
    engine = engine_of(all_signatures(knowledge)[0])
    # An import that fails is a fact: it may be the echo of an error, never of what was thought harmless.
    others = [row for row in rows if row.group != GROUP]
    errors = _errors(others)
    mine = _errors([row for row in rows if row.group == GROUP])
    explainer = _Explainer(engine, codes, errors, {*errors, *mine})
    return [
        replace(row, findings=tuple(explainer.finding(one, row) for one in row.findings))
        if row.group == GROUP
        else row
        for row in rows
    ]


def _errors(rows: Sequence[Result]) -> dict[str, list[str]]:
    """What the errors say that are not ignored, by their codes."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for one in row.findings:
            if one.weight is Severity.ERROR and one.ignored is None:
                found.setdefault(one.code, []).append("\n".join((one.message, *one.evidence)))
    return found


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

    def finding(self, finding: Finding, row: Result) -> Finding:
        """The finding with what is known of its cause."""
        cause = _cause_of(finding, row)
        about = cause.get("about")
        words = [word for word in about if isinstance(word, str)] if isinstance(about, list) else []
        judgement = self._judged(finding, bool(words))
        known = judgement.verdict == "environment" or (
            judgement.verdict == "not_environment" and judgement.diagnoses[0].signature.category != _SCRIPTS
        )
        known = known and not judgement.diagnoses[0].signature.fallback  # says less than the finding itself
        named = judgement.diagnoses[0].signature.checks if known else ()
        echoes = (*self._naming(words), *self._of(named, words))
        kept = tuple(code for code in finding.echo_of if code in self._standing)
        finding = replace(finding, echo_of=tuple(dict.fromkeys((*kept, *echoes))))
        if not known or finding.fix is not None:
            return finding
        signature = judgement.diagnoses[0].signature
        remedy = "; ".join(said(signature.remedy, language()))
        finding = replace(finding, fix=Fix(remedy, steps=(), risk=Risk.MANUAL, needs_root=False))
        if not cause.get("vague", True):  # the sentence says it already
            return finding
        return replace(finding, message=f"{finding.message}: {said(signature.title, language())}")

    def _judged(self, finding: Finding, first: bool) -> Judgement:
        """By the cause alone where it is told apart: around it stands what came of it."""
        lines = finding.evidence[:1] if first else finding.evidence
        judgement = self._engine.judged([self._engine.text("\n".join(lines))])
        if judgement.verdict in ("environment", "not_environment") or not first:
            return judgement
        return self._engine.judged([self._engine.text("\n".join(finding.evidence))])

    def _naming(self, words: Sequence[str]) -> Iterator[str]:
        """The codes of errors that speak of the cause: by its most telling word that any of them has."""
        for word in words:
            pattern, anybody = _word(word), bool(_TELLING.search(word))
            codes = [
                code
                for code, texts in self._errors.items()
                if (anybody or code.partition(".")[0] in ALWAYS) and any(map(pattern.search, texts))
            ]
            if codes:
                yield from codes
                return

    def _of(self, checks: Sequence[str], words: Sequence[str]) -> Iterator[str]:
        """The codes of the checks that a signature names, but those that must name the cause themselves."""
        for check in checks:
            if check not in ALWAYS or not words:
                yield from (code for code in self._codes.get(check, ()) if code in self._errors)


def _cause_of(finding: Finding, row: Result) -> Mapping[str, object]:
    """The cause of a finding among those of its row, which its evidence begins with."""
    causes = row.facts.get("causes")
    told = [one for one in causes.values() if isinstance(one, dict)] if isinstance(causes, dict) else []
    first = finding.evidence[0] if finding.evidence else ""
    for one in told:
        message = str(one.get("message") or "").strip().splitlines()
        text = f"{one.get('type')}: {message[0].strip()}" if message else str(one.get("type"))
        if first and text.startswith(first[:200]):
            return one
    return {}


def _word(word: str) -> re.Pattern[str]:
    """A word as a whole, - and _ being alike."""
    parts = (re.escape(part) for part in re.split(r"[-_.]+", word))
    return re.compile(rf"(?<![\w/-]){'[-_.]'.join(parts)}(?![\w-])", re.IGNORECASE)
