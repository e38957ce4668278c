"""Where the tools are the cost, a whole check takes little longer than what cannot be asked side by side."""

from __future__ import annotations

import json
from collections import Counter

from benchmarks.npu_answers import NPUS
from benchmarks.npu_machine import CHAIN, QUESTIONS
from benchmarks.promise import CHECKOUT, CannotMeasureError, Command, Output, Promise
from benchmarks.promises.check import is_a_whole_report

ROWS = ("npu-tool", "npu-health", "npu-busy", "hccn-config")
ONE = [f"hccn_tool -i 0 -{question} -g" for question in QUESTIONS]
ALL = [line.replace("-i 0", f"-i {number}") for number in range(NPUS) for line in ONE]


def asked_everything(output: Output) -> str:
    """Each question came once and no other one, and the checks were content with the answers."""
    told = is_a_whole_report(output)
    statuses = {row["check"]: row["status"] for row in json.loads(output.stdout)["results"]}
    odd = {name: statuses.get(name) for name in ROWS if statuses.get(name) != "ok"}
    if odd:
        raise CannotMeasureError(f"npudoctor check found no healthy NPUs: {odd}")
    _asked(output, ["npu-smi info", *ALL])
    return f"{told}; {', '.join(ROWS)} ok; {len(output.calls)} calls of the tools"


def asked_one_device(output: Output) -> str:
    """The calls of the chain, in their order."""
    _asked(output, ONE)
    return f"{len(output.calls)} calls of hccn_tool, one after the other"


def _asked(output: Output, expected: list[str]) -> None:
    missing, other = Counter(expected) - Counter(output.calls), Counter(output.calls) - Counter(expected)
    if missing or other:
        told = f"not asked: {list(missing)[:3]}, not expected: {list(other)[:3]}"
        raise CannotMeasureError(f"the stand-ins were asked otherwise than thought: {told}")


PROMISE = Promise(
    ours=Command(
        CHECKOUT,
        ("npudoctor", "check", "--expect", "npu", "--format", "json"),
        frozenset({0, 1, 2}),
        asked_everything,
    ),
    theirs=Command(CHECKOUT, (CHAIN,), frozenset({0}), asked_one_device),
    at_most=1.3,
    runs=3,  # they wait for stand-ins, and differ by a hundredth
    warm_ups=1,
    on_npus=True,
)
