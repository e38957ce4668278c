"""Completion, asked of the shells themselves; and that none of them starts npudoctor for it."""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable

import pytest
from tests.support.terminals import Terminal

from npudoctor.cli.companions.grammar import all_commands, command_tree, known_words
from npudoctor.cli.companions.share import completion

from .command import Npudoctor

SHELLS = ("bash", "zsh", "fish")
written = functools.cache(completion)
EXPECTED = {
    "npudoctor che": {"check"},
    "npudoctor check scip": {code for code in known_words().of("names") if code.startswith("scip")},
    "npudoctor check --scope ": {"all", "node", "job"},
    "npudoctor check --dea": {"--deadline"},
    "npudoctor check --ignore clock.": {"clock.unsynchronised", "clock.wrong"},
    "npudoctor check leftov": {"leftovers"},
    "npudoctor fix leftovers": set(),
    "npudoctor show clock.": {"clock.unsynchronised", "clock.wrong"},
    "npudoctor explain EI0006": {"EI0006"},
    "npudoctor schema fi": {"fix"},
    "npudoctor --lang zh sche": {"schema"},
    "npudoctor fleet rep": {"report"},
    "npudoctor fleet report --nodes un": {"undetermined"},
    "npudoctor run --scope jo": {"job"},
    "npudoctor run --scope job npudoctor-test-pro": {"npudoctor-test-program"},
    "npudoctor check --root folder": {"folder-here"},
}
BASH = """
source {file}
for line in "$@"; do
    COMP_WORDS=($line); [[ $line == *' ' ]] && COMP_WORDS+=('')
    COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) COMP_LINE=$line COMP_POINT=${{#line}}
    _npudoctor
    printf '%s\\n' "${{COMPREPLY[*]}}"
done
"""
FISH = """
source {file}
for line in $argv
    set -l found (complete -C $line | string replace -r '\\t.*' '')
    printf '%s\\n' "$found"
end
"""


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, lack: Callable[[str], None]) -> str:
    """A shell that is here."""
    if shutil.which(request.param) is None:
        lack(f"{request.param} is not installed")
    return str(request.param)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the files of all shells, a program, and another folder; no npudoctor to run."""
    for name in SHELLS:
        path = tmp_path / "completions" / ("_npudoctor" if name == "zsh" else f"npudoctor.{name}")
        path.parent.mkdir(exist_ok=True)
        path.write_text(written(name), encoding="utf-8")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "npudoctor-test-program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "folder-here").mkdir()
    return tmp_path


def environment(place: Path) -> dict[str, str]:
    return {"PATH": f"{place}/bin:/usr/bin:/bin", "HOME": str(place), "LANG": "C.UTF-8", "TERM": "dumb"}


def answers(shell: str, place: Path, script: str) -> dict[str, set[str]]:
    file = place / "completions" / f"npudoctor.{shell}"
    option = "--no-config" if shell == "fish" else "--norc"
    command = [shell, option, "-c", script.format(file=shlex.quote(str(file)))]
    words = [*EXPECTED] if shell == "fish" else ["bash", *EXPECTED]
    done = subprocess.run(
        [*command, *words], cwd=place, env=environment(place), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = [{word.rstrip("/") for word in line.split()} for line in done.stdout.splitlines()]
    return dict(zip(EXPECTED, found))


@pytest.mark.parametrize(("name", "script"), [("bash", BASH), ("fish", FISH)])
def test_each_place_has_its_words(name: str, script: str, place: Path, lack: Callable[[str], None]) -> None:
    if shutil.which(name) is None:
        lack(f"{name} is not installed")
    assert answers(name, place, script) == EXPECTED


def start(shell: str, place: Path) -> Terminal:
    """An interactive shell that has loaded the completion as an installed one is."""
    folder = shlex.quote(str(place / "completions"))
    first = {
        "bash": f'source {folder}/npudoctor.bash; npudoctor() {{ echo got "$*" end; }}',
        "zsh": f"fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D; "
        'npudoctor() { echo got "$*" end }',
        "fish": f'source {folder}/npudoctor.fish; function npudoctor; echo got "$argv" end; end',
    }[shell]
    options = {"bash": ["--norc", "-i"], "zsh": ["-f", "-i"], "fish": ["--no-config", "-i"]}[shell]
    terminal = Terminal([shell, *options], environment(place), 200, cwd=str(place))
    terminal.type(first + "; echo lo''aded\r")
    terminal.until("loaded\r\n")
    return terminal


def test_tab_completes_on_a_terminal(shell: str, place: Path) -> None:
    """What a person gets: the word is typed to its end. Here npudoctor is a function that says its words."""
    words = {
        "expl": "explain",
        "show scipy-version.uns": "show scipy-version.unsuitable",
        "check --profile dee": "check --profile deep",
        "fleet rep": "fleet report",
        "run npudoctor-test-pro": "run npudoctor-test-program",
    }
    with start(shell, place) as terminal:
        for typed, whole in words.items():
            terminal.type(f"npudoctor {typed}\t")
            time.sleep(0.5)  # what is typed before the answer is there is not completed
            terminal.type("\r")
            terminal.until(f"got {whole} end")
        assert re.findall(r'got ([^"\r\n]+) end', terminal.said) == [*words.values()]


def test_it_is_fast_and_starts_nothing(place: Path, lack: Callable[[str], None]) -> None:
    """No npudoctor is in PATH: what it answers is in the file."""
    if shutil.which("bash") is None:
        lack("bash is not installed")
    began = time.monotonic()
    answers("bash", place, BASH)
    assert time.monotonic() - began < 5


def test_every_command_option_and_value_is_there() -> None:
    for shell in SHELLS:
        text = written(shell)
        for command in all_commands(command_tree()):
            assert command.name in text
            for option in command.options:
                for name in option.names:
                    assert (name if shell != "fish" else name.lstrip("-")) in text, (shell, name)
                for choice in option.value.choices if option.value else ():
                    assert choice in text
        assert all(word in text for word in (*known_words().ids, *known_words().codes))


def test_on_request_it_is_the_same(npudoctor: Npudoctor) -> None:
    *printed, done = npudoctor.each([("completion", word) for word in (*SHELLS, "zhs")])
    assert [one.out for one in printed] == [written(shell) for shell in SHELLS]
    assert npudoctor("completion", SHELL="/usr/bin/zsh").out == written("zsh")
    assert (done.status, done.out) == (64, "") and done.err.endswith("; supported: bash, zsh, fish\n")
    assert npudoctor("completion").status == 64


def test_the_same_sources_make_the_same_file() -> None:
    code = "from npudoctor.cli.companions.share import completion; print(completion('zsh'), end='')"
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        )
        assert done.stdout.decode() == written("zsh")
