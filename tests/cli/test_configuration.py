"""The layers of the configuration, as a run sees them; the rules of each key: cli/settings/test_config.py."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import pytest

from .command import Npudoctor

BAD = 'yield Finding("sick.bad", "it is bad")'


@pytest.fixture
def user_file(npudoctor: Npudoctor) -> Path:
    """The user's own configuration file."""
    path = npudoctor.home / ".config/npudoctor/config.toml"
    path.parent.mkdir(parents=True)
    return path


def test_each_layer_wins_over_the_one_before(npudoctor: Npudoctor, user_file: Path, tmp_path: Path) -> None:
    line = ("check", "accelerator", "--format", "json")
    assert npudoctor(*line).json["scope"] == "all"
    user_file.write_text('scope = "node"\n')
    named = tmp_path / "named.toml"
    named.write_text('scope = "job"')
    tried: list[tuple[tuple[str, ...], dict[str, Optional[str]], str]] = [
        ((), {}, "node"),
        (("--config", "named.toml"), {}, "job"),
        ((), {"NPUDOCTOR_CONFIG": str(named)}, "job"),
        (("--config", "named.toml"), {"NPUDOCTOR_SCOPE": "all"}, "all"),
        (("--config", "named.toml", "--scope", "node"), {"NPUDOCTOR_SCOPE": "all"}, "node"),
        ((), {"NPUDOCTOR_SCOPE": ""}, "node"),
    ]
    ended = npudoctor.each(
        [(*line, *words) for words, _more, _scope in tried], [more for _words, more, _scope in tried]
    )
    assert [done.json["scope"] for done in ended] == [scope for _words, _more, scope in tried]


def test_what_is_ignored_adds_up(npudoctor: Npudoctor, user_file: Path) -> None:
    npudoctor.drop_in("sick", BAD + '\nyield Finding("sick.odd", "odd")')
    user_file.write_text('ignore = ["sick.bad=from the file"]')
    done = npudoctor("check", "sick", "--format", "json", "--ignore", "sick.odd")
    reasons = [finding["ignored"]["reason"] for finding in done.row("sick")["findings"]]
    assert (done.status, reasons) == (0, ["from the file", None])
    done = npudoctor(
        "check", "sick", "--format", "json", NPUDOCTOR_IGNORE="sick.bad=from the variable, sick.odd"
    )
    assert done.row("sick")["findings"][0]["ignored"] == {"reason": "from the variable"}


def test_xdg_config_home_replaces_dot_config(npudoctor: Npudoctor, user_file: Path, tmp_path: Path) -> None:
    user_file.write_text("scope = 5")
    other = tmp_path / "xdg/npudoctor/config.toml"
    other.parent.mkdir(parents=True)
    other.write_text('format = "json"')
    arguments = ("check", "accelerator", "--expect", "none")
    assert npudoctor(*arguments, XDG_CONFIG_HOME=str(tmp_path / "xdg")).json["verdict"] == "ready"
    assert npudoctor(*arguments, XDG_CONFIG_HOME="relative").status == 64


WRONG = [
    (b"scop = 1", "{file}: unknown key scop; did you mean scope?"),
    (b'scope = "nodes"', "{file}: scope: 'nodes' is not one of all, node, job"),
    (b"deadline = -1", "{file}: deadline: -1 is not a number of seconds"),
    (b'deadline = "5"', "{file}: deadline: '5' is not a number of seconds"),
    (b'python = "bin/python3"', "{file}: python: 'bin/python3' is not an absolute path"),
    (b'ignore = ["sick.bda"]', "{file}: ignore: no such check or code: sick.bda; did you mean sick.bad?"),
    (b'ignore = "sick"', "{file}: ignore: 'sick' is not a list"),
    (b"scope = ", "{file} is not valid TOML: "),
    (b'scope = "\xff"', "{file} is not UTF-8"),
    (b'[check]\nscope = "all"', "{file}: unknown key check"),
]


def test_a_wrong_file_is_64_and_named(npudoctor: Npudoctor, user_file: Path) -> None:
    npudoctor.drop_in("sick", BAD)
    files = [user_file.parent / f"{number}" / "npudoctor/config.toml" for number in range(len(WRONG))]
    for file, (text, _complaint) in zip(files, WRONG):
        file.parent.mkdir(parents=True)
        file.write_bytes(text)
    homes: list[dict[str, Optional[str]]] = [{"XDG_CONFIG_HOME": str(file.parents[1])} for file in files]
    ended = npudoctor.each([("check", "sick")] * len(files), homes)
    for done, file, (_text, complaint) in zip(ended, files, WRONG):
        assert (done.status, done.out, done.err.count("\n")) == (64, "", 1), done
        assert done.err.startswith("npudoctor: " + complaint.format(file=file)), done.err


