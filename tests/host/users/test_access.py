"""What a user may do with a folder, by modes and ids."""

from __future__ import annotations

import pytest

from npudoctor.host.users.access import may_create_in, nearest_folder
from npudoctor.host.users.identity import Identity
from npudoctor.testing import Node, fake_host, folder, link

ALICE = Identity(1000, "alice", "/home/alice")


@pytest.mark.parametrize(
    ("entry", "answer"),
    [
        (folder(0o700, 1000), True),
        (folder(0o577, 1000), False),
        (folder(0o755), False),
        (folder(0o757), True),
        (folder(0o1777), True),
        (folder(0o775), None),
        (Node(permissions=0o777), False),
    ],
)
def test_may_make(entry: Node, answer: object) -> None:
    files = fake_host({"/data": entry}).files
    assert may_create_in(nearest_folder(files, "/data").entry, ALICE) is answer


def test_the_group_may() -> None:
    entry = nearest_folder(fake_host({"/data": folder(0o775)}).files, "/data").entry
    assert may_create_in(entry, Identity(1000, "alice", "/home/alice", groups=frozenset({0}))) is True
    assert may_create_in(entry, Identity(0, "root", "/root")) is True


def test_the_nearest_that_is_there() -> None:
    files = fake_host({"/data/a": folder(), "/to": link("/data"), "/gone": link("/nowhere")}).files
    for path, place, there in (
        ("/data/a/", "/data/a", True),
        ("/data/a/b/c", "/data/a", False),
        ("/to/a", "/to/a", True),
        ("/gone/x", "/", False),
        ("/", "/", True),
    ):
        found = nearest_folder(files, path)
        assert (found.path, found.exists) == (place, there)
        assert found.label.startswith(f"{place} uid=0 gid=0 mode=d")
