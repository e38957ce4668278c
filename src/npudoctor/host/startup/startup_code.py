"""Finds statements in start-up code that plainly end Python, raise, or replace a module, by its text.

Only statements at the top level count: those in a condition, a function or a `try` may never run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.host.startup.syntax import parse_source

_LIMIT = 1 << 18
_ENDS = frozenset(("sys.exit", "os._exit", "os.abort", "exit", "quit"))
# These are not subclasses of Exception, which `site` catches: they end Python.
_LEAVING = frozenset(("SystemExit", "KeyboardInterrupt", "GeneratorExit", "BaseException"))
_PLAIN = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Pass)


@dataclass(frozen=True)
class StartupStatement:
    """`kind`: "ends", "raises", "replaces", the last with a `module`. `certain`: nothing before it could keep
    it from being reached. `words`: the statement."""

    kind: str
    line: int
    text: str
    is_certain: bool
    module: str = ""


def find_startup_statements(text: str) -> Iterator[StartupStatement]:
    """Yield such statements in the order of the text, up to the first one that ends or raises."""
    if len(text) > _LIMIT or not any(word in text for word in ("exit", "abort", "quit", "raise", "modules")):
        return
    tree = parse_source(text)
    body = tree.body if tree else []
    bound_names = {
        name.id
        for name in ast.walk(ast.Module(body, []))
        if isinstance(name, ast.Name) and (not isinstance(name.ctx, ast.Load))
    }
    bound_names |= {
        definition.name for definition in body if isinstance(definition, (ast.FunctionDef, ast.ClassDef))
    }
    is_certain = True
    for node in body:
        kind, module = _classify(node, bound_names)
        if kind:
            yield StartupStatement(
                kind, node.lineno, ast.unparse(node).splitlines()[0][:80], is_certain, module
            )
        if kind in ("ends", "raises"):
            return
        # Plain is a docstring, too, or a name for a value that stands there.
        is_constant = isinstance(node, (ast.Expr, ast.Assign)) and isinstance(node.value, ast.Constant)
        is_certain = is_certain and (isinstance(node, _PLAIN) or is_constant)


def _classify(node: ast.stmt, bound_names: set[str]) -> tuple[str, str]:
    if isinstance(node, ast.Raise):
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        name = _dotted_name(raised)
        return ("ends" if name in _LEAVING and name not in bound_names else "raises"), ""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        name = _dotted_name(node.value.func)
        return ("ends" if name in _ENDS and name.partition(".")[0] not in bound_names else ""), ""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
        if isinstance(target, ast.Subscript) and _dotted_name(target.value) == "sys.modules":
            key: Optional[ast.AST] = target.slice
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value:
                return "replaces", key.value
    return "", ""


def _dotted_name(node: Optional[ast.AST]) -> str:
    """A name or module.name; "" for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""
