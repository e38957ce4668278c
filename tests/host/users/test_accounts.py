"""Names of users, from a file that may be anything."""

from __future__ import annotations

import errno

from npudoctor.host.fs.files import Files
from npudoctor.host.users.accounts import user_names
from npudoctor.testing import MemoryDisk, unreadable


def test_names() -> None:
    text = "root:x:0:0::/root:/bin/sh\ntoor:x:0:0::/:\n# comment\n+::::::\nanna:x:1001:100::/:\nbad:x\n"
    assert user_names(Files(MemoryDisk({"/etc/passwd": text}))) == {0: "root", 1001: "anna"}


def test_no_names() -> None:
    assert user_names(Files(MemoryDisk({}))) == {}
    assert user_names(Files(MemoryDisk({"/etc/passwd": unreadable(errno.EACCES)}))) == {}
