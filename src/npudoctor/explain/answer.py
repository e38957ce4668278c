"""The answer to "what does this log mean?": everything that its JSON contains, and the one-line summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Optional

from npudoctor import __version__
from npudoctor.core.frozen import dataclass, field, replace
from npudoctor.core.messages import _, language, ngettext
from npudoctor.core.redact.redact import redact
from npudoctor.explain.signatures.remedies import InstalledCann, adapt_remedy

if TYPE_CHECKING:  # of a code is told without loading what finds failures in logs
    from npudoctor.explain.context import ContextLines
    from npudoctor.explain.ranking.candidates import Spot
    from npudoctor.explain.ranking.diagnosis import Diagnosis
    from npudoctor.explain.ranking.judge import Judgement
    from npudoctor.explain.ranking.runs import EarlierRun
    from npudoctor.explain.reading.walk import Log
    from npudoctor.explain.scanning.evidence import Evidence
    from npudoctor.explain.signatures.signatures import Signature


@dataclass(frozen=True)
class Input:
    """A file that was read."""

    path: str
    bytes: int
    lines: int


@dataclass(frozen=True)
class Proof:
    """The result of a check that a diagnosis names. `confirms`: whether the check finds something."""

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
class Elsewhere:
    """What the cause is (the first error of a rank) and the place that has it (a file, a command)."""

    cause: str
    place: str


@dataclass(frozen=True)
class Explanation:
    """What was read and what it means.

    - `verdict`: environment, not_environment, unknown or clean.
    - `errors`: the first lines that say that something failed.
    - `unread`: (path, reason) of the inputs that were not read, or not to their end.
    - `proofs`: results of the checks that diagnoses name; None if they were not run.
    - `late`: the deadline in seconds, if it was too short; else None.
    - `logs`: how to open each log once more, by its path.
    - `context`: the lines around the first place of the best diagnosis.
    - `elsewhere`: what the cause is and where it is written, if it is not in what was read.
    - `code`: the code that was asked for, None for logs; `answers`: one for each of several codes.
    """

    version: str
    seconds: float
    inputs: tuple[Input, ...]
    verdict: str
    diagnoses: tuple[Diagnosis, ...]
    errors: tuple[Spot, ...] = field(default=())
    unread: tuple[tuple[str, str], ...] = ()
    proofs: Optional[tuple[Proof, ...]] = None
    late: Optional[float] = None
    runs: tuple[EarlierRun, ...] = field(default=())
    logs: Mapping[str, Log] = field(default_factory=dict)
    code: Optional[str] = None
    answers: tuple[Explanation, ...] = ()
    elsewhere: Optional[Elsewhere] = None
    context: Optional[ContextLines] = None

    @property
    def is_complete(self) -> bool:
        """Whether all inputs were read to their end."""
        return not self.unread

    @property
    def exit_code(self) -> int:
        """0 if the question was answered, or it was said where the answer is; 1 if not, or only by a fallback
        signature for unknown failures."""
        if self.verdict == "unknown":
            return 0 if self.elsewhere is not None and self.is_complete and self.late is None else 1
        guessed = bool(self.diagnoses) and self.diagnoses[0].signature.fallback
        # A fallback signature only says what kind of line ended the job: that is no answer.
        return 1 if guessed else 0

    @property
    def msg(self) -> str:
        """The answer as one line."""
        return " ".join(_answer_in_one_line(self).split())

    @property
    def is_empty(self) -> bool:
        """Whether all inputs are empty."""
        return not any(file.bytes for file in self.inputs)


def make_explanation(
    judgement: Judgement,
    evidence: Sequence[Evidence],
    seconds: float,
    unread: Sequence[tuple[str, str]] = (),
) -> Explanation:
    """Combine a judgement with what was read. `unread`: further inputs that were not read.

    If something was not read, or if all inputs are empty, the verdict "clean" becomes "unknown".
    """
    read = [file for file in evidence if not file.is_unread and not file.is_binary]
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
        elsewhere=_find_elsewhere(judgement.elsewhere),
    )


def _find_elsewhere(signature: Optional[Signature]) -> Optional[Elsewhere]:
    if signature is None or signature.elsewhere is None:
        return None
    return Elsewhere(*(pick_language(signature.elsewhere[key], language()) for key in ("what", "where")))


def add_remedies(answer: Explanation, installed: Optional[InstalledCann]) -> Explanation:
    """The answer with remedies for this machine. `installed`: None if it was not examined; then remedies say
    under which condition they hold."""
    diagnoses = []
    for diagnosis in answer.diagnoses:
        signature = diagnosis.signature
        remedy = {**signature.remedy, language(): adapt_remedy(signature.remedy, installed)}
        diagnoses.append(replace(diagnosis, signature=replace(signature, remedy=remedy)))
    answers = tuple(add_remedies(part, installed) for part in answer.answers)
    return replace(answer, diagnoses=tuple(diagnoses), answers=answers)


def pick_language(texts: object, language: str) -> str:
    """The text of a signature in a language, English if it has none."""
    return texts.get(language) or texts["en"]  # type: ignore[attr-defined,no-any-return,index]


def describe_spot(spot: Optional[Spot]) -> str:
    """The file, line and rank of a spot."""
    if spot is None:
        return ""
    place = f"{spot.path}:{spot.log_line.line}"
    if spot.log_line.rank is None:
        return place
    return _("rank {rank}, {place}", rank=spot.log_line.rank, place=place)


def redacted_text(spot: Spot) -> str:
    """The text of a line, without secrets."""
    return redact(spot.log_line.text)


def _answer_in_one_line(answer: Explanation) -> str:
    if answer.verdict in ("environment", "not_environment"):
        best = answer.diagnoses[0]
        title, confidence = (
            pick_language(best.signature.title, language()),
            describe_confidence(best.confidence),
        )
        if answer.verdict == "environment":
            return _("environment: {title} ({confidence})", title=title, confidence=confidence)
        return _("not the environment: {title} ({confidence})", title=title, confidence=confidence)
    if answer.elsewhere is not None:
        return _(
            "this log names no cause that npudoctor knows: look for {cause}: {place}",
            cause=answer.elsewhere.cause,
            place=answer.elsewhere.place,
        )
    if answer.errors:
        return _(
            "an unrecognized failure; first error: {text} ({place})",
            text=redacted_text(answer.errors[0])[:300],
            place=describe_spot(answer.errors[0]),
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
    if answer.is_empty:
        return _("the input is empty: a job that was killed may leave nothing")
    return _("an unrecognized failure")


def describe_confidence(confidence: str) -> str:
    """The translated word for the confidence of a diagnosis."""
    return {"certain": _("certain"), "likely": _("likely"), "possible": _("possible")}[confidence]
