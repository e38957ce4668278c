"""Where the tools are slow, `--profile quick` asks none: 0.5 s at most, where one npu-smi takes 1.5."""

from __future__ import annotations

import json

from benchmarks.npu_machine import NPU_SMI
from benchmarks.promise import CHECKOUT, CannotMeasureError, Command, Output, Promise
from benchmarks.promises.check import is_a_whole_report
from benchmarks.promises.npu import ROWS


def asked_no_tool(output: Output) -> str:
    """The slow rows are left out and say so, the NPUs were seen all the same, and no stand-in was started."""
    told = is_a_whole_report(output)
    report = json.loads(output.stdout)
    statuses = {row["check"]: row["status"] for row in report["results"]}
    if report["target"]["kind"] != "npu" or statuses["device-nodes"] != "ok":
        raise CannotMeasureError("npudoctor check --profile quick saw no NPUs")
    if output.calls or any(statuses[name] != "skipped" for name in ROWS):
        raise CannotMeasureError(f"npudoctor check --profile quick asked {output.calls[:3]}")
    return f"{told}; no call of the tools"


def asked_once(output: Output) -> str:
    """The table came."""
    if output.calls != ("npu-smi info",) or b"910B3" not in output.stdout:
        raise CannotMeasureError(f"npu-smi gave no table: {output.calls}")
    return "printed its table"


PROMISE = Promise(
    ours=Command(
        CHECKOUT,
        ("npudoctor", "check", "--profile", "quick", "--expect", "npu", "--format", "json"),
        frozenset({0, 1, 2}),
        asked_no_tool,
    ),
    theirs=Command(CHECKOUT, (NPU_SMI, "info"), frozenset({0}), asked_once),
    at_most=0.33,
    runs=3,  # they wait for stand-ins, and differ by a hundredth
    warm_ups=1,
    on_npus=True,
)
