"""shared-memory in /dev/shm: what is used is not spoken of, the dead's is, all else is unproven."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from npudoctor import Risk, Severity, Status
from npudoctor.checks.leftovers.shared_memory import shared_memory
from npudoctor.facts.leftovers.shm_files import find_maker
from npudoctor.host import Options
from npudoctor.testing import (
    TICKS,
    UPTIME,
    Asked,
    Content,
    Node,
    ask,
    fake_host,
    folder,
    link,
    process_files,
    unreadable,
)

from .sysvipc_machine import tables

NOW = 1_800_000_000.0
HOUR = 3600.0
MIB, GIB = 1 << 20, 1 << 30


class Big(bytes):
    """Content that says that it is large, and is not."""

    size = 0

    def __len__(self) -> int:
        return self.size


def file(size: int = 64 * MIB, age: float = HOUR, **more: Any) -> Node:
    content = Big()
    content.size = size
    more.setdefault("permissions", 0o600)
    return Node(content, mtime=NOW - age, **more)


FIRST: dict[str, Content] = {
    "/proc/self/ns/pid": link("pid:[4026531836]"),
    "/proc/self/ns/cgroup": link("cgroup:[4026531835]"),
}


def process(pid: int, **more: Any) -> dict[str, Content]:
    space = more.pop("space", "pid:[4026531836]")
    cgroup: dict[str, Content] = {
        f"/proc/{pid}/cgroup": "0::/init.scope\n",
        f"/proc/{pid}/ns/pid": link(space),
    }
    return {**process_files(pid, **more), **cgroup}


def judged(files: Mapping[str, Content], **more: Any) -> Asked:
    machine = {**tables(), **FIRST, **process(1, name="systemd", exe="/sbin/init", parent=0)}
    return ask(shared_memory, fake_host({**machine, **files}, now=NOW, **more))


def mapping(files: Mapping[str, Content], path: str, pid: int, **more: Any) -> dict[str, Content]:
    """The same with a process that maps one of the files."""
    made = {**tables(), **FIRST, **process(1, name="systemd", exe="/sbin/init", parent=0), **files}
    made.update(process(pid, **more))
    made.setdefault("/proc/self", folder())
    entry = fake_host(made, now=NOW).disk.lstat(path)
    where = f"{os.major(entry.dev):02x}:{os.minor(entry.dev):02x}"
    line = f"7f3333000000-7f3333001000 rw-s 00000000 {where} {entry.ino}      /elsewhere/name\n"
    return {**files, **process(pid, maps=line, **more)}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("torch_4711_2834_0", ("PyTorch", 4711)),
        ("torch_4711_2834", ("PyTorch", 4711)),
        ("paddle_4711_1_99", ("PaddlePaddle", 4711)),
        ("paddle_4711_99", ("PaddlePaddle", 4711)),
        ("mindspore_4711_88_2", ("MindSpore", 4711)),
        ("pym-4711-ab12", ("Python", 4711)),
        ("psm_1a2b3c4d", ("Python", None)),
        ("sem.mp-7a_b3", ("Python", None)),
        ("nccl-A1b2C3", ("NCCL", None)),
        ("hccl_sync", ("HCCL", None)),
        ("HcclCommPool", ("HCCL", None)),
        ("torch_cache", None),
        ("torch_٣_1", None),
        ("torch_4711", None),
        ("nccl-", None),
        ("dataset", None),
        ("sem.other", None),
        ("PostgreSQL.1234", None),
    ],
)
def test_names(name: str, said: object) -> None:
    assert find_maker(name) == said


TORCH = "/dev/shm/torch_4711_2834_0"


def test_a_dead_process_left_a_file() -> None:
    told = judged({TORCH: file()})
    (finding,) = told.findings
    assert (told.status, finding.code, finding.severity) == (
        Status.OK, "shared-memory.left-over", Severity.INFO,
    )  # fmt: skip
    assert finding.evidence == (
        f"{TORCH} (PyTorch), 64 MiB, owner root, 60 minutes old: process 4711 is gone",
    )
    assert finding.fix and finding.fix.commands == (f"rm -- {TORCH}",)
    assert finding.fix.risk is Risk.SAFE and not finding.fix.unproven and not finding.fix.needs_root
    assert "no visible process uses it" in finding.message
    assert told.facts["file_bytes"] == 64 * MIB and told.facts["file_bytes_in_use"] == 0


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (process(60, name="python3", started=1), "its owner's process 60 was running when the file changed"),
        (process(60, name="torch_shm_manager", exe="/opt/bin/torch_shm_manager", started=1), "process 60"),
        ({TORCH: file(permissions=0o640)}, "other users may open it"),
    ],
)
def test_what_somebody_who_lives_may_know_by_its_name_is_only_shown(
    more: dict[str, Content], word: str
) -> None:
    told = judged({TORCH: file(), **more})
    (finding,) = told.findings
    assert finding.code == "shared-memory.left-over"
    assert finding.fix and finding.fix.unproven and finding.fix.risk is Risk.MANUAL
    assert word in finding.evidence[0]


def test_much_memory_is_a_warning() -> None:
    told = judged({TORCH: file(GIB)})
    assert told.status is Status.PROBLEM
    assert told.findings[0].severity is Severity.WARNING


def test_a_pid_that_was_given_to_another_process_since() -> None:
    later = int((UPTIME - 60) * TICKS)  # began a minute ago
    files = {TORCH: file(), **process(4711, exe="/usr/bin/bash", name="bash", started=later)}
    assert judged(files).codes == ["shared-memory.left-over"]
    files.update(process(4711, started=later))
    told = judged(files)
    assert told.codes == ["shared-memory.unproven"], "python may be it, if the clock was set"


@pytest.mark.parametrize(
    "name", [TORCH, "/dev/shm/psm_1a2b3c4d", "/dev/shm/nccl-A1b2C3", "/dev/shm/sem.mp-a1"]
)
def test_what_is_used_is_not_spoken_of(name: str) -> None:
    node = file(4 * GIB)
    assert judged(mapping({name: node}, name, 800)).codes == []
    assert judged({name: node, **process(800, descriptors={3: name})}).codes == []
    assert judged({name: node, **process(800, descriptors={3: f"{name} (deleted)"})}).codes == []
    elsewhere = f"/var/lib/pods/7/shm/{name.rpartition('/')[2]}"
    assert judged({name: node, **process(800, descriptors={3: elsewhere})}).codes == []


def test_a_living_maker_may_hand_it_out_yet() -> None:
    assert judged({TORCH: file(4 * GIB), **process(4711)}).codes == []


@pytest.mark.parametrize("name", ["psm_1a2b3c4d", "nccl-A1b2C3", "sem.mp-a1", "HcclCommPool", "hccl_sync/a"])
def test_a_name_without_a_pid_proves_nothing(name: str) -> None:
    told = judged({f"/dev/shm/{name}": file()})
    (finding,) = told.findings
    assert (finding.code, finding.severity) == ("shared-memory.unproven", Severity.INFO)
    assert "does not contain its creator's pid" in finding.evidence[0]
    assert finding.fix and finding.fix.unproven and finding.fix.risk is Risk.MANUAL
    assert judged({f"/dev/shm/{name}": file(GIB)}).status is Status.PROBLEM


def test_a_little_that_is_not_proven_is_not_worth_a_word() -> None:
    few = {f"/dev/shm/sem.mp-{number}": file(32) for number in range(99)}
    assert judged(few).codes == []
    told = judged({**few, "/dev/shm/sem.mp-more": file(32)})
    assert told.codes == ["shared-memory.unproven"]
    assert len(told.findings[0].evidence) == 21
    assert told.facts["files"] == 100


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({TORCH: file(nlink=2)}, "2 hard links"),
        (
            {TORCH: file(), **process(800), "/proc/800/maps": unreadable()},
            "cannot read the memory maps of process 800 (python3)",
        ),
        (
            {TORCH: file(), **process(800), "/proc/800/fd": unreadable()},
            "cannot read the memory maps of process 800 (python3)",
        ),
        (
            {
                TORCH: file(),
                **process(800, space="pid:[4026532000]"),
                "/proc/800/mountinfo": "1 1 254:0 / /x",
            },
            "another pid namespace",
        ),
        ({TORCH: file(), **process(800, space="pid:[4026532000]")}, "another pid namespace"),
        ({TORCH: file(), "/proc/1/cgroup": unreadable()}, "hidden"),
    ],
)
def test_what_is_missing_in_the_proof(files: Mapping[str, Content], said: str) -> None:
    told = judged(files)
    assert told.codes == ["shared-memory.unproven"]
    assert said in told.findings[0].evidence[0]


def test_another_namespace_that_has_a_place_of_its_own_is_no_matter() -> None:
    files = {TORCH: file(), **process(800, space="pid:[4026532000]"), "/proc/800/mountinfo": "1 1 0:77 / /x"}
    assert judged(files).codes == ["shared-memory.left-over"]


def test_the_kernels_threads_and_the_dead_hide_nothing() -> None:
    files: dict[str, Content] = {TORCH: file(), **process(2, name="kthreadd"), **process(9, parent=2)}
    files.update({"/proc/2/maps": unreadable(), "/proc/9/fd": unreadable()})
    files.update({**process(800, state="Z"), "/proc/800/maps": unreadable()})
    assert judged(files).codes == ["shared-memory.left-over"]


def test_minutes_old_may_be_on_its_way() -> None:
    assert judged({TORCH: file(4 * GIB, age=300)}).codes == []
    assert judged({"/dev/shm/psm_1a2b3c4d": file(4 * GIB, age=300)}).codes == []


def test_a_container_cannot_see_who_uses_it() -> None:
    assert judged({TORCH: file(), "/.dockerenv": ""}).codes == []
    told = judged({TORCH: file(GIB), "/.dockerenv": ""})
    (finding,) = told.findings
    assert (finding.code, finding.severity) == ("shared-memory.unproven", Severity.INFO)
    assert "in a container" in finding.evidence[0]


def test_of_others_whose_processes_are_hidden_nothing_is_said() -> None:
    hidden = {**process(800, uid=1002), "/proc/800/maps": unreadable(), "/proc/800/fd": unreadable()}
    ours = process(900, uid=1001)
    files = {TORCH: file(4 * GIB, uid=1002), **hidden, **ours}
    told = judged(files, euid=1001, user="anna")
    assert (told.status, told.codes, told.facts["file_bytes_unseen"]) == (Status.OK, [], 4 * GIB)
    told = judged({TORCH: file(uid=1001), **hidden, **ours}, euid=1001, user="anna")
    assert told.codes == ["shared-memory.left-over"], "what others may not open they do not use"
    told = judged({TORCH: file(uid=1001, permissions=0o666), **hidden, **ours}, euid=1001, user="anna")
    assert told.codes == ["shared-memory.unproven"]


def test_limits() -> None:
    files = {TORCH: file(uid=1001), "/dev/shm/torch_4712_1": file(), "/dev/shm/torch_4713_1": file(uid=1002)}
    (finding,) = judged(files, options=Options(only_user="anna")).findings
    assert (
        "(files: 1)" in finding.message
        and TORCH in finding.evidence[0]
        and "owner anna" in finding.evidence[0]
    )
    assert judged(files, options=Options(only_user="1002")).facts["files"] == 1
    told = judged(files, options=Options(only_job="7"))
    assert told.status is Status.SKIPPED and "--user" in told.reason


def test_it_cannot_be_listed() -> None:
    for euid, advisory in ((0, False), (1001, True)):
        told = judged({"/dev/shm": unreadable()}, euid=euid)
        assert (told.status, told.advisory) == (Status.UNKNOWN, advisory)


def test_what_is_no_file_of_a_library_is_nothing_of_ours() -> None:
    files: dict[str, Content] = {
        "/dev/shm/dataset": file(9 * GIB),
        "/dev/shm/torch_4711_1": link("/etc/passwd"),
        "/dev/shm/torch_4711_2": replace(folder(), mtime=NOW - HOUR),
    }
    assert judged(files).codes == []


def test_a_planted_folder_leads_nowhere() -> None:
    system: dict[str, Content] = {"/usr/lib/libc.so": file(GIB), "/dev/shm/hccl_sync": link("/usr/lib")}
    assert judged(system).codes == []
    own = {"/dev/shm/hccl_sync": folder(uid=1001), "/dev/shm/hccl_sync/libc.so": file(GIB, uid=1001)}
    (finding,) = judged(own).findings
    assert finding.fix is None, "its owner may still put a link in its place"
    (finding,) = judged(own, euid=1001, user="anna").findings
    assert finding.fix and finding.fix.commands == ("rm -- /dev/shm/hccl_sync/libc.so",)


def test_the_biggest_of_very_many_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npudoctor.checks.leftovers.shared_memory.MOST", 3)
    files: dict[str, Content] = {f"/dev/shm/psm_0000000{number}": file(MIB) for number in range(9)}
    told = judged({**files, TORCH: file(GIB)})
    left, unproven = told.findings
    assert left.code == "shared-memory.left-over", "the biggest, though the last by its name"
    for finding in (left, unproven):
        assert finding.evidence[-1] == "and 7 more in /dev/shm were not examined: none is larger than 1 MiB"
    assert (told.facts["files"], told.facts["files_not_judged"]) == (10, 7)
    assert told.facts["file_bytes"] == GIB + 9 * MIB
