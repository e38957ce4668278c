"""shared-memory: what no cache server made is shown when it looks left over, never claimed, never fixed."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Optional

import pytest
from tests.checks.leftovers.sysvipc_machine import segment, tables
from tests.checks.leftovers.test_shared_files import TORCH, file, judged, process

import npudoctor.checks.leftovers.shared_memory as module
from npudoctor import Severity, Status
from npudoctor.checks.leftovers.shared_memory import SHOWN, shared_memory
from npudoctor.host import Options
from npudoctor.testing import Asked, Content, ask, fake_host, folder, process_files, unreadable

GIB = 1 << 30
PREFIX = 0x61000000
LIVING = process_files(700, uid=0)


@pytest.mark.parametrize(
    "files",
    [
        tables(),
        # PostgreSQL: a tiny block, semaphores, all its processes alive.
        {**tables(segment(size=56, nattch=7), sem="5432001 3 600 17 0 0 0 0 0 0\n"), **LIVING},
        # What a cache server could have made is the other check's.
        tables(segment(key=PREFIX + 5, size=4 * GIB)),
        tables(segment(key=PREFIX + 5, size=GIB, mode="666")),
    ],
)
def test_quiet(files: Mapping[str, Content]) -> None:
    told = ask(shared_memory, fake_host(files))
    assert (told.status, told.codes) == (Status.OK, [])


@pytest.mark.parametrize(
    "row",
    [
        segment(key=PREFIX + 5, size=GIB + 1),
        segment(key=PREFIX + 5, size=GIB, mode="644"),
        segment(key=PREFIX + 5, size=4096),
        segment(key=0x62000005, size=4 * GIB),
        segment(key=0, size=4 * GIB),
        segment(key=0xE1000005, size=4 * GIB),
        segment(size=0),
    ],
)
def test_what_no_cache_server_makes_is_reported_here(row: str) -> None:
    assert ask(shared_memory, fake_host(tables(row))).codes == ["shared-memory.unattached"]


def test_an_unattached_segment_is_described() -> None:
    told = ask(shared_memory, fake_host(tables(segment(32774, key=0xC01B, uid=1001))))
    assert told.status is Status.OK, "information never makes a machine unready"
    (finding,) = told.findings
    assert finding.severity is Severity.INFO
    assert finding.fix is None, "nothing proves whose it is"
    (line,) = finding.evidence
    assert line.startswith("shmid 32774, key 0x0000c01b, 1 MiB, mode 600, owner anna (uid 1001), attached 0")
    assert line.endswith("process 700 is gone")


def test_an_unattached_segment_of_a_living_creator_says_so() -> None:
    (finding,) = ask(shared_memory, fake_host({**tables(segment(uid=4711)), **LIVING})).findings
    assert "owner uid 4711" in finding.evidence[0]
    assert finding.evidence[0].endswith("process 700 is alive")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (segment(nattch=2, cpid=701), "process 701 is gone"),
        (segment(nattch=2, cpid=0), "not visible from this one"),
        (segment(nattch=2, ctime=1000), "started later"),
        (segment(nattch=1, key=0, mode="1600"), "marked for destruction"),
    ],
)
def test_attached_and_odd(row: str, said: str) -> None:
    told = ask(shared_memory, fake_host({**tables(row), **LIVING}))
    assert told.codes == ["shared-memory.foreign"]
    assert said in told.findings[0].evidence[0]


def test_semaphores_and_queues_of_a_user_without_processes() -> None:
    sem = "123 4 600 17 1001 1001 1001 1001 0 0\n"
    msg = "49179 26 600 96 2 801 802 4711 0 4711 0 0 0 0\n"
    (finding,) = ask(shared_memory, fake_host({**tables(msg=msg, sem=sem), **LIVING})).findings
    assert finding.code == "shared-memory.foreign"
    assert finding.evidence == (
        "msqid 26, key 0x0000c01b, 96 bytes queued, owner uid 4711: the owner has no process",
        "semid 4, key 0x0000007b, 17 semaphores, owner anna (uid 1001): the owner has no process",
    )


def test_semaphores_of_a_user_who_is_here_are_in_use() -> None:
    sem = "123 4 600 17 1001 1001 1001 1001 0 0\n"
    host = fake_host({**tables(sem=sem), **process_files(900, uid=1001)})
    assert ask(shared_memory, host).codes == []
    host = fake_host({**tables(sem=sem), **process_files(900, uid=1001, state="Z")})
    assert ask(shared_memory, host).codes == ["shared-memory.foreign"], "a zombie uses nothing"


def test_hundreds_do_not_flood() -> None:
    rows = "".join(segment(number, size=(number + 1) << 20) for number in range(500))
    told = ask(shared_memory, fake_host(tables(rows)))
    (finding,) = told.findings
    assert len(finding.evidence) == SHOWN + 1
    assert "shmid 499," in finding.evidence[0], "the biggest first"
    assert finding.evidence[-1] == "and 480 smaller segments, 112.7 GiB in all"
    assert "500 shared memory segments" in finding.message


def test_hundreds_of_semaphores_do_not_flood() -> None:
    rows = "".join(f"{number} {number} 600 17 1001 1001 1001 1001 0 0\n" for number in range(300))
    (finding,) = ask(shared_memory, fake_host(tables(sem=rows))).findings
    assert len(finding.evidence) == SHOWN + 1
    assert "280 more" in finding.evidence[-1]


def test_the_facts_are_totals_in_bytes() -> None:
    shm = segment(1, size=1000) + segment(2, size=24, nattch=1) + segment(3, key=PREFIX, size=GIB)
    msg = "1 2 600 96 2 0 0 0 0 0 0 0 0 0\n"
    assert ask(shared_memory, fake_host({**tables(shm, msg), **LIVING})).facts == {
        "segments": 2,
        "bytes": 1024,
        "unattached_bytes": 1000,
        "semaphore_sets": 0,
        "queues": 1,
        "queued_bytes": 96,
    }


@pytest.mark.parametrize("table", [None, "key shmid\n1 2\n", unreadable(errno.EACCES)])
@pytest.mark.parametrize("name", ["shm", "msg", "sem"])
def test_cannot_tell(name: str, table: Optional[Content]) -> None:
    files = tables()
    if table is None:
        del files[f"/proc/sysvipc/{name}"]
    else:
        files[f"/proc/sysvipc/{name}"] = table
    told = ask(shared_memory, fake_host(files))
    assert told.status is Status.UNKNOWN
    assert told.reason


def test_an_image_has_no_memory() -> None:
    assert ask(shared_memory, fake_host(tables(segment()), root="/srv/image")).status is Status.SKIPPED


SPACE = "pid:[4026532000]"


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    many = "".join(segment(number, size=GIB + number) for number in range(1, 30))
    odd = segment(40, nattch=2, cpid=0) + segment(41, nattch=1, mode="1600", ctime=1000)
    sem = "".join(f"{number} {number} 600 17 1001 1001 1001 1001 0 0\n" for number in range(30))
    msg = "49179 26 600 96 2 801 802 4711 0 4711 0 0 0 0\n"
    living = process_files(700)
    yield ask(shared_memory, fake_host({**tables(many + odd, msg, sem), **living}))
    yield ask(shared_memory, fake_host({**tables(segment(cpid=700)), **living}))
    yield ask(shared_memory, fake_host({**tables(), "/proc/sysvipc/msg": unreadable()}))
    yield from _files()
    yield judged({}, options=Options(only_job="7"))
    yield judged({"/dev/shm": unreadable()})


def _files() -> Iterator[Asked]:
    yield judged({TORCH: file()})
    leaked: dict[str, Content] = {f"/dev/shm/paddle_4711_{number}_7": file(GIB) for number in range(30)}
    yield judged(leaked)
    yield judged({f"/dev/shm/psm_1a2b3c{number}": file(GIB) for number in range(10, 40)})
    hidden = {**process(800), "/proc/800/maps": unreadable()}
    elsewhere = {**process(800, space=SPACE), "/proc/800/mountinfo": "1 1 254:0 / /x"}
    for more in (hidden, elsewhere, {"/.dockerenv": ""}):
        yield judged({TORCH: file(GIB), **more})
    yield judged({TORCH: file(nlink=2)})
    yield judged({"/dev/shm/hccl_sync": folder(uid=1001), "/dev/shm/hccl_sync/a": file(GIB, uid=1001)})
    yield judged({TORCH: file(GIB), "/proc/800/stat": unreadable()})
    most, module.MOST = module.MOST, 1
    yield judged({TORCH: file(GIB), f"{TORCH}1": file()})
    module.MOST = most
