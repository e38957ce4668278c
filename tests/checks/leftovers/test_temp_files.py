"""temp-files: locks of dead builds, folders of ended training; what lives or cannot be told is let alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

import pytest

from npudoctor import RemoveUnused, Risk, Severity, Status
from npudoctor.checks.leftovers.temp_files import temp_files
from npudoctor.facts.leftovers.temporary_folders import find_build_locks, find_temp_folders
from npudoctor.host import Options
from npudoctor.host.process.processes import Processes
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

NOW = 1_800_000_000.0
HOUR = 3600.0
LOCAL = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
NFS = "22 21 0:40 / /root rw - nfs4 server:/home rw\n"
LOCK = "/root/.cache/torch_extensions/py311_cu121/fused_adam/lock"
PYMP = "/tmp/pymp-a1b2c3d4"
UNIX = "Num       RefCount Protocol Flags    Type St Inode Path\n"


def process(pid: int, **more: Any) -> dict[str, Content]:
    return {**process_files(pid, **more), f"/proc/{pid}/cgroup": "0::/init.scope\n"}


BASE: dict[str, Content] = {
    "/proc/self/ns/pid": link("pid:[4026531836]"),
    "/proc/self/ns/cgroup": link("cgroup:[4026531835]"),
    "/proc/self/mountinfo": LOCAL,
    "/proc/net/unix": UNIX,
    "/etc/passwd": "root:x:0:0::/root:/bin/sh\nanna:x:1001:1001::/home/anna:/bin/sh\n",
    **process(1, name="systemd", exe="/sbin/init", parent=0),
}


SERVER = process(90, name="nfsd", parent=2)  # of the kernel: what others have open it does not show


def lock(age: float = 2 * HOUR, **more: Any) -> Node:
    return Node(mtime=NOW - age, permissions=0o600, **more)


def left(age: float = 2 * HOUR, **more: Any) -> Node:
    return replace(folder(0o700, more.pop("uid", 0)), mtime=NOW - age, **more)


def since(age: float) -> int:
    """When a process began, in ticks, that began so long ago."""
    return int((UPTIME - age) * TICKS)


def judged(files: Mapping[str, Content], **more: Any) -> Asked:
    return ask(temp_files, fake_host({**BASE, **files}, now=NOW, **more))


def test_nothing_is_there() -> None:
    told = judged({"/tmp/other": folder(), "/tmp/pymp-file": "", "/tmp/pymp-link": link("/etc")})
    assert (told.status, told.codes, told.facts) == (Status.OK, [], {})


class TestLocks:
    """Of PyTorch's extensions."""

    @pytest.mark.parametrize("name", ["lock", "build.lock"])
    def test_its_build_died(self, name: str) -> None:
        path = f"{LOCK.rpartition('/')[0]}/{name}"
        told = judged({path: lock(), **process(70)})
        (finding,) = told.findings
        assert (told.status, finding.code) == (Status.PROBLEM, "temp-files.stale-lock")
        assert finding.severity is Severity.WARNING
        assert finding.fix and finding.fix.commands == (f"rm -- {path}",)
        assert finding.fix.risk is Risk.SAFE and isinstance(finding.fix.steps[0], RemoveUnused)

    def test_a_process_that_ends_while_it_is_looked_at_holds_nothing(self, monkeypatch: Any) -> None:
        listed, now = set[int](), Processes.read_now

        def once(processes: Processes, pid: int) -> Any:
            if pid in listed:
                return None
            listed.add(pid)
            return now(processes, pid)

        monkeypatch.setattr(Processes, "read_now", once)
        told = judged({LOCK: lock(), **process(70), "/proc/70/fd": unreadable()})
        assert told.codes == ["temp-files.stale-lock"]

    def test_where_a_lease_proves_nothing(self) -> None:
        table = LOCAL.replace(" ext4 ", " overlay ")
        (finding,) = judged({LOCK: lock(), "/proc/self/mountinfo": table}).findings
        assert finding.code == "temp-files.stale-lock"
        assert finding.fix and finding.fix.commands == (f"rm -- {LOCK}",)
        assert finding.fix.risk is Risk.MANUAL

    def test_a_folder_that_is_named(self) -> None:
        path = "/data/ext/fused_adam/lock"
        variables = {"TORCH_EXTENSIONS_DIR": "/data/ext"}
        assert judged({path: lock(), LOCK: lock()}, variables=variables).facts["locks"] == 1

    @pytest.mark.parametrize(
        "files",
        [
            {LOCK: lock(300)},
            {LOCK: lock(), **process(70, descriptors={3: LOCK})},
            {LOCK: lock(), **process(70, descriptors={3: f"{LOCK.rpartition('/')[0]}/build.ninja"})},
            {LOCK: folder()},
            {LOCK: link("/etc/passwd")},
            {LOCK: lock(), f"{LOCK.rpartition('/')[0]}/status": ""},  # not of a build
            {LOCK: lock(content=b"pid 7")},
            # A container mounts the cache elsewhere.
            {LOCK: lock(), **process(70, descriptors={3: "/ext/py311_cu121/fused_adam/lock"})},
        ],
    )
    def test_quiet(self, files: Mapping[str, Content]) -> None:
        assert judged(files).codes == []

    @pytest.mark.parametrize(
        "files",
        [
            {"/.dockerenv": ""},
            {"/proc/self/mountinfo": LOCAL + NFS},
            {**process(70), "/proc/70/fd": unreadable()},
            {"/proc/70/stat": unreadable()},
            {"/proc/self/mountinfo": LOCAL.replace(" ext4 ", " ocfs2 ")},
            {**SERVER, "/var/lib/nfs/etab": "/root\t10.0.0.0/24(rw,sync)\n"},
            SERVER,
        ],
    )
    def test_it_cannot_be_told(self, files: Mapping[str, Content]) -> None:
        (finding,) = judged({LOCK: lock(), **files}).findings
        assert (finding.code, finding.severity) == ("temp-files.lock", Severity.INFO)
        assert finding.fix and finding.fix.unproven
        assert judged({LOCK: lock(1800), **files}).codes == [], "a build may take that long"

    def test_a_home_that_is_closed_is_nobodys_here(self) -> None:
        told = judged({"/root/.cache": unreadable()})
        assert (told.status, told.codes) == (Status.OK, [])

    def test_of_a_user(self) -> None:
        theirs = "/home/anna/.cache/torch_extensions/py311_cpu/x/lock"
        files: dict[str, Content] = {LOCK: lock(), theirs: lock(uid=1001)}
        (finding,) = judged(files, options=Options(only_user="anna")).findings
        assert theirs in finding.message
        assert finding.fix and finding.fix.needs_root is True

    def test_many(self) -> None:
        files = fake_host({f"/e/py3/{number}/lock": "" for number in range(2500)}).files
        assert 1900 < len(list(find_build_locks(files, "/e"))) <= 2000


