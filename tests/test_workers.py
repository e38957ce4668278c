"""The workers of pytest-xdist: every file has one that may take it, and their machines are their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from types import SimpleNamespace
from typing import Any, Callable

import pytest
from tests.support import room
from tests.support.others import forked
from tests.support.workers import (
    FILES,
    FIRST_NAMESPACE,
    MACHINE,
    Sharing,
    apart,
    longest_first,
    report_less,
    set_apart,
)

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FIRST = f"{FIRST_NAMESPACE[0]}::test_a"
LEFTOVERS = ("tests/checks/leftovers/test_limits.py::test_a", "tests/proof/test_spill.py::test_a")
OTHER = ("tests/core/test_model.py::test_a", "tests/core/test_way.py::test_a")


class Worker:
    """What the scheduler knows of one; takes what it is sent."""

    def __init__(self, number: int, python: str) -> None:
        self.gateway = SimpleNamespace(id=f"gw{number}", spec=SimpleNamespace(python=python))
        self.taken: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indexes: list[int]) -> None:
        self.taken += indexes

    def shutdown(self) -> None:
        self.shutting_down = True


def shared(names: list[str], workers_apart: bool = True) -> list[list[str]]:
    """What each of three workers was given in the end."""
    options: Any = SimpleNamespace(
        option=SimpleNamespace(tx=["popen"] * 3), getvalue=lambda _name: ["popen"] * 3
    )
    sharing = Sharing(options, None, workers_apart)
    workers = [Worker(number, "unshare" if number and workers_apart else "") for number in range(3)]
    for worker in workers[::-1]:  # as they happen to report
        sharing.add_node(worker)
        sharing.add_node_collection(worker, names)
    sharing.schedule()
    for _round in names:
        for worker in workers:
            if worker in sharing.nodes:
                for index in worker.taken:
                    sharing.mark_test_complete(worker, index)
    return [[names[index] for index in worker.taken] for worker in workers]


@pytest.mark.parametrize(
    "names",
    [
        [FIRST],
        [LEFTOVERS[0]],
        [OTHER[0]],
        [FIRST, LEFTOVERS[0]],
        [LEFTOVERS[0], OTHER[0]],
        [*LEFTOVERS, FIRST, *OTHER],
        [name.replace("test_a", f"test_{number}") for number in range(9) for name in (*LEFTOVERS, FIRST)],
    ],
)
def test_every_test_has_a_worker_that_may_take_it(names: list[str]) -> None:
    taken = shared(names)
    assert sorted(name for part in taken for name in part) == sorted(names)
    assert not any(name.startswith(MACHINE) for name in taken[0] if not name.startswith(FIRST_NAMESPACE))
    assert not any(name.startswith(FIRST_NAMESPACE) for name in taken[1] + taken[2])


def test_without_namespaces_what_judges_the_machine_stays_in_one_process() -> None:
    taken = shared([*LEFTOVERS, FIRST, *OTHER], workers_apart=False)
    assert sorted({*LEFTOVERS, FIRST}) in [
        sorted(name for name in names if name not in OTHER) for names in taken
    ]


def test_a_long_file_begins_first_with_all_its_tests() -> None:
    short = [f"tests/core/test_model.py::test_{number}" for number in range(30)]
    long = ["tests/tools/test_bare_install.py::test_a"]
    items: Any = [SimpleNamespace(nodeid=name) for name in short + long]
    longest_first(items, workers_apart=False)
    assert [item.nodeid for item in items] == long + short


def test_the_long_files_are_there() -> None:
    assert [name for name in FILES if name != "machine" and not os.path.exists(f"{ROOT}/{name}")] == []


@pytest.mark.parametrize("specs", [["popen"], ["popen", "ssh=there"], []])
def test_workers_that_are_not_started_here_stay_as_they_are(specs: list[str]) -> None:
    config: Any = SimpleNamespace(option=SimpleNamespace(tx=list(specs)))
    assert not set_apart(config)
    assert config.option.tx == specs


@pytest.mark.needs_root
def test_a_worker_apart_has_a_machine_of_its_own(lack: Callable[[str], None]) -> None:
    ask = (
        "import os; print(*(os.readlink(f'/proc/self/ns/{kind}') for kind in ('ipc', 'mnt', 'pid')));"
        "print(*(name for name in os.listdir('/proc') if name.isdecimal()));"
        "print(os.listdir('/var/lib/npudoctor'), os.listdir('/run/npudoctor'))"
    )
    done = subprocess.run(apart([sys.executable, "-c", ask]), capture_output=True, text=True, check=False)
    if done.returncode:
        lack(f"no namespaces of our own: {done.stderr}")
    spaces, pids, places = done.stdout.splitlines()
    here = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("ipc", "mnt", "pid")]
    assert not set(spaces.split()) & set(here)
    assert (len(pids.split()), places) == (2, "[] []")


@pytest.mark.needs_root
def test_the_status_and_the_words_of_a_worker_pass_its_shell() -> None:
    code = "import sys; print(sys.argv[1], sys.stdin.read()); sys.exit(7)"
    line = apart([sys.executable, "-c", code, "a 'word'"])
    done = subprocess.run(line, input="read", capture_output=True, text=True, check=False)
    if "unshare" not in done.stderr:
        assert (done.returncode, done.stdout) == (7, "a 'word' read\n")


class WorkerInteractor:
    """What sends reports; known to report_less by its name."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []

    def sendevent(self, name: str, **values: Any) -> None:
        self.sent.append((name, values.get("data")))


def test_only_that_a_test_was_set_up_or_taken_down_well_is_not_sent() -> None:
    def send(**options: Any) -> list[tuple[str, Any]]:
        worker = WorkerInteractor()
        known: Any = SimpleNamespace(
            option=SimpleNamespace(**{"xmlpath": None, "durations": None, **options}),
            pluginmanager=SimpleNamespace(get_plugins=lambda: {object(), worker}),
        )
        report_less(known)
        for outcome in ("passed", "failed", "skipped"):
            for when in ("setup", "call", "teardown"):
                worker.sendevent("testreport", data={"outcome": outcome, "when": when})
        worker.sendevent("workerfinished")
        return worker.sent

    told = [(data["outcome"], data["when"]) for name, data in send() if name == "testreport"]
    assert told[0] == ("passed", "call") and len(told) == 7 and send()[-1][0] == "workerfinished"
    assert len(send(xmlpath="x.xml")) == len(send(durations=5)) == 10


@pytest.mark.needs_root
def test_temporary_folders_are_in_memory_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (room.ON_DISK, "PYTEST_DEBUG_TEMPROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(room, "LEAST", 0)

    def ask() -> tuple[bool, set[str]]:
        kept = room.keep_in_memory()
        with open("/proc/self/mounts", encoding="utf-8") as mounts:
            return kept, {line.split()[1] for line in mounts if line.startswith("tmpfs")}

    before = forked(lambda: room.open_place())
    kept, mounted = forked(ask)
    if not kept:
        pytest.skip("nothing can be mounted here")
    assert {f"{tempfile.gettempdir()}/{name}" for name in (room.OURS, room.OPEN)} <= mounted
    assert forked(lambda: room.open_place()) == before
    monkeypatch.setenv(room.ON_DISK, "1")
    assert forked(ask)[0] is False
