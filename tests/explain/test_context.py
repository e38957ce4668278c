"""The two lines before and after the one that decides: of files that can be read once more, and no secret."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import pytest

from npudoctor.cli.explain import add_context
from npudoctor.cli.logs import explain_logs
from npudoctor.cli.request import ExplainRequest
from npudoctor.explain.answer import Explanation
from npudoctor.explain.context import ContextLines, read_context
from npudoctor.explain.reading.gather import gather_inputs
from npudoctor.render.explain_text import explain_text

FRAME = '  File "/data/job/train.py", line 7, in <module>\n    print(config["lr"])\n'
LOG = f"start\nTraceback (most recent call last):\n{FRAME}KeyError: 'lr'\nfirst after\nsecond after\nthird\n"


def explained(path: Path) -> Explanation:
    request = ExplainRequest((str(path),), {}, time.monotonic(), None)
    inputs = gather_inputs(request.words, request.started, None, None)
    assert inputs is not None
    return add_context(explain_logs(inputs, request))


def shown(explanation: Explanation) -> list[str]:
    return [line.strip() for line in explain_text(explanation).splitlines() if line.startswith("    | ")]


def test_two_lines_before_and_after_are_shown(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("epoch: 1 step: 1, loss is 1.9\n" * 9_000 + LOG, encoding="utf-8")
    assert shown(explained(log)) == [
        '| File "/data/job/train.py", line 7, in <module>',
        '| print(config["lr"])',
        "| first after",
        "| second after",
    ]


def test_at_the_edges_of_a_file_there_are_fewer(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        "start\nRuntimeError: libhccl.so: cannot open shared object file: No such file or directory"
    )
    assert explained(log).context == ContextLines(("start",))


@pytest.mark.parametrize("form", ["gz", "utf-16"])
def test_where_other_bytes_lie_there_are_none(tmp_path: Path, form: str) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(gzip.compress(LOG.encode()) if form == "gz" else LOG.encode("utf-16"))
    explanation = explained(log)
    assert explanation.verdict == "not_environment" and shown(explanation) == []


def test_a_file_that_has_changed_since_shows_none(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(LOG, encoding="utf-8")
    explanation = explained(log)
    spot = explanation.diagnoses[0].first
    assert spot is not None and read_context(explanation.logs[str(log)], spot).after
    log.write_text("x" * len(LOG), encoding="utf-8")
    assert read_context(explanation.logs[str(log)], spot) == ContextLines()
    log.unlink()
    assert read_context(explanation.logs[str(log)], spot) == ContextLines()


def test_no_secret_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(LOG.replace("first after", "password=hunter2\x1b[2J"), encoding="utf-8")
    text = explain_text(explained(log))
    assert "| password=***" in text and "hunter2" not in text and "\x1b" not in text
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "A" * 64 + "\n"
    log.write_text(LOG.replace("first after\n", key), encoding="utf-8")
    assert shown(explained(log)) == []
    log.write_text(LOG.replace("first after\n", "B" * 64 + "\n"), encoding="utf-8")  # in the middle of one
    assert shown(explained(log)) == []


def test_of_a_line_that_is_cut_nothing_is_shown(tmp_path: Path) -> None:
    """Where its begin is too far away the name before a secret is not there."""
    log = tmp_path / "train.log"
    for size in (3_000, 9_000):
        long = f"settings password='{'hunter2 ' * (size // 8)}' end\n"
        log.write_text("x" * 20_000 + "\n" + long + LOG[LOG.index("KeyError") :], encoding="utf-8")
        assert "hunter2" not in "".join(shown(explained(log)))
    log.write_text("KeyError: 'lr' " + "password=hunter2 " * 900 + "\n", encoding="utf-8")
    assert shown(explained(log)) == []
