"""Manuals lose the margin of the code, as inspect.cleandoc would have it."""

from __future__ import annotations

import ast
from inspect import cleandoc
from pathlib import Path

import pytest

from npudoctor.core.docstrings import dedent_docstring

pytestmark = pytest.mark.once

CHECKS = Path(__file__).parents[2] / "checks"


def test_every_manual_is_as_the_library_cleans_it() -> None:
    manuals = [
        ast.get_docstring(node, clean=False) or ""
        for path in CHECKS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.Module))
    ]
    assert len(manuals) > 100
    for manual in manuals:
        assert dedent_docstring(manual) == cleandoc(manual)


@pytest.mark.parametrize(
    "text",
    ["", "One line.", "\n    Below.\n\n      Deeper.\n    ", "First.\n\tTab.\n\n\t\tTwo.\n", " a\nb\n  c"],
)
def test_odd_ones_too(text: str) -> None:
    assert dedent_docstring(text) == cleandoc(text)
