"""run: the job's own status, and what is said when there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Optional

import pytest

from .command import Done, Npudoctor
from .running import job, quiet_machine

# What `run` does once its check is made, for many jobs one after another: writes how each ended, and what was
# said.
JOBS = """
import json, os, sys, tempfile
from npudoctor.cli import run
from npudoctor.cli.caller import Caller
from npudoctor.launch.inherited import InheritedState
from npudoctor.launch.preflight import Preflight

ended, before, said = [], InheritedState.capture(), os.dup(2)
for words in json.loads(sys.argv[2]):
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        status = run._run_job(Preflight("ready", ""), Caller(dict(os.environ), None), words, before)
        file.seek(0)
        ended.append((status, file.read().decode()))
with open(sys.argv[1], "w") as file:
    json.dump(ended, file)
"""
STATUSES = {f"exit {status}": status for status in (0, 3, 64, 125, 255)}
SIGNALS = {f"kill -{number} $$": 128 + number for number in (1, 2, 6, 9, 11, 15, 34, 64)}
NO_START = {
    "nosuch": (127, "nosuch: no such command in PATH"),
    "./nosuch": (127, "./nosuch: No such file or directory"),
    "": (127, "the command is empty"),
    "/tmp": (126, "/tmp is a directory"),
    "./plain": (126, "./plain: Permission denied"),
    "plain": (126, "plain: Permission denied"),
    "./orphan": (126, "./orphan: its interpreter /nosuch/sh does not exist"),
    "./garbage": (126, "./garbage: Exec format error"),
}
REFUSED = (
    ("--force",), ("--",), ("--bogus", "true"), ("--scope", "moon", "true"),
    ("--ignore", "nosuch", "true"), ("-v", "-q", "true"), ("--python", "/nosuch", "true"),
    ("--root", "/", "true"),
)  # fmt: skip
BAD = 'yield Finding("sick.bad", "the job would fail", evidence=("seen",))'


@pytest.fixture
def run(npudoctor: Npudoctor) -> Npudoctor:
    """The command on a machine that is ready."""
    return quiet_machine(npudoctor)


def test_a_training_runs_and_nothing_else_is_said(run: Npudoctor) -> None:
    done = run("run", "--", *job(run, "200"))
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("loss 0.000")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """How each job ended, and what was said; no core is left of any."""
    run = quiet_machine(Npudoctor(tmp_path_factory.mktemp("jobs")))
    odd_programs(run)
    lines = {
        **{line: ["bash", "-c", line] for line in (*STATUSES, *SIGNALS)},
        **{one: [one] for one in NO_START},
    }
    argv = [sys.executable, "-c", JOBS, "ended.json", json.dumps(list(lines.values()))]
    subprocess.run(argv, cwd=run.folder, env=run.environment({}), timeout=60, check=True)
    assert not list(run.folder.glob("core*"))
    return dict(zip(lines, map(tuple, json.loads((run.folder / "ended.json").read_text()))))


def odd_programs(run: Npudoctor) -> None:
    """Files that are none, in a folder of PATH."""
    (run.folder / "plain").write_text("#!/bin/sh\n")
    for name, content in (("orphan", b"#!/nosuch/sh\n"), ("garbage", b"\x7fELF\0\0\0\0\0\0")):
        (run.folder / name).write_bytes(content)
        (run.folder / name).chmod(0o755)
    run.variables["PATH"] += f":{run.folder}"


@pytest.mark.parametrize("line", STATUSES)
def test_the_status_is_the_jobs(ended: dict[str, tuple[int, str]], line: str) -> None:
    assert ended[line] == (STATUSES[line], "")


@pytest.mark.parametrize("line", SIGNALS)
def test_a_signal_that_ends_the_job_is_128_and_its_number(
    ended: dict[str, tuple[int, str]], line: str
) -> None:
    assert ended[line] == (SIGNALS[line], "")


@pytest.mark.parametrize("line", ["exit 255", "kill -9 $$", "kill -64 $$"])
def test_the_status_of_run_is_that_status(
    run: Npudoctor, ended: dict[str, tuple[int, str]], line: str
) -> None:
    done = run("run", "bash", "-c", line)
    assert (done.status, done.err) == ended[line] and done.out == ""


def test_what_follows_the_first_word_is_the_jobs(run: Npudoctor) -> None:
    for words in (["echo", "--help", "--", "--lang", "zh", "-v"], ["--", "echo", "--force"]):
        told = words[1:] if words[0] != "--" else words[2:]
        assert run("run", *words).out == " ".join(told) + "\n"


def test_a_language_among_the_jobs_words_is_the_jobs(run: Npudoctor) -> None:
    run.drop_in("stuck", 'raise Unknown("dark")\nyield', scope="JOB")
    assert "no result from stuck" in run("run", "echo", "--lang", "zh").err
    assert "stuck 没有给出结果" in run("run", "--lang", "zh", "echo").err


@pytest.mark.parametrize("word", NO_START)
def test_what_cannot_be_started(ended: dict[str, tuple[int, str]], word: str) -> None:
    status, says = NO_START[word]
    assert ended[word][0] == status
    assert says in ended[word][1] and ended[word][1].count("\n") == 1


@pytest.mark.parametrize("word", ["nosuch", "./orphan"])
def test_run_says_what_cannot_be_started(
    run: Npudoctor, ended: dict[str, tuple[int, str]], word: str
) -> None:
    odd_programs(run)
    done = run("run", word)
    assert (done.status, done.err) == ended[word] and done.out == ""


def test_a_script_without_a_shebang_is_one_of_the_shell(run: Npudoctor) -> None:
    (run.folder / "script").write_text('echo "$0 $1"; exit 5\n')
    (run.folder / "script").chmod(0o755)
    done = run("run", "./script", "one")
    assert (done.status, done.out) == (5, "./script one\n")


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> list[Done]:
    run = quiet_machine(Npudoctor(tmp_path_factory.mktemp("refused")))
    return run.each([("run", *words) for words in REFUSED])


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_usage_errors_are_64_and_start_nothing(refused: list[Done], number: int) -> None:
    done = refused[number]
    assert (done.status, done.out) == (64, "") and done.err.count("\n") == 1


@pytest.mark.parametrize("words", [REFUSED[2], REFUSED[-1]])
def test_a_start_of_its_own_is_refused_the_same(
    run: Npudoctor, refused: list[Done], words: tuple[str, ...]
) -> None:
    assert run("run", *words) == refused[REFUSED.index(words)]


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
    assert "error sick.bad" in done.err and done.err.endswith("(sick.bad); the job is started anyway\n")


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
    told = "import os; from npudoctor.launch.inherited import original_variables as original\n"
    told += "for one in original(os.environ).items(): print(os.fsencode('='.join(one)).hex())"
    odd = os.fsdecode(b"\xff=\n\xe4")
    tries: tuple[dict[str, Optional[str]], ...] = (
        {}, {"LC_ALL": "C"}, {"LC_CTYPE": "C"}, {"LANG": "C.UTF-8"}, {"ODD": odd},
    )  # fmt: skip
    for more in tries:
        wanted = sorted(os.fsencode(f"{name}={value}") for name, value in run.environment(more).items())
        done = subprocess.run(
            [sys.executable, "-c", told],
            env=run.environment(more),
            capture_output=True,
            text=True,
            check=True,
        )
        assert sorted(map(bytes.fromhex, done.stdout.split())) == wanted
    given = bytes.fromhex(run("run", sys.executable, "-c", look, ODD=odd).out)
    assert sorted(given.rstrip(b"\0").split(b"\0")) == wanted


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
            process = run.start()
            error = process.communicate(timeout=60)[1].decode()
            assert process.returncode == status and says in error and "Traceback" not in error
