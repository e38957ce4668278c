"""The lines are what real shells make of them: every value arrives as it is, and nothing in it is run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Callable, Optional

import pytest

from npudoctor.render.environment import (
    FALSE,
    SHELLS,
    InexpressibleValue,
    find_cut_by_old_slurm,
    find_not_unsettable,
    render_changes,
)

BREAK = {"BREAK": "a\nb\n\nexport C=1\n"}
HOSTILE: dict[str, Optional[str]] = {
    "BLANKS": " a  b\tc ",
    "QUOTE": "it's",
    "QUOTES": "'''",
    "DOUBLE": 'say "x"',
    "RUNS": "$HOME `touch RUN` $(touch RUN) ${x:-y} (touch RUN)",
    "BACKSLASH": "\\ \\n \\\\ \\",
    "HISTORY": "! !! !a !$ ^x^y",
    "EQUALS": "=ls",
    "CHINESE": "中文：路径",
    "BYTES": "\udcff\udcfe/x",
    "TILDE": "~/x:~root",
    "GLOB": "*?[a]{b,c}@(d)",
    "SYNTAX": "a;b&c|d<e>f#g # h",
    "EMPTY": "",
    "DASH": "-n",
    "CONTROL": "\x01\x1b[31m\x7f\r",
    "LONG": "/folder" * 9000,
    "PERCENT": "%d %s %%",
    "PATH": f"{os.environ['PATH']}:/x y/$z!",
    "GONE": None,
}
# How each shell is handed the lines: as the page says, unquoted, by its own file, with options on.
WAYS = {
    "bash": [
        ("bash", 'eval "$(cat "$F")" && exec env -0'),
        ("bash", 'set -H -o nounset; eval "$(cat "$F")" && exec env -0'),
        ("bash", '. "$F" && exec env -0'),
        ("sh", '. "$F" && exec env -0'),
        ("bash", '. "$F"; . "$F" && exec env -0'),
    ],
    "zsh": [
        ("zsh", 'eval "$(cat "$F")" && exec env -0'),
        ("zsh", 'setopt rcquotes extendedglob shwordsplit banghist; eval "$(cat "$F")" && exec env -0'),
        ("zsh", '. "$F" && exec env -0'),
    ],
    "fish": [
        ("fish", "cat $F | source; and exec env -0"),
        ("fish", "eval (cat $F); and exec env -0"),
        ("fish", "source $F; and source $F; and exec env -0"),
    ],
    "csh": [
        ("tcsh", 'eval "`cat $F`" && exec env -0'),
        ("tcsh", "source $F && exec env -0"),
        ("tcsh", 'set backslash_quote; eval "`cat $F`" && exec env -0'),
    ],
}
CASES = [(syntax, *way) for syntax, ways in WAYS.items() for way in ways]


def _left(program: str, line: str, folder: Path, locale: str) -> dict[bytes, bytes]:
    """The variables in a shell that evaluated the block of $F."""
    variables = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": locale, "TERM": "dumb"}
    variables.update(F=str(folder / "block"), GONE="still here")
    done = subprocess.run(
        [program, "-c", line], env=variables, cwd=folder, stdin=subprocess.DEVNULL,
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    pairs = (entry.partition(b"=") for entry in done.stdout.split(b"\0"))
    return {name: value for name, _equals, value in pairs}


def _bytes(values: Mapping[str, Optional[str]]) -> dict[bytes, Optional[bytes]]:
    return {
        name.encode(): None if value is None else value.encode("utf-8", "surrogateescape")
        for name, value in values.items()
    }


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@pytest.mark.parametrize(("syntax", "program", "line"), CASES)
def test_every_value_arrives(
    syntax: str, program: str, line: str, locale: str, tmp_path: Path, need: Callable[..., None]
) -> None:
    need(program)
    values = HOSTILE if syntax == "csh" else {**HOSTILE, **BREAK}
    (tmp_path / "block").write_bytes(render_changes(values, syntax).encode("utf-8", "surrogateescape"))
    left = _left(program, line, tmp_path, locale)
    assert {name: left.get(name) for name in _bytes(values)} == _bytes(values)
    assert not (tmp_path / "RUN").exists()


def test_an_interactive_shell_with_history_takes_them_too(tmp_path: Path, need: Callable[..., None]) -> None:
    """What is typed has its `!` expanded; what is evaluated must not."""
    need("tcsh", "bash")
    values = {"HISTORY": HOSTILE["HISTORY"], "SYNTAX": HOSTILE["SYNTAX"]}
    for syntax, words in (("csh", ["tcsh", "-f", "-i"]), ("bash", ["bash", "--norc", "-i"])):
        (tmp_path / "block").write_text(render_changes(values, syntax))
        typed = (
            'eval "`cat block`"\nenv -0 > out\n' if syntax == "csh" else 'eval "$(cat block)"\nenv -0 > out\n'
        )
        variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "dumb"}
        subprocess.run(
            words, input=typed.encode(), env=variables, cwd=tmp_path, capture_output=True, timeout=60,
            start_new_session=True, check=False,
        )  # fmt: skip
        out = (tmp_path / "out").read_bytes().split(b"\0")
        assert all(f"{name}={value}".encode() in out for name, value in values.items()), syntax


@pytest.mark.parametrize("program", ["bash", "sh", "zsh", "fish", "tcsh"])
def test_what_is_printed_when_it_cannot_stops_every_shell(
    program: str, tmp_path: Path, need: Callable[..., None]
) -> None:
    need(program)
    (tmp_path / "block").write_text(FALSE)
    line = {"fish": "eval (cat block); or exit 7", "tcsh": 'eval "`cat block`" || exit 7'}.get(
        program, 'eval "$(cat block)" || exit 7'
    )
    (tmp_path / "script").write_text(f"{line}\necho on\n")
    done = subprocess.run([program, "script"], cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (7, b"")


@pytest.mark.parametrize("form", [*SHELLS, "slurm", "docker"])
def test_nothing_to_change_is_nothing_at_all(form: str) -> None:
    assert render_changes({}, form) == ""


def test_lines_for_slurm_are_not_quoted() -> None:
    assert render_changes({"A": "it's $x ", "B": None}, "slurm") == "export A=it's $x \nunset B\n"
    with pytest.raises(InexpressibleValue, match="BREAK contains a line break"):
        render_changes(BREAK, "slurm")


def test_what_slurm_would_drop_is_refused_and_what_an_old_one_would_cut_is_said() -> None:
    """setenvf() of Slurm takes less than 128 KiB; before 22.05 it read lines with fgets() into 4 KiB."""
    fits = {"A": "x" * (131072 - 4)}
    assert render_changes(fits, "slurm") == f"export A={fits['A']}\n"
    with pytest.raises(InexpressibleValue, match="A is longer than Slurm allows"):
        render_changes({"A": "x" * (131072 - 3)}, "slurm")
    line = {"A": "x" * (4093 - len("export A="))}
    assert find_cut_by_old_slurm(line, "slurm") == []
    assert find_cut_by_old_slurm({"A": f"{line['A']}x", "B": None}, "slurm") == ["A"]
    assert find_cut_by_old_slurm({"A": f"{line['A']}x"}, "bash") == []


def test_lines_for_docker_are_not_quoted_and_cannot_unset() -> None:
    assert render_changes({"A": "it's $x #y", "B": None}, "docker") == "A=it's $x #y\n"
    assert find_not_unsettable({"A": "", "B": None}, "docker") == ["B"]
    assert find_not_unsettable({"A": "", "B": None}, "slurm") == []


@pytest.mark.parametrize("value", ["a\nb", "a\r", "\udcff", "x" * (1 << 16)])
def test_what_docker_would_spoil_is_refused(value: str) -> None:
    with pytest.raises(InexpressibleValue):
        render_changes({"A": value}, "docker")


def test_a_line_break_for_csh_is_refused() -> None:
    with pytest.raises(InexpressibleValue, match="csh"):
        render_changes(BREAK, "csh")


def test_fish_gets_its_lists_as_lists() -> None:
    assert render_changes({"PATH": "/a:/b", "LD_LIBRARY_PATH": "/a:/b"}, "fish") == (
        "set -gx PATH '/a' '/b';\nset -gx LD_LIBRARY_PATH '/a:/b';\n"
    )
