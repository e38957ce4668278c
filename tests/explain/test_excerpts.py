"""The lines around what was found: what is not among them is said, file by file."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support.engines import late

from npudoctor.core.redact.redactor import Redactor
from npudoctor.explain import excerpts as module
from npudoctor.explain.excerpts import Excerpt, read_excerpts
from npudoctor.explain.reading.walk import Log, LogWalk

ENGINE = late()
# One failure for each file, so that the lines of each are asked for.
FAILURES = {
    "a.log": "ImportError: libhccl.so: cannot open shared object file: No such file or directory",
    "b.log": "OSError: [Errno 28] No space left on device",
    "c.log": "RuntimeError: out of tune",
}
Logs = Mapping[str, Log]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three logs, each with a failure of its own."""
    for name, line in FAILURES.items():
        (tmp_path / name).write_text(f"{line}\n")
    return tmp_path


def taken(folder: Path, redactor: Redactor, change: str = "") -> dict[str, Excerpt]:
    """The excerpts by the name of their file; one that is named is changed before they are read again."""
    walk = LogWalk()
    walk.walk_folder(str(folder))
    evidence = ENGINE.scan_logs(walk.logs)
    judged = ENGINE.judge(evidence)
    if change:
        (folder / "new").write_text("another")
        (folder / "new").rename(folder / change)
    logs = {log.path: log for log in walk.logs}
    found = list(read_excerpts(judged.diagnoses, judged.errors, logs, redactor))
    assert len({one.path for one in found}) == len(found)
    return {os.path.basename(one.path): one for one in found}


def test_a_file_that_is_too_large_leaves_room_for_the_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.log").write_text(("password=hunter2 " + "x" * 500 + "\n") * 300 + FAILURES["a.log"] + "\n")
    monkeypatch.setattr(module, "MOST", 50_000)
    redactor = Redactor()
    found = taken(folder, redactor)
    assert set(found) == set(FAILURES)
    assert not found["a.log"].text and "MiB" in found["a.log"].missing
    assert all(FAILURES[name] in found[name].text and not found[name].missing for name in ("b.log", "c.log"))
    assert not redactor.counts["named"]  # what was hidden in a file that is left out is not counted


def test_what_was_replaced_is_said(folder: Path) -> None:
    found = taken(folder, Redactor(), change="b.log")
    assert {name for name, one in found.items() if one.text} == {"a.log", "c.log"}
    assert "replaced" in found["b.log"].missing


def test_what_came_too_late_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_arguments: object) -> Excerpt:
        time.sleep(30)
        raise AssertionError

    monkeypatch.setattr(module, "SECONDS", 0.3)
    monkeypatch.setattr(module, "_read_excerpt", slow)
    found = taken(folder, Redactor())
    assert set(found) == set(FAILURES) and all("0.3 s" in one.missing for one in found.values())
