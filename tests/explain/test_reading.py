"""Whatever a log is packed, written or cut like: the same is found in it, and what cannot be read is said."""

from __future__ import annotations

import bz2
import gzip
import os
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Optional

import pytest
from tests.support.engines import late
from tests.support.others import as_user

from npudoctor.explain.answer import make_explanation
from npudoctor.explain.engine import Engine
from npudoctor.explain.reading import reading, sources
from npudoctor.explain.reading.opening import UnreadableLog
from npudoctor.explain.reading.walk import LogWalk
from npudoctor.explain.scanning.evidence import Evidence
from npudoctor.explain.signatures.signatures import built_in

pytestmark = pytest.mark.once

ENGINE = late()
LINE = "ImportError: libhccl.so: cannot open shared object file: No such file or directory"
ID = "loader-cann-library"


def read(path: Path, engine: Engine = ENGINE) -> Evidence:
    walk = LogWalk()
    walk.add_file(str(path), path.stat(), is_named=True)
    (evidence,) = engine.scan_logs(walk.logs)
    return evidence


def ids(evidence: Evidence) -> dict[str, int]:
    """What was found, and in which line first."""
    return {
        ENGINE.table.signatures[owner].id: min(seen.line for seen in one.ranks.values())
        for owner, one in evidence.matches.items()
    }


