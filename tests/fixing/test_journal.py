"""The journal: in a folder of our own, on disk before the act, never half a line that another follows."""

from __future__ import annotations

import json
import os
import re
import resource
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.others import as_user, forked

from npudoctor.fixing.journal import Journal, NoJournal
from npudoctor.host import Host, Options
from npudoctor.host.records import Records
from npudoctor.host.users.identity import current_identity

SOMEBODY = 61234


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "a" / "npudoctor"


def records(state: Path) -> list[dict[str, object]]:
    (file,) = (state / "journal").iterdir()
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_what_is_written(state: Path) -> None:
    with Journal(str(state), "boot") as journal:
        journal.write("before", step={"kind": "x"}, evidence=("a", "b"))
        journal.write("after", text="\udcff中\n")
    (file,) = (state / "journal").iterdir()
    assert file.name == f"{journal.run}.jsonl"
    assert re.fullmatch(r"\d{8}T\d{6}-[0-9a-f]{8}", journal.run)
    first, second = records(state)
    assert (first["event"], first["run"], first["boot_id"]) == ("before", journal.run, "boot")
    assert (first["step"], first["evidence"]) == ({"kind": "x"}, ["a", "b"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", str(first["at"]))
    assert second["text"] == "\udcff中\n"


def test_nobody_else_may_come_near(state: Path) -> None:
    before = os.umask(0)
    try:
        with Journal(str(state), None):
            modes = {path.name: path.stat().st_mode & 0o777 for path in (state, *state.rglob("*"))}
    finally:
        os.umask(before)
    assert {mode for name, mode in modes.items() if name in ("npudoctor", "journal")} == {0o700}
    assert {mode for name, mode in modes.items() if name not in ("npudoctor", "journal")} == {0o600}


def test_a_folder_that_was_open_is_closed(state: Path) -> None:
    state.mkdir(parents=True)
    state.chmod(0o777)
    with Journal(str(state), None):
        assert state.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("what", ["file", "link", "dangling"])
def test_a_folder_that_is_none(state: Path, what: str, tmp_path: Path) -> None:
    state.parent.mkdir()
    if what == "file":
        state.write_text("")
    else:
        if what == "link":
            (tmp_path / "elsewhere").mkdir()
        state.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NoJournal), Journal(str(state), None):
        pass
    assert not (tmp_path / "elsewhere" / "journal").exists()


@pytest.mark.needs_root
def test_a_folder_of_another_user(state: Path) -> None:
    state.mkdir(parents=True)
    os.chown(state, SOMEBODY, SOMEBODY)
    with pytest.raises(NoJournal), Journal(str(state), None):
        pass


def test_a_link_in_place_of_the_lock(state: Path, tmp_path: Path) -> None:
    state.mkdir(parents=True)
    (state / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(NoJournal), Journal(str(state), None):
        pass
    assert not (tmp_path / "victim").exists()


def test_one_run_at_a_time(state: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    first, second = Journal(str(state), None), Journal(str(state), None)
    with first, pytest.raises(NoJournal, match="another fix"), second:
        pass
    with Journal(str(state), None):
        pass
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_run_that_was_killed_holds_nobody_up(state: Path) -> None:
    def killed() -> None:
        Journal(str(state), None).__enter__()
        os._exit(9)

    with pytest.raises(EOFError):
        forked(killed)
    with Journal(str(state), None):
        pass


@pytest.mark.needs_root
def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    def refused() -> str:
        with pytest.raises(NoJournal) as why, Journal(f"{tmp_path}/state", None):
            pass
        return str(why.value)

    said = as_user(SOMEBODY, refused)
    assert f"{tmp_path}/state" in said
    assert "ermission denied" in said


def limited(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_a_disk_that_fills_midway(state: Path) -> None:
    """As a limit on the size of files: a part of the line is written, then nothing is."""

    def fills() -> list[str]:
        said = []
        with Journal(str(state), None) as journal:
            journal.write("first")
            limited((state / "journal" / f"{journal.run}.jsonl").stat().st_size + 20)
            for event in ("second", "third"):
                try:
                    journal.write(event)
                except NoJournal as reason:
                    said.append(str(reason))
                limited(resource.RLIM_INFINITY)  # there is room again, but half a line is there
        return said

    said = forked(fills)
    assert len(said) == 2
    assert said[0] == said[1]
    (file,) = (state / "journal").iterdir()
    first, rest = file.read_text().split("\n")
    assert json.loads(first)["event"] == "first"
    assert len(rest) == 20
    assert [record.event for record in Records(str(state), os.geteuid()).read_all()] == ["first"]


def test_every_change_is_told_before_and_after(state: Path) -> None:
    told: list[str] = []
    with Journal(str(state), None, told.append) as journal:
        journal.write("x")
    changes = ["make state folder", "make journal folder", "make lock", "make journal", "journal x"]
    assert told == [f"{when} {change}" for change in changes for when in ("before", "after")]
    told.clear()
    state.chmod(0o755)
    with Journal(str(state), None, told.append):
        pass
    assert told[:2] == ["before close state folder", "after close state folder"]


def test_a_run_that_is_interrupted_while_it_opens_lets_go(state: Path) -> None:
    def stop(name: str) -> None:
        if name == "after make journal":
            raise KeyboardInterrupt

    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(KeyboardInterrupt), Journal(str(state), None, stop):
        pass
    assert len(os.listdir("/proc/self/fd")) == before
    with Journal(str(state), None):
        pass


def test_the_journal_is_ours_whoever_is_examined(tmp_path: Path) -> None:
    """fix --env-of: the variables of that process say nothing of where our own journal lies."""
    identity = replace(current_identity(), euid=4242)
    ours = Records(str(tmp_path), 4242)
    host = Host(Options(), variables={"XDG_STATE_HOME": "/theirs"}, identity=identity, records=ours)
    try:
        assert host.fresh_copy().records.directory == str(tmp_path)
        assert host.fresh_copy().fresh_copy().records.directory == str(tmp_path)
        assert host.fresh_copy().records is not ours  # what was read once may be old
    finally:
        host.close()
