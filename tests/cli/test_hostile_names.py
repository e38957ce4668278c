"""Names that an enemy chose reach neither the terminal nor the JSON raw."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from .command import Npudoctor

NASTY = "\x1b[2J\x07\r\nREADY\u202egnp\u2066\u200b\x9b5n"
SHOWN = "\\x1b[2J\\x07\\x0d\\x0aREADY\\u202egnp\\u2066\\u200b\\x9b5n"


@pytest.fixture
def sick(npudoctor: Npudoctor) -> Npudoctor:
    npudoctor.drop_in(
        "sick",
        f"""
        name = {NASTY!r} + b"\\xff\\xc3".decode("utf-8", "surrogateescape")
        yield Finding("sick.bad", "message " + name, evidence=("evidence " + name,), device="device " + name,
            fix=Fix("title " + name, (Command(("rm", "--", name)),), undo=("undo " + name,)))
        raise Unknown("reason " + name)
        """,
    )
    return npudoctor


@pytest.mark.parametrize("arguments", [(), ("-v",), ("-q",)])
def test_text_is_printable(sick: Npudoctor, arguments: tuple[str, ...]) -> None:
    done = sick("check", "sick", *arguments)
    assert done.status == 1
    assert all(line.isprintable() for line in done.out.split("\n"))
    if "-q" not in arguments:
        for word in ("message", "evidence", "reason", "title"):
            shown = re.sub("\n +", " ", done.out)
            if word != "evidence" or arguments:
                assert f"{word} {SHOWN}\\xff\\xc3" in shown, word
        assert "rm -- $'\\x1b[2J" in done.out


def test_json_is_valid_and_harmless_on_a_terminal(sick: Npudoctor) -> None:
    done = sick("check", "sick", "--format", "json")
    assert all(line.isprintable() for line in done.out.split("\n"))
    (finding,) = done.row("sick")["findings"]
    assert finding["message"] == f"message {NASTY}\\xff\\xc3"
    assert finding["device"] == f"device {NASTY}\\xff\\xc3"
    assert json.dumps(done.json).isascii()


def test_the_callers_own_paths_are_told_safely(npudoctor: Npudoctor, tmp_path: Path) -> None:
    bad = b"/no/\xff\x1b[31m\nx".decode("utf-8", "surrogateescape")
    for option in ("--python", "--root", "--config", "--output"):
        done = npudoctor("check", option, bad)
        assert done.status == 64 and done.err.count("\n") == 1 and done.err[:-1].isprintable(), done.err
        assert "/no/\\xff\\x1b[31m\\x0ax" in done.err
    (tmp_path / bad.replace("/", "_")).mkdir()
    done = npudoctor("check", "--root", bad.replace("/", "_"), "--format", "json")
    assert done.json["target"]["root"] == f"{tmp_path}/_no_\\xff\x1b[31m\nx"


def test_a_drop_in_with_such_a_name_is_a_row(npudoctor: Npudoctor) -> None:
    name = b"\xffod\x1bd".decode("utf-8", "surrogateescape")
    (npudoctor.drop_ins / f"{name}.py").write_text("x = 1")
    text, done = npudoctor("check", "drop-in"), npudoctor("check", "drop-in", "--format", "json")
    assert done.json["results"][0]["check"] == "\\xffod\x1bd"
    assert text.status == 2 and "\\xffod\\x1bd" in text.out
    assert npudoctor("list").status == npudoctor("list", "--format", "json").status == 0


def test_variables_that_are_no_utf8_are_no_obstacle(npudoctor: Npudoctor) -> None:
    variables = {os.fsencode(name): os.fsencode(value) for name, value in npudoctor.variables.items()}
    variables.update({b"ODD\xff": b"\xfe", b"LANG": b"\xff"})
    argv = npudoctor.argv("check", "--expect", "none", "-q")
    done = subprocess.run(argv, cwd=npudoctor.folder, env=variables, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b""), done
