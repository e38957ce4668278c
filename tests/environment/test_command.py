"""npudoctor env as a command: what it prints, where, and with which status, for a CANN in the user's home."""

from __future__ import annotations

import os
import platform
import pty
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable

import pytest

from ..cli.command import Npudoctor  # noqa: TID252
from ..real import cann_tree  # noqa: TID252

VERSION = "8.1.RC1"


@pytest.fixture
def cann(npudoctor: Npudoctor) -> Path:
    """An installation in the home, as its own user makes it, with what its driver brings."""
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
    npudoctor.variables.update(
        cann_tree.write(npudoctor.folder, VERSION, minor, platform.machine()), PATH=os.environ["PATH"]
    )
    top = npudoctor.folder / "usr/local/Ascend"
    (npudoctor.home / "Ascend").symlink_to(top)
    for name in list(npudoctor.variables):
        if name.startswith("ASCEND") or name in ("LD_LIBRARY_PATH", "PYTHONPATH", "TOOLCHAIN_HOME"):
            del npudoctor.variables[name]
    return npudoctor.home / "Ascend/ascend-toolkit/latest"


def _script(npudoctor: Npudoctor) -> Path:
    """CANN's own, which the tree has empty: as it sets nothing, tables tell what it should."""
    return npudoctor.folder / "usr/local/Ascend/ascend-toolkit/set_env.sh"


def test_the_lines_are_all_that_is_printed(npudoctor: Npudoctor, cann: Path) -> None:
    done = npudoctor("env", "--shell", "bash")
    assert done.status == 0
    assert f"export ASCEND_HOME_PATH='{cann}';" in done.out.splitlines()
    assert all(line.startswith("export ") and line.endswith("';") for line in done.out.splitlines())


def test_evaluated_it_has_nothing_more_to_say(npudoctor: Npudoctor, cann: Path) -> None:
    done = npudoctor.shell(
        'eval "$("$@" env)" || exit; "$@" env; echo "$? $ASCEND_OPP_PATH"; env | grep -c "::"'
    )
    assert done.out == f"0 {cann}/opp\n0\n"


def test_on_a_machine_for_other_things_it_is_empty(npudoctor: Npudoctor) -> None:
    done = npudoctor("env", NPUDOCTOR_EXPECT="none")
    assert (done.status, done.out) == (0, "")
    assert done.err == "npudoctor: this machine has neither an NPU nor CANN: nothing needs to be set\n"


def test_when_it_cannot_the_script_stops(npudoctor: Npudoctor) -> None:
    done = npudoctor("env", NPUDOCTOR_EXPECT="npu")
    assert (done.status, done.out) == (1, "false\n")
    assert done.err.startswith(
        "npudoctor: the environment cannot be set: CANN is not installed, or not in one of the usual places"
    )
    npudoctor.variables["NPUDOCTOR_EXPECT"] = "npu"
    assert npudoctor.shell('eval "$("$@" env)" || exit 9; echo on').status == 9


@pytest.mark.parametrize("format", ["slurm", "docker"])
def test_to_a_program_nothing_is_said_when_it_cannot(npudoctor: Npudoctor, format: str) -> None:
    done = npudoctor("env", "--format", format, NPUDOCTOR_EXPECT="npu")
    assert (done.status, done.out) == (1, "")


MISUSES = [
    (["--typo"], "no such option: --typo"),
    (["--shell", "cmd"], "--shell: 'cmd' is not one of bash, zsh, fish, csh"),
    (["--format", "json"], "--format: 'json' is not one of slurm, docker"),
    (["--format", "slurm", "--shell", "zsh"], "--shell and --format cannot be used together"),
    (["--write", "/nonexistent/x"], "--write: /nonexistent/x: No such file or directory"),
    (["--python", "/nonexistent"], "--python: /nonexistent does not exist"),
]


def test_usage_errors_are_64_with_nothing_on_standard_output(npudoctor: Npudoctor) -> None:
    for done, (_words, said) in zip(npudoctor.each([("env", *words) for words, _said in MISUSES]), MISUSES):
        assert (done.status, done.out, done.err) == (64, "", f"npudoctor: {said}\n")


