"""A child answers, or not, in time; and whatever it started is gone with it."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Callable

import pytest

from npudoctor.checking.check import CheckFailure
from npudoctor.registry.child import ANSWER_LIMIT, MEMORY_LIMIT, GuardedChild, _lower_limit, start_child


def soon(seconds: float = 5.0) -> float:
    return time.monotonic() + seconds


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_it_answers() -> None:
    assert start_child(lambda: {"a": ["b", None, "\udcff"]}).read_answer(soon()) == {
        "a": ["b", None, "\udcff"]
    }


def test_many_answer_side_by_side_and_late_readers_lose_nothing() -> None:
    children = [start_child(lambda number=number: {"number": number}) for number in range(20)]  # type: ignore[misc]
    time.sleep(0.5)
    assert [child.read_answer(time.monotonic() - 1) for child in children] == [
        {"number": n} for n in range(20)
    ]


def test_a_long_answer_is_whole_and_an_endless_one_is_none() -> None:
    assert start_child(lambda: {"x": "y" * (1 << 20)}).read_answer(soon()) == {"x": "y" * (1 << 20)}
    assert start_child(lambda: {"x": "y" * (ANSWER_LIMIT + (1 << 20))}).read_answer(soon()) is None


def exits() -> dict[str, Any]:
    os._exit(0)


def kills_itself() -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def raises() -> dict[str, Any]:
    raise SystemExit(0)


def is_no_object() -> Any:
    return ["a"]


def cannot_be_told() -> dict[str, Any]:
    return {"x": object()}


@pytest.mark.parametrize("work", [exits, kills_itself, raises, is_no_object, cannot_be_told])
def test_an_end_without_an_answer_is_none_at_once(work: Callable[[], dict[str, Any]]) -> None:
    started = time.monotonic()
    assert start_child(work).read_answer(soon(60)) is None
    assert time.monotonic() - started < 20  # long before its time is over, on a busy machine too


def family(folder: Path) -> Callable[[], dict[str, Any]]:
    """Work that starts a child, a daemon of a daemon, and a stopped process, and says who they are."""

    def work() -> dict[str, Any]:
        sleepers = [
            subprocess.Popen(["sleep", "60"]),
            subprocess.Popen(["sleep", "60"], start_new_session=True),
        ]
        os.kill(sleepers[0].pid, signal.SIGSTOP)
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                (folder / "daemon.new").write_text(str(os.getpid()))
                (folder / "daemon.new").rename(folder / "daemon")
                time.sleep(60)
            os._exit(0)
        while not (folder / "daemon").exists():
            time.sleep(0.01)
        pids = [os.getpid(), int((folder / "daemon").read_text()), *(one.pid for one in sleepers)]
        (folder / "pids.new").write_text(" ".join(map(str, pids)))
        (folder / "pids.new").rename(folder / "pids")
        return {"pids": pids}

    return work


def test_all_that_it_started_is_gone_once_it_answered(tmp_path: Path) -> None:
    told = start_child(family(tmp_path)).read_answer(soon())
    assert told is not None and len(told["pids"]) == 4
    assert not any(map(alive, told["pids"]))


def test_all_that_it_started_is_gone_when_the_time_is_over(tmp_path: Path) -> None:
    def work() -> dict[str, Any]:
        family(tmp_path)()
        time.sleep(60)
        return {}

    child = start_child(work)
    while not (tmp_path / "pids").exists():
        time.sleep(0.01)
    started = time.monotonic()
    with pytest.raises(CheckFailure):
        child.read_answer(soon(0.1))
    assert time.monotonic() - started < 20
    assert not any(alive(int(pid)) for pid in (tmp_path / "pids").read_text().split())


def test_nothing_of_ours_is_open_in_it(tmp_path: Path) -> None:
    with (tmp_path / "ours").open("w"):
        told = start_child(
            lambda: {
                "open": [os.readlink(f"/proc/self/fd/{n}") for n in (0, 1, 2)],
                "all": os.listdir("/proc/self/fd"),
            }
        ).read_answer(soon())
    assert told is not None and told["open"] == ["/dev/null"] * 3
    assert len(told["all"]) == 5  # and its pipe, and the directory that is being read


def test_a_sibling_does_not_keep_a_pipe_open() -> None:
    def sleeping() -> dict[str, Any]:
        time.sleep(60)
        return {}

    children: list[GuardedChild] = [start_child(exits), start_child(sleeping), start_child(exits)]
    started = time.monotonic()
    assert children[0].read_answer(soon(60)) is None and children[2].read_answer(soon(60)) is None
    with pytest.raises(CheckFailure):
        children[1].read_answer(soon(0.1))
    assert time.monotonic() - started < 20


def test_it_has_signals_and_a_session_of_its_own() -> None:
    def work() -> dict[str, Any]:
        default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        return {"leads": os.getsid(0) == os.getpid(), "default": default}

    former = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        assert start_child(work).read_answer(soon()) == {"leads": True, "default": True}
    finally:
        signal.signal(signal.SIGTERM, former)


def test_the_work_has_so_much_memory_and_no_more() -> None:
    def work() -> dict[str, Any]:
        kept = len(bytearray(1 << 26))
        try:
            kept += len(bytearray(MEMORY_LIMIT))
        except MemoryError:
            return {"kept": kept, "refused": True}
        return {"kept": kept, "refused": False}

    assert start_child(work).read_answer(soon()) == {"kept": 1 << 26, "refused": True}


def test_a_lower_limit_of_memory_stays() -> None:
    def work() -> dict[str, Any]:
        resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, resource.RLIM_INFINITY))
        _lower_limit(resource.RLIMIT_DATA, MEMORY_LIMIT)
        return {"limits": resource.getrlimit(resource.RLIMIT_DATA)}

    assert start_child(work).read_answer(soon()) == {"limits": [1 << 30, resource.RLIM_INFINITY]}
