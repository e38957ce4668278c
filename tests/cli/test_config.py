"""What each key takes, wherever it was said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from npudoctor.cli.config import KEYS, LARGEST, OTHER_VARIABLES, Config, UsageError, load_config, suggestion
from npudoctor.testing import Content, fake_host, unreadable

SYSTEM = "/etc/npudoctor/config.toml"
USER = "/home/me/.config/npudoctor/config.toml"


def settings(files: dict[str, Content], variables: dict[str, str] | None = None, **flags: Any) -> Config:
    return load_config(flags, variables or {}, fake_host(files).files, "/home/me")


def test_without_anything_the_defaults_hold() -> None:
    config = settings({})
    told = [config[key] for key in ("expect", "scope", "profile", "fail_on", "deadline", "timeout", "python")]
    assert told == ["auto", "all", "full", "error", 30.0, 10.0, None]
    assert (config["lang"], config["format"], dict(config.ignore)) == (None, "text", {})


def test_the_users_file_wins_over_the_systems_key_by_key() -> None:
    config = settings({SYSTEM: 'scope = "node"\nexpect = "npu"\ndeadline = 5', USER: 'scope = "job"'})
    assert (config["scope"], config["expect"], config["deadline"]) == ("job", "npu", 5.0)
    assert config.origin == {
        "scope": f"{USER}: scope",
        "expect": f"{SYSTEM}: expect",
        "deadline": f"{SYSTEM}: deadline",
    }


@pytest.mark.parametrize("key", ["fail-on", "fail_on"])
def test_fail_on_may_be_written_either_way(key: str) -> None:
    assert settings({USER: f'{key} = "warning"'})["fail_on"] == "warning"


@pytest.mark.parametrize(
    "text",
    [
        'ignore = ["a=why not", "b", "c="]',
        '[ignore]\na = "why not"\nb = ""\nc = ""',
    ],
)
def test_ignore_is_a_list_or_a_table(text: str) -> None:
    assert settings({USER: text}).ignore == {"a": "why not", "b": None, "c": None}


def test_flags_and_variables_give_ignore_too() -> None:
    config = settings(
        {USER: 'ignore = ["a"]'}, {"NPUDOCTOR_IGNORE": "b=1=2, c,"}, ignore=["d=x, y", "a=late"]
    )
    assert config.ignore == {"a": "late", "b": "1=2", "c": None, "d": "x, y"}
    assert config.origin["ignore a"] == "--ignore" and config.origin["ignore b"] == "NPUDOCTOR_IGNORE"


@pytest.mark.parametrize("value", ["zh", "zh_CN.UTF-8", "ZH", "zh-Hans"])
def test_a_language_may_look_like_lang(value: str) -> None:
    assert settings({}, {"NPUDOCTOR_LANG": value})["lang"] == "zh"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("deadline", "86401"), ("deadline", ""), ("timeout", "ten"), ("timeout", "-0"), ("expect", "NPU"),
        ("python", "a\0b"), ("lang", "english"), ("format", "JSON"),
    ],
)  # fmt: skip
def test_wrong_values_name_their_flag(key: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"^--{key}: "):
        load_config({key: value}, {}, fake_host({}).files, "/home/me")


@pytest.mark.parametrize("text", ["deadline = inf", "deadline = nan", "deadline = true", "ignore = [1]"])
def test_toml_has_values_of_its_own(text: str) -> None:
    with pytest.raises(UsageError, match=USER):
        settings({USER: text})


def test_a_file_that_cannot_be_read_is_refused_and_a_home_that_cannot_be_searched_warns() -> None:
    with pytest.raises(UsageError, match=SYSTEM):
        settings({SYSTEM: b"\xff"})
    assert "/home/me" in settings({"/home/me": unreadable()}).warnings[0]


def test_only_our_variables_are_looked_at() -> None:
    variables = {"NPUDOCTOR_TYPO": "x", "NPUDOCTOR_CHECKS_DIR": "/x", "NPUDOCTOR_CONFIG": "", "SCOPE": "x"}
    (warning,) = settings({}, variables).warnings
    assert "NPUDOCTOR_TYPO" in warning


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("formt", {"format", "from"}, "format"),
        ("--formt", {"--format", "-f"}, "--format"),
        ("xyz", {"abc"}, ""),
        ("-x", {"-v", "-q"}, ""),
    ],
)
def test_a_suggestion_is_made_only_when_near(name: str, known: set[str], meant: str) -> None:
    assert suggestion(name, known) == (f"; did you mean {meant}?" if meant else "")


def test_a_file_is_read_as_a_whole_or_not_at_all() -> None:
    fits = 'scope = "job"\n'.ljust(LARGEST, "#")
    assert settings({USER: fits})["scope"] == "job"
    with pytest.raises(UsageError, match=f"{USER} is larger than {LARGEST} bytes"):
        settings({USER: fits + "\n"})


@pytest.mark.parametrize("page", ["docs/configuration.md", "docs/configuration.zh.md"])
def test_the_pages_name_every_variable(page: str) -> None:
    text = (Path(__file__).resolve().parents[2] / page).read_text(encoding="utf-8")
    for key in KEYS:
        assert f"_{key.upper()}`" in text, key
    for name in OTHER_VARIABLES:
        assert f"`{name}`" in text, name