def test_a_file_is_written_as_a_whole_and_can_be_sourced_twice(npudoctor: Npudoctor, cann: Path) -> None:
    path = npudoctor.folder / "job.env"
    path.write_text("old")
    _script(npudoctor).unlink()
    done = npudoctor.shell(f'umask 027; "$@" env --write {path}; . {path}; . {path}; "$@" env')
    assert (done.status, done.out, done.err) == (0, "", "")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert f"ASCEND_OPP_PATH='{cann}/opp'" in path.read_text()


def test_a_file_does_not_hang_on_what_this_shell_has_already(npudoctor: Npudoctor, cann: Path) -> None:
    """It is sourced by shells, and read by docker, that have not."""
    path = npudoctor.folder / "job.env"
    bare = (
        f'env -i HOME="$HOME" USER=x PATH="$PATH" NPUDOCTOR_CHECKS_DIR= bash -c \'. {path}; "$@" env\' - "$@"'
    )
    evaluated = 'eval "$("$@" env)"'
    done = npudoctor.shell(f'{evaluated}; "$@" env --write {path} 2>&-; {bare}')
    assert (done.status, done.out) == (0, "")
    assert f"export ASCEND_OPP_PATH='{cann}/opp';" in path.read_text().splitlines()
    docker = npudoctor.shell(f'{evaluated}; "$@" env --format docker').out.splitlines()
    assert f"ASCEND_HOME_PATH={cann}" in docker
    assert not any(line.startswith("HOME=") for line in docker)


def test_what_a_script_leaves_out_the_tables_know(npudoctor: Npudoctor, cann: Path) -> None:
    """A site's own set_env.sh may know less than the checks want."""
    script = _script(npudoctor)
    script.write_text(f"export ASCEND_HOME_PATH={cann} ASCEND_OPP_PATH={cann}/opp OWN=1\n")
    script.chmod(0o644)
    done = npudoctor("env", "--shell", "bash")
    assert f"export PYTHONPATH='{cann}/python/site-packages:" in done.out and "OWN=" in done.out
    assert "not changed:" not in done.err


def test_a_shell_without_path_keeps_its_programs(npudoctor: Npudoctor, cann: Path) -> None:
    """As under cron or `env -i`: there it looks through folders of its own, until PATH is set."""
    command = " ".join(npudoctor.argv("env"))
    line = f'eval "$({command})" && [ -n "$ASCEND_OPP_PATH" ] && cat /dev/null && ls -d /'
    done = subprocess.run(
        ["/bin/bash", "-c", line], env=npudoctor.environment({"PATH": None}), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "/\n"), done.stderr


def test_a_variable_with_which_nothing_would_start_is_refused(npudoctor: Npudoctor, cann: Path) -> None:
    most = 32 * os.sysconf("SC_PAGE_SIZE")
    name = "LD_LIBRARY_PATH"
    value = "/" + "x" * (most - len(name) - 3)
    done = npudoctor("env", "--shell", "bash", **{name: value})
    assert (done.status, done.out) == (1, "false\n")
    assert f"{name} would be too long: no program could be started with it" in done.err


def test_no_link_is_followed_and_nothing_else_replaced(npudoctor: Npudoctor, cann: Path) -> None:
    target, link = npudoctor.folder / "target", npudoctor.folder / "link"
    target.write_text("kept")
    link.symlink_to(target)
    done = npudoctor("env", "--write", str(link))
    assert (done.status, done.out, done.err) == (64, "", f"npudoctor: --write: {link} is a symbolic link\n")
    assert npudoctor("env", "--write", str(npudoctor.home)).status == 64
    assert npudoctor("env", "--write", "/dev/null").status == 0
    assert target.read_text() == "kept" and stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.needs_root
def test_the_file_of_another_user_is_not_replaced(npudoctor: Npudoctor, cann: Path) -> None:
    path = npudoctor.folder / "theirs"
    path.write_text("kept")
    os.chown(path, 65534, 65534)
    done = npudoctor("env", "--write", str(path))
    assert done.err == f"npudoctor: --write: {path} belongs to another user\n"
    assert path.read_text() == "kept"


def test_a_file_stays_as_it_was_when_it_cannot(npudoctor: Npudoctor) -> None:
    path = npudoctor.folder / "job.env"
    path.write_text("export OLD=1\n")
    done = npudoctor("env", "--write", str(path), NPUDOCTOR_EXPECT="npu")
    assert (done.status, done.out, path.read_text()) == (1, "", "export OLD=1\n")


