"""What is shown as evidence is what stands at its line: the number and the words of one and the same line."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator

import pytest
from tests.support.engines import late

from npudoctor.explain.ranking.candidates import Spot
from npudoctor.explain.ranking.judge import Judgement
from npudoctor.explain.signatures.recognise import strip_prefix
from npudoctor.explain.signatures.signatures import built_in

ENGINE = late()
LIFE = ["epoch: 1 step: 125, loss is 1.9", "loading a shard", "", "Training finished", "[WARNING] slow disk"]
LIFE += ["[INFO] Starting worker group", "request 7 was answered", "Traceback (most recent call last):"]


@functools.cache
def examples() -> list[str]:
    """What signatures find, by their own examples; not when collected, as every process is."""
    return [one.log.strip("\n") for signature in built_in() for one in signature.examples if one.match]


def log(seed: int) -> str:
    """A log in which a few failures come again and again: in a row, after life, of ranks, as warnings."""
    chance = random.Random(seed)  # noqa: S311  (it is to be repeatable)
    pieces = chance.sample(examples(), 4)
    lines: list[str] = []
    for _turn in range(chance.choice((5, 40, 300))):
        lines += [chance.choice(LIFE)] * chance.choice((0, 1, 30))
        piece = chance.choice(pieces)
        mark = chance.choice(("", "", "[rank3]: ", "[WARNING] ", "\x1b[31m"))
        lines += [f"{mark}{line}" for line in piece.splitlines()] * chance.choice((1, 1, 3))
    return "\n".join(lines) + chance.choice(("", "\n"))


def spots(judgement: Judgement) -> Iterator[Spot]:
    """All that may be shown."""
    for one in judgement.diagnoses:
        yield from (spot for spot in (one.first, one.last) if spot is not None)
    yield from judgement.errors
    for run in judgement.runs:
        if run.last_error is not None:
            yield Spot(run.path, 0, run.last_error)


@pytest.mark.parametrize("seed", range(60))
def test_evidence_is_the_text_at_its_line(seed: int) -> None:
    text = log(seed)
    lines = [line.replace("\x1b[31m", "") for line in text.split("\n")]
    for spot in spots(ENGINE.judge([ENGINE.scan_text(text)])):
        line = lines[spot.log_line.line - 1].strip()
        # A message over several lines is shown as one.
        assert spot.log_line.text and (
            spot.log_line.text in line or strip_prefix(line).strip()[:40] in spot.log_line.text
        )


def test_a_later_hit_that_counts_has_its_own_words() -> None:
    failure = "RuntimeError: NPU out of memory. Tried to allocate {} MiB\n"
    log = failure.format(1) + "Training finished\n" + "quiet\n" * 30 + failure.format(2)
    (best, *_others) = ENGINE.judge([ENGINE.scan_text(log)]).diagnoses
    assert best.first is not None
    assert (best.first.log_line.line, best.first.log_line.text) == (33, failure.format(2).strip())
