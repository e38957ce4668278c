"""run: the job's own status, and what is said when there is none."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Optional

import pytest

from .command import Npudoctor
from .running import job, quiet_machine

BAD = 'yield Finding("sick.bad", "the job would fail", evidence=("seen",))'


@pytest.fixture
def run(npudoctor: Npudoctor) -> Npudoctor:
    """The command on a machine that is ready."""
    return quiet_machine(npudoctor)


def test_a_training_runs_and_nothing_else_is_said(run: Npudoctor) -> None:
    done = run("run", "--", *job(run, "200"))
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("loss 0.000")


@pytest.mark.parametrize("status", [0, 3, 64, 125, 255])
def test_the_status_is_the_jobs(run: Npudoctor, status: int) -> None:
    done = run("run", "sh", "-c", f"exit {status}")
    assert (done.status, done.out, done.err) == (status, "", "")


@pytest.mark.parametrize("number", [1, 2, 6, 9, 11, 15, 34, 64])
def test_a_signal_that_ends_the_job_is_128_and_its_number(run: Npudoctor, number: int) -> None:
    done = run("run", "bash", "-c", f"kill -{number} $$")
    assert (done.status, done.err) == (128 + number, "")
    assert not list(run.folder.glob("core*"))


def test_what_follows_the_first_word_is_the_jobs(run: Npudoctor) -> None:
    for words in (["echo", "--help", "--", "--lang", "zh", "-v"], ["--", "echo", "--force"]):
        told = words[1:] if words[0] != "--" else words[2:]
        assert run("run", *words).out == " ".join(told) + "\n"


def test_a_language_among_the_jobs_words_is_the_jobs(run: Npudoctor) -> None:
    run.drop_in("stuck", 'raise Unknown("dark")\nyield', scope="JOB")
    assert "no result from stuck" in run("run", "echo", "--lang", "zh").err
    assert "stuck 没有给出结果" in run("run", "--lang", "zh", "echo").err


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["nosuch"], 127, "nosuch: no such command in PATH"),
        (["./nosuch"], 127, "./nosuch: No such file or directory"),
        ([""], 127, "the command is empty"),
        (["/tmp"], 126, "/tmp is a directory"),
        (["./plain"], 126, "./plain: Permission denied"),
        (["plain"], 126, "plain: Permission denied"),
        (["./orphan"], 126, "./orphan: its interpreter /nosuch/sh does not exist"),
        (["./garbage"], 126, "./garbage: Exec format error"),
    ],
)
def test_what_cannot_be_started(run: Npudoctor, words: list[str], status: int, says: str) -> None:
    (run.folder / "plain").write_text("#!/bin/sh\n")
    for name, content in (("orphan", b"#!/nosuch/sh\n"), ("garbage", b"\x7fELF\0\0\0\0\0\0")):
        (run.folder / name).write_bytes(content)
        (run.folder / name).chmod(0o755)
    run.variables["PATH"] += f":{run.folder}"
    done = run("run", *words)
    assert done.status == status
    assert done.out == "" and says in done.err and done.err.count("\n") == 1


def test_a_script_without_a_shebang_is_one_of_the_shell(run: Npudoctor) -> None:
    (run.folder / "script").write_text('echo "$0 $1"; exit 5\n')
    (run.folder / "script").chmod(0o755)
    done = run("run", "./script", "one")
    assert (done.status, done.out) == (5, "./script one\n")


@pytest.mark.parametrize(
    "words", [[], ["--"], ["--bogus", "true"], ["--scope", "moon", "true"], ["--ignore", "nosuch", "true"],
              ["-v", "-q", "true"], ["--python", "/nosuch", "true"], ["--root", "/", "true"]],
)  # fmt: skip
def test_usage_errors_are_64_and_start_nothing(run: Npudoctor, words: list[str]) -> None:
    done = run("run", *words, "--force") if not words else run("run", *words)
    assert (done.status, done.out) == (64, "") and done.err.count("\n") == 1


def test_not_ready_says_why_and_starts_nothing(run: Npudoctor) -> None:
    run.drop_in("sick", BAD, scope="JOB")
    done = run("run", "touch", "started")
    assert done.status == 125 and done.out == ""
    assert "error sick.bad: the job would fail\n    - seen\n" in done.err
    assert done.err.endswith("(sick.bad); the job was not started (--force starts it anyway)\n")
    assert not (run.folder / "started").exists()
    assert run("run", "-q", "touch", "started").err.count("\n") == 1
    assert run("run", "--ignore", "sick", "true").status == 0


def test_force_starts_it_and_says_so(run: Npudoctor) -> None:
    run.drop_in("sick", BAD, scope="JOB")
    done = run("run", "--force", "sh", "-c", "exit 7")
    assert done.status == 7
    assert "error sick.bad" in done.err and done.err.endswith("(sick.bad); started anyway\n")


def test_undetermined_is_one_line_and_the_job_starts(run: Npudoctor) -> None:
    run.drop_in("dark", 'raise Unknown("nobody can look")\nyield', scope="JOB")
    done = run("run", "echo", "on")
    assert (done.status, done.out) == (0, "on\n")
    assert done.err == "npudoctor: undetermined: no result from dark; the job is started\n"


def test_it_asks_what_check_asks_of_the_job_unless_told(run: Npudoctor) -> None:
    run.drop_in("sick", BAD)  # of the scope node
    assert run("run", "true").status == 0
    assert run("run", "--scope", "all", "true").status == 125
    told = run("run", "-vv", "true").err
    assert "not in the scope job" in told and "not in the profile quick" not in told and "READY" in told


def test_the_interpreter_is_the_commands(run: Npudoctor, trusted: Path) -> None:
    script = run.folder / "launcher"
    python = os.path.realpath(sys.executable)  # the kernel takes no path with a blank behind "#!"
    script.write_text(f"#!{python}\nprint('hello')\n")
    script.chmod(0o755)
    for words in ([python, "-V"], ["./launcher"], ["env", "true"]):
        told = run("run", "-v", *words, PATH="/usr/bin:/bin").err
        assert (f"Python: {python} " in told) == (words[0] != "env")


def test_the_variables_of_a_script_are_the_jobs(run: Npudoctor) -> None:
    (run.folder / "set_env.sh").write_text("export SITE_FLAG='a b'\nunset GONE\n")
    run.variables["GONE"] = "1"
    done = run("run", "--source", "set_env.sh", "sh", "-c", 'echo "$SITE_FLAG|${GONE-unset}"')
    assert done.out == "a b|unset\n"


def test_the_variables_are_as_the_caller_had_them(run: Npudoctor) -> None:
    """Also LC_CTYPE, which Python changes in the C locale before our first line."""
    look = "import sys; sys.stdout.write(open('/proc/self/environ', 'rb').read().hex())"
    tries: tuple[dict[str, Optional[str]], ...] = (
        {}, {"LC_ALL": "C"}, {"LC_CTYPE": "C"}, {"LANG": "C.UTF-8"}, {"ODD": os.fsdecode(b"\xff=\n\xe4")},
    )  # fmt: skip
    for more in tries:
        given = bytes.fromhex(run("run", sys.executable, "-c", look, **more).out)
        wanted = [os.fsencode(f"{name}={value}") for name, value in run.environment(more).items()]
        assert sorted(given.rstrip(b"\0").split(b"\0")) == sorted(wanted)


def test_a_failure_of_ours_is_125_without_a_traceback(run: Npudoctor) -> None:
    broken = (
        "import npudoctor.runner.runner\ndef run(*a): raise KeyError('x')\n"
        "npudoctor.runner.runner.run = run\n"
    )
    start = "import sys\nfrom npudoctor.cli.main import run\nsys.exit(run(sys.argv[1:]))"
    died = "import os, npudoctor.runner.runner\nnpudoctor.runner.runner.run = lambda *a: os._exit(0)\n"
    for spoilt, says in ((broken, "this is a bug in npudoctor: KeyError: 'x'"), (died, "without a result")):
        for force, status in (([], 125), (["--force"], 4)):
            line = [sys.executable, "-c", spoilt + start, "run", *force, "sh", "-c", "exit 4"]
            run.argv = lambda *a, line=line: line  # type: ignore[method-assign]
            done = run()
            assert done.status == status and says in done.err and "Traceback" not in done.err