def test_for_slurm_and_for_docker(npudoctor: Npudoctor, cann: Path) -> None:
    slurm = npudoctor("env", "--format", "slurm", DUMP_GE_GRAPH="2").out.splitlines()
    assert f"export ASCEND_HOME_PATH={cann}" in slurm and "unset DUMP_GE_GRAPH" in slurm
    docker = npudoctor("env", "--format", "docker", DUMP_GE_GRAPH="2")
    assert f"ASCEND_HOME_PATH={cann}" in docker.out.splitlines()
    assert "DUMP_GE_GRAPH" not in docker.out
    assert "DUMP_GE_GRAPH should be unset, which docker's --env-file cannot express" in docker.err


@pytest.mark.parametrize(
    ("program", "begins"),
    [("sh", "export "), ("fish", "set -gx "), ("tcsh", "setenv ")],
)
def test_the_shell_that_calls_is_recognised(
    npudoctor: Npudoctor, cann: Path, program: str, begins: str, need: Callable[..., None]
) -> None:
    need(program)
    command = " ".join(npudoctor.argv("env"))
    done = subprocess.run(
        [program, "-c", f"{command}; true"], env={**npudoctor.environment({}), "SHELL": "/bin/other"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.startswith(begins)


@pytest.mark.parametrize("outer", ["fish", "tcsh"])
def test_a_script_is_answered_in_the_syntax_of_its_interpreter(
    npudoctor: Npudoctor, cann: Path, outer: str, need: Callable[..., None]
) -> None:
    """The process of a script that is executed has the script's name, not bash's."""
    need(outer)
    script = npudoctor.folder / "train.sh"
    command = " ".join(npudoctor.argv("env"))
    script.write_text(f'#!/bin/bash\neval "$({command})" || exit 9\necho "$ASCEND_OPP_PATH"\n')
    script.chmod(0o755)
    done = subprocess.run(
        [outer, "-c", f"{script}; true"], env=npudoctor.environment({}), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.stdout == f"{cann}/opp\n", done.stderr


def test_a_terminal_gets_a_hint(npudoctor: Npudoctor, cann: Path) -> None:
    _script(npudoctor).unlink()
    main, other = pty.openpty()
    with npudoctor.start("env", "--shell", "fish", stdout=other) as run:
        assert run.stderr is not None
        said = run.stderr.read().decode()
    os.close(other)
    os.close(main)
    assert said == "npudoctor: nothing is set yet; run: npudoctor env | source\n"


def test_a_run_that_is_ended_does_not_look_like_success(npudoctor: Npudoctor, cann: Path) -> None:
    """Half an answer, or none, must not let a script go on."""
    started = npudoctor.folder / "started"
    _script(npudoctor).write_text(f"touch '{started}'; sleep 30\n")
    run = npudoctor.start("env")
    while not started.exists():
        assert run.poll() is None
        time.sleep(0.02)
    run.send_signal(signal.SIGTERM)
    out, _err = run.communicate()
    assert (run.returncode, out) == (143, b"false\n")


@pytest.mark.parametrize(
    ("module", "status"),
    [
        ("raise ImportError('no typer')", 70),
        ("import os, time; os.kill(os.getpid(), 15); time.sleep(9)", 143),
    ],
    ids=["broken install", "ended early"],
)
def test_neither_does_one_that_ends_before_it_begins(
    npudoctor: Npudoctor, cann: Path, module: str, status: int
) -> None:
    """`timeout 0.1 npudoctor env` in a script that goes on after an empty answer."""
    (npudoctor.folder / "typer.py").write_text(f"{module}\n")
    way = {"PYTHONPATH": str(npudoctor.folder)}
    for words, out in ((["env"], "false\n"), (["env", "--format", "docker"], ""), (["list"], "")):
        done = npudoctor(*words, "--help", **way)  # typer is loaded for help, and for no plain line
        assert (done.status, done.out) == (status, out), words


def test_a_script_of_the_home_is_run(npudoctor: Npudoctor, cann: Path) -> None:
    """What the user installed, only the user could have written."""
    script = _script(npudoctor)
    script.write_text(f"export ASCEND_HOME_PATH={cann} ASCEND_OPP_PATH={cann}/opp OWN=1\n")
    script.chmod(0o644)
    assert "export OWN='1';" in npudoctor("env", "--shell", "bash").out
    script.chmod(0o666)
    done = npudoctor("env", "--shell", "bash")
    assert "OWN" not in done.out and "was not run because other users can write to it" in done.err
