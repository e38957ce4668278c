"""`undo` and `history` as a person types them, on a machine of their own."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.support import bare
from tests.support.bare import Line

from .command import DROP_IN

pytestmark = pytest.mark.needs_root
SICK = """
    if host.files.stat("/run/lock/one") is None:
        line = "touch /run/lock/one" + ("; sleep 2" if host.files.stat("/run/slow") else "")
        step = Command(("sh", "-c", line), ("rm", "/run/lock/one"))
        conf = WriteFile.at(host, "/run/lock/a.conf", "x = 1\\n")
        yield Finding("sick.bad", "one is missing", fix=Fix("make it", (step, conf)))
    if host.files.stat("/run/lock/two") is None:
        step = Command(("touch", "/run/lock/two"))
        yield Finding("sick.odd", "two is missing", fix=Fix("make it", (step,)))
"""
MEND = "npudoctor fix {code} --yes --risk caution"
ASKED = "printf '{said}' | {python} -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)' {program}"


@pytest.fixture
def drop_ins(tmp_path: Path) -> Path:
    """A check that finds what is missing in /run/lock."""
    folder = tmp_path / "checks.d"
    folder.mkdir(mode=0o755)
    (folder / "sick.py").write_text(DROP_IN.format(id="sick", scope="NODE", body=SICK, top="", title="T"))
    (folder / "sick.py").chmod(0o644)
    return folder


def run(drop_ins: Path, lines: Sequence[str]) -> list[Line]:
    variables = {"NPUDOCTOR_CHECKS_DIR": str(drop_ins), "TZ": "XXX-8"}
    return bare.run(drop_ins.parent, ["mkdir -m 755 /run/lock", *lines], variables)[1:]


def schema(name: str) -> Draft202012Validator:
    text = (files("npudoctor.render") / "schemas" / f"{name}-1.json").read_text(encoding="utf-8")
    Draft202012Validator.check_schema(json.loads(text))
    return Draft202012Validator(json.loads(text))


def errors(name: str, document: Any) -> list[Any]:
    return list(schema(name).iter_errors(document))


def test_before_the_first_run(drop_ins: Path) -> None:
    lines = ("history", "history --format json", "undo", "undo --format json", "undo 2026")
    told = run(drop_ins, ["npudoctor " + line for line in lines] + ["ls /var/lib"])
    history, as_json, undo, undo_json, unknown, folder = told
    assert (history.status, history.out) == (0, "no run of `npudoctor fix` is recorded for this user\n")
    assert (as_json.status, as_json.json["runs"], errors("history", as_json.json)) == (0, [], [])
    assert (undo.status, undo.out, undo.err) == (0, "nothing to undo\n", "")
    assert (undo_json.json["exit_code"], errors("fix", undo_json.json)) == (0, [])
    assert (unknown.status, unknown.out) == (64, "")
    assert unknown.err == "npudoctor: no such run: 2026; see `npudoctor history`\n"
    assert folder.out == ""  # whoever only looks leaves nothing behind


def test_a_run_is_shown_and_undone(drop_ins: Path) -> None:
    lines = [
        MEND.format(code="sick"), "npudoctor history", "npudoctor history --format json",
        "npudoctor undo", "npudoctor undo --dry-run", "ls /run/lock", "npudoctor undo --yes --format json",
        "ls /run/lock", "npudoctor history", "npudoctor history --format json", "npudoctor undo --yes",
        "for run in $(npudoctor history | cut -d' ' -f1); do npudoctor history $run; done",
        "npudoctor history -n 1", "npudoctor history --number=1 --format json",
    ]  # fmt: skip
    told = run(drop_ins, lines)
    fixed, history, as_json, unasked, dry, before, undone, after, later, later_json, nothing, *details = told
    blocks, newest, newest_json = details
    assert fixed.status == 0
    back = ["      to undo it:", "      $ rm -- /run/lock/a.conf", "      $ rm /run/lock/one"]
    assert "\n".join(back) in fixed.err
    assert "      $ touch /run/lock/two\n      this cannot be undone\n" in fixed.err
    name = as_json.json["runs"][0]["run"]
    (line,) = history.out.splitlines()
    assert line.startswith(f"{name}  20") and line.endswith("  finished: 2 applied; can be undone")
    assert (unasked.status, dry.status) == (1, 1)
    assert "no terminal" in unasked.out
    assert "1 planned, 1 refused" in dry.out
    assert dry.err == ""
    assert before.out.split() == ["a.conf", "one", "two"]
    assert (undone.status, undone.json["changed"], undone.json["msg"]) == (1, True, "1 applied, 1 refused")
    refused, applied = undone.json["actions"]
    assert (refused["code"], refused["reason"]) == ("sick.odd", "this cannot be undone: touch /run/lock/two")
    assert applied["commands"] == ["rm -- /run/lock/a.conf", "rm /run/lock/one"]
    assert after.out.split() == ["two"]
    assert [line.split()[0] for line in later.out.splitlines()] == [undone.json["run"], name], "newest first"
    assert newest.out == later.out.splitlines()[0] + "\n"
    assert [run["run"] for run in newest_json.json["runs"]] == [undone.json["run"]]
    first, second = later.out.splitlines()
    assert "  undo; finished: 1 applied, 1 refused" in first and second.endswith("; undone since")
    assert f"undone by {undone.json['run']}" in blocks.out and f"it undid run {name}" in blocks.out
    assert " +0800  finished: 2 applied\n" in blocks.out and "touch /run/lock/one" in blocks.out
    # What is left of the run cannot be undone: that is said each time, with its run and the reason.
    assert (nothing.status, nothing.out.splitlines()[-1]) == (1, "1 refused")
    assert f"changes that run {name} made for sick.odd" in " ".join(nothing.out.split())
    assert "why: this cannot be undone: touch /run/lock/two" in nothing.out
    for document in (as_json.json, later_json.json):
        assert errors("history", document) == []
    assert errors("fix", undone.json) == []


def test_what_cannot_be_undone_is_named_and_is_no_success(drop_ins: Path) -> None:
    lines = [
        MEND.format(code="sick.odd"), "npudoctor undo", "npudoctor undo --yes --format json",
        "npudoctor history --format json",
    ]  # fmt: skip
    _fixed, plain, as_json, history = run(drop_ins, lines)
    (only,) = history.json["runs"]  # an undo that does nothing is no run
    shown = " ".join(plain.out.split())
    assert plain.status == 1 and f"changes that run {only['run']} made for sick.odd" in shown
    assert (as_json.status, as_json.json["changed"], as_json.json["failed"]) == (1, False, True)
    (action,) = as_json.json["actions"]
    assert (action["status"], action["reason"]) == ("refused", "this cannot be undone: touch /run/lock/two")
    assert errors("fix", as_json.json) == []


def test_the_name_of_a_run(drop_ins: Path) -> None:
    """The whole of it, its beginning, what several begin with, and what is nearly one."""
    lines = [
        MEND.format(code="sick.bad"), "rm /run/lock/*", MEND.format(code="sick.bad"), "npudoctor undo 2",
        "npudoctor undo ''", "ls /var/lib/npudoctor/journal | sed -n '1s/.jsonl$//p' > /run/name",
        'npudoctor undo "$(cut -c 2- /run/name)"', 'npudoctor undo --yes "$(cut -c 1-23 /run/name)"',
        'npudoctor undo --yes "$(cat /run/name)" extra', "cat /run/name",
    ]  # fmt: skip
    *_fixed, several, empty, _made, near, first, extra, name = run(drop_ins, lines)
    assert (several.status, "2 matches several runs: " in several.err) == (64, True)
    assert (empty.status, "no such run" in empty.err) == (64, True)
    assert (near.status, "did you mean 20" in near.err) == (64, True)
    assert f"changes that run {name.out.strip()} made for sick.bad" in first.out
    assert (first.status, "already" in first.out or "applied" in first.out) == (0, True)
    assert extra.status == 64


@pytest.mark.parametrize(("said", "status", "left"), [("y\\n", 0, []), ("n\\n", 1, ["a.conf", "one"])])
def test_at_a_terminal_the_lines_are_in_view(drop_ins: Path, said: str, status: int, left: list[str]) -> None:
    program = f"{shlex.quote(sys.executable)} -m npudoctor undo"
    lines = [
        MEND.format(code="sick.bad"),
        ASKED.format(said=said, python=shlex.quote(sys.executable), program=program),
        "ls /run/lock",
    ]
    _fixed, asked, folder = run(drop_ins, lines)
    shown = asked.out.replace("\r", "")
    assert shown.count("$ rm -- /run/lock/a.conf\n      $ rm /run/lock/one\n") >= 2  # plan and question
    assert "do this? [y/N]" in shown
    assert (asked.status, folder.out.split()) == (status, left)


def test_before_it_is_asked_a_fix_says_what_cannot_be_undone(drop_ins: Path) -> None:
    program = f"{shlex.quote(sys.executable)} -m npudoctor fix sick.odd"
    (asked,) = run(drop_ins, [ASKED.format(said="n\\n", python=shlex.quote(sys.executable), program=program)])
    question = asked.out.replace("\r", "").split("two is missing: do this?")[0]
    assert question.endswith("      $ touch /run/lock/two\n      this cannot be undone\n")


def test_a_journal_that_is_not_believed_is_named(drop_ins: Path) -> None:
    lines = [MEND.format(code="sick.bad"), "chmod 666 /var/lib/npudoctor/journal/*", "npudoctor history"]
    _fixed, _changed, history = run(drop_ins, lines)
    assert history.out.startswith("no run")
    assert "only this user can write" in history.err


def test_a_run_that_was_killed_while_its_program_ran(drop_ins: Path) -> None:
    """What is not known is said, and is offered to be undone all the same."""
    program = f"{shlex.quote(sys.executable)} -m npudoctor fix sick.bad --yes --risk caution"
    begun = f"touch /run/slow; {program} & while [ ! -e /run/lock/one ]; do sleep 0.05; done; "
    lines = [
        begun + "npudoctor history; kill -9 $!; wait $!",
        "npudoctor history; npudoctor history 20", "npudoctor history --format json", "npudoctor undo --yes",
        "ls /run/lock", "npudoctor undo",
    ]  # fmt: skip
    running, history, as_json, undone, left, nothing = run(drop_ins, lines)
    assert "still running" in running.out
    assert running.status == 137
    assert "killed midway" in history.out and "started; how it ended is unknown" in history.out
    (told,) = as_json.json["runs"]
    (action,) = told["actions"]
    assert (told["status"], told["undoable"], told["ended"]) == ("killed", True, None)
    assert (action["status"], action["changed"]) == ("unknown", None)
    assert errors("history", as_json.json) == []
    assert (undone.status, left.out) == (0, "")
    assert "whether this command ran is unknown" in undone.err
    assert nothing.out == "nothing to undo\n"
