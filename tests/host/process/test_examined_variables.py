"""Reading the variables of a process: what the kernel gives, and what stands in the way."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest

from npudoctor.host import CannotTell
from npudoctor.host.fs.disk import LocalDisk
from npudoctor.host.process.examined_variables import is_owned_by_root, parse_environ, read_process_variables
from npudoctor.host.process.processes import Processes
from npudoctor.testing import Content, MemoryDisk, unreadable


def disk(**files: Content) -> MemoryDisk:
    return MemoryDisk({f"/proc/7/{name}": content for name, content in files.items()})


def test_entries_as_c_reads_them() -> None:
    content = b"A=1\0B=a=b\nc\0A=2\0=odd\0none\0EMPTY=\0RAW=\xff\0"
    assert parse_environ(content) == {"A": "1", "B": "a=b\nc", "EMPTY": "", "RAW": "\udcff"}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "process 7 does not exist"),
        ({"environ": unreadable(errno.ESRCH)}, "process 7 does not exist"),
        ({"environ": unreadable(errno.EACCES)}, "cannot be read: Permission denied"),
        ({"environ": b""}, "it has ended"),
    ],
)
def test_variables_that_cannot_be_had(files: dict[str, Content], said: str) -> None:
    with pytest.raises(CannotTell, match=said):
        read_process_variables(disk(**files), 7)


@pytest.mark.parametrize(
    ("uids", "roots"),
    [
        ("0\t0\t0\t0", True),
        ("1000\t0\t0\t0", False),
        ("0\t0\t0\t1000", False),
        ("1000\t1000\t1000\t1000", False),
    ],
)
def test_a_process_is_roots_only_when_all_its_ids_are(uids: str, roots: bool) -> None:
    assert is_owned_by_root(disk(status=f"Name:\tUid:\nUid:\t{uids}\nGid:\t0\t0\t0\t0\n"), 7) is roots


@pytest.mark.needs_root
@pytest.mark.parametrize("name", ["a\rUid: 0", "a\x0bUid:\t0", "a\nUid:\t0"])
def test_no_process_forges_its_ids_by_its_name(name: str) -> None:
    code = (
        "import ctypes, os, sys, time; libc = ctypes.CDLL(None); libc.prctl(15, sys.argv[1].encode());"
        "os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534);"
        "print(flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, name], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            assert not is_owned_by_root(LocalDisk(), process.pid)
            assert Processes(LocalDisk()).owner(process.pid) == 65534
        finally:
            process.kill()
    assert is_owned_by_root(disk(), 7) is False
