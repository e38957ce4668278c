"""What limits.conf and limits.d give: domains, order, spelling; and what a real login gets of it."""

from __future__ import annotations

from typing import Optional

import pytest

from npudoctor.facts.system.pam_limits import CONF, UNLIMITED, pam_limit, read_sources
from npudoctor.testing import fake_host, folder

A, B = "/etc/security/limits.d/10-a.conf", "/etc/security/limits.d/20-b.conf"


@pytest.mark.parametrize(
    ("texts", "soft", "hard"),
    [
        ({}, None, None),
        ({CONF: "* soft nofile 5\n"}, 5, None),
        ({CONF: "* - nofile 5 # nine\n#* - nofile 9\n"}, 5, 5),
        ({CONF: "\t*\thard  nofile\tinfinity\n* soft nofile -1"}, UNLIMITED, UNLIMITED),
        ({CONF: "* - nofile 5\n* soft nofile 4\n"}, 4, 5),
        ({B: "* - nofile 2\n", A: "* - nofile 1\n", CONF: "* - nofile 9\n"}, 2, 2),
        ({CONF: "alice - nofile 7\n", A: "* - nofile 1\n"}, 7, 7),
        ({CONF: "@hpc - nofile 7\n", A: "* - nofile 1\n"}, 7, 7),
        ({CONF: "alice soft nofile 3\n@hpc - nofile 7\n"}, 3, 7),
        ({CONF: "@other - nofile 7\nbob - nofile 8\n1000: - nofile 9\n"}, None, None),
        ({CONF: "* - nproc 7\n* both nofile 7\n* - nofile x\n* - nofile\n* -\n\xff"}, None, None),
    ],
)
def test_what_a_user_gets(texts: dict[str, str], soft: Optional[int], hard: Optional[int]) -> None:
    found = pam_limit(texts, "nofile", "alice", {"hpc"})
    assert (found.soft, found.hard) == (soft, hard)


def test_stars_and_groups_are_not_for_root() -> None:
    texts = {CONF: "* - nofile 5\n@root - nofile 6\n"}
    assert pam_limit(texts, "nofile", "root", {"root"}).soft is None
    assert pam_limit({**texts, A: "root - nofile 7\n"}, "nofile", "root").path == A


def test_which_files_are_read() -> None:
    files = {CONF: "c", A: "a", A + "~": "x", "/etc/security/limits.d/x.conf.rpmnew": "x"}
    assert list(read_sources(fake_host(files).files)) == [CONF, A]
    assert read_sources(fake_host({"/etc/security/limits.d": folder()}).files) == {}
