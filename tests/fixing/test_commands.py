"""The programs of a fix: what must still hold before they run, and what their endings mean."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Union

import pytest

from npudoctor.core.marks import FileMark
from npudoctor.fixing.actions.apply import apply_step
from npudoctor.fixing.outcome import ActionStatus, Outcome
from npudoctor.fixing.steps.steps import Command, DeleteRule, InsertRule, KnownStep
from npudoctor.host import Host, Options
from npudoctor.host.process.commands import CommandResult
from npudoctor.testing import fake_host


@pytest.fixture
def host() -> Iterator[Host]:
    made = Host(Options())
    yield made
    made.close()


def mark(path: Path) -> FileMark:
    now = path.stat()
    return FileMark(str(path), now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns)


def test_what_is_so_already_is_not_done(host: Host, tmp_path: Path) -> None:
    made = tmp_path / "made"
    step = Command(("mkdir", str(made)), ("rmdir", str(made)), unless=("test", "-d", str(made)))
    assert apply_step(step, host) == Outcome(ActionStatus.APPLIED, changed=True)
    assert apply_step(step, host.fresh_copy()) == Outcome(ActionStatus.ALREADY, "already done")


def test_what_is_gone_already_is_not_taken_back(host: Host, tmp_path: Path) -> None:
    made = tmp_path / "made"
    step = Command(("mkdir", str(made)), ("rmdir", str(made)), unless=("test", "-d", str(made)))
    back = step.back()
    assert back is not None
    assert apply_step(back, host) == Outcome(ActionStatus.ALREADY, "it is already gone")
    made.mkdir()
    assert apply_step(back, host.fresh_copy()) == Outcome(ActionStatus.APPLIED, changed=True)
    assert not made.exists()


def test_a_question_that_cannot_be_asked_answers_nothing(host: Host, tmp_path: Path) -> None:
    made = tmp_path / "made"
    ended = apply_step(Command(("mkdir", str(made)), still=("no-such-program-here",)), host)
    assert ended.status is ActionStatus.REFUSED
    assert not made.exists()


@pytest.mark.parametrize(
    ("status", "ending"),
    [
        (0, ActionStatus.APPLIED),
        (1, ActionStatus.ALREADY),
        (2, ActionStatus.REFUSED),
        (252, ActionStatus.REFUSED),
        (-9, ActionStatus.REFUSED),
    ],
)
def test_a_question_that_failed_does_not_say_that_it_is_gone(status: int, ending: ActionStatus) -> None:
    """As firewall-cmd does while firewalld is stopped: its permanent rule would stay for ever."""
    answers: dict[Union[str, tuple[str, ...]], Union[str, CommandResult]] = {
        "query": CommandResult(("query",), "exited", status, "", "FirewallD is not running"),
        "remove": CommandResult(("remove",), "exited", 0),
    }
    ended = apply_step(Command(("remove",), still=("query",)), fake_host(commands=answers))
    assert ended.status is ending
    assert ("FirewallD is not running" in ended.reason) is (ending is ActionStatus.REFUSED)


def test_a_program_may_say_itself_that_it_did_nothing(host: Host) -> None:
    for said, ending in (
        ("Skipping adding existing rule\nSkipping adding existing rule (v6)", ActionStatus.ALREADY),
        ("Skipping adding existing rule\nRule added (v6)", ActionStatus.APPLIED),
        ("", ActionStatus.APPLIED),
    ):
        assert apply_step(Command(("echo", said), skipped="Skipping"), host).status is ending


@pytest.mark.parametrize("how", ["written", "replaced", "gone", "a link to another"])
def test_what_a_program_reads_must_be_what_was_looked_at(host: Host, tmp_path: Path, how: str) -> None:
    wheel, made = tmp_path / "te.whl", tmp_path / "made"
    wheel.write_text("good")
    step = Command(("touch", str(made)), inputs=(mark(wheel),))
    if how == "written":
        wheel.write_text("evil!")
    else:
        wheel.unlink()
    if how == "replaced":
        (tmp_path / "other").write_text("evil")
        (tmp_path / "another").write_text("evil")
        (tmp_path / "another").rename(wheel)
    if how == "a link to another":
        (tmp_path / "evil").write_text("evil")
        wheel.symlink_to(tmp_path / "evil")
    ended = apply_step(step, host)
    assert (ended.status, ended.changed, made.exists()) == (ActionStatus.REFUSED, False, False)
    assert str(wheel) in ended.reason


def test_an_unchanged_input(host: Host, tmp_path: Path) -> None:
    wheel, made = tmp_path / "te.whl", tmp_path / "made"
    wheel.write_text("good")
    step = Command(("touch", str(made)), inputs=(mark(wheel),))
    assert apply_step(step, host).status is ActionStatus.APPLIED
    assert made.exists()


@pytest.mark.parametrize(
    ("answer", "ending", "words"),
    [
        (CommandResult(("tool", "x"), "missing", 127), ActionStatus.REFUSED, "tool is not installed"),
        (CommandResult(("tool", "x"), "untrusted"), ActionStatus.REFUSED, "not run as root"),
        (
            CommandResult(("tool", "x"), "timeout", seconds=600),
            ActionStatus.FAILED,
            "did not end within 600 s",
        ),
        (CommandResult(("tool", "x"), "exited", 3), ActionStatus.FAILED, "exited with status 3"),
        (CommandResult(("tool", "x"), "exited", 1, "out", "err: why"), ActionStatus.FAILED, "err: why"),
    ],
)
def test_why_a_program_failed(answer: CommandResult, ending: ActionStatus, words: str) -> None:
    ended = apply_step(Command(("tool", "x")), fake_host(commands={"tool": answer}))
    assert (ended.status, ended.changed) == (
        ending,
        ending is ActionStatus.FAILED,
    )  # who knows what it did before
    assert words in ended.reason


PLACE, RULE = ("inet", "t", "in"), ("tcp", "dport", "29500", "accept")
LIST = ("nft", "-j", "-a", "list", "chain", *PLACE)


def listed(*handles: int) -> str:
    rules = [f'{{"rule": {{"handle": {at}, "comment": "npudoctor-1"}}}}' for at in handles]
    return f'{{"nftables": [{", ".join([*rules, "{}"])}]}}'


@pytest.mark.parametrize(
    ("step", "told", "ending"),
    [
        (InsertRule(PLACE, RULE, "npudoctor-1"), listed(5), ActionStatus.ALREADY),
        (DeleteRule(PLACE, RULE, "npudoctor-1"), listed(), ActionStatus.ALREADY),
        (DeleteRule(PLACE, RULE, "npudoctor-1"), listed(5, 6), ActionStatus.REFUSED),
        (DeleteRule(PLACE, RULE, "npudoctor-1"), "rubbish", ActionStatus.REFUSED),
        (InsertRule(PLACE, RULE, "npudoctor-1"), '{"nftables": [{"rule": null}]}', ActionStatus.REFUSED),
        (InsertRule(PLACE, RULE, "npudoctor-1"), "[]", ActionStatus.REFUSED),
    ],
)
def test_a_rule_that_may_not_be_touched(step: KnownStep, told: str, ending: ActionStatus) -> None:
    ended = apply_step(step, fake_host(commands={LIST: told}))
    assert (ended.status, ended.changed) == (ending, False)


def test_a_chain_that_is_gone_is_not_made() -> None:
    gone = CommandResult(LIST, "exited", 1, "", "Error: No such file or directory\nlist chain inet t in\n")
    ended = apply_step(InsertRule(PLACE, RULE, "npudoctor-1"), fake_host(commands={LIST: gone}))
    assert (ended.status, ended.changed) == (ActionStatus.REFUSED, False)
    assert "No such file or directory" in ended.reason
    ended = apply_step(DeleteRule(PLACE, RULE, "npudoctor-1"), fake_host(commands={LIST: gone}))
    assert (ended.status, ended.changed) == (ActionStatus.ALREADY, False)


def test_nft_does_all_or_nothing() -> None:
    step = InsertRule(PLACE, RULE, "npudoctor-1")
    failed = CommandResult(step.argv, "exited", 1, "", "Error: Operation not permitted\n")
    ended = apply_step(step, fake_host(commands={LIST: listed(), step.argv: failed}))
    assert (ended.status, ended.changed) == (ActionStatus.FAILED, False)


def test_only_the_rule_with_our_comment_is_deleted() -> None:
    two = '{"nftables": [{"rule": {"handle": 4, "comment": "mine"}}, ' + listed(7)[len('{"nftables": [') :]
    deleted = ("nft", "delete", "rule", *PLACE, "handle", "7")
    ended = apply_step(DeleteRule(PLACE, RULE, "npudoctor-1"), fake_host(commands={LIST: two, deleted: ""}))
    assert ended.status is ActionStatus.APPLIED


def test_the_shown_line_is_what_bash_reads(tmp_path: Path) -> None:
    """With a stand-in for nft that prints what the real one does."""
    script = f"""
        nft() {{ case $1 in -a) printf 'tcp dport 1 accept comment "other" # handle 3\\n{
        "tcp dport 29500 accept comment"
    } "npudoctor-1" # handle 12\\n';; *) echo "$@";; esac; }}
        {InsertRule(PLACE, RULE, "npudoctor-1").undo_lines()[0]}"""
    done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, check=True)
    assert done.stdout == "delete rule inet t in handle 12\n"
