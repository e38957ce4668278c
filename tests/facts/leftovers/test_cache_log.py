"""The logs of cache servers: who made which segment when, where it spilled, and what a log cannot claim."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Optional

import pytest

from npudoctor.facts.leftovers.cache_log import (
    OWNER_LIMIT,
    ReadAllowance,
    SegmentCreation,
    ServerLog,
    find_telling_lines,
    local_seconds,
    log_places,
    parse_log,
    read_logs,
)
from npudoctor.host.fs.files import PathStatus

FOLDER = "/data/spill/k2x9w7f0q4m1z8c6v3b5n7l9j2h4g6d8s0a1"
HEAD = """\
Log file created at: 2027/03/04 09:15:01
Running on machine: node7
Running duration (h:mm:ss): 0:00:00
Log line format: [IWEF]yyyymmdd hh:mm:ss.uuuuuu threadid file:line] msg
"""
ENTRY = PathStatus(0o100640, 1, 1, 1, 0, 0, 1, 0, 0)


def line(
    text: str, *, pid: int = 4711, second: int = 1, level: str = "INFO", program: str = "dataset-cache-server"
) -> str:
    """As a server writes it."""
    where = "mindspore/ccsrc/minddata/dataset/engine/cache/cache_arena.cc:37"
    when = f"2027-03-04-09:15:{second:02}.486.312"
    return f"[{level}] MD({pid},7f60820b8800,{program}):{when} [{where}] Init] {text}\n"


KEY = "Creation of shared memory successful. Shared memory key 1627447900"
PORT = "Cache server has started successfully and is listening on port 50052\n"
SPILL = f"CachePool will use disk folder: {FOLDER}"


def parsed(*lines: str, pid: int = 4711, head: str = HEAD) -> ServerLog:
    return parse_log(head + "".join(lines), "/tmp/mindspore/cache/log/x", pid, ENTRY)


def at(second: int) -> Optional[int]:
    return local_seconds(f"2027-03-04-09:15:{second:02}")


def test_a_server_that_started_and_spilled() -> None:
    found = parsed(
        line(PORT),
        line("CacheServer will use disk folder: /data/spill"),
        line("Run] Server listening on 127.0.0.1:50052"),
        line(KEY, second=2),
        line(f"Container {FOLDER}/IMG00000.LB created", second=8),
        line(SPILL, second=8),
        line("Memory usage will exceed the upper bound limit", level="WARNING", second=9),
    )
    assert found.machine == "node7"
    assert found.created == (SegmentCreation(1627447900, at(2) or 0),)
    assert found.spills == (FOLDER,)
    assert (found.port, found.last) == (50052, at(9))


def test_the_head_of_older_versions() -> None:
    head = "Log file created at: 2027/03/04 09:15:01\nRunning on machine: a.b.example\nLog line format: x\n"
    assert parsed(line(KEY), head=head).machine == "a.b.example"


def test_a_start_that_was_refused_made_nothing() -> None:
    found = parsed(line("Numa support enabled"), line(PORT), line("0x7fff94eb3da0\n"))
    assert (found.created, found.spills, found.port) == ((), (), 50052)


def test_a_key_that_was_taken_stops_before_the_line() -> None:
    assert parsed(line(PORT), line("Server listening on 127.0.0.1:50061")).created == ()


def test_log_level_2_proves_nothing() -> None:
    found = parsed(line("Shutting down server.", level="WARNING"))
    assert (found.created, found.spills, found.last) == ((), (), at(1))


def test_an_error_log_with_lines_that_go_on() -> None:
    text = (
        "Unable to remove shared memory with id 6. Errno :22\nPlesae remove it manually\nLine of code : 145\n"
    )
    assert parsed(line(text, level="ERROR")).created == ()


def test_a_watchdog_that_missed_its_socket() -> None:
    assert parsed(line("Unix socket is removed.", level="WARNING")).last == at(1)


def test_a_server_in_a_pid_namespace_calls_itself_7() -> None:
    assert parsed(line(KEY, pid=7), pid=7).created
    assert parsed(line(KEY, pid=7), pid=801).created == ()


def test_the_old_program_says_the_same() -> None:
    assert parsed(line(KEY, program="cache_server")).created
    assert parsed(line(KEY, program="python3")).created == ()


def test_a_signed_key() -> None:
    found = parsed(line("Creation of shared memory successful. Shared memory key -1610612736"))
    assert [made.key for made in found.created] == [0xA0000000]


def test_a_line_within_a_line_is_none() -> None:
    quoted = line(KEY).strip()
    assert parsed(line(f"session {quoted}")).created == ()
    assert parsed(line("session x\n" + quoted)).created  # a line of its own is the process's own


@pytest.mark.parametrize(
    "text",
    [
        f"Creation of shared memory successful. Shared memory key {'9' * 5000}",
        "Creation of shared memory successful. Shared memory key 1627447900 and more",
        "Creation of shared memory successful. Shared memory key ١٦",
        "Creation of shared memory successful. Shared memory key",
        f"CachePool will use disk folder: {'/x' * 100}",
        "CachePool will use disk folder: /etc",
        f"CachePool will use disk folder: {FOLDER[:-1]}",
        f"CachePool will use disk folder: {FOLDER.upper()}",
        f"CachePool will use disk folder: relative/{FOLDER[-36:]}",
        f"CachePool will use disk folder: /a\0b/{FOLDER[-36:]}",
        f"Cache server has started successfully and is listening on port {'5' * 5000}",
    ],
)
def test_what_no_server_writes_proves_nothing(text: str) -> None:
    found = parsed(line(text))
    assert (found.created, found.spills, found.port) == ((), (), None)


def test_a_pid_of_a_thousand_digits_is_no_pid() -> None:
    assert parsed(line(KEY).replace("4711", "4" * 5000)).last is None


def test_a_time_that_there_is_not() -> None:
    for moment in ("2027-13-04", "2027-02-31"):
        assert parsed(line(KEY).replace("2027-03-04", moment)).created == ()
    assert local_seconds("2027-03-04-09:15:00") is not None
    assert local_seconds("yesterday") is None


def test_times_are_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai" if os.path.exists("/usr/share/zoneinfo/Asia") else "CST-8")
    time.tzset()
    try:
        assert local_seconds("2027-03-04-09:15:00") == 1804122900
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_same_folder_told_twice_is_one() -> None:
    assert parsed(line(SPILL), line(SPILL + "/"), line(SPILL)).spills == (FOLDER,)


def test_bytes_that_are_no_text_and_a_line_cut_short() -> None:
    text = (HEAD + line(KEY) + line(KEY)[:60]).encode() + b"\xff\xfe\n"
    found = parse_log(text.decode("utf-8", "surrogateescape"), "x", 4711, ENTRY)
    assert len(found.created) == 1


@pytest.fixture
def tmp(tmp_path: Path) -> Path:
    (tmp_path / "mindspore" / "alice").mkdir(parents=True)
    return tmp_path


def put(folder: Path, name: str, text: str = HEAD + line(KEY)) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


NAME = "mindspore.node7.root.log.INFO.20270304-091501.4711"


def test_all_places_of_all_versions(tmp: Path) -> None:
    base = str(tmp)
    assert list(dict.fromkeys(log_places(base))) == [
        base,
        f"{base}/mindspore/cache/log",
        f"{base}/mindspore/alice/cache/log",
    ]
    for place in log_places(base):
        put(Path(place), NAME)
    assert sorted(log.path for log in read_logs(base)) == sorted(
        f"{place}/{NAME}" for place in set(log_places(base))
    )


@pytest.mark.parametrize(
    ("name", "pid"),
    [
        (NAME, 4711),
        ("dataset-cache-server.node7.root.log.INFO.20270304-091501.12", 12),
        ("cache_server.node7.a.b.log.INFO.20270304-091501.12", 12),
        ("mindspore.INFO", None),
        ("mindspore.node7.root.log.INFO.20270304-091501.4711.gz", None),
        ("other.node7.root.log.INFO.20270304-091501.4711", None),
        ("mindspore.node7.root.log.INFO.20270304-091501.99999999999", None),
    ],
)
def test_names(tmp: Path, name: str, pid: Optional[int]) -> None:
    put(tmp, name)
    assert [log.pid for log in read_logs(str(tmp))] == ([] if pid is None else [pid])


def test_what_is_no_plain_file_is_no_log(tmp: Path) -> None:
    real = put(tmp / "elsewhere", NAME)
    (tmp / NAME).symlink_to(real)
    os.mkfifo(tmp / (NAME + "1"))
    (tmp / (NAME + "2")).mkdir()
    (tmp / "mindspore" / "cache").mkdir()
    (tmp / "mindspore" / "cache" / "log").symlink_to(tmp / "elsewhere")
    assert read_logs(str(tmp)) == []


def test_the_newest_is_last_and_says_how_it_lies(tmp: Path) -> None:
    first, second = put(tmp, NAME), put(tmp, NAME + "1")
    os.utime(second, (1, 1))
    second.chmod(0o600)
    logs = read_logs(str(tmp))
    assert [log.path for log in logs] == [str(second), str(first)]
    assert logs[0].entry.permissions == 0o600
    assert [parent.path for parent in logs[0].parents][-1] == str(tmp)


def written(folder: Path, number: int, *lines: str, pid: int = 4711, level: str = "INFO") -> Path:
    """The number-th log file of a process, as glog names it."""
    path = folder / f"mindspore.node7.root.log.{level}.20270304-09150{number}.{pid}"
    path.write_text(HEAD + "".join(lines))
    path.chmod(0o640)
    return path


def logs_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mindspore" / "cache" / "log"
    folder.mkdir(parents=True)
    return folder


def test_a_log_that_was_rotated_is_one_log(tmp_path: Path) -> None:
    folder = logs_folder(tmp_path)
    written(folder, 1, line(PORT), line(KEY, second=2))
    last = written(folder, 2, line("Shuffle", second=30), line(SPILL, second=31))
    (log,) = read_logs(str(tmp_path))
    assert (log.port, log.spills, log.last) == (50052, (FOLDER,), at(31))
    assert log.created == (SegmentCreation(1627447900, at(2) or 0),)
    assert log.entry.ino == last.stat().st_ino


def test_the_same_pid_again_is_another_process(tmp_path: Path) -> None:
    folder = logs_folder(tmp_path)
    written(folder, 1, line(PORT), line(KEY, second=2))
    written(folder, 2, line(PORT, second=20), line(SPILL, second=31))
    assert [log.spills for log in read_logs(str(tmp_path))] == [(), (FOLDER,)]


def test_a_file_that_others_may_write_is_not_read(tmp_path: Path) -> None:
    folder = logs_folder(tmp_path)
    written(folder, 1, line(PORT), line(KEY, second=2))
    written(folder, 2, line(SPILL, second=31)).chmod(0o666)
    (log,) = read_logs(str(tmp_path))
    assert log.spills == ()


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_log_that_others_may_write_is_not_read(tmp: Path, mode: int) -> None:
    put(tmp, NAME).chmod(mode)
    assert read_logs(str(tmp)) == []


def test_a_log_with_two_names_is_not_read(tmp: Path) -> None:
    os.link(put(tmp, NAME), tmp / "other")
    assert read_logs(str(tmp)) == []


def test_of_many_logs_the_newest_are_read(tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npudoctor.facts.leftovers.cache_log.LOGS_LIMIT", 3)
    for number in range(5):
        os.utime(put(tmp, f"{NAME}{number}"), (100 - number, 100 - number))
    assert [log.pid for log in read_logs(str(tmp))] == [47112, 47111, 47110]


@pytest.mark.needs_root
def test_one_user_cannot_push_out_the_logs_of_another(tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npudoctor.facts.leftovers.cache_log.LOGS_LIMIT", 2)
    monkeypatch.setattr("npudoctor.facts.leftovers.cache_log.OWNER_LIMIT", 100)
    os.utime(put(tmp, NAME), (1, 1))
    for number in range(5):
        os.chown(put(tmp, f"{NAME}{number}"), 61234, 61234)
    assert sorted(log.entry.uid for log in read_logs(str(tmp))) == [0, 61234]


def test_what_is_beyond_the_limit_of_a_run_is_not_read(tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = put(tmp, NAME), put(tmp, NAME + "1")
    os.utime(first, (1, 1))
    monkeypatch.setattr("npudoctor.facts.leftovers.cache_log.RUN_LIMIT", second.stat().st_size)
    assert [log.path for log in read_logs(str(tmp))] == [str(second)]


@pytest.mark.needs_root
def test_huge_sparse_logs_of_others_cost_little(tmp: Path) -> None:
    for number in range(20):
        path = put(tmp, f"{NAME}{number}")
        os.truncate(path, 1 << 30)
        os.chown(path, 61234 + number % 2, 61234)
    allowance = ReadAllowance()
    assert sum(allowance.take(61234, 1 << 30) for _number in range(20)) == OWNER_LIMIT
    began = time.process_time()
    assert len(read_logs(str(tmp))) == 8
    assert time.process_time() - began < 5


def test_only_so_many_lines_of_a_log_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npudoctor.facts.leftovers.cache_log.LINES_LIMIT", 5)
    folders = [f"/data/{number:036}" for number in range(100)]
    lines = (line(f"CachePool will use disk folder: {one}") for one in folders)
    path = written(logs_folder(tmp_path), 1, *(line("x" * 80) for _ in range(200)), *lines)
    with path.open("a") as file:
        file.write(line("x" * 100) * 2000)  # so that the last of them are not at the end
    (log,) = read_logs(str(tmp_path))
    assert log.spills == tuple(folders[:5])


def test_a_line_longer_than_any_servers_is_none() -> None:
    words = b"CachePool will use disk folder: /"
    assert find_telling_lines(b"x\n" + words + b"a" * 9000 + b"\n" + words + b"b\n") == [words + b"b"]


def test_copies_of_other_levels_are_not_read(tmp_path: Path) -> None:
    folder = logs_folder(tmp_path)
    written(folder, 1, line(PORT), line(KEY), level="WARNING")
    assert read_logs(str(tmp_path)) == []


def test_a_long_log_loses_nothing(tmp_path: Path) -> None:
    folder = logs_folder(tmp_path)
    noise = line("Memory usage will exceed the upper bound limit of: 25023749166.", level="WARNING")
    path = written(folder, 1, line(PORT), line(KEY, second=2))
    with path.open("a") as file:
        for _part in range(3):
            file.write(noise * 40_000)
            file.write(line(SPILL, second=40))
        file.write(noise * 1000 + line("The end", second=50))
    (log,) = read_logs(str(tmp_path))
    assert path.stat().st_size > 20 << 20
    assert (log.port, log.spills, log.last) == (50052, (FOLDER,), at(50))
    assert log.created == (SegmentCreation(1627447900, at(2) or 0),)


def test_a_line_across_two_reads_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = logs_folder(tmp_path)
    written(folder, 1, line(PORT), *(line("x" * 50) for _ in range(40)), line(KEY, second=2), line(SPILL))
    monkeypatch.setattr("npudoctor.facts.leftovers.cache_log.CHUNK", 37)
    monkeypatch.setattr("npudoctor.facts.leftovers.cache_log.TAIL", 10)
    (log,) = read_logs(str(tmp_path))
    assert (len(log.created), log.spills) == (1, (FOLDER,))


def test_a_part_of_a_line_is_no_line(tmp_path: Path) -> None:
    """Wherever a read begins, what is quoted within a line stays within it."""
    folder = logs_folder(tmp_path)
    quoted = line(KEY).strip()
    for length in (4096 - 1, 4096, 4096 + 1, 3 * 4096):
        for after in ("", "y" * (1 << 16), "\n" * ((1 << 16) - len(quoted) - 1)):
            written(folder, 1, line(PORT), line("x" * length + quoted + after), line("end", second=50))
            (log,) = read_logs(str(tmp_path))
            assert (log.created, log.port, log.last) == ((), 50052, at(50)), (length, len(after))


def test_a_log_that_ends_within_its_head(tmp_path: Path) -> None:
    folder = logs_folder(tmp_path)
    path = written(folder, 1, line(PORT), line(KEY, second=2))
    path.write_text(path.read_text() + line(KEY, second=3).strip())
    (log,) = read_logs(str(tmp_path))
    assert len(log.created) == 1
