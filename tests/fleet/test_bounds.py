"""What a node, a file or a command line says has a size: it ends soon, in one line that names it."""

from __future__ import annotations

import gzip
import io
import json
import os
import time
from pathlib import Path

import pytest

from npudoctor.explain.reading.opening import Opener
from npudoctor.explain.reading.opening import Unreadable as NotRead
from npudoctor.fleet import reading
from npudoctor.fleet.nodes import InvalidNodes, expand
from npudoctor.fleet.reading import Found, Unreadable, read
from npudoctor.fleet.sources import nodes_in

from .carriers import report

STRANGER = 12345


def only(path: Path) -> reading.Item:
    (item,) = read([str(path)], io.BytesIO())
    return item


@pytest.mark.parametrize(
    "text",
    [
        "node[1-99999999]",
        "n[1-9999][1-9999]",
        "rack[0-9]n[1-999999]",
        "a,b,n[1-131072]",
        "n[1-99999999999999999999999999]",
        "a[1-70000],b[1-70000]",
    ],
)
def test_a_set_of_too_many_nodes_is_refused_before_it_is_expanded(text: str) -> None:
    begin = time.monotonic()
    with pytest.raises(InvalidNodes, match="expands to more than 131072 nodes"):
        expand(text)
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("n[1-20000]", 20_000),
        ("n[1-3,7]x[0-1]", 8),
        ("n[0-100/10]", 11),
        ("a,b", 2),
        ("n[01-10]!n[02-03]", 8),
    ],
)
def test_a_set_of_real_size_is_expanded(text: str, count: int) -> None:
    assert len(expand(text)) == count


def test_a_line_that_is_no_node_set_is_said_shortly() -> None:
    with pytest.raises(InvalidNodes) as error:
        nodes_in(b"[" * 500)
    assert len(str(error.value)) < 400


def test_a_range_without_a_step_is_no_crash() -> None:
    with pytest.raises(InvalidNodes):
        nodes_in(b"[all]\nn[a:c:0]\n")


def test_a_report_that_never_closes_is_not_read_again_for_each_line(tmp_path: Path) -> None:
    path = tmp_path / "never.json"
    path.write_text('{"schema": "npudoctor.report/1",\n' + "}\n" * 160_000)
    begin = time.monotonic()
    item = only(path)
    assert isinstance(item, Unreadable) and item.source == str(path)
    assert time.monotonic() - begin < 20


def test_holes_and_bombs_hold_no_report(tmp_path: Path) -> None:
    with open(tmp_path / "hole.json", "wb") as file:
        file.truncate(10 << 30)
    with gzip.open(tmp_path / "bomb.json.gz", "wb", compresslevel=1) as packed:
        for _piece in range(64):
            packed.write(b"\0" * (1 << 20))
    begin = time.monotonic()
    items = list(read([str(tmp_path)], io.BytesIO()))
    assert [type(item) for item in items] == [Unreadable, Unreadable]
    assert time.monotonic() - begin < 20


def test_reading_a_file_has_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "READING", 0.0)
    (tmp_path / "a.json").write_text("x\n" * (1 << 20))
    item = only(tmp_path / "a.json")
    assert isinstance(item, Unreadable) and "deadline" in item.error


def test_a_line_without_an_end_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LONGEST", 1 << 20)
    (tmp_path / "a.json").write_text("x" * (3 << 20))
    item = only(tmp_path / "a.json")
    assert isinstance(item, Unreadable) and "longer than 1 MiB" in item.error


def test_reports_that_have_not_ended_are_held_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "HELD", 10_000)
    open_ones = [
        f'n{number}: {{ "schema": "npudoctor.report/1", "x": "{"y" * 500}"\n' for number in range(99)
    ]
    stream = io.BytesIO("".join([*open_ones, json.dumps(report("a")), "\n"]).encode())
    items = list(reading.read_stream(stream, "-"))
    assert [type(item) for item in items].count(Found) == 1
    assert [item.node for item in items if isinstance(item, Unreadable)] and len(items) == 100


def test_pipes_and_devices_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npudoctor.explain.reading.sources.PATIENCE", 0.2)
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        item = only(path)
        assert isinstance(item, Unreadable) and "not read" in item.error


def test_a_pipe_that_we_were_given_is_read() -> None:
    taking, giving = os.pipe()
    os.write(giving, json.dumps(report("a")).encode())
    os.close(giving)
    (item,) = read([f"/dev/fd/{taking}"], io.BytesIO())
    os.close(taking)
    assert isinstance(item, Found)


@pytest.mark.needs_root
@pytest.mark.parametrize("make", [os.link, os.symlink])
def test_root_reads_through_no_link_of_another_user(tmp_path: Path, make: object) -> None:
    secret, theirs = tmp_path / "secret.json", tmp_path / "theirs"
    secret.write_text(json.dumps(report("secret")))
    theirs.mkdir()
    assert callable(make)
    make(secret, theirs / "a.json")
    if make is os.symlink:
        os.chown(theirs / "a.json", STRANGER, STRANGER, follow_symlinks=False)
    os.chown(theirs, STRANGER, STRANGER)
    item = only(theirs / "a.json")
    assert isinstance(item, Unreadable) and "link" in item.error
    with pytest.raises(NotRead, match="link"):
        Opener().open(str(theirs / "a.json"))


@pytest.mark.needs_root
def test_a_users_own_hard_links_are_read(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "a.json").write_text(json.dumps(report("a")))
    os.link(theirs / "a.json", theirs / "b.json")
    for path in (theirs, theirs / "a.json"):
        os.chown(path, STRANGER, STRANGER)
    assert isinstance(only(theirs / "b.json"), Found)
