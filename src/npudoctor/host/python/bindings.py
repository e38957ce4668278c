"""Reads which names a module's source binds and imports, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Optional

from npudoctor.core.lazy import pattern
from npudoctor.host.startup.syntax import parse_source

# A source with one of these gets names in ways that its text does not show.
_DYNAMIC = pattern(r"__getattr__|__path__|globals\(|sys\.modules|\bexec\(|import \*")


def list_bindings(text: str) -> Optional[frozenset[str]]:
    """All names that a source may bind at its top level; None if its text does not tell."""
    return None if _DYNAMIC.search(text) else list_static_bindings(text)


def list_static_bindings(text: str) -> Optional[frozenset[str]]:
    """The names that its statements bind, whatever it does at run time; None for text that is no source."""
    tree = parse_source(text)
    return None if tree is None else frozenset(name for node in tree.body for name in _list_names(node))


def _list_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
    elif isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Store):
            yield node.id
    else:
        for inner in ast.iter_child_nodes(node):
            yield from _list_names(inner)


def read_submodule_imports(text: str) -> frozenset[str]:
    """The submodules that a package's source imports unconditionally: `from . import x`, `from .x import y`.

    Imports in `try`, or under a condition that is more than one plain name, are left out.
    """
    tree = parse_source(text)
    body = tree.body if tree else []
    other_nodes = (node for node in body if not isinstance(node, (ast.ImportFrom, ast.If)))
    bound_names = {name for node in other_nodes for name in _list_names(node)}
    return frozenset(name for node in body for name in _list_submodules(node)) - bound_names


def _list_submodules(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id != "TYPE_CHECKING":
        for inner in (*node.body, *node.orelse):
            yield from _list_submodules(inner)
    elif isinstance(node, ast.ImportFrom) and node.level == 1:
        if node.module:
            yield node.module.partition(".")[0]
        else:
            yield from (alias.name for alias in node.names if alias.name != "*")


def read_imports(text: str) -> frozenset[str]:
    """The top-level packages that a source imports unconditionally, with absolute imports."""
    tree = parse_source(text)
    names: list[str] = []
    for node in tree.body if tree else ():
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.append(node.module)
    return frozenset(name.partition(".")[0] for name in names)
