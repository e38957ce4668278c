"""The answer to "what does this log mean?": all that its JSON says, and the one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Optional

from npudoctor import __version__
from npudoctor.core.frozen import dataclass, field, replace
from npudoctor.core.messages import _, language, ngettext
from npudoctor.core.redact.redact import redact
from npudoctor.explain.signatures.remedies import Installed, remedy_on

if TYPE_CHECKING:  # of a code is told without loading what finds failures in logs
    from npudoctor.explain.ranking.candidates import Spot
    from npudoctor.explain.ranking.diagnosis import Diagnosis
    from npudoctor.explain.ranking.judge import Judgement
    from npudoctor.explain.ranking.runs import Run
    from npudoctor.explain.reading.walk import Log
    from npudoctor.explain.scanning.evidence import Evidence


@dataclass(frozen=True)
class Input:
    """A file that was read."""

    path: str
    bytes: int
    lines: int


@dataclass(frozen=True)
class Proof:
    """What a check that a diagnosis names says now. `confirms`: it finds something; `outcome`: also whether
    it could look at all."""

    check: str
    status: str
    confirms: bool
    messages: tuple[str, ...] = field(default=())

    @property
    def outcome(self) -> str:
        """confirmed, refuted or could-not-look: a check that was skipped or ended early refutes nothing."""
        if self.confirms:
            return "confirmed"
        return "refuted" if self.status == "ok" else "could-not-look"


@dataclass(frozen=True)
class Explanation:
    """What was read and what it means. `unread`: the inputs that could not be read, or not to their end, and
    why; `late`: the seconds that were not enough; `logs`: how to reach what was read, by its path; `code`:
    what was asked for, and `answers`: that of each, where several codes were."""

    version: str
    seconds: float
    inputs: tuple[Input, ...]
    verdict: str
    diagnoses: tuple[Diagnosis, ...]
    errors: tuple[Spot, ...] = field(default=())
    unread: tuple[tuple[str, str], ...] = ()
    proofs: Optional[tuple[Proof, ...]] = None
    late: Optional[float] = None
    runs: tuple[Run, ...] = field(default=())
    logs: Mapping[str, Log] = field(default_factory=dict)
    code: Optional[str] = None
    answers: tuple[Explanation, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether all that was named was read to its end."""
        return not self.unread

    @property
    def exit_code(self) -> int:
        """Whether it could be answered: of a failure that no signature knows only its last line is said."""
        guessed = bool(self.diagnoses) and self.diagnoses[0].signature.fallback
        return 1 if self.verdict == "unknown" or guessed else 0

    @property
    def msg(self) -> str:
        """The answer in one line."""
        return " ".join(_answer(self).split())

    @property
    def empty(self) -> bool:
        """Whether there was nothing to be read in what was named."""
        return not any(file.bytes for file in self.inputs)


def explanation(
    judgement: Judgement,
    evidence: Sequence[Evidence],
    seconds: float,
    unread: Sequence[tuple[str, str]] = (),
) -> Explanation:
    """The answer. `unread`: what was not read, or not to its end, beside what the evidence says. With
    that, and where all is empty, nothing is said to be well."""
    read = [file for file in evidence if not file.unread and not file.binary]
    inputs = tuple(Input(file.path, file.bytes, file.lines) for file in read)
    # What was read in part may lack just the end, where a job says that it failed.
    verdict = judgement.verdict
    lacking = tuple(
        dict.fromkeys([*unread, *((file.path, file.problem) for file in evidence if file.problem)])
    )
    if verdict == "clean" and (lacking or not any(file.bytes for file in inputs)):
        verdict = "unknown"
    return Explanation(
        __version__,
        round(seconds, 3),
        inputs,
        verdict,
        judgement.diagnoses,
        judgement.errors,
        lacking,
        runs=judgement.runs,
    )


def with_remedies(answer: Explanation, installed: Optional[Installed]) -> Explanation:
    """The same, with remedies for this machine; None: nobody looked, so that they name their conditions."""
    diagnoses = []
    for diagnosis in answer.diagnoses:
        signature = diagnosis.signature
        remedy = {**signature.remedy, language(): remedy_on(signature.remedy, installed)}
        diagnoses.append(replace(diagnosis, signature=replace(signature, remedy=remedy)))
    answers = tuple(with_remedies(part, installed) for part in answer.answers)
    return replace(answer, diagnoses=tuple(diagnoses), answers=answers)


def in_language(texts: object, language: str) -> str:
    """A text of a signature in the language spoken; site rows and ours have both."""
    return texts.get(language) or texts["en"]  # type: ignore[attr-defined,no-any-return,index]


def where(spot: Optional[Spot]) -> str:
    """The file, line and rank of a spot."""
    if spot is None:
        return ""
    place = f"{spot.path}:{spot.seen.line}"
    if spot.seen.rank is None:
        return place
    return _("rank {rank}, {place}", rank=spot.seen.rank, place=place)


def safe_text(spot: Spot) -> str:
    """The text of a line, without secrets."""
    return redact(spot.seen.text)


def _answer(answer: Explanation) -> str:
    if answer.verdict in ("environment", "not_environment"):
        best = answer.diagnoses[0]
        title, confidence = in_language(best.signature.title, language()), sure(best.confidence)
        if answer.verdict == "environment":
            return _("environment: {title} ({confidence})", title=title, confidence=confidence)
        return _("not the environment: {title} ({confidence})", title=title, confidence=confidence)
    if answer.errors:
        return _(
            "an unrecognized failure; first error: {text} ({place})",
            text=safe_text(answer.errors[0])[:300],
            place=where(answer.errors[0]),
        )
    if answer.verdict != "unknown":
        return _("no failure in what was read")
    if answer.unread:
        return ngettext(
            "no failure in what was read, but {count} input could not be read completely",
            "no failure in what was read, but {count} inputs could not be read completely",
            len(answer.unread),
            count=len(answer.unread),
        )
    if answer.empty:
        return _("the input is empty: a job that was killed may leave nothing")
    return _("an unrecognized failure")


def sure(confidence: str) -> str:
    """How certain a diagnosis is, as it is said."""
    return {"certain": _("certain"), "likely": _("likely"), "possible": _("possible")}[confidence]
