"""npudoctor is installed beside the packages of a job: no upper bounds, and nothing private of typer."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# Of the one that Python 3.9 can have as a wheel there is no newer one, and pip would try to compile it.
EXACT = {"hyperscan": "3.9"}
FOLDERS = ("src", "build_backend", "tools", "tests", "benchmarks")


def requirements() -> Iterator[str]:
    yield from PROJECT["build-system"]["requires"]
    yield from PROJECT["project"]["dependencies"]
    for extra in PROJECT["project"]["optional-dependencies"].values():
        yield from extra


def above(requirement: str) -> list[str]:
    """The bounds that a newer version breaks."""
    parsed = Requirement(requirement)
    if parsed.name in EXACT and parsed.marker and not parsed.marker.evaluate({"python_version": "3.10"}):
        return []
    return [str(bound) for bound in parsed.specifier if bound.operator not in (">=", ">", "!=")]


@pytest.mark.parametrize("requirement", sorted(set(requirements())))
def test_no_dependency_has_an_upper_bound(requirement: str) -> None:
    assert above(requirement) == []


def test_an_upper_bound_is_seen() -> None:
    for bound in ("<2", "<=2", "==2", "~=2.0", "===2", ">=1,<2"):
        assert above(f"typer{bound}"), bound
    assert above('hyperscan==0.9; python_version >= "3.10"')


def private(tree: ast.AST) -> Iterator[str]:
    """What a file uses of typer and click beside their documented names: typer brings its own click from 0.26
    on, and moved what is private in it with each release."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            hidden = node.attr.startswith("_") and node.attr.strip("_") and not node.attr.startswith("__")
            # No object of theirs is called self or os; whatever else is private here may be one of theirs.
            if node.attr == "protected_args" or (hidden and name.split(".")[0] not in ("self", "cls", "os")):
                yield name
            names = [name] if name.startswith("typer.") else []
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            package, *parts = name.split(".")
            if package == "click" or (package == "typer" and any(part.startswith("_") for part in parts)):
                yield name


def users() -> list[Path]:
    """The files that load typer, or get its commands from us."""
    words = ("import typer", "from typer", "import build_command_line", "import click", "from click")
    return [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path != Path(__file__) and any(word in path.read_text(encoding="utf-8") for word in words)
    ]


def test_nothing_private_of_typer_is_used() -> None:
    assert len(users()) > 5
    for path in users():
        assert list(private(ast.parse(path.read_text(encoding="utf-8")))) == [], path


@pytest.mark.parametrize(
    "code", ["from typer._click import core", "import click", "ctx._protected_args", "ctx.protected_args"]
)
def test_what_is_private_is_seen(code: str) -> None:
    assert list(private(ast.parse(code)))
