"""Every test asserts something: by itself, or through a function of the tests that does."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

TESTS = Path(__file__).resolve().parent
OF_PYTEST = {"raises", "warns", "fail"}
Place = tuple[str, str]  # a module with dots, and a function in it


def asserts(function: ast.FunctionDef) -> bool:
    """Whether it has an assertion of its own; those of mocks and of unittest begin with `assert`."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            of_pytest = isinstance(owner, ast.Name) and owner.id == "pytest" and node.func.attr in OF_PYTEST
            if of_pytest or node.func.attr.startswith("assert"):
                return True
    return False


def imported(module: str, tree: ast.AST) -> Iterator[tuple[str, Place]]:
    """The names that a module has from others, and where each comes from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            package = module.split(".")[: -node.level] if node.level else []
            origin = ".".join([*package, *filter(None, [node.module])])
            yield from ((alias.asname or alias.name, (origin, alias.name)) for alias in node.names)


def called(function: ast.FunctionDef, module: str, names: Mapping[str, Place]) -> Iterator[Place]:
    """The functions that it calls by their name, or by that of their module."""
    for node in ast.walk(function):
        target = node.func if isinstance(node, ast.Call) else None
        if isinstance(target, ast.Name):
            yield names.get(target.id, (module, target.id))
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            yield ".".join(names.get(target.value.id, ())), target.attr


def asserting_nothing(sources: Mapping[str, str]) -> list[Place]:
    """The tests in these modules that end well whatever the code does."""
    calls: dict[Place, set[Place]] = {}
    asserting = set()
    for module, source in sources.items():
        tree = ast.parse(source)
        names = dict(imported(module, tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                place = module, node.name
                if asserts(node):
                    asserting.add(place)
                else:
                    calls[place] = set(called(node, module, names))
    before = 0
    while len(asserting) > before:  # a helper may assert through another
        before = len(asserting)
        asserting |= {place for place, others in calls.items() if others & asserting}
    return sorted(place for place in calls if place not in asserting and place[1].startswith("test_"))


def test_every_test_asserts_something() -> None:
    paths = sorted(TESTS.rglob("*.py"))
    sources = {
        ".".join(path.relative_to(TESTS.parent).with_suffix("").parts): path.read_text("utf-8")
        for path in paths
    }
    assert len(sources) > 300
    assert asserting_nothing(sources) == []


def test_what_asserts_nothing_is_seen() -> None:
    sources = {
        "tests.help": "def same(a):\n assert a\ndef through(a):\n same(a)\ndef prepare(a):\n return a\n",
        "tests.core.test_one": """
from ..help import prepare, through
from tests import help as ours
def test_nothing(): prepare(1)
def test_method_of_others(thing): thing.same(1)
def test_own(): assert prepare(1)
def test_by_helper(): through(1)
def test_by_module(): ours.same(1)
def test_error():
    with pytest.raises(ValueError): prepare(1)
def test_mock(mock): mock.assert_called_once()
""",
    }
    places = asserting_nothing(sources)
    assert [name for _module, name in places] == ["test_method_of_others", "test_nothing"]
