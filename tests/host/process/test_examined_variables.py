"""Reading the variables of a process: what the kernel gives, and what stands in the way."""

from __future__ import annotations

import errno

import pytest

from npudoctor.host import CannotTell
from npudoctor.host.process.examined_variables import is_roots, of_process, parse_environ
from npudoctor.testing import Content, MemoryDisk, unreadable


def disk(**files: Content) -> MemoryDisk:
    return MemoryDisk({f"/proc/7/{name}": content for name, content in files.items()})


def test_entries_as_c_reads_them() -> None:
    content = b"A=1\0B=a=b\nc\0A=2\0=odd\0none\0EMPTY=\0RAW=\xff\0"
    assert parse_environ(content) == {"A": "1", "B": "a=b\nc", "EMPTY": "", "RAW": "\udcff"}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "there is no process 7"),
        ({"environ": unreadable(errno.ESRCH)}, "there is no process 7"),
        ({"environ": unreadable(errno.EACCES)}, "cannot be read: Permission denied"),
        ({"environ": b""}, "it has ended"),
    ],
)
def test_variables_that_cannot_be_had(files: dict[str, Content], said: str) -> None:
    with pytest.raises(CannotTell, match=said):
        of_process(disk(**files), 7)


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
    assert is_roots(disk(status=f"Name:\tUid:\nUid:\t{uids}\nGid:\t0\t0\t0\t0\n"), 7) is roots
    assert is_roots(disk(), 7) is False
