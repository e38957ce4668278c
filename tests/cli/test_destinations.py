"""What is no regular file is written to, never replaced, and nobody's link leads root astray."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from npudoctor.cli.companions.grammar import all_commands, command_tree

from .command import Done, Npudoctor

STRANGER = 12345
LOG = "ImportError: libhccl.so: cannot open shared object file: No such file or directory\n"
# A /dev of its own, as a rename over the machine's would be the very fault.
OWN_DEV = """
mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/urandom c 1 9
ln -s /proc/self/fd /dev/fd; ln -s /proc/self/fd/1 /dev/stdout; ln -s /proc/self/fd/2 /dev/stderr
"""
QUICK = ("check", "hccl-env", "--expect", "none")


def shell(npudoctor: Npudoctor, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["unshare", "-m", "bash", "-c", OWN_DEV + script, "npudoctor", *npudoctor.argv()],
        env=npudoctor.environment({}), cwd=npudoctor.folder, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip


@pytest.mark.needs_root
@pytest.mark.parametrize(
    "line",
    [
        f"{' '.join(QUICK)} --output /dev/stdout",
        f"{' '.join(QUICK)} --output /dev/fd/1",
        f"{' '.join(QUICK)} --output /proc/self/fd/1",
        f"{' '.join(QUICK)} --output link-to-stdout",
        "explain job.log --output /dev/stdout",
    ],
)
def test_standard_output_is_written_to_and_stays(npudoctor: Npudoctor, line: str) -> None:
    (npudoctor.folder / "job.log").write_text(LOG)
    done = shell(npudoctor, f'ln -s /dev/stdout link-to-stdout; "$@" {line} | cat; readlink /dev/stdout')
    assert done.stdout.endswith("/proc/self/fd/1\n")
    assert len(done.stdout.splitlines()) > 1
    assert "npudoctor:" not in done.stderr


@pytest.mark.needs_root
def test_devices_and_env_write(npudoctor: Npudoctor) -> None:
    script = f'"$@" {" ".join(QUICK)} --output /dev/null; "$@" env --write /dev/stdout; '
    done = shell(npudoctor, script + "stat -c %F /dev/null /dev/stdout")
    assert done.stdout.splitlines()[-2:] == ["character special file", "symbolic link"]


def test_an_inherited_descriptor_is_written_to(npudoctor: Npudoctor) -> None:
    done = npudoctor.shell(f'"$@" {" ".join(QUICK)} --format json --output /dev/fd/7 7>seven; wc -c <seven')
    assert int(done.out) > 100


def test_what_is_no_descriptor_of_ours_is_refused(npudoctor: Npudoctor) -> None:
    paths = ("/dev/fd/99", "/proc/self/fd/99", "/proc/1/fd/1")
    for done in npudoctor.each([(*QUICK, "--output", path) for path in paths]):
        assert (done.status, done.out) == (64, "") and len(done.err.splitlines()) == 1


def test_a_fifo_is_written_to(npudoctor: Npudoctor) -> None:
    script = (
        f'mkfifo pipe; cat pipe & "$@" {" ".join(QUICK)} --format json --output pipe; wait; stat -c %F pipe'
    )
    done = npudoctor.shell(script)
    assert '"npudoctor.report/1"' in done.out and done.out.endswith("fifo\n")


def test_a_fifo_that_nobody_reads_is_a_result_that_nobody_got(npudoctor: Npudoctor) -> None:
    os.mkfifo(npudoctor.folder / "pipe")
    done = npudoctor(*QUICK, "--output", "pipe")
    assert done.status == 74 and "pipe: " in done.err
    assert stat.S_ISFIFO(os.lstat(npudoctor.folder / "pipe").st_mode)


@pytest.mark.parametrize("target", ["today", "nothing"])
def test_a_link_to_a_file_or_to_nothing_is_replaced_and_not_followed(
    npudoctor: Npudoctor, target: str
) -> None:
    (npudoctor.folder / "today").write_text("old")
    link = npudoctor.folder / "newest"
    link.symlink_to(target)
    npudoctor(*QUICK, "--output", "newest")
    assert not link.is_symlink() and link.read_text()
    assert (npudoctor.folder / "today").read_text() == "old"
    assert not (npudoctor.folder / "nothing").exists()


@pytest.mark.needs_root
def test_root_writes_through_nothing_that_another_user_put_there(npudoctor: Npudoctor) -> None:
    victim = npudoctor.folder / "mine" / "report"
    victim.parent.mkdir()
    victim.write_text("mine")
    paths, planted = [], []
    for kind in ("link", "folder link", "file", "fifo"):
        shared = npudoctor.folder / f"shared {kind}"
        shared.mkdir()
        shared.chmod(0o1777)
        planted.append(shared / "theirs")
        paths.append(_planted(planted[-1], victim, kind))
    for path, done in zip(paths, npudoctor.each([(*QUICK, "--output", str(path)) for path in paths])):
        assert (done.status, done.out) == (64, "") and "another user" in done.err, (path, done)
    assert victim.read_text() == "mine"
    assert [os.lstat(theirs).st_uid for theirs in planted] == [STRANGER] * 4


def _planted(theirs: Path, victim: Path, kind: str) -> Path:
    if kind == "link":
        theirs.symlink_to(victim)
    elif kind == "folder link":
        theirs.symlink_to(victim.parent)
    elif kind == "fifo":
        os.mkfifo(theirs)
    else:
        theirs.write_text("theirs")
    os.chown(theirs, STRANGER, STRANGER, follow_symlinks=False)
    return theirs / "report" if kind == "folder link" else theirs


WRITERS = [
    ("check", "clock", "--expect", "none", "--output"),
    ("check", "clock", "--expect", "none", "--format", "json", "--output"),
    ("check", "clock", "--format", "junit", "--output"),
    ("check", "clock", "--format", "prometheus", "--output"),
    ("check", "clock", "--format", "npd", "--output"),
    ("explain", "job.log", "--output"),
    ("explain", "job.log", "--collect"),
    ("env", "--write"),
    ("snapshot",),
    ("diff", "some.json", "some.json", "--output"),
    ("fleet", "report", "some.json", "--output"),
    ("fleet", "check", "-w", "localhost", "--output"),
]


def test_every_option_that_names_a_file_to_write_is_tried_below() -> None:
    """Another command that writes belongs into WRITERS."""
    writing = {
        (*command.words, option.names[-1])
        for command in all_commands(command_tree())
        for option in command.options
        if option.names[-1] in ("--output", "--write", "--collect")
    }
    words = {(*line[: 2 if line[0] == "fleet" else 1], line[-1]) for line in WRITERS}
    assert writing <= words


NOWHERE = ("/nonexistent/x.json", "job.log/x.json", "loop/x.json", "a" * 300, ".")


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> list[Done]:
    """What each writer says of each place that cannot be; none of them leaves anything."""
    npudoctor = Npudoctor(tmp_path_factory.mktemp("nowhere"))
    (npudoctor.folder / "job.log").write_text(LOG)
    (npudoctor.folder / "some.json").write_text("{}")
    (npudoctor.folder / "loop").symlink_to("loop")
    before = sorted(os.listdir(npudoctor.folder))
    ended = npudoctor.each([(*line, path) for line in WRITERS for path in NOWHERE])
    assert sorted(os.listdir(npudoctor.folder)) == before
    return ended


@pytest.mark.parametrize("line", WRITERS, ids=" ".join)
def test_a_place_that_cannot_be_is_wrong_usage_for_every_command(
    refused: list[Done], line: tuple[str, ...]
) -> None:
    """A folder that does not exist, or one that is a file: 64 before anything is asked, one line, nothing on
    standard output."""
    first = WRITERS.index(line) * len(NOWHERE)
    for path, done in zip(NOWHERE, refused[first : first + len(NOWHERE)]):
        assert (done.status, done.out, done.err.count("\n")) == (64, "", 1), (path, done)


def test_where_nobody_can_create_a_file_is_wrong_usage_too(npudoctor: Npudoctor) -> None:
    for done in npudoctor.each([(*QUICK, "--output", path) for path in ("/proc/x.json", "home")]):
        assert (done.status, done.out, done.err.count("\n")) == (64, "", 1)


def test_a_place_that_fails_while_it_is_written_is_a_lost_result(npudoctor: Npudoctor) -> None:
    """It was there and took the trial file, so the usage was right: 74."""
    done = npudoctor(*QUICK, "--output", "/dev/full")
    assert (done.status, done.out, done.err.count("\n")) == (74, "", 1)


def test_a_plug_in_of_nagios_says_so_in_its_own_status(npudoctor: Npudoctor) -> None:
    done = npudoctor("check", "clock", "--format", "nagios", "--output", "/nonexistent/x")
    assert (done.status, done.err) == (3, "") and done.out.startswith("UNKNOWN: --output: /nonexistent/x")
