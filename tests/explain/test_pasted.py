"""Logs as people paste them: what was done to a log on its way here changes neither cause nor line."""

from __future__ import annotations

import html
import json

import pytest
from tests.support.engines import late

from npudoctor.explain.ranking.judge import Judgement
from npudoctor.explain.reading.pasted import PastedLog

ENGINE = late()
LOG = """reading the configuration of the experiment
Traceback (most recent call last):
  File "/home/user/job/train.py", line 7, in <module>
    import fused_kernels
ImportError: libcudart.so.12: cannot open shared object file: No such file or directory
"""
WELL = "reading the configuration\nepoch: 1, step: 10, loss: 2.31\nepoch: 1, step: 20, loss: 2.11\n"


def each(form: str, log: str) -> str:
    return "".join(f"{form % line if '%s' in form else form + line}\n" for line in log.splitlines())


def docker(log: str) -> str:
    return "".join(json.dumps({"log": line, "stream": "stderr"}) + "\n" for line in log.splitlines(True))


def wrapped(log: str, width: int = 60) -> str:
    pieces = ([line[at : at + width] for at in range(0, len(line), width)] for line in log.splitlines())
    return "".join(f"{piece}\n" for line in pieces for piece in line)


def judged(log: str) -> Judgement:
    return ENGINE.judge([ENGINE.scan_text(log)])


@pytest.mark.parametrize(
    "paste",
    [
        lambda log: log,
        docker,
        html.escape,
        lambda log: html.escape(log).replace("\n", "<br>"),
        lambda log: repr(log)[1:-1],
        lambda log: json.dumps({"level": "error", "message": log}),
        lambda log: json.dumps({"event": "crashed", "level": "error", "exception": log}) + "\n",
        lambda log: each("> ", log),
        lambda log: each("| ", log),
        lambda log: each("trainer-1  | ", log),
        lambda log: each("gpu-3: ", log),
        lambda log: each("[1,mpirank:3,algo-1]<stderr>:", log),
        lambda log: each("Mar 02 10:00:00 gpu-3 python[812]: ", log),
        lambda log: each("2025-03-02T10:00:00.123456789Z stderr F ", log),
        lambda log: each("[2025-03-02, 10:00:00 UTC] {subprocess.py:93} INFO - ", log),
        lambda log: each("\x1b[36m(Actor pid=12, ip=10.0.0.3)\x1b[0m %s\x1b[0m", log),
        lambda log: each("[31m%s[0m", log),
    ],
)
def test_however_a_log_was_pasted_its_cause_is_the_same(paste: object) -> None:
    assert callable(paste)
    judgement = judged(paste(LOG))
    assert judgement.verdict == "environment"
    assert judgement.diagnoses[0].signature.category == judged(LOG).diagnoses[0].signature.category
    assert judged(paste(WELL)).verdict == "clean"


def test_lines_that_a_terminal_broke_are_one() -> None:
    said = (
        "RuntimeError: the forward pass of the encoder met a value that is not a number, in layer 12 of 24\n"
    )
    more = (
        "OSError: the folder of the experiment is not the one that was written before, so nothing is read\n"
    )
    log = wrapped(LOG + said + "reading what was saved\n" + more)
    assert "".join(piece.decode() for piece in PastedLog([log.encode()]).pieces()) == LOG + said + (
        "reading what was saved\n" + more
    )


def test_lines_that_are_as_long_as_each_other_are_not_joined() -> None:
    log = "".join(
        f"step {n:02d} of the first epoch has a mean loss of 2.{n:02d}\n" for n in range(30)
    ).encode()
    assert b"".join(PastedLog([log]).pieces()) == log
    table = b"+" + b"-" * 58 + b"+\n" + b"| name" + b" " * 53 + b"|\n"
    assert b"".join(PastedLog([table * 3]).pieces()) == table * 3


def test_a_line_keeps_its_number() -> None:
    spelled = json.dumps({"level": "error", "message": LOG})
    judgement = judged(f"start\n{spelled}\nKeyError: 'lr'\n")
    assert {spot.log_line.line for spot in judgement.errors} <= {2, 3}
    assert any(spot.log_line.line == 3 for spot in judgement.errors)
    mended = PastedLog([wrapped(LOG + LOG.replace("12", "11"), 50).encode()])
    text = b"".join(mended.pieces()).decode()
    evidence = mended.evidence(ENGINE.scan_text(text))
    assert evidence.lines == wrapped(LOG * 2, 50).count("\n")


def test_pieces_that_end_within_a_line_are_put_together() -> None:
    log = ("a &lt;tag&gt;\n" + html.escape(LOG)).encode()
    pieces = [log[:20], log[20:33], log[33:]]
    assert b"".join(PastedLog(pieces).pieces()).decode() == "a <tag>\n" + LOG


def test_what_a_model_said_is_not_spelled_out() -> None:
    line = b"INFO received request 7: prompt: 'What is\\nAssertionError: here?\\n', params: 3\n"
    assert b"".join(PastedLog([b"start\nready\nserving\n" + line]).pieces()).endswith(line)
