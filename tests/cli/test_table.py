"""A plain command line is read without typer, by a table of what the commands declare, and means the same."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Callable, Union

import pytest

from npudoctor.cli.app import build_command_line
from npudoctor.cli.arguments import parsing
from npudoctor.cli.arguments.table import FILE, read_line
from npudoctor.cli.caller import Caller
from npudoctor.cli.companions.plain_table import make_plain_table
from npudoctor.cli.companions.share import write_plain_table
from npudoctor.cli.config import UsageError
from npudoctor.cli.terminal.refusals import explain_refusal

from .command import Npudoctor

TABLE = make_plain_table()
PLAIN = (
    ("check",),
    ("check", "cache-server", "leftovers", "--format", "json"),
    ("check", "--format=json", "-v", "numpy-version"),
    ("check", "--quiet", "--ignore", "a=b", "--ignore=c", "--ignore", "d,e"),
    ("check", "--config=/a=b", "--peers", "10.0.0.1,node2", "--wait", "3", "--lang", "zh"),
    ("check", ""),
    ("check", "-v", "clock", "--verbose"),
    ("check", "-vv", "--color", "always"),
    ("check", "-vvq"),
    ("check", "--", "numpy-version", "--help"),
    ("fix", "--cache-server", "-y", "--owner", "a", "--owner", "b"),
    ("explain", "-"),
    ("diff", "a", "--format", "json", "b"),
    ("history", "-n", "3"),
    ("schema",),
    ("run", "-q", "--", "python", "--", "-v"),
    ("run", "-q", "python", "train.py", "--lang", "fr", "-h"),
    ("rehearse", "dead-cache-server", "--", "--format", "json"),
    ("fleet", "check", "-w", "node[1-4]", "--", "--profile", "quick"),
    ("fleet", "check", "--from", "-"),
    ("fleet", "part", "--ports", "60000"),
)
LEFT_TO_TYPER = (
    (),
    ("fleet",),
    ("fleet", "--help"),
    ("fleet", "chek"),
    ("--lang", "en", "check"),
    ("check", "--help"),
    ("check", "-h"),
    ("run", "-h", "python"),
    ("check", "-x"),
    ("check", "--format"),
    ("check", "--format="),
    ("check", "--format", "-v"),
    ("check", "--format", "json", "--format", "text"),
    ("check", "--verbose=1"),
    ("check", "--deadline", "-3"),
    ("history", "-n3"),
    ("history", "-n=3"),
    ("diff", "a", "b", "c"),
    ("list", "more"),
    ("fleet", "part"),
)
WORDS = (
    "a",
    "b c",
    "",
    "-",
    "--",
    "-3",
    "x=y",
    "=",
    "--=",
    "-v",
    "-vv",
    "-qv",
    "-n3",
    "--nope",
    "--lang",
    "节点",
)
LINES = 80  # for each command; pydantic makes each slow in typer 0.29
REFUSED = (
    ("check", "--formt", "json"),
    ("check", "--form", "json"),
    ("check", "clock", "-v", "--nonsense"),
    ("check", "--nonsense=1", "--help"),
    ("check", "--nonsense", "--format", "json", "--format", "text"),
    ("check", "--="),
    ("check", "---quiet"),
    ("diff", "a", "b", "c", "--quite"),
    ("list", "more", "--lang", "fr", "--knowlege"),
    ("run", "--quite", "--", "--nonsense"),
    ("fleet", "check", "--form"),
    ("fleet", "part", "--port", "60000"),
)
Called = tuple[Callable[..., int], dict[str, Any]]


@cache
def _commands(hidden: bool) -> Any:
    return build_command_line(("fleet", "part") if hidden else ())


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table made of what is declared now, whatever was built before."""
    path = tmp_path_factory.mktemp("table") / "plain.json"
    write_plain_table(str(path))
    return str(path)


@pytest.fixture
def by_typer(monkeypatch: pytest.MonkeyPatch) -> Callable[[tuple[str, ...]], Union[Called, str]]:
    """What typer calls for a line: the function and its parameters; where it refuses the line, why."""
    calls: list[Called] = []

    def call(function: Callable[..., int], parameters: dict[str, Any], caller: Caller) -> int:
        calls.append((function, parameters))
        return 0

    monkeypatch.setattr(parsing, "call_command", call)

    def ask(line: tuple[str, ...]) -> Union[Called, str]:
        calls.clear()
        command = _commands("part" in line[1:2])
        try:
            with command.make_context("npudoctor", list(line), obj=Caller({}, None)) as context:
                command.invoke(context)
        except Exception as error:  # of typer's classes, which each version has elsewhere
            return explain_refusal(error)[1] or ""
        return calls[0] if calls else ""

    return ask


