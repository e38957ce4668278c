"""--env-of and --source: whose variables are judged, and that nothing is run which must not be."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

import pytest

from .command import Done, Npudoctor

ASKED = ("check", "training-env", "--format", "json")
NOBODY = 65534


@contextmanager
def sleeping(variables: dict[str, str], uid: Optional[int] = None, cwd: str = "/") -> Iterator[int]:
    """A process that was started with these variables."""
    process = subprocess.Popen(["/bin/sleep", "60"], env=variables, user=uid, cwd=cwd)
    try:
        time.sleep(0.1)  # until it is no longer a copy of us
        yield process.pid
    finally:
        process.kill()
        process.wait()


def judged(done: Done) -> Any:
    """The variables that training-env saw."""
    return done.row("training-env")["facts"].get("variables", {})


def refusal(done: Done) -> str:
    """The one line that stands in place of an answer."""
    assert (done.status, done.out, done.err.count("\n")) == (64, "", 1), done
    return done.err


@pytest.fixture
def script(trusted: Path) -> Path:
    """A script that root sources too."""
    return trusted / "set_env.sh"


def test_the_variables_of_a_process(npudoctor: Npudoctor) -> None:
    with sleeping({"AUTO_USE_UC_MEMORY": "0", "PATH": os.environ["PATH"], "ODD": "a=b\nc\udcff"}) as pid:
        done = npudoctor(*ASKED, "--env-of", str(pid), ASCEND_TRACE_RECORD_NUM="7")
    assert (done.status, judged(done)) == (0, {"AUTO_USE_UC_MEMORY": "0"})


def test_its_working_directory_counts(npudoctor: Npudoctor, tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    with sleeping({"PATH": os.environ["PATH"]}, cwd=str(tmp_path / "job")) as pid:
        done = npudoctor("check", "source-shadowing", "--format", "json", "--env-of", str(pid))
    assert done.row("source-shadowing")["facts"]["working_directory"] == str((tmp_path / "job").resolve())


def test_no_such_process(npudoctor: Npudoctor) -> None:
    refused = {
        "4194305": "process 4194305 does not exist",
        "0": "'0' is not a process id",
        "-1": "'-1' is not a process id",
        "self": "'self' is not a process id",
        "": "'' is not a process id",
        "9" * 100: "is not a process id",
    }
    ended = npudoctor.each([(*ASKED, "--env-of", told) for told in refused])
    for said, done in zip(refused.values(), ended):
        assert said in refusal(done)


def test_a_process_that_has_ended_has_no_variables(npudoctor: Npudoctor) -> None:
    process = subprocess.Popen(["/bin/true"])
    time.sleep(0.2)
    assert f"process {process.pid} does not exist" in refusal(npudoctor(*ASKED, "--env-of", str(process.pid)))
    assert process.wait() == 0


@pytest.mark.needs_root
def test_root_runs_nothing_by_the_variables_of_another_user(npudoctor: Npudoctor, trusted: Path) -> None:
    """An interpreter of root's that would be run for root's own variables is not run for another's: they
    may hold LD_PRELOAD."""
    asked = ["check", "source-shadowing", "training-env", "--format", "json", "--env-of"]
    python = trusted / "python3"
    python.symlink_to(os.path.realpath(sys.executable))
    version = platform.python_version()
    variables = {"PATH": str(trusted), "AUTO_USE_UC_MEMORY": "1"}
    with sleeping(variables, NOBODY) as pid:
        done = npudoctor(*asked, str(pid))
        assert judged(done) == {"AUTO_USE_UC_MEMORY": "1"}
        assert done.json["target"]["python"]["version"] == version.rpartition(".")[0], "read from its folders"
    with sleeping(variables) as pid:
        assert npudoctor(*asked, str(pid)).json["target"]["python"]["version"] == version, "asked"


def test_the_variables_that_a_script_leaves(npudoctor: Npudoctor, script: Path) -> None:
    script.write_text(
        "echo to the screen; export AUTO_USE_UC_MEMORY=1 ODD=$'a\\nb=c'; unset ASCEND_TRACE_RECORD_NUM\n"
    )
    done = npudoctor(
        *ASKED, "--source", str(script), ASCEND_TRACE_RECORD_NUM="7", ASCEND_COREDUMP_SIGNAL="none"
    )
    assert (done.status, done.err) == (0, "")
    assert judged(done) == {"AUTO_USE_UC_MEMORY": "1", "ASCEND_COREDUMP_SIGNAL": "none"}


def test_it_is_sourced_as_a_person_would(npudoctor: Npudoctor, script: Path) -> None:
    """Not executed, without arguments, options and start-up files; from the working directory."""
    path = script.with_name("a b.sh")
    path.write_text(
        'test "$0" = "${BASH_SOURCE[0]}" && return 9; test $# = 0 || return 8\n'
        'test "$LEFT" = "" || return 7\n'
        'test "$PWD" = "$WANTED" || return 6; set -eu; export AUTO_USE_UC_MEMORY=1\n'
    )
    start = script.with_name("start.sh")
    start.write_text("export LEFT=1\n")
    folder = str(npudoctor.folder.resolve())
    relative = os.path.relpath(path, folder)
    done = npudoctor(*ASKED, "--source", relative, BASH_ENV=str(start), ENV=str(start), WANTED=folder)
    assert (done.status, done.err) == (0, "")
    assert judged(done) == {"AUTO_USE_UC_MEMORY": "1"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("exit 0", "it ends the shell that sources it"),
        ("exit 5", "it exits with status 5"),
        ("kill -9 $$", "it exits with status -9"),
        ("sleep 60", "it does not finish within 1 s"),
        ("set -e; printf '\\033[31mred\\n' >&2; false", "it exits with status 1"),
    ],
)
def test_a_script_that_ends_the_shell(npudoctor: Npudoctor, script: Path, text: str, said: str) -> None:
    script.write_text(text + "\n")
    started = time.monotonic()
    done = npudoctor(*ASKED, "--timeout", "1", "--source", str(script))
    assert said in refusal(done)
    assert str(script) in done.err and "\033" not in done.err
    assert time.monotonic() - started < 8


def test_a_status_is_no_failure(npudoctor: Npudoctor, trusted: Path) -> None:
    """It is that of the last command; where the shell lives, its variables are what a person would have."""
    texts = {
        "[ -f /no/such/file ] && . /no/such/file": "it exits with status 1;",
        "echo the reason >&2; return 3": "it exits with status 3: the reason;",
        "grep x /dev/null": "it exits with status 1;",
        "if": "syntax error",
    }
    scripts = [trusted / f"set_env_{number}.sh" for number in range(len(texts))]
    for script, text in zip(scripts, texts):
        script.write_text(f"export AUTO_USE_UC_MEMORY=1\n{text}\n")
    ended = npudoctor.each([(*ASKED, "--source", str(script)) for script in scripts])
    for script, said, done in zip(scripts, texts.values(), ended):
        assert done.err.startswith(f"npudoctor: --source: {script}: ") and done.err.count("\n") == 1
        assert said in done.err and "the variables it had set by then are checked" in done.err
        assert (done.status, judged(done)) == (0, {"AUTO_USE_UC_MEMORY": "1"})


def test_a_script_that_changes_nothing_is_named(npudoctor: Npudoctor, script: Path) -> None:
    """The .bashrc of Debian."""
    script.write_text("case $- in\n *i*) ;;\n *) return;;\nesac\nexport AUTO_USE_UC_MEMORY=0\n")
    done = npudoctor(*ASKED, "--source", str(script))
    assert f"--source: {script}: it changed no variable" in done.err and done.err.count("\n") == 1
    script.write_text("export AUTO_USE_UC_MEMORY=0\n")
    assert npudoctor(*ASKED, "--source", str(script)).err == ""
    assert "changed no variable" in npudoctor(*ASKED, "--source", str(script), AUTO_USE_UC_MEMORY="0").err
    script.write_text("unset AUTO_USE_UC_MEMORY\n")
    assert npudoctor(*ASKED, "--source", str(script), AUTO_USE_UC_MEMORY="0").err == ""


def test_what_it_leaves_running_does_not_hold_us(npudoctor: Npudoctor, script: Path) -> None:
    script.write_text("export AUTO_USE_UC_MEMORY=1; sleep 20 &\n")
    started = time.monotonic()
    assert judged(npudoctor(*ASKED, "--source", str(script))) == {"AUTO_USE_UC_MEMORY": "1"}
    assert time.monotonic() - started < 8


@pytest.mark.needs_root
def test_root_sources_only_what_nobody_else_may_write(npudoctor: Npudoctor, script: Path) -> None:
    script.write_text(f"touch {script.parent}/ran\n")
    script.chmod(0o666)
    assert "is writable by other users" in refusal(npudoctor(*ASKED, "--source", str(script)))
    script.chmod(0o644)
    os.chown(script, NOBODY, -1)
    assert "is writable by other users" in refusal(npudoctor(*ASKED, "--source", str(script)))
    assert not (script.parent / "ran").exists()


def test_paths_and_options_that_cannot_be(npudoctor: Npudoctor, script: Path) -> None:
    script.write_text("")
    places = {
        "/no/set_env.sh": ": /no/set_env.sh does not exist",
        "/usr": ": /usr is not a regular file",
        "": "",
    }
    me = str(os.getpid())
    pairs = (("--env-of", me, "--source", str(script)), ("--source", str(script), "--root", "/"))
    lines = [*(("--source", path) for path in places), *pairs]
    ended = npudoctor.each([(*ASKED, *line) for line in lines])
    for why, done in zip(places.values(), ended):
        assert f"--source{why}" in refusal(done)
    for done in ended[len(places) :]:
        assert "cannot be used together" in refusal(done)
