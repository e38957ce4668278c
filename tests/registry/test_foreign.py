"""What a drop-in declares and answers crosses a pipe as JSON and comes out the same, or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from npudoctor import (
    Action,
    Command,
    Compared,
    Export,
    Facts,
    Finding,
    Fix,
    Host,
    RemoveFiles,
    RemoveSharedMemory,
    Risk,
    Scope,
    Severity,
    Skip,
)
from npudoctor.checking.check import CheckFailure
from npudoctor.core.frozen import replace
from npudoctor.core.marks import FileMark
from npudoctor.host import CannotTell, NotRunning
from npudoctor.registry.child import ANSWER_LIMIT
from npudoctor.registry.collector import LoadedChecks
from npudoctor.registry.foreign import ask_in_child, check_from_declaration, declaration, load, replay_answers
from npudoctor.runner.runner import Settings, run
from npudoctor.testing import fake_host

SOURCE = """
from npudoctor import *
import npudoctor
CODES = {{"my-check.bad": ERROR}}
@check("my-check", scope=Scope.JOB, codes=CODES, tags=("mine",), advisory=True, quick=False)
def question(host):
    '''Title.

    Manual.'''
    {body}
    return
    yield
"""
NAME = "my_check"


def source(body: str = "") -> bytes:
    return SOURCE.format(body=body).encode()


def never(host: Host) -> Iterator[Any]:
    raise AssertionError


def told() -> dict[str, Any]:
    """What a good drop-in declares, after its way through the pipe."""
    declared_there: dict[str, Any] = json.loads(json.dumps(declaration(lambda: load(source(), "x.py", NAME))))
    return declared_there


def through_the_pipe(body: str) -> list[Any]:
    """The answers of a question with this body, asked on a fake host."""
    said = json.loads(json.dumps(ask_in_child(lambda: load(source(body), "x.py", NAME), fake_host())))
    return list(replay_answers(said))


def test_a_declaration_comes_out_the_same() -> None:
    check, original = check_from_declaration(told(), NAME, never, "drop-in"), load(source(), "x.py", NAME)
    for name in ("id", "scope", "codes", "manual", "tags", "needs", "advisory", "quick", "title"):
        assert getattr(check, name) == getattr(original, name), name
    assert (check.group, check.origin, check.always) == ("drop-in", "drop-in", False)
    assert check.scope is Scope.JOB and check.codes == {"my-check.bad": Severity.ERROR}


@pytest.mark.parametrize(
    "change",
    [
        {"id": "other"},
        {"id": "My-check"},
        {"id": 5},
        {"scope": "world"},
        {"codes": {}},
        {"codes": {"other.bad": 3}},
        {"codes": {"my-check.bad": 9}},
        {"codes": ["my-check.bad"]},
        {"tags": ["Not A Tag"]},
        {"tags": 5},
        {"tags": [5]},
        {"needs": "cann"},
        {"needs": ["canm"]},
        {"needs": [5]},
        {"needs": None},
        {"compares": None},
        {"compares": [5]},
        {"compares": [{"path": "a"}] * 51},
        {"compares": [{"path": "a", "name": 5}]},
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
        check_from_declaration({**told(), **change}, NAME, never, "drop-in")


def test_needs_come_out_the_same() -> None:
    text = source().replace(b"quick=False", b"quick=False, needs=('cann', '$MY_*')")
    there = json.loads(json.dumps(declaration(lambda: load(text, "x.py", NAME))))
    assert check_from_declaration(there, NAME, never, "drop-in").needs == ("cann", "$MY_*")


def test_what_is_compared_comes_out_the_same_and_into_the_report() -> None:
    text = source().replace(
        b"quick=False", b"quick=False, compares=(Compared('a.*', 'speed'), Compared('t'))"
    )
    there = json.loads(json.dumps(declaration(lambda: load(text, "x.py", NAME))))
    compared = (Compared("a.*", "speed"), Compared("t"))
    foreign = check_from_declaration(there, NAME, never, "drop-in")
    assert foreign.compares == compared
    row = replace(foreign, ask=lambda host: iter(()))
    loaded = LoadedChecks((row, replace(row, id="own", origin="built-in")), (), {})
    first, second = run(loaded, fake_host(), Settings()).results
    assert (first.compares, second.compares) == (compared, ())


@pytest.mark.parametrize(
    "key", ["id", "scope", "codes", "manual", "tags", "needs", "advisory", "quick", "compares"]
)
def test_a_declaration_with_a_hole_is_refused(key: str) -> None:
    said = told()
    del said[key]
    with pytest.raises(KeyError):
        check_from_declaration(said, NAME, never, "drop-in")


FULL = Finding(
    "my-check.bad",
    "message \udcff",
    Severity.WARNING,
    ("a", "b"),
    "3",
    Action.ISOLATE,
    Fix(
        "title",
        (
            Command(("rm", "--", "a b")),
            Export("A", "b"),
            RemoveSharedMemory(1, 2, 3, 4, 5, 6, 7),
            RemoveFiles("/x", 1, 2, 3, (FileMark("f", 1, 2, 3, 4),)),
        ),
        ("undo",),
        Risk.SAFE,
        False,
        True,
    ),
    ("other.code",),
)


def test_answers_come_out_the_same() -> None:
    from npudoctor.registry import foreign

    encoded = json.loads(json.dumps([foreign._encode(FULL), foreign._encode(Facts({"n": [1, None]}))]))
    assert list(replay_answers({"answers": encoded, "ended": "done"})) == [FULL, Facts({"n": [1, None]})]


@pytest.mark.parametrize(
    ("body", "ending", "text"),
    [
        ("raise Skip('not here')", Skip, "not here"),
        ("raise Unknown('no way')", CannotTell, "no way"),
        ("raise npudoctor.host.NotRunning", NotRunning, ""),
        ("1 / 0", CheckFailure, "ZeroDivisionError: division by zero"),
        ("raise SystemExit(0)", CheckFailure, "SystemExit: 0"),
        ("yield 'text'", CheckFailure, "TypeError: a check yields findings, not str"),
        ("yield Facts({'x': {1}})", CheckFailure, "TypeError: Object of type set is not JSON serializable"),
    ],
)
def test_endings_come_out_the_same(body: str, ending: type[Exception], text: str) -> None:
    with pytest.raises(ending) as raised:
        through_the_pipe(body)
    assert str(raised.value) == text


def test_what_was_said_before_the_end_is_kept() -> None:
    said = ask_in_child(
        lambda: load(source("yield Facts({'n': 1})\n    raise Skip('enough')"), "x.py", NAME), fake_host()
    )
    answers = replay_answers(said)
    assert next(answers) == Facts({"n": 1})
    with pytest.raises(Skip):
        next(answers)


def test_an_advisory_ending_stays_advisory() -> None:
    with pytest.raises(CannotTell) as raised:
        through_the_pipe("raise Unknown('only root', advisory=True)")
    assert raised.value.advisory


def test_it_asks_the_host_that_is_examined() -> None:
    body = "yield Facts({'home': host.variables['HOME'], 'file': host.files.text('/a')})"
    said = ask_in_child(
        lambda: load(source(body), "x.py", NAME), fake_host({"/a": "b"}, variables={"HOME": "/h"})
    )
    assert list(replay_answers(said)) == [Facts({"home": "/h", "file": "b"})]


@pytest.mark.parametrize(
    "said", [None, {}, {"answers": 5, "ended": "done"}, {"answers": [{}], "ended": "done"}]
)
def test_an_answer_that_makes_no_sense_raises(said: Any) -> None:
    with pytest.raises((CheckFailure, KeyError, TypeError)):
        list(replay_answers(said))


def test_answers_are_collected_up_to_a_limit() -> None:
    body = "for number in range(1 << 40):\n        yield Finding('my-check.bad', 'x' * (1 << 16))"
    said = ask_in_child(lambda: load(source(body), "x.py", NAME), fake_host())
    assert (said["ended"], said["reason"]) == ("crashed", "ValueError: its results are larger than 4 MiB")
    assert len(json.dumps(said)) <= ANSWER_LIMIT + (1 << 12) and len(said["answers"]) > 60


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("Command(('true',), unless=('touch', '/x'))", "may run only what it shows: remove unless and still"),
        (
            "Command(('true',), ('false',), still=('touch', '/x'))",
            "may run only what it shows: remove unless and still",
        ),
        ("Command(('true',), unless=(1, 2))", "Command"),
        ("Command(())", "Command"),
        ("Export('A', 1)", "Export"),
        ("Export('A; reboot', 'x')", "Export"),
        ("InsertRule((1, 2), ('x',), 'c')", "InsertRule"),
        ("RemoveSharedMemory('1; reboot', 0, 0, 0, 0, 0, 0)", "RemoveSharedMemory"),
        ("RemoveFiles('/x', 1, 2, 3, (FileMark(5, 1, 2, 3, 4),))", "RemoveFiles"),
        ("SignalProcess((), 0)", "SignalProcess"),
        ("WriteFile('/x', 'y', 0o104755)", "WriteFile"),
        ("SetKernel('a.b', 1, 2)", "SetKernel"),
    ],
)
def test_a_step_that_shows_less_than_it_does_or_cannot_be_shown(step: str, words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        through_the_pipe(f"yield Finding('my-check.bad', 'm', fix=Fix('t', steps=({step},)))")
