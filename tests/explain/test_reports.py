"""What npudoctor itself reported before a job is no word of the job, in whatever form and language."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.render.samples import report
from tests.support.engines import late

from npudoctor.core import messages
from npudoctor.core.model import Finding, Fix, Report, Result, Severity, Status
from npudoctor.render.style import Style
from npudoctor.render.text import decisive_text, report_text

ENGINE = late()
SAID = "OSError: libhccl.so: cannot open shared object file: No such file or directory"
FINDING = Finding(
    "torch-npu.import",
    f"torch_npu cannot be imported: {SAID}",
    Severity.ERROR,
    ("RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable", SAID),
    fix=Fix("RuntimeError: CUDA error: no kernel image is available; pip install torch-npu==2.1.0"),
)
WARNS = Finding("scipy.old", "ImportError: numpy.core.multiarray failed to import", Severity.WARNING)
ROWS = tuple(
    Result(one.code.split(".")[0], "It suits", "python", Status.PROBLEM, findings=(one,))
    for one in (FINDING, WARNS)
)
TRAINS = "epoch: 1, step: 10, loss: 2.31\n"
FAILS = "Traceback (most recent call last):\n  File '/job/train.py', line 7, in <module>\nKeyError: 'lr'\n"


def _forms(rows: Report) -> dict[str, str]:
    return {
        "brief": report_text(rows),
        "verbose": report_text(rows, verbose=1),
        "whole": report_text(rows, verbose=2),
        "coloured": report_text(rows, style=Style(True, True)),
        "run": f"{decisive_text(rows)}npudoctor: not ready; the job is started anyway\n",
    }


@pytest.mark.parametrize("form", sorted(_forms(report())))
def test_a_report_before_a_job_is_not_its_failure(language: str, form: str) -> None:
    told = _forms(report(*ROWS))[form]
    assert ENGINE.judge([ENGINE.scan_text(told + TRAINS)]).verdict == "clean", told
    judgement = ENGINE.judge([ENGINE.scan_text(told + TRAINS + FAILS)])
    assert {one.signature.id for one in judgement.diagnoses} == {"python-key-error", "python-exception-any"}
    assert judgement.diagnoses[0].first is not None
    assert judgement.diagnoses[0].first.log_line.line == told.count("\n") + 4


@pytest.mark.parametrize("form", sorted(_forms(report())))
def test_what_a_job_says_around_reports_is_its_own(language: str, form: str) -> None:
    """Also after one that was not finished; a second one may begin another run."""
    told = _forms(report(*ROWS))[form]
    cut = "".join(told.splitlines(True)[:3])
    for log in (FAILS + told, told + FAILS + told, cut + FAILS + _forms(report(*ROWS))["brief"]):
        judgement = ENGINE.judge([ENGINE.scan_text(log)])
        texts = [spot.log_line.text for spot in judgement.errors]
        texts += [run.last_error.text for run in judgement.runs if run.last_error]
        assert "KeyError: 'lr'" in texts, log


@pytest.mark.parametrize("text", [report_text, decisive_text])
def test_a_report_that_kept_a_job_from_being_started_is_why(
    language: str, text: Callable[[Report], str]
) -> None:
    told = text(report(*ROWS))
    refused = messages._("{verdict}; the job was not started (--force starts it anyway)")
    said = f"loading modules\n{told}npudoctor: a note\nnpudoctor: {refused.format(verdict='1 error')}\n"
    gate = f"loading modules\n{told}"  # npudoctor check && python train.py
    for log in (said, told, gate):
        judgement = ENGINE.judge([ENGINE.scan_text(log)])
        assert judgement.verdict == "environment", (log, judgement)


def test_each_line_may_have_a_rank_before_it() -> None:
    told = _forms(report(*ROWS))["brief"]
    labelled = "".join(f"0: {line}" for line in (told + TRAINS).splitlines(True))
    assert ENGINE.judge([ENGINE.scan_text(labelled)]).verdict == "clean"