class TestFolders:
    """Of Python's multiprocessing and of PyTorch."""

    def test_left(self) -> None:
        files: dict[str, Content] = {PYMP: left(), "/tmp/torch-shm-dir-Ab12": left()}
        files[f"{PYMP}/listener-x1"] = ""
        told = judged({**files, **process(70, started=since(60))})
        assert (told.status, told.codes) == (Status.OK, ["temp-files.left-over"] * 2)
        assert [one.evidence for one in told.findings] == [
            ("/tmp/torch-shm-dir-Ab12 (PyTorch), owner root, 120 minutes old, 0 files",),
            (f"{PYMP} (Python), owner root, 120 minutes old, 1 files",),
        ]
        removed, shown = (one.fix for one in told.findings)
        assert removed and removed.risk is Risk.SAFE and not removed.needs_root
        assert removed.commands == ("rmdir -- /tmp/torch-shm-dir-Ab12",)
        assert shown and shown.risk is Risk.MANUAL, "somebody may want the file"
        assert shown.commands == (f"rm -r -- {PYMP}",)

    @pytest.mark.parametrize(
        "files",
        [
            {PYMP: left(300)},
            process(70, started=since(3 * HOUR)),
            process(70, name="pt_main_thread", exe="/opt/trainer", started=since(3 * HOUR)),
            process(
                70, exe="/opt/trainer", name="t", started=since(3 * HOUR), maps="x /lib/libpython3.11.so\n"
            ),
            {**process(70, exe="/opt/t", name="t", started=since(3 * HOUR)), "/proc/70/maps": unreadable()},
            process(70, started=since(60), descriptors={5: f"{PYMP}/data"}),
            process(70, started=since(60), descriptors={5: "/mnt/tmp/pymp-a1b2c3d4/data"}),
            {"/proc/net/unix": f"{UNIX}0: 00000002 0 00010000 0001 01 7 {PYMP}/listener-x\n"},
            {"/proc/net/unix": unreadable()},
            {**process(70, started=since(60)), "/proc/70/fd": unreadable()},
            {"/.dockerenv": ""},
            {"/proc/1/cgroup": unreadable()},
        ],
    )
    def test_what_lives_or_cannot_be_told_is_let_alone(self, files: Mapping[str, Content]) -> None:
        told = judged({PYMP: left(), **files})
        assert (told.status, told.codes) == (Status.OK, [])

    @pytest.mark.parametrize(
        "files",
        [
            process(70, exe="/usr/sbin/sshd", name="sshd", started=since(3 * HOUR)),
            process(70, uid=1001, started=since(3 * HOUR)),
            {**process(70, uid=1001, started=since(60)), "/proc/70/fd": unreadable()},
            process(70, state="Z", started=since(3 * HOUR)),
        ],
    )
    def test_others_and_other_programs_did_not_make_it(self, files: Mapping[str, Content]) -> None:
        assert judged({PYMP: left(), **files}).codes == ["temp-files.left-over"]

    def test_those_of_others_are_left_to_them(self) -> None:
        files: dict[str, Content] = {PYMP: left(uid=1001), "/tmp/pymp-c": left(uid=1002)}
        assert judged(files).facts["folders"] == 2
        told = judged(files, options=Options(only_user="anna"))
        assert told.facts["folders"] == 1
        assert [line.split()[0] for line in told.findings[0].evidence] == [PYMP]

    def test_in_another_temporary_folder(self) -> None:
        files = {"/scratch/pymp-1": left(), "/scratch/tmp": link("/scratch")}
        assert judged(files, variables={"TMPDIR": "/scratch/tmp"}).codes == ["temp-files.left-over"]
        assert judged(files, variables={"TMPDIR": "scratch"}).codes == []

    @pytest.mark.parametrize("kind", ["nfs4", "lustre", "fuse.juicefs", "wekafs", "ocfs2"])
    def test_on_a_file_system_of_many_machines(self, kind: str) -> None:
        """A process of another node may have made it, and still use it."""
        table = f"{LOCAL}22 21 0:40 / /scratch rw - {kind} server:/scratch rw\n"
        files: dict[str, Content] = {"/scratch/pymp-1": left(), PYMP: left(), "/proc/self/mountinfo": table}
        (finding,) = judged(files, variables={"TMPDIR": "/scratch"}).findings
        assert PYMP in finding.evidence[0] and len(finding.evidence) == 1

    @pytest.mark.parametrize(
        ("given", "codes"),
        [
            (None, []),
            ("/tmp 10.0.0.0/24(rw)\n", []),
            ('"/" *(ro)\n', []),
            ("/home\\040s 10.0.0.0/24(rw)\n", ["temp-files.left-over"]),
            ("", ["temp-files.left-over"]),
        ],
    )
    def test_what_a_server_of_nfs_gives_to_others(self, given: Optional[str], codes: list[str]) -> None:
        files: dict[str, Content] = {PYMP: left(), **SERVER}
        if given is not None:
            files["/var/lib/nfs/etab"] = given
        assert judged(files).codes == codes

    def test_thousands_do_not_flood(self) -> None:
        files: dict[str, Content] = {f"/tmp/pymp-{number:05}": left() for number in range(700)}
        told = judged(files)
        (finding,) = told.findings
        assert told.facts["folders"] == 500
        assert len(finding.evidence) == 21
        assert finding.fix and len(finding.fix.commands) == 500, "what will be done is shown"


def test_a_temporary_folder_that_is_closed() -> None:
    told = judged({"/tmp": unreadable()})
    assert (told.status, told.advisory) == (Status.UNKNOWN, True)


def test_with_a_job_it_is_skipped_as_in_an_image() -> None:
    assert judged({PYMP: left()}, options=Options(only_job="7")).status is Status.SKIPPED
    assert ask(temp_files, fake_host(root="/srv/image")).status is Status.SKIPPED


def test_a_huge_place_is_read_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    import npudoctor.facts.leftovers.temporary_folders as module

    monkeypatch.setattr(module, "MANY", 50)
    files: dict[str, Content] = {f"/tmp/a{number:04}": "" for number in range(200)}
    files["/tmp/pymp-1"] = left()
    assert list(find_temp_folders(fake_host(files).files, "/tmp")) == []


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield judged({LOCK: lock()})
    yield judged({LOCK: lock(), "/.dockerenv": ""})
    yield judged({PYMP: left(), f"{PYMP}/listener-x1": ""})
    yield judged({f"/tmp/pymp-{number}": left() for number in range(30)})
    yield judged({}, options=Options(only_job="7"))
    yield judged({"/tmp": unreadable()})
