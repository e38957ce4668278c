"""An answer comes in bounded time and memory whatever is read, and says what it does not rest on."""

from __future__ import annotations

import contextlib
import gzip
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.engines import late

from npudoctor.explain.answer import Explanation, make_explanation
from npudoctor.explain.reading import gather, pool, reading, sources
from npudoctor.explain.reading.gather import gather_inputs
from npudoctor.explain.scanning import scan

pytestmark = pytest.mark.once

ENGINE = late()
LINE = "ImportError: libhccl.so: cannot open shared object file: No such file or directory\n"
NEAR = b"ImportError: libhcc.so: cannot open shared object file: No such\n"


def explained(*words: Path, seconds: float = 60.0) -> Explanation:
    inputs = gather_inputs([str(word) for word in words], time.monotonic(), seconds)
    evidence = ENGINE.scan_logs(inputs.walk.logs, until=inputs.until)
    return make_explanation(ENGINE.judge(evidence), evidence, 0.1, inputs.walk.problems)


@pytest.fixture
def sparse(tmp_path: Path) -> Path:
    """A log of 4 TiB, of which almost nothing is there."""
    path = tmp_path / "sparse.log"
    path.touch()
    for size in (1 << 43, 1 << 42, 1 << 40):
        with contextlib.suppress(OSError):
            os.truncate(path, size)
            return path
    pytest.skip("no large sparse files on this file system")


def test_holes_are_passed_over(sparse: Path) -> None:
    with sparse.open("r+b") as file:
        file.write(b"quiet\n")
        file.seek(1 << 39)
        file.write(b"\n" + LINE.encode())
    started = time.monotonic()
    found = explained(sparse)
    assert found.verdict == "environment" and found.is_complete and time.monotonic() - started < 20
    assert found.diagnoses[0].first is not None and found.diagnoses[0].first.log_line.line == 3


def test_a_file_that_is_one_hole_is_empty_and_not_clean(sparse: Path) -> None:
    found = explained(sparse)
    assert (found.verdict, found.is_empty) == ("unknown", True)


def test_a_packed_or_wide_file_that_ends_in_a_hole_ends(sparse: Path) -> None:
    for start in (gzip.compress(LINE.encode()), LINE.encode("utf-16")):
        size = sparse.stat().st_size
        os.truncate(sparse, 0)
        sparse.write_bytes(start)
        os.truncate(sparse, size)
        started = time.monotonic()
        assert explained(sparse).diagnoses and time.monotonic() - started < 20


def test_more_parts_than_can_be_read_are_not_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PART", 1 << 16)
    monkeypatch.setattr(reading, "PARTS", 3)
    monkeypatch.setattr(pool, "PARTS", 3)
    (tmp_path / "big.log").write_bytes(b"quiet\n" * 100_000)
    found = explained(tmp_path)
    assert found.verdict == "unknown" and not found.is_complete
    assert found.inputs[0].bytes == 3 << 16


@contextlib.contextmanager
def growing(path: Path, content: bytes) -> Iterator[None]:
    """While it lasts, the file gets longer as fast as it can."""
    ended = threading.Event()

    def grow() -> None:
        with path.open("ab") as file:
            while not ended.is_set() and file.tell() < 2 << 30:
                file.write(content)
                file.flush()

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("size", [1 << 20, 70 << 20])
def test_a_file_that_is_extended_while_it_is_read_ends(tmp_path: Path, size: int) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"quiet\n" * (size // 6))
    with growing(path, b"quiet\n" * 20_000):
        found = explained(tmp_path, seconds=30)
        grown = path.stat().st_size
    # How much it grows until it is opened is for the machine's load to say; what comes later is not read.
    assert found.verdict == "clean" and size <= found.inputs[0].bytes < grown


def test_a_file_that_becomes_shorter_says_so(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"quiet\n" * 1_000_000)
    source = sources.open_source(str(path))
    pieces = source.pieces()
    next(pieces)
    os.truncate(path, 1000)
    assert sum(map(len, pieces)) < 6_000_000 and source.problem == "became shorter while it was read"
    source.close()


def test_near_matches_without_end_are_looked_at_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "JUDGING", 0.3)
    path = tmp_path / "near.log.gz"
    with gzip.open(path, "wb") as file:
        for _time in range(40):
            file.write(NEAR * 20_000)
    found = explained(path)
    assert found.verdict != "clean" and "has more lines that look like errors" in found.unread[0][1]
    assert found.inputs[0].lines == 800_000
    with gzip.open(path, "ab") as file:
        file.write(b"quiet\n" * 10 + LINE.encode())
    assert "loader-cann-library" in {one.signature.id for one in explained(path).diagnoses}


def test_when_the_time_is_over_what_was_read_is_explained(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LINE)
    with gzip.open(tmp_path / "b.log.gz", "wb", 1) as file:
        for _time in range(400):
            file.write(NEAR * 16_000)
    os.utime(tmp_path / "b.log.gz", (1, 1))  # the newest is read first
    started = time.monotonic()
    found = explained(tmp_path, seconds=2)
    assert time.monotonic() - started < 5
    assert found.verdict == "environment" and not found.is_complete
    assert [os.path.basename(path) for path, _why in found.unread] == ["b.log.gz"]


def test_time_that_is_over_at_once_is_never_clean(tmp_path: Path) -> None:
    for number in range(2000):
        (tmp_path / f"{number}.log").write_text("quiet\n")
    inputs = gather_inputs([str(tmp_path)], time.monotonic(), 60)
    evidence = ENGINE.scan_logs(inputs.walk.logs, until=time.monotonic())
    found = make_explanation(ENGINE.judge(evidence), evidence, 0.1)
    assert len(evidence) == 2000 and found.verdict == "unknown" and len(found.unread) == 2000


def test_of_very_many_files_the_newest_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "FILES", 10)
    for number in range(30):
        path = tmp_path / f"{number}.log"
        path.write_text("quiet\n")
        os.utime(path, (1000 + number, 1000 + number))
    walk = gather_inputs([str(tmp_path)], time.monotonic()).walk
    assert [os.path.basename(log.path) for log in walk.logs] == [f"{number}.log" for number in range(20, 30)]
    assert walk.older == 20
