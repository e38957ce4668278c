"""Renders an explanation as text: one screen, in 80 columns, the answer first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from npudoctor.core.messages import _, language, ngettext
from npudoctor.core.redact.redact import redact
from npudoctor.core.sizes import size_text
from npudoctor.explain.answer import (
    Explanation,
    Proof,
    describe_confidence,
    describe_spot,
    pick_language,
    redacted_text,
)
from npudoctor.render.columns import paragraph, shorten
from npudoctor.render.printable import printable
from npudoctor.render.style import PLAIN, Style

if TYPE_CHECKING:
    from npudoctor.explain.ranking.diagnosis import Diagnosis

INDENT = "  "
_ERRORS = 6  # how many unrecognized errors are shown
_OTHERS = 6  # how many further diagnoses are listed
_RUNS = 6  # how many earlier runs are listed
_LONG = 400  # characters that are shown of a log line


_KINDS = {"environment": "error", "not_environment": "warning", "clean": "ok"}


def explain_text(explanation: Explanation, style: Style = PLAIN) -> str:
    """The explanation as text; several codes one after the other."""
    if explanation.answers:
        answers = explanation.answers
        return "\n".join(
            f"{printable(answer.code or '')}\n{explain_text(answer, style)}" for answer in answers
        )
    return "\n".join(_answer_lines(explanation, style)) + "\n"


def _answer_lines(explanation: Explanation, style: Style) -> Iterator[str]:
    is_recognized = explanation.verdict in ("environment", "not_environment")
    first, *rest = paragraph(_verdict_text(explanation), "", INDENT)
    word = first.partition(_(":"))[0]
    yield first.replace(word, style.paint_kind(_KINDS.get(explanation.verdict, "open"), word, bold=True), 1)
    yield from rest
    if is_recognized:
        yield from _best_lines(explanation)
        if explanation.elsewhere is not None:
            yield ""
            text = _(
                "see also {cause}: {place}",
                cause=explanation.elsewhere.cause,
                place=explanation.elsewhere.place,
            )
            yield from paragraph(text, INDENT, INDENT)
    else:
        if explanation.errors:
            yield ""
            yield _("the first errors:")
        for spot in explanation.errors[:_ERRORS]:
            yield from paragraph(describe_spot(spot), INDENT, INDENT * 2)
            yield from paragraph(redacted_text(spot)[:_LONG], INDENT * 2, INDENT * 2)
    other_diagnoses = explanation.diagnoses
    if is_recognized:
        other_diagnoses = tuple(
            diagnosis
            for diagnosis in other_diagnoses[1:]
            if not _is_repetition(diagnosis, other_diagnoses[0])
        )
    if other_diagnoses:
        yield ""
        yield _("also found:")
        for other in other_diagnoses[:_OTHERS]:
            text = _("{title} ({confidence}; {where})") if other.first else _("{title} ({confidence})")
            line = text.format(
                title=pick_language(other.signature.title, language()),
                confidence=describe_confidence(other.confidence),
                where=describe_spot(other.first),
            )
            yield from paragraph(line, INDENT + "- ", INDENT * 2)
        if len(other_diagnoses) > _OTHERS:
            hidden_count = len(other_diagnoses) - _OTHERS
            yield INDENT + ngettext("and {count} more", "and {count} more", hidden_count, count=hidden_count)
    if explanation.runs:
        yield from _earlier_run_lines(explanation)
    if explanation.proofs is not None:
        yield from _proof_lines(explanation.proofs)
    yield ""
    yield from paragraph(_read_text(explanation), "", INDENT)
    yield from _unread_lines(explanation)
    if is_recognized and explanation.diagnoses[0].signature.checks:
        checks = " ".join(explanation.diagnoses[0].signature.checks)
        yield printable(_("next: {command}", command=f"npudoctor check {checks}"))


def _is_repetition(other: Diagnosis, best: Diagnosis) -> bool:
    """Whether a diagnosis is about the same lines as the best one, with another confidence."""
    if other.confidence == best.confidence or other.first is None or best.first is None:
        return False
    last = best.last or best.first
    return other.first.is_same_line(best.first) and (other.last or other.first).is_same_line(last)


def _verdict_text(explanation: Explanation) -> str:
    if explanation.verdict == "environment":
        return _(
            "ENVIRONMENT: {title}", title=pick_language(explanation.diagnoses[0].signature.title, language())
        )
    if explanation.verdict == "not_environment":
        return _(
            "NOT THE ENVIRONMENT: {title}",
            title=pick_language(explanation.diagnoses[0].signature.title, language()),
        )
    if explanation.verdict == "clean":
        return _("CLEAN: {text}", text=explanation.msg)
    return _(
        "UNKNOWN: {text}",
        text=_("an unrecognized failure")
        if explanation.errors and explanation.elsewhere is None
        else explanation.msg,
    )


def _best_lines(explanation: Explanation) -> Iterator[str]:
    diagnosis = explanation.diagnoses[0]
    signature = diagnosis.signature
    if diagnosis.first is not None:
        times = ngettext("once", "{count} times", diagnosis.count, count=diagnosis.count)
        yield from paragraph(
            _(
                "first: {where} ({times}, {confidence})",
                where=describe_spot(diagnosis.first),
                times=times,
                confidence=describe_confidence(diagnosis.confidence),
            ),
            INDENT,
            INDENT * 2,
        )
        context = explanation.context
        for line in context.before if context else ():
            yield _context_line(line)
        yield from paragraph(redacted_text(diagnosis.first)[:_LONG], INDENT * 2, INDENT * 2)
        for line in context.after if context else ():
            yield _context_line(line)
    yield ""
    yield from paragraph(pick_language(signature.cause, language()), INDENT, INDENT)
    if signature.era:
        yield from paragraph(_("applies to CANN {era}", era=signature.era), INDENT, INDENT)
    yield ""
    yield _("what to do:")
    for step in signature.remedy[language()]:
        yield from paragraph(step, INDENT + "- ", INDENT * 2)


def _context_line(text: str) -> str:
    """A line beside the one that decides, on one line of the screen."""
    return shorten(f"{INDENT * 2}| {printable(text.strip())}")


def _earlier_run_lines(explanation: Explanation) -> Iterator[str]:
    """Yield the earlier runs in the same file; only the last one is judged."""
    yield ""
    yield _("earlier runs in the same file (only the last one is judged):")
    for run in explanation.runs[-_RUNS:]:
        if run.signature is not None:
            text = pick_language(run.signature.title, language())
        else:
            text = redact(run.last_error.text)[:_LONG] if run.last_error else _("no failure found")
        yield from paragraph(
            _(
                "{path}, lines {first} to {last}: {text}",
                path=run.path,
                first=run.first,
                last=run.last,
                text=text,
            ),
            INDENT + "- ",
            INDENT * 2,
        )
    if len(explanation.runs) > _RUNS:
        hidden_count = len(explanation.runs) - _RUNS
        yield INDENT + ngettext("and {count} more", "and {count} more", hidden_count, count=hidden_count)


def _proof_lines(proofs: tuple[Proof, ...]) -> Iterator[str]:
    yield ""
    yield _("checked now:") if proofs else _("checked now: nothing, because no check can confirm this")
    for proof in proofs:
        text = {
            "confirmed": _("{check}: confirms it"),
            "refuted": _("{check}: does not confirm it"),
            "could-not-look": _("{check}: no result ({status})"),
        }[proof.outcome]
        yield INDENT + printable(text.format(check=proof.check, status=proof.status))
        for message in proof.messages:
            yield from paragraph(redact(message), INDENT * 2, INDENT * 2)


def _read_text(explanation: Explanation) -> str:
    """How much was read, so that a missing file is noticed."""
    if not explanation.inputs:
        return _("no log was read")
    size = sum(file.bytes for file in explanation.inputs)
    lines = sum(file.lines for file in explanation.inputs)
    return ngettext(
        "read: {files} file, {lines} lines, {size}",
        "read: {files} files, {lines} lines, {size}",
        len(explanation.inputs),
        files=len(explanation.inputs),
        lines=lines,
        size=size_text(size),
    )


def _unread_lines(explanation: Explanation) -> Iterator[str]:
    """Yield the input that was not read, and the deadline that was hit."""
    if explanation.late is not None:
        yield from paragraph(
            _(
                "reading stopped at the deadline of {seconds:g} s; --deadline SECONDS allows more",
                seconds=explanation.late,
            ),
            "",
            INDENT,
        )
    if explanation.unread:
        path, reason = explanation.unread[0]
        yield from paragraph(
            ngettext(
                "not read completely: {count} input, {path}: {reason}",
                "not read completely: {count} inputs, first {path}: {reason}",
                len(explanation.unread),
                count=len(explanation.unread),
                path=path,
                reason=reason,
            ),
            "",
            INDENT,
        )