def test_the_table_that_was_built_is_of_what_is_declared() -> None:
    """Where this fails, `make messages` builds it again, as every install does."""
    assert json.loads(Path(FILE).read_text(encoding="utf-8")) == json.loads(json.dumps(TABLE))


def test_every_command_is_in_the_table() -> None:
    root = build_command_line()
    commands = {*root.commands, *(f"fleet {name}" for name in root.commands["fleet"].commands)} - {"fleet"}
    assert set(TABLE) == commands | {"fleet part"}


@pytest.mark.parametrize("words", PLAIN, ids=" ".join)
def test_it_means_the_same(words: tuple[str, ...], table: str, by_typer: Callable[..., Any]) -> None:
    line = read_line(words, table)
    assert line is not None and line == by_typer(words)


@pytest.mark.parametrize("words", LEFT_TO_TYPER, ids=" ".join)
def test_all_else_is_left_to_typer(words: tuple[str, ...], table: str) -> None:
    assert read_line(words, table) is None


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_an_option_that_is_not_there_is_refused_as_typer_does(
    words: tuple[str, ...], table: str, by_typer: Callable[..., Any]
) -> None:
    with pytest.raises(UsageError) as refused:
        read_line(words, table)
    assert str(refused.value) == by_typer(words) and "no such option" in str(refused.value)


@pytest.mark.parametrize("command", TABLE)
def test_whatever_the_line_the_table_agrees_with_typer_or_declines(
    command: str, table: str, by_typer: Callable[..., Any]
) -> None:
    chance = random.Random(command)  # noqa: S311
    options = list(TABLE[command]["options"])
    plain = 0
    for _number in range(LINES):
        words: list[str] = []
        for _word in range(chance.randrange(6)):
            option, word = chance.choice(options), chance.choice(WORDS)
            words += chance.choice(
                (
                    [word],
                    [option],
                    [option, word],
                    [option, "a"],
                    [f"{option}={word}"],
                    [f"{option}=a"],
                    ["a"],
                )
            )
        line = (*command.split(), *words)
        try:
            told: Union[Called, str, None] = read_line(line, table)
            plain += told is not None
        except UsageError as error:
            told = str(error)
        assert told is None or told == by_typer(line), line
    assert plain


def test_without_a_table_typer_reads_every_line(tmp_path: Path) -> None:
    assert read_line(("check",), str(tmp_path / "plain.json")) is None


def test_a_table_that_is_older_than_a_command_is_not_used(tmp_path: Path) -> None:
    """In a tree whose sources changed since its last build."""
    row = TABLE["list"]
    changes: tuple[dict[str, Any], ...] = (
        {"options": {**row["options"], "--gone": ["switch", "gone"]}},
        {"options": {"--color": ["value", "color"], "--knowledge": ["switch", "renamed"]}},
    )
    for change, words in zip(changes, (("list", "--gone"), ("list", "--knowledge"))):
        path = tmp_path / "plain.json"
        path.write_text(json.dumps({"list": {**row, **change}}))
        assert read_line(("list",), str(path)) is not None
        assert read_line(words, str(path)) is None
    path.write_text(json.dumps({"list": {**row, "options": {"--color": ["value", "color"]}}}))
    assert read_line(("list", "--knowledge"), str(path)) is None


def test_a_line_that_typer_reads_is_answered_alike(npudoctor: Npudoctor) -> None:
    """What stands before the command is typer's, and so is the rest of that line."""
    by_table = npudoctor("list", "--lang", "en", "--format", "json")
    assert by_table.status == 0 and npudoctor("--lang", "en", "list", "--format", "json") == by_table


DEAR = (
    *("typer", "click", "dataclasses", "inspect", "pathlib", "difflib", "importlib.metadata", "packaging"),
    "npudoctor.core.redact.redactor",  # loaded in each run by a sentence of ours that looks like a secret
)


@pytest.mark.parametrize("expect", ["none", "auto"])
def test_a_plain_check_loads_nothing_dear(expect: str) -> None:
    """Each of these costs as much as many checks; `make bench` sees it late, and only as a number."""
    assert _loaded(("check", "--expect", expect, "--profile", "quick"), DEAR) == []


