"""For every check, machines on which it says all that it can say: each code, and each way of putting it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Callable

from npudoctor.checks.host.accelerator import accelerator
from npudoctor.checks.leftovers.cache_server import cache_server
from npudoctor.checks.leftovers.shared_memory import shared_memory
from npudoctor.checks.python.scipy_version import scipy_version
from npudoctor.testing import Asked, Content, ask, fake_host, link, process_files, unreadable

from .checks.cann.test_aicpu_path import HALF, LATEST, OLD, OLD_TREE, SOURCED, TREE, release, told
from .checks.host.test_accelerator import NPU_CARD, card
from .checks.leftovers.test_shared_memory import GIB, segment, tables
from .checks.network.ports_machine import ANY, BASE, ESTABLISHED, HERE, judge, row, sockets_of
from .checks.python.stack_machine import site
from .checks.python.test_scipy_version import NEEDS, beside
from .scenes.cache_server import DEAD, Leftovers, key_of, logged, spilling

Scene = Callable[[Path], Iterator[Asked]]


def _accelerator(tmp: Path) -> Iterator[Asked]:
    passed_on = card("0x19e5", "0x120000", "0xd802", bound="vfio-pci")
    bus: dict[str, Content] = {"/sys/bus/pci/devices": unreadable()}
    for files in ({}, NPU_CARD, passed_on, bus, {"/.dockerenv": ""}, {"/dev": unreadable()}):
        yield ask(accelerator, fake_host(files, expect="npu"))
    yield ask(accelerator, fake_host())


def _aicpu_path(tmp: Path) -> Iterator[Asked]:
    yield told({}, {})
    yield told(TREE, {})
    yield told(TREE, HALF)
    yield told(OLD_TREE, OLD, packages={"torch": "1.8.1"})
    for value in ("/no/such/path", "latest", "/usr/local"):
        yield told(TREE, {**SOURCED, "ASCEND_AICPU_PATH": value})
    other = release("7.0.0", "7.1.0.3.220", "/opt/cann")
    yield told({**TREE, **other}, {**HALF, "ASCEND_AICPU_PATH": "/opt/cann/7.0.0"})
    yield told({**TREE, **other}, {"ASCEND_OPP_PATH": "/opt/cann/7.0.0/opp", "ASCEND_AICPU_PATH": LATEST})


def _scipy_version(tmp: Path) -> Iterator[Asked]:
    yield ask(scipy_version, fake_host())
    yield beside("2.7.0", "", NEEDS)
    yield beside("2.7.0", "1.4.1", NEEDS)
    yield beside("2.7.0", "1.3.0")
    for mindspore, scipy, lines in (
        ("99.0", "1.11.4", ()),
        ("2.7.0", "1.4.one", (NEEDS,)),
        ("2.7.0", "1.11.4", ("Requires-Dist: scipy >= what",)),
    ):
        yield beside(mindspore, scipy, *lines)
    yield beside("2.7.0", "1.11.4", NEEDS, knowledge=site(tmp, "[[mindspore.scipy]]\n"))


def _shared_memory(tmp: Path) -> Iterator[Asked]:
    many = "".join(segment(number, size=GIB + number) for number in range(1, 30))
    odd = segment(40, nattch=2, cpid=0) + segment(41, nattch=1, mode="1600", ctime=1000)
    sem = "".join(f"{number} {number} 600 17 1001 1001 1001 1001 0 0\n" for number in range(30))
    msg = "49179 26 600 96 2 801 802 4711 0 4711 0 0 0 0\n"
    living = process_files(700)
    yield ask(shared_memory, fake_host({**tables(many + odd, msg, sem), **living}))
    yield ask(shared_memory, fake_host({**tables(segment(cpid=700)), **living}))
    yield ask(shared_memory, fake_host({**tables(), "/proc/sysvipc/msg": unreadable()}))


def _hccl_ports(tmp: Path) -> Iterator[Asked]:
    kernel = {"/proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n"}
    job = "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n"
    container = f"0::/system.slice/docker-{'a' * 64}.scope\n"
    here = {"/proc/self/ns/pid": "pid:[4026531836]", "/proc/self/ns/cgroup": "cgroup:[4026531835]"}
    left = {
        **process_files(4000, uid=1000, descriptors=sockets_of(100)),
        **process_files(4001, uid=1000, descriptors=sockets_of(101)),
        **{path: link(target) for path, target in here.items()},
        "/proc/1/cgroup": "0::/init.scope\n",
        "/proc/4000/cgroup": job,
        "/proc/4001/cgroup": container,
    }
    yield judge()
    yield judge(row(ANY, 40000, 1), row("::1", 40002, 2), variables=BASE)
    yield judge(row("192.0.2.1", 40000, 900, 1001, ESTABLISHED), variables=BASE)
    yield judge(row(ANY, 60000, 100), row(ANY, 60001, 101), files=left, expect="npu")
    yield judge(row(ANY, 29500, 1), variables=HERE, files=kernel, expect="npu")
    yield judge(row(ANY, 29500, 1), row(ANY, 8118, 2), expect="gpu")
    yield judge(row(ANY, 29500, 1), variables={**HERE, "MASTER_ADDR": "head"})
    yield judge(
        row(ANY, 61000, 1),
        variables={"HCCL_HOST_SOCKET_PORT_RANGE": "61000-61050, 61060"},
    )
    for value in ("", "many", "99", "65520"):
        yield judge(variables={"HCCL_IF_BASE_PORT": value})
    for value in ("61050-61000", "61000-61010,61005"):
        yield judge(variables={"HCCL_HOST_SOCKET_PORT_RANGE": value})


def _cache_server(tmp: Path) -> Iterator[Asked]:
    left = Leftovers(tmp)
    orphan, attached = left.socket(50052), left.socket(50053)
    left.segment(1, key_of(orphan))
    left.segment(2, key_of(attached), nattch=3)
    left.client(4711, 2, key_of(attached))
    left.socket(50054)
    spilled = left.spill("a")
    left.log(logged(left.segment(3, 0x61000003)), spilling(spilled))
    left.segment(4, 0x61000004)
    left.segment(5, 0x61000005, nattch=2)
    _unproven(left)
    yield ask(cache_server, left.host())
    (tmp / "mindspore" / "bob").symlink_to("/nowhere")
    yield ask(cache_server, left.host())


def _unproven(left: Leftovers) -> None:
    displaced = left.socket(50055, ".cache_server_p50055.npudoctor.ab12")
    strange = left.socket(50056, ".cache_server_p50056.npudoctor.ab12")
    left.alive |= {displaced.name, strange.name}
    left.parked(displaced)
    left.log(spilling(left.spill("b")), pid=DEAD + 1, machine="elsewhere")
    left.spill("c", "")


SCENES: dict[str, Scene] = {
    "accelerator": _accelerator,
    "aicpu-path": _aicpu_path,
    "cache-server": _cache_server,
    "hccl-ports": _hccl_ports,
    "scipy-version": _scipy_version,
    "shared-memory": _shared_memory,
}


def _in_files() -> Iterator[tuple[str, Scene]]:
    """The scenes that have a file of their own, named like the check."""
    for path in sorted((Path(__file__).parent / "scenes").glob("[a-z]*.py")):
        module = import_module(f".scenes.{path.stem}", __package__)
        if hasattr(module, "scene"):
            yield path.stem.replace("_", "-"), module.scene


SCENES.update(_in_files())