def test_a_named_file_is_named_with_who_named_it(npudoctor: Npudoctor, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("timeout = true")
    done = npudoctor("check", "--config", "c.toml")
    assert done.err.startswith(f"npudoctor: --config: {tmp_path}/c.toml: timeout: True is not a number")
    done = npudoctor("check", NPUDOCTOR_CONFIG="/no/c.toml")
    assert (done.status, done.err) == (64, "npudoctor: NPUDOCTOR_CONFIG: /no/c.toml does not exist\n")


def test_a_wrong_variable_is_64_and_named(npudoctor: Npudoctor) -> None:
    names = ["SCOPE", "EXPECT", "PROFILE", "FAIL_ON", "DEADLINE", "TIMEOUT", "FORMAT", "LANG"]
    ended = npudoctor.each([("check",)] * len(names), [{f"NPUDOCTOR_{name}": "wrong"} for name in names])
    for name, done in zip(names, ended):
        assert (done.status, done.out, done.err.count("\n")) == (64, "", 1)
        assert done.err.startswith(f"npudoctor: NPUDOCTOR_{name}: 'wrong' is no")
    assert npudoctor("check", NPUDOCTOR_SCOPE="wrong") == ended[0]


def test_an_unknown_variable_is_a_warning(npudoctor: Npudoctor) -> None:
    done = npudoctor("check", "accelerator", "--expect", "none", NPUDOCTOR_SCOP="node")
    assert done.status == 0 and done.out
    assert done.err == (
        "npudoctor: warning: unknown variable NPUDOCTOR_SCOP; did you mean NPUDOCTOR_SCOPE?\n"
    )


def test_the_python_of_a_variable_must_exist_too(npudoctor: Npudoctor) -> None:
    done = npudoctor("check", NPUDOCTOR_PYTHON="/no/python")
    assert (done.status, done.err) == (64, "npudoctor: NPUDOCTOR_PYTHON: /no/python does not exist\n")


def test_a_file_that_is_too_large_is_64_and_named(npudoctor: Npudoctor, user_file: Path) -> None:
    user_file.write_bytes(b"#" * ((1 << 20) + 1))
    done = npudoctor("check")
    assert (done.status, done.err) == (64, f"npudoctor: {user_file} is larger than {1 << 20} bytes\n")


DESCRIBING = [("list",), ("show", "cache-server"), ("schema",)]


@pytest.mark.parametrize("arguments", DESCRIBING)
def test_commands_that_describe_have_the_same_settings(
    npudoctor: Npudoctor, user_file: Path, arguments: tuple[str, ...]
) -> None:
    names = ("LANG", "FORMAT", "SCOPE")
    variables: list[dict[str, Optional[str]]] = [{f"NPUDOCTOR_{name}": "wrong"} for name in names]
    warned, *ended = npudoctor.each([arguments] * 4, [{"NPUDOCTOR_SCOP": "node"}, *variables])
    assert warned.status == 0 and warned.out
    assert warned.err.startswith("npudoctor: warning: unknown variable NPUDOCTOR_SCOP; did you mean")
    for name, done in zip(names, ended):
        assert (done.status, done.out) == (64, "")
        assert done.err.startswith(f"npudoctor: NPUDOCTOR_{name}: 'wrong' is no")
    user_file.write_text("scope = 5")
    done = npudoctor(*arguments)
    assert (done.status, done.out) == (64, "") and done.err.startswith(f"npudoctor: {user_file}: scope:")


def test_commands_that_describe_speak_as_configured(npudoctor: Npudoctor, user_file: Path) -> None:
    user_file.write_text('lang = "zh"\nformat = "json"')
    lines = [("list", "--format", "text"), ("show", "cache-server"), ("show", "cache-server", "--lang", "en")]
    listed, text, shown, english = npudoctor.each([("list",), *lines])
    assert listed.json["schema"] == "npudoctor.list/1" and not listed.out.count("检查")
    assert "缓存" in text.out and "缓存" in shown.out and "缓存" not in english.out
    assert "缓存" in npudoctor("show", "cache-server").out


def test_a_schema_takes_a_language_and_has_none(npudoctor: Npudoctor) -> None:
    assert npudoctor("schema", "--lang", "zh").json == npudoctor("schema").json
