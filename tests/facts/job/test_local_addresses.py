"""Which addresses and names mean this machine: decided without a name server, or not at all."""

from __future__ import annotations

import os
from typing import Optional

import pytest

from npudoctor.facts.job.local_addresses import is_local, is_same_host
from npudoctor.testing import fake_host

HOSTS = "127.0.0.1 localhost\n127.0.1.1 mynode # us\n192.0.2.9  other Other.Example\n::zz broken\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", True),  # noqa: S104
        ("192.0.2.1", True),
        ("::ffff:192.0.2.1", True),
        ("fe80::0:2", True),
        ("fe80::2%eth0", True),
        ("192.0.2.2", False),
        ("2001:db8::1", False),
        ("localhost", True),
        ("LOCALHOST.", True),
        ("anything.localhost", True),
        ("mynode", True),
        ("MyNode", True),
        ("other", False),
        ("other.example", False),
        ("broken", None),
        ("nobody-knows-this", None),
        ("127.1", None),
        ("192.0.2.01", None),
        ("", None),
        ("%", None),
    ],
)
def test_is_us(text: str, expected: Optional[bool]) -> None:
    host = fake_host({"/etc/hosts": HOSTS}, addresses=["127.0.0.1", "192.0.2.1", "fe80::2"])
    assert is_local(host, text) is expected


def test_our_own_name_needs_no_hosts_file() -> None:
    assert is_local(fake_host(), os.uname().nodename) is True


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a", "a", True),
        ("a.b.c", "a", True),
        ("a", "a.b.c", True),
        ("a.b", "a.c", False),
        ("a", "b", False),
        ("", "a", False),
        ("", "", True),
    ],
)
def test_short_and_long_names(one: str, other: str, same: bool) -> None:
    assert is_same_host(one, other) is same
