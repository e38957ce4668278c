"""Tells of each import in a source whether the module goes on where it fails; nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor.host.startup.syntax import parse_source

FIRM, LATER, TRIED, TRIED_LATER = "firm", "later", "tried", "tried later"
_CAUGHT = frozenset(("ImportError", "ModuleNotFoundError", "Exception", "BaseException"))
_IMPORTING = frozenset(("import_module", "__import__"))
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def list_import_kinds(text: str, module: str, is_package: bool) -> Iterator[tuple[str, str]]:
    """Yield the modules that a source imports, with their full names, and how.

    FIRM: as soon as it is imported. LATER: under a condition, or in a function. TRIED: in a `try` that goes
    on without, or by a function of its own that tries, as protobuf's `_CanImport("google._upb._message")`;
    TRIED_LATER: that in a function. What only type checkers import is left out. `from a import b` yields a
    and a.b.
    """
    tree = parse_source(text)
    if tree is not None:
        package = module.split(".") if is_package else module.split(".")[:-1]
        trying = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _tries(node)}
        yield from _Reader(package, trying).read(tree.body, FIRM)


class _Reader:
    """Reads the statements of one source. `trying`: names of its functions that try to import what they are
    given."""

    def __init__(self, package: Sequence[str], trying: set[str]) -> None:
        self._package, self._trying = package, trying

    def read(self, body: Sequence[ast.AST], kind: str) -> Iterator[tuple[str, str]]:
        """Yield what these import; `kind`: how far it is certain that they are run."""
        for node in body:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.name, kind
            elif isinstance(node, ast.ImportFrom):
                base = self._join(node.level, node.module or "")
                yield base, kind
                for alias in node.names:
                    yield f"{base}.{alias.name}", kind
            elif isinstance(node, ast.Try):
                is_caught = any(map(_goes_on, node.handlers))
                yield from self.read(node.body, _try(kind) if is_caught else kind)
                yield from self.read([*node.handlers, *node.finalbody], kind)
                yield from self.read(node.orelse, LATER if is_caught and kind == FIRM else kind)
            elif isinstance(node, ast.If):
                yield from self.read([node.test], kind)
                is_typing = _name_of(node.test) == "TYPE_CHECKING"
                yield from self.read([] if is_typing else node.body, _weaken(kind))
                yield from self.read(node.orelse, kind if is_typing else _weaken(kind))
            elif isinstance(node, (ast.With, ast.AsyncWith)):
                yield from self.read(node.body, _try(kind) if any(map(_suppresses, node.items)) else kind)
            elif isinstance(node, _FUNCTIONS):
                yield from self.read([*ast.iter_child_nodes(node)], LATER)
            else:
                if isinstance(node, ast.Call):
                    yield from self._read_call(node, kind)
                yield from self.read([*ast.iter_child_nodes(node)], kind)

    def _read_call(self, node: ast.Call, kind: str) -> Iterator[tuple[str, str]]:
        function = _name_of(node.func)
        is_tried = function in self._trying or function == "find_spec"
        if not is_tried and function not in _IMPORTING:
            return
        for word in node.args[:1]:
            if isinstance(word, ast.Constant) and isinstance(word.value, str):
                name = word.value.lstrip(".")
                yield self._join(len(word.value) - len(name), name), _try(kind) if is_tried else kind

    def _join(self, level: int, name: str) -> str:
        above = self._package[: len(self._package) - level + 1] if level else ()
        return ".".join([*above, *filter(None, [name])])


def _try(kind: str) -> str:
    return TRIED_LATER if kind in (LATER, TRIED_LATER) else TRIED


def _weaken(kind: str) -> str:
    return LATER if kind == FIRM else kind


def _name_of(node: Optional[ast.AST]) -> str:
    """The last word of a dotted name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Return whether a failed import ends here and the module goes on: pillow raises it again."""
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    is_caught = handler.type is None or not _CAUGHT.isdisjoint(map(_name_of, types))
    inner = [node for statement in handler.body for node in ast.walk(statement)]
    return is_caught and not any(
        isinstance(node, ast.Raise)
        or (isinstance(node, ast.Call) and _name_of(node.func) in ("exit", "_exit"))
        for node in inner
    )


def _suppresses(item: ast.withitem) -> bool:
    call = item.context_expr
    return (
        isinstance(call, ast.Call)
        and _name_of(call.func) == "suppress"
        and not _CAUGHT.isdisjoint(map(_name_of, call.args))
    )


def _tries(function: ast.FunctionDef) -> bool:
    """Return whether a function imports what it is given, in a `try` that goes on."""
    return any(
        isinstance(node, ast.Try)
        and any(map(_goes_on, node.handlers))
        and any(
            isinstance(call, ast.Call) and _name_of(call.func) in _IMPORTING
            for statement in node.body
            for call in ast.walk(statement)
        )
        for node in ast.walk(function)
    )
