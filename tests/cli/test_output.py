"""A result that nobody got is no success; a file is replaced as a whole or not at all."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from .command import Npudoctor

JSON = ("check", "accelerator", "--expect", "none", "--format", "json")
COMMANDS = ["check accelerator --expect none", "list", "show cache-server", "schema", "--help", "--version"]
LOST = 74


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("where", [">/dev/full", ">&-"])
def test_a_failed_write_is_told_and_no_success(npudoctor: Npudoctor, command: str, where: str) -> None:
    done = npudoctor.shell(f'"$@" {command} {where}')
    assert (done.status, done.out) == (LOST, "")
    assert done.err.startswith("npudoctor: the result could not be written: ")
    assert done.err.count("\n") == 1


def test_a_reader_that_is_gone_is_no_success(npudoctor: Npudoctor) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    running = npudoctor.start(*JSON, stdout=writing)
    os.close(writing)
    _out, err = running.communicate(timeout=30)
    assert running.returncode == LOST
    assert err == b"npudoctor: the result could not be written: Broken pipe\n"


def test_closed_descriptors_harm_nothing_else(npudoctor: Npudoctor) -> None:
    for where in ("2>&-", "<&-", "<&- 2>&-"):
        done = npudoctor.shell(f'"$@" {" ".join(JSON)} {where}')
        assert (done.status, done.json["verdict"], done.err) == (0, "ready", "")
    assert npudoctor.shell('"$@" nope 2>&-').status == 64


def test_a_report_longer_than_a_pipe_comes_whole_from_a_run_with_a_hung_check(npudoctor: Npudoctor) -> None:
    """The process ends by force then; nothing that was buffered may be lost."""
    npudoctor.drop_in("long", 'yield Finding("long.note", "n", evidence=("x" * 1000,) * 1000)')
    npudoctor.drop_in("stuck", "time.sleep(100)\nyield")
    done = npudoctor.shell('"$@" check drop-in --format json --timeout 1 | { sleep 2; cat; }')
    assert (done.status, len(done.row("long")["findings"][0]["evidence"])) == (2, 1000)


def test_a_slow_reader_that_made_its_pipe_non_blocking_gets_everything(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("long", 'yield Finding("long.note", "n", evidence=("x" * 1000,) * 1000)')
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    running = npudoctor.start("check", "long", "--format", "json", stdout=writing)
    os.close(writing)
    with open(reading, "rb") as file:
        assert json.loads(file.read())["exit_code"] == running.wait(30) == 0


def test_what_a_check_prints_is_not_in_the_result(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in(
        "chatty", 'print("hello")\nos.system("echo hello")\nreturn\nyield', top='print("hello")'
    )
    done = npudoctor("check", "chatty", "--format", "json")
    assert done.row("chatty")["status"] == "ok" and "hello" not in done.out


def test_the_file_is_whole_and_standard_output_empty(npudoctor: Npudoctor, tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    target.write_text("old")
    target.chmod(0o600)
    before = target.stat().st_ino
    done = npudoctor.shell(f'umask 027; "$@" {" ".join(JSON)} --output report.json')
    assert (done.status, done.out, done.err) == (0, "", "")
    assert json.loads(target.read_text())["verdict"] == "ready"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640 and target.stat().st_ino != before
    assert not list(tmp_path.glob(".npudoctor-*"))


def test_a_link_is_replaced_and_not_followed(npudoctor: Npudoctor, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "report").symlink_to("precious")
    assert npudoctor(*JSON, "--output", "report").status == 0
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "report").is_symlink()


def test_a_dash_is_standard_output(npudoctor: Npudoctor, tmp_path: Path) -> None:
    assert npudoctor(*JSON, "--output", "-").json["verdict"] == "ready"
    assert not (tmp_path / "-").exists()


def test_where_nothing_can_be_written_nothing_is_asked(npudoctor: Npudoctor, tmp_path: Path) -> None:
    npudoctor.drop_in("marker", f"open({str(tmp_path / 'asked')!r}, 'w')\nreturn\nyield")
    done = npudoctor("check", "marker", "--output", "/proc/report")
    assert (done.status, done.out) == (64, "")
    assert not (tmp_path / "asked").exists()
    assert npudoctor("check", "marker").status == 0 and (tmp_path / "asked").exists()


@pytest.mark.needs_root
def test_a_full_disk_leaves_the_old_file(npudoctor: Npudoctor, tmp_path: Path) -> None:
    """A tmpfs of one page: the trial fits, the report does not."""
    (tmp_path / "small").mkdir()
    script = (
        "mount -t tmpfs -o size=4k,nr_inodes=8 none small && echo old >small/report && "
        f'"$@" {" ".join(JSON)} --output small/report; echo "status $?"; cat small/report; ls -A small'
    )
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", script, "bash", *npudoctor.argv()],
        env=npudoctor.environment({}), cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "status 74\nold\nreport\n", done
    assert "No space left on device" in done.stderr


NAMED: tuple[tuple[tuple[str, ...], bool], ...] = (
    (("--output", "x.json"), True),
    (("--output=X.JSON",), True),
    (("--output", "y.json", "--format", "text"), False),
    (("--output", "x.txt"), False),
    (("--output", "json"), False),
    (("--output", "y.txt", "--format", "json"), True),
)


@pytest.mark.parametrize("command", [("check", "clock"), ("explain", "EI0006")])
def test_a_file_that_is_called_json_is_json(npudoctor: Npudoctor, command: tuple[str, ...]) -> None:
    """In English as all JSON, whatever LANG says."""
    lines = [(*command, *arguments) for arguments, _json in NAMED]
    for done in npudoctor.each(lines, LANG="zh_CN.UTF-8"):
        assert (done.out, done.err) == ("", "")
    written = {path.name: path.read_text() for path in npudoctor.folder.iterdir() if path.is_file()}
    named = {arguments[0].partition("=")[2] or arguments[1]: json for arguments, json in NAMED}
    assert {name: text.startswith("{") for name, text in written.items()} == named
    assert {name: text.isascii() for name, text in written.items()} == named
