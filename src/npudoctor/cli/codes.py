"""Explains the codes of logs and of findings, for `explain` and `show`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Optional

from npudoctor import __version__
from npudoctor.cli.config import UsageError, suggestion
from npudoctor.cli.request import read_rows
from npudoctor.core.frozen import replace
from npudoctor.core.messages import _
from npudoctor.explain.answer import Explanation
from npudoctor.explain.ranking.diagnosis import LEAST, Diagnosis
from npudoctor.explain.signatures.codes import codes_of, find_by_code, signature_of_finding
from npudoctor.explain.signatures.prepared import prepare_signatures
from npudoctor.explain.signatures.return_numbers import explain_number, number_of_word
from npudoctor.explain.signatures.torch_npu_codes import list_codes, signature_of_torch_npu

if TYPE_CHECKING:
    from npudoctor.explain.signatures.signatures import Signature

Variables = Mapping[str, str]
_ACL_DIGITS = 6  # digits of ACL's return codes; a shorter number may come from any library


def explain_code(word: str, variables: Variables) -> Optional[Explanation]:
    """The explanation of a code in a log; None when it is unknown."""
    started = time.monotonic()
    signatures = _find_by_code(word, read_rows(prepare_signatures, variables))
    return _make_explanation(word, signatures, started) if signatures else None


def explain_codes(words: Sequence[str], variables: Variables, started: float) -> Explanation:
    """The explanation of one code; of several codes, the worst one with the others in `answers`."""
    signatures = read_rows(prepare_signatures, variables)
    answers = tuple(
        _make_explanation(
            word, _find_by_code(word, signatures) or _find_by_finding(word, signatures, variables), started
        )
        for word in dict.fromkeys(words)
    )
    if len(answers) == 1:
        return answers[0]
    diagnoses = tuple(diagnosis for answer in answers for diagnosis in answer.diagnoses)
    worst = next((candidate for candidate in answers if candidate.verdict == "environment"), answers[0])
    first = worst.diagnoses[0]
    rest = tuple(candidate for candidate in diagnoses if candidate is not first)
    return replace(worst, code=None, diagnoses=(first, *rest), answers=answers)


def _find_by_code(word: str, signatures: Sequence[Signature]) -> list[Signature]:
    """The signatures for a code in a log, or for the id of a signature."""
    number = number_of_word(word)
    by_torch_npu = signature_of_torch_npu(word)
    signatures_of_code = [explain_number(signature, number) for signature in find_by_code(number, signatures)]
    return signatures_of_code or ([] if by_torch_npu is None else [by_torch_npu])


def _make_explanation(word: str, matches: Sequence[Signature], started: float) -> Explanation:
    number = number_of_word(word)
    verdict = "environment" if matches[0].environment else "not_environment"
    # A short number may be any library's; only HCCL's result codes are known.
    vague = number.isdigit() and len(number) < _ACL_DIGITS
    best = "possible" if vague or matches[0].weight < LEAST else "certain"
    diagnoses = tuple(
        Diagnosis(signature, best if signature is matches[0] else "possible", None, 0)
        for signature in matches
    )
    return Explanation(__version__, round(time.monotonic() - started, 3), (), verdict, diagnoses, code=word)


def _find_by_finding(word: str, signatures: Sequence[Signature], variables: Variables) -> list[Signature]:
    """A signature for the code of a finding, made from the manual of its check.

    Raises UsageError with a suggestion when no check has this code.
    """
    from npudoctor.registry import registry

    loaded = registry.load_all(variables)
    for check in loaded.checks:  # its manual serves as the signature
        if word in check.codes:
            return [signature_of_finding(word, check.id, _(check.title), check.manual)]
    broken = loaded.find_broken(word)
    if broken is not None:
        raise UsageError(f"{broken.check}: {broken.title}: {broken.reason}")
    check_names = {name for check in loaded.checks for name in (check.id, *check.codes)}
    log_codes = codes_of(signatures) | set(list_codes())
    hint = loaded.not_loaded_hint() + (suggestion(word, log_codes) or suggestion(word, check_names))
    if any(word == check.id for check in loaded.checks):
        hint = _("; it is a check: npudoctor show {name}", name=word)
    raise UsageError(
        _("{name}: not a file, a folder or a known code{suggestion}", name=word, suggestion=hint)
    )
