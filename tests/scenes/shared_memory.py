"""Machines on which shared-memory says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.checks.leftovers.test_shared_files import GIB, TORCH, file, judged, process
from tests.checks.leftovers.test_shared_memory import segment, tables

from npudoctor.checks.leftovers import _shared_memory_files as say
from npudoctor.checks.leftovers.shared_memory import shared_memory
from npudoctor.host import Options
from npudoctor.testing import Asked, Content, ask, fake_host, folder, process_files, unreadable

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
    most, say.MOST = say.MOST, 1
    yield judged({TORCH: file(GIB), f"{TORCH}1": file()})
    say.MOST = most