@pytest.mark.parametrize(
    "words",
    [
        *("fix --cache-server", "explain EI0006", "list", "show clock", "history", "schema", "env"),
        *("check --nonsense", "fleet check --nonsense"),
    ],
)
def test_no_plain_line_loads_typer(words: str) -> None:
    assert _loaded(tuple(words.split()), ("typer", "click", "rich", "pydantic")) == []


# What finds causes in logs: a hundred regular expressions, and most of the table of signatures.
LOGS = (
    *("npudoctor.explain.engine", "npudoctor.explain.scanning.outline", "npudoctor.explain.ranking.judge"),
    *("npudoctor.explain.signatures.progress", "npudoctor.explain.reading.pool", "tokenize"),
)


def test_a_manual_loads_nothing_that_explains() -> None:
    """Half of what `show` took was loaded for codes of logs, which hardly anyone asks it for."""
    assert _loaded(("show", "clock"), ("npudoctor.explain", *LOGS)) == []


# What loads a parser of Python, or OpenSSL, or what only starts programs; each costs as much as ten checks.
ASIDE = ("dataclasses", "inspect", "ast", "tokenize", "_hashlib", "secrets", "pydantic", "tempfile")


@pytest.mark.parametrize("words", ["list", "schema", "history", "env", "explain EI0006", "check --nonsense"])
def test_nothing_is_loaded_that_has_another_purpose(words: str) -> None:
    programs = () if words == "env" else ("subprocess",)
    assert _loaded(tuple(words.split()), (*ASIDE, *programs)) == []


def test_neither_is_it_by_what_starts_a_job() -> None:
    """Nor by the child that asks the checks."""
    script = (
        "import sys; sys.argv = ['npudoctor', 'run', '-q', '--force', '--', 'true'];"
        "import npudoctor.__main__ as entry; entry.main()"
    )
    command = [sys.executable, "-I", "-S", "-X", "importtime", "-c", _with_path(script)]
    done = subprocess.run(command, capture_output=True, text=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert done.returncode == 0 and "npudoctor.runner.runner" in loaded, done.stderr
    assert loaded.isdisjoint(("dataclasses", "inspect", "tokenize", "_hashlib", "secrets"))


@pytest.mark.parametrize("words", ["list", "schema", "explain EI0006"])
def test_who_looks_at_no_machine_loads_nothing_that_does(words: str) -> None:
    assert _loaded(tuple(words.split()), ("npudoctor.host.host", "npudoctor.host.process.commands")) == []


def test_the_manual_of_a_check_loads_no_parser_of_python() -> None:
    """Neither does that of one of its codes, as explain tells it."""
    for words in (("show", "clock"), ("explain", "clock.unsynchronised")):
        assert _loaded(words, ("inspect", "ast", "tokenize", "hashlib")) == []


@pytest.mark.parametrize("words", ["explain EI0006", "show EI0006"])
def test_a_code_loads_nothing_that_reads_logs(words: str) -> None:
    assert _loaded(tuple(words.split()), LOGS) == []


def _loaded(words: tuple[str, ...], names: tuple[str, ...]) -> list[str]:
    """Which of the modules a command loads, which must end with 0, 1 or 2, or with 64.

    The command may end the process itself: where a thread is not done yet, nothing waits for it.
    """
    script = (
        f"import sys; sys.argv = ['npudoctor', *{words!r}];"
        "import npudoctor.__main__ as entry, os; leave = os._exit;"
        f"tell = lambda status: (os.write(2, repr([n for n in {names!r} if n in sys.modules]).encode()),"
        " leave(0 if status in (0, 1, 2, 64) else 1));"
        "os._exit = tell; tell(entry.main())"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", _with_path(script)], capture_output=True)
    if done.returncode != 0:
        pytest.fail((done.stdout + done.stderr).decode(), pytrace=False)  # whole: it says what had no result
    loaded: list[str] = json.loads(done.stderr[done.stderr.rindex(b"[") :].replace(b"'", b'"'))
    return loaded


def _with_path(script: str) -> str:
    """Without `site`, whose hooks of an editable install load what they like."""
    import npudoctor

    package = npudoctor.__path__[0]
    checks = next(iter(import_module("npudoctor.checks").__path__))
    return (
        f"import sys; sys.path.insert(0, {package.rpartition('/')[0]!r}); import npudoctor, types;"
        f"checks = types.ModuleType('npudoctor.checks'); checks.__path__ = [{checks!r}];"
        f"sys.modules['npudoctor.checks'] = npudoctor.checks = checks; {script}"
    )
