"""fix takes what the checks are asked about, as check does."""

from __future__ import annotations

import pytest

from .command import Npudoctor

TELL = """
yield Finding("x.odd", f"{host.options.peers} {host.options.expect} {host.options.only_user}")
"""


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--python", "/nowhere/python"), "--python"),
        (("--expect", "tpu"), "--expect"),
        (("--env-of", "x"), "--env-of"),
        (("--user", "nobody-of-this-name"), "--user"),
        (("--job", "x"), "--job"),
        (("--timeout", "-1"), "--timeout"),
        (("--deadline", "x"), "--deadline"),
    ],
)
def test_what_cannot_be_meant_is_one_line(
    npudoctor: Npudoctor, arguments: tuple[str, ...], word: str
) -> None:
    done = npudoctor("fix", "clock", *arguments)
    assert (done.status, done.out) == (64, "")
    assert word in done.err
    assert len(done.err.splitlines()) == 1


def test_the_checks_are_told(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("x", TELL)
    asked = ("--peers", "10.0.0.1,10.0.0.2", "--expect", "none", "--user", "root")
    done = npudoctor("fix", "x", "--dry-run", *asked, "--format", "json")
    (action,) = done.json["actions"]
    assert action["message"] == "('10.0.0.1', '10.0.0.2') none root"
    assert action["reason"] == "npudoctor has no fix for it"
