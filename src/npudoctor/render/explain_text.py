"""An explanation for people: one screen, in 80 columns, the answer first."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.core.messages import _, language, ngettext
from npudoctor.core.redact.redact import redact
from npudoctor.explain.answer import Explanation, Proof, said, shown, sure, where
from npudoctor.explain.ranking.candidates import Spot
from npudoctor.explain.ranking.judge import Diagnosis
from npudoctor.render.columns import paragraph
from npudoctor.render.printable import printable

INDENT = "  "
_ERRORS = 6
_OTHERS = 6
_RUNS = 6
_LONG = 400  # characters of a line that are shown


def explain_text(one: Explanation) -> str:
    """The whole answer."""
    return "\n".join(_lines(one)) + "\n"


def _lines(one: Explanation) -> Iterator[str]:
    known = one.verdict in ("environment", "not_environment")
    yield from paragraph(_verdict(one), "", INDENT)
    if known:
        yield from _best(one.diagnoses[0])
    else:
        yield from _errors(one.errors)
    others = one.diagnoses[1:] if known else one.diagnoses
    if others:
        yield ""
        yield _("also found:")
        for other in others[:_OTHERS]:
            yield from _other(other)
        if len(others) > _OTHERS:
            left = len(others) - _OTHERS
            yield INDENT + ngettext("and {count} more", "and {count} more", left).format(count=left)
    if one.runs:
        yield from _runs(one)
    if one.proofs is not None:
        yield from _proofs(one.proofs)
    yield ""
    yield from paragraph(_read(one), "", INDENT)
    yield from _unread(one)


def _verdict(one: Explanation) -> str:
    if one.verdict == "environment":
        return _("ENVIRONMENT: {title}").format(title=said(one.diagnoses[0].signature.title, language()))
    if one.verdict == "not_environment":
        return _("NOT THE ENVIRONMENT: {title}").format(
            title=said(one.diagnoses[0].signature.title, language())
        )
    if one.verdict == "clean":
        return _("CLEAN: {text}").format(text=one.msg)
    return _("UNKNOWN: {text}").format(text=_("a failure that is not recognised") if one.errors else one.msg)


def _best(one: Diagnosis) -> Iterator[str]:
    signature = one.signature
    if one.first is not None:
        times = ngettext("once", "{count} times", one.count).format(count=one.count)
        text = _("first: {where} ({times}, {confidence})")
        yield from paragraph(
            text.format(where=where(one.first), times=times, confidence=sure(one.confidence)),
            INDENT,
            INDENT * 2,
        )
        yield from paragraph(shown(one.first)[:_LONG], INDENT * 2, INDENT * 2)
    yield ""
    yield from paragraph(said(signature.cause, language()), INDENT, INDENT)
    if signature.era:
        yield from paragraph(_("this holds for CANN {era}").format(era=signature.era), INDENT, INDENT)
    yield ""
    yield _("what to do:")
    for step in signature.remedy[language()]:
        yield from paragraph(step, INDENT + "- ", INDENT * 2)
    if signature.checks:
        yield ""
        yield _("what proves it:")
        yield f"{INDENT}$ npudoctor check {' '.join(signature.checks)}"


def _errors(errors: tuple[Spot, ...]) -> Iterator[str]:
    if errors:
        yield ""
        yield _("the first lines that say that something failed:")
    for spot in errors[:_ERRORS]:
        yield from paragraph(where(spot), INDENT, INDENT * 2)
        yield from paragraph(shown(spot)[:_LONG], INDENT * 2, INDENT * 2)


def _other(one: Diagnosis) -> Iterator[str]:
    text = _("{title} ({confidence}; {where})") if one.first else _("{title} ({confidence})")
    line = text.format(
        title=said(one.signature.title, language()), confidence=sure(one.confidence), where=where(one.first)
    )
    yield from paragraph(line, INDENT + "- ", INDENT * 2)


def _runs(one: Explanation) -> Iterator[str]:
    """The runs before the last one, which alone is judged."""
    yield ""
    yield _("earlier runs in the same file (only the last one is judged):")
    for run in one.runs[-_RUNS:]:
        if run.signature is not None:
            text = said(run.signature.title, language())
        else:
            text = redact(run.seen.text)[:_LONG] if run.seen else _("no failure")
        line = _("{path}, lines {first} to {last}: {text}")
        yield from paragraph(
            line.format(path=run.path, first=run.first, last=run.last, text=text), INDENT + "- ", INDENT * 2
        )
    if len(one.runs) > _RUNS:
        left = len(one.runs) - _RUNS
        yield INDENT + ngettext("and {count} more", "and {count} more", left).format(count=left)


def _proofs(proofs: tuple[Proof, ...]) -> Iterator[str]:
    yield ""
    yield _("asked now:") if proofs else _("asked now: nothing, because no check can confirm this")
    for proof in proofs:
        text = _("{check}: confirms it") if proof.confirms else _("{check}: does not confirm it ({status})")
        yield INDENT + printable(text.format(check=proof.check, status=proof.status))
        for message in proof.messages:
            yield from paragraph(redact(message), INDENT * 2, INDENT * 2)


def _read(one: Explanation) -> str:
    """How much was read, so that a person sees when a file is missing."""
    if not one.inputs:
        return _("no log was read")
    size = sum(file.bytes for file in one.inputs)
    lines = sum(file.lines for file in one.inputs)
    text = ngettext(
        "read: {files} file, {lines} lines, {size}",
        "read: {files} files, {lines} lines, {size}",
        len(one.inputs),
    )
    return text.format(files=len(one.inputs), lines=lines, size=_size(size))


def _unread(one: Explanation) -> Iterator[str]:
    """What the answer does not rest on."""
    if one.late is not None:
        text = _("reading stopped at the deadline of {seconds:g} s; --deadline SECONDS allows more")
        yield from paragraph(text.format(seconds=one.late), "", INDENT)
    if one.unread:
        text = ngettext(
            "not read completely: {count} input, {path}: {reason}",
            "not read completely: {count} inputs, first {path}: {reason}",
            len(one.unread),
        )
        path, reason = one.unread[0]
        yield from paragraph(text.format(count=len(one.unread), path=path, reason=reason), "", INDENT)


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
