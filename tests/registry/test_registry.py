"""What is found: every file of checks/ is one check, names are nobody else's, broken ones are rows."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

import pytest

from npudoctor import Facts, Scope, Severity, Status
from npudoctor.checking.check import Check
from npudoctor.registry.collector import Collector, LoadedChecks
from npudoctor.registry.registry import list_check_files, load_all

ROOT = Path(__file__).resolve().parents[2]
BUILT_IN = load_all({"NPUDOCTOR_CHECKS_DIR": ""})


def made(id: str, group: str = "group", tags: tuple[str, ...] = ()) -> Check:
    codes = {f"{id}.bad": Severity.ERROR}
    return Check(id, Scope.NODE, codes, lambda host: iter([Facts({})]), "Title", tags=tags, group=group)


def test_every_file_is_one_check_of_the_same_name() -> None:
    assert BUILT_IN.broken == () and BUILT_IN.foreign == {}
    files = {
        (path.parent.name, path.stem.replace("_", "-"))
        for path in (ROOT / "checks").glob("*/*.py")
        if not path.name.startswith("_")
    }
    assert {(check.group, check.id) for check in BUILT_IN.checks} == files


def test_no_id_group_or_tag_shares_a_name() -> None:
    ids = [check.id for check in BUILT_IN.checks]
    groups = {check.group for check in BUILT_IN.checks}
    tags = {tag for check in BUILT_IN.checks for tag in check.tags}
    assert len(ids) == len(set(ids))
    assert not set(ids) & groups and not set(ids) & tags and not groups & tags


@pytest.mark.parametrize("check", BUILT_IN.checks, ids=lambda check: check.id)
def test_every_manual_is_complete(check: Check) -> None:
    text = textwrap.dedent(check.manual.partition("\n")[2])
    headings = re.findall(r"^\s*## (.+)$", text, re.MULTILINE)
    where = f"the docstring in checks/{check.group}/{check.id.replace('-', '_')}.py"
    sections = ["What it does", "Why it matters", "Fix safety", "References"]
    assert headings[:2] == sections[:2], f"{where} begins with these sections"
    assert set(headings) <= set(sections), f"{where} has only these sections"
    suffixes = {code: code.partition(".")[2] for code in check.codes}
    unsaid = [
        code for code, suffix in suffixes.items() if f"`{suffix}`" not in text and f"`{code}`" not in text
    ]
    assert unsaid == [], f"{where} says under What it does when these are found"
    assert 0 < len(check.title) <= 100 and not check.title.endswith(".")


@pytest.mark.parametrize("check", BUILT_IN.checks, ids=lambda check: check.id)
def test_every_check_has_its_test(check: Check) -> None:
    files = list((ROOT / "tests/checks" / check.group).glob(f"test_{check.id.replace('-', '_')}*.py"))
    assert any(re.search(r"^def test_", file.read_text(encoding="utf-8"), re.MULTILINE) for file in files)


@pytest.mark.parametrize(
    ("second", "taken"),
    [
        (made("first"), "first"),
        (made("group"), "group"),
        (made("shared"), "shared"),
        (made("drop-in"), "drop-in"),
        (made("other", tags=("first",)), "first"),
        (made("other", tags=("group",)), "group"),
    ],
)
def test_a_taken_name_is_a_broken_row_and_replaces_nothing(second: Check, taken: str) -> None:
    collector = Collector()
    first = made("first", tags=("shared",))
    assert collector.add(first) and not collector.add(second)
    loaded = collector.freeze()
    assert loaded.checks == (first,)
    (row,) = loaded.broken
    assert (row.check, row.status, row.reason) == (
        second.id,
        Status.BROKEN,
        f"the name {taken} is already taken",
    )


def test_tags_may_be_shared() -> None:
    collector = Collector()
    assert collector.add(made("first", tags=("shared",))) and collector.add(made("second", tags=("shared",)))


def test_everything_that_selects_has_its_name() -> None:
    names = BUILT_IN.names()
    assert {"cache-server", "leftovers", "mindspore", "cache-server.orphan-segment"} <= names
    collector = Collector()
    collector.add_broken("mine", "drop-in", "because")
    assert collector.freeze().names() == {"mine", "drop-in"}


def test_only_groups_with_checks_are_walked(tmp_path: Path) -> None:
    for name in (
        "b/__init__.py",
        "b/two.py",
        "b/_helper.py",
        "b/data.toml",
        "a/__init__.py",
        "a/one.py",
        "c/no.py",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert list(list_check_files([str(tmp_path)])) == [("a", "one"), ("b", "two")]


def test_a_broken_built_in_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import npudoctor.checks

    folder = tmp_path / "scratch"
    folder.mkdir()
    for name, source in {
        "__init__": "",
        "raises": "1 / 0",
        "empty": "x = 1",
        "renamed": (
            "from npudoctor import *\n@check('other', scope=Scope.NODE, codes={'other.bad': ERROR})\n"
            "def f(host):\n    'Title.'\n"
        ),
    }.items():
        (folder / f"{name}.py").write_text(source)
    monkeypatch.setattr(npudoctor.checks, "__path__", [str(tmp_path)])
    loaded: LoadedChecks = load_all({"NPUDOCTOR_CHECKS_DIR": ""})
    monkeypatch.undo()
    for name in [name for name in sys.modules if name.startswith("npudoctor.checks.scratch")]:
        del sys.modules[name]
    assert {row.check: (row.reason or "").partition(":")[0] for row in loaded.broken} == {
        "raises": "ZeroDivisionError",
        "empty": "ValueError",
        "renamed": "ValueError",
    }