@pytest.mark.parametrize("part", [reading.PART, 2000])
def test_what_lies_before_the_place_from_which_on_is_read(
    tmp_path: Path, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not read, neither at once nor in parts, but its lines are counted."""
    monkeypatch.setattr(reading, "PART", part)
    log = tmp_path / "job.log"
    before = "MemoryError\n" * 3
    log.write_text(before + "quiet\n" * 2000 + LINE + "\n" + "quiet\n" * 3)
    walk = LogWalk()
    walk.add_file(str(log), log.stat(), is_named=True)
    (evidence,) = ENGINE.scan_logs([replace(walk.logs[0], begin=len(before))])
    found = ids(evidence)
    assert found[ID] == 2004 and min(found.values()) > 3
    assert (evidence.lines, evidence.bytes) == (2004, log.stat().st_size - len(before))


@pytest.mark.parametrize(
    "content",
    [
        ("quiet\n" * 3 + LINE + "\n").encode("utf-16"),
        ("quiet\n" * 3 + LINE + "\n").encode("utf-16-le"),
        ("quiet\n" * 3 + LINE + "\n").encode("utf-16-be"),
        b"\xef\xbb\xbf" + b"quiet\n" * 3 + LINE.encode(),
        b"quiet\r\n" * 3 + LINE.encode() + b"\r\n",
        "安静\n".encode("gb18030") * 3 + LINE.encode(),
        b"quiet\n" * 3 + b"epoch 1: 10%\repoch 1: 11%\r" + LINE.encode(),
        b"quiet\n" * 3 + b"\x1b[31m" + LINE.encode() + b"\x1b[0m\n",
        b"\0" * 5000 + b"\n\n\n" + LINE.encode(),
        gzip.compress(b"quiet\n" * 3 + LINE.encode()),
        gzip.compress(b"quiet\n" * 3) + gzip.compress(LINE.encode()),
    ],
    ids="utf-16 utf-16-le utf-16-be bom crlf gbk overwritten coloured zeros gzip gzips".split(),
)
def test_it_is_found_however_it_is_written(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    evidence = read(path)
    assert ids(evidence)[ID] == 4 and evidence.problem is None
    assert evidence.lines == 4 and evidence.bytes == len(content)


def test_chinese_messages_of_a_chinese_system(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes("bash: npu-smi: 未找到命令\n段错误 (核心已转储)\n".encode("gb18030"))
    evidence = read(path)
    assert ids(evidence) and any(
        seen.text == "段错误 (核心已转储)" for marks in evidence.marks.values() for seen in marks
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (gzip.compress(LINE.encode() + b"\n" + os.urandom(70_000))[:-9000], "truncated"),
        (gzip.compress(LINE.encode())[:12] + b"\xff" * 40, "damaged"),
        (bz2.compress(LINE.encode()), "compressed with bzip2"),
    ],
    ids="cut damaged bzip2".split(),
)
def test_what_is_not_whole_says_so(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(content)
    evidence = read(path)
    assert evidence.problem is not None and problem in evidence.problem
    assert (ID in ids(evidence)) == (problem == "truncated")


def test_a_bomb_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "UNPACKED", 4 << 20)
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"\n" * (64 << 20)))
    evidence = read(path)
    assert evidence.problem is not None and "unpacks to more than" in evidence.problem
    assert evidence.lines <= 5 << 20


def test_a_line_without_an_end_is_looked_at_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * (3 << 20) + b" " + LINE.encode() + b" " + b"y" * (3 << 20))
    evidence = read(path)
    assert ids(evidence)[ID] == 1 and evidence.lines == 1
    assert all(len(seen.text) <= 2000 for one in evidence.matches.values() for seen in one.ranks.values())


def test_parts_of_a_large_file_say_what_the_whole_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rank_3.log"
    log = "".join(example.log + "quiet\n" * 40 for one in built_in() for example in one.examples)
    path.write_text(log * 3, encoding="utf-8")  # less than the MiB of a log whose course is looked at
    whole = read(path)
    monkeypatch.setattr(reading, "PART", 70_001)
    parts = read(path)
    assert (parts.lines, parts.bytes, parts.outline, parts.end) == (
        whole.lines,
        whole.bytes,
        whole.outline,
        whole.end,
    )
    assert ids(parts) == ids(whole)
    assert {owner: one.count for owner, one in parts.matches.items()} == {
        owner: one.count for owner, one in whole.matches.items()
    }
    assert parts.counts == whole.counts and parts.root == whole.root


def test_processes_say_what_one_says(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"worker_{number}.log").write_text("quiet\n" * number + (LINE if number % 7 == 0 else ""))
    walk = LogWalk()
    walk.walk_folder(str(tmp_path))
    alone = ENGINE.scan_logs(walk.logs, processes=1)
    spread = ENGINE.scan_logs(walk.logs, processes=3)
    assert [one.path for one in alone] == [f"{tmp_path}/worker_{number}.log" for number in range(300)]
    assert [(one.path, one.lines, ids(one)) for one in spread] == [
        (one.path, one.lines, ids(one)) for one in alone
    ]


def test_what_a_process_read_that_died_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(300):
        (tmp_path / f"worker_{number}.log").write_text(LINE)
    walk = LogWalk()
    walk.walk_folder(str(tmp_path))
    ours, parent, died = reading.read_log, os.getpid(), tmp_path / "died"

    def dying(*arguments: object) -> Evidence:
        assert os.getpid() != parent
        if arguments[3].number == 200 and not died.exists():  # type: ignore[attr-defined]
            died.touch()
            os._exit(9)
        return ours(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("npudoctor.explain.reading.pool.read_log", dying)
    found = ENGINE.scan_logs(walk.logs, processes=2)
    assert [ids(one).get(ID) for one in found] == [1] * 300


def test_a_walk_takes_each_file_once_and_ends(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.log").write_text(LINE)
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "same.log").symlink_to(tmp_path / "a" / "one.log")
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 10)
    os.mkfifo(tmp_path / "fifo")
    walk = LogWalk()
    walk.walk_folder(str(tmp_path))
    assert [os.path.basename(log.path) for log in walk.logs] == ["one.log"] or len(walk.logs) == 1
    assert sorted(os.path.basename(path) for path, _why in walk.notes) == ["again", "fifo", "loop"]
    assert walk.problems == []
    assert walk.left_out == [str(tmp_path / "model.safetensors")]


def test_binary_files_of_a_folder_are_no_logs_but_a_named_one_is_read(tmp_path: Path) -> None:
    path = tmp_path / "core.4711"
    path.write_bytes(bytes(range(256)) * 40 + LINE.encode())
    walk = LogWalk()
    walk.walk_folder(str(tmp_path))
    (evidence,) = ENGINE.scan_logs(walk.logs)
    assert evidence.is_binary and not evidence.matches
    assert ID in ids(read(path))


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_may_not_be_read_is_said_and_not_called_clean(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "well.log").write_text("Training finished\n")
        (folder / "closed").mkdir(mode=0o700)
        (folder / "mine.log").write_text(LINE)
        (folder / "mine.log").chmod(0o600)

        def look() -> tuple[list[tuple[str, str]], list[tuple[str, Optional[str]]], str]:
            walk = LogWalk()
            walk.walk_folder(name)
            found = ENGINE.scan_logs(walk.logs)
            verdict = make_explanation(ENGINE.judge(found), found, 0.1, walk.problems).verdict
            return walk.problems, [(one.path, one.problem) for one in found if one.is_unread], verdict

        closed, unread, verdict = as_user(65534, look)
        assert [path for path, _why in closed] == [f"{name}/closed"]
        assert [path for path, _why in unread] == [f"{name}/mine.log"]
        assert verdict == "unknown"


def test_a_pipe_is_read_and_one_that_says_nothing_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "PATIENCE", 0.3)
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with pytest.raises(UnreadableLog):
        sources.open_source(str(path))
    writer = threading.Thread(target=path.write_text, args=(LINE,))
    writer.start()
    source = sources.open_source(str(path))
    assert ID in ids(ENGINE.scan_source(source))
    source.close()
    writer.join()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("core", b"\x7fELF\x02\x01\x01\0" + os.urandom(1 << 20)),
        ("log.bz2", bz2.compress(b"step: 1 loss: 0.5\n")),
        ("twice.gz", gzip.compress(gzip.compress(b"quiet\n"))),
        ("packed.gz", gzip.compress(bz2.compress(b"quiet\n"))),
        ("cut.gz", gzip.compress(b"step: 1 loss: 0.5\nTraining completed\n" * 100)[:-8]),
    ],
)
def test_what_was_not_read_to_its_end_is_never_clean(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    evidence = read(tmp_path / name)
    found = make_explanation(ENGINE.judge([evidence]), [evidence], 0)
    assert evidence.problem and (found.verdict, found.exit_code) == ("unknown", 1)


def test_what_is_packed_otherwise_is_said_in_a_folder_too(tmp_path: Path) -> None:
    (tmp_path / "rank_0.log.xz").write_bytes(b"\xfd7zXZ\0" + os.urandom(4000))
    walk = LogWalk()
    walk.walk_folder(str(tmp_path))
    (evidence,) = ENGINE.scan_logs(walk.logs)
    assert not evidence.is_binary and "xz" in (evidence.problem or "")


@pytest.mark.parametrize(
    "prefixed",
    [
        "3: {}",
        "[1,3]<stderr>:{}",
        "[default3]:{}",
        "[rank3]: {}",
        "2024-05-01T10:00:00.123456789Z stderr F {}",
        '{{"log":"{}\\n","stream":"stderr","time":"2024-05-01T10:00:00.1Z"}}',
        "2024-05-01 10:00:00,123 {}",
    ],
    ids="srun mpirun torchrun rank kubernetes docker ts".split(),
)
def test_what_stands_before_each_line_hides_nothing(prefixed: str) -> None:
    lines = (
        "quiet",
        "Traceback (most recent call last):",
        "  foo()",
        "FrobError: gizmo 7 is not there",
        "quiet",
    )
    log = "".join(prefixed.format(line) + "\n" for line in lines)
    evidence = ENGINE.scan_text(log)
    assert ENGINE.judge([evidence]).errors[0].log_line.line == 4
