"""Whether a sitecustomize.py leaves the search path and the import system alone, by its text; not run."""

from __future__ import annotations

import ast

from npudoctor.host.startup.syntax import parse_source

# Of the standard library, what such files use; and two that lead to no folder for packages.
_MODULES = frozenset(
    "__future__ atexit collections contextlib datetime faulthandler functools gc io itertools json locale "
    "logging math os pathlib platform random re resource signal socket ssl string sys tempfile threading "
    "time traceback typing warnings apport_python_hook coverage".split()
)
_FORBIDDEN_NAMES = frozenset(
    "exec eval compile getattr setattr delattr globals locals vars __import__ __builtins__ __loader__ "
    "__spec__".split()
)
# `path` but of os; and what leads to another program, or to what stands behind an object.
_FORBIDDEN_ATTRIBUTES = frozenset(
    "path meta_path path_hooks path_importer_cache modules _getframe addsitedir system popen".split()
)
_FORBIDDEN_PREFIXES = ("exec", "spawn", "posix_spawn", "fork", "__")
_FIXED_NAMES = frozenset(("os", "sys"))
_LIMIT = 1 << 16


def adds_no_path(text: str) -> bool:
    """Whether a text certainly adds nothing to the search path; False if it is not understood."""
    tree = parse_source(text) if len(text) <= _LIMIT else None
    return tree is not None and all(map(_is_harmless, ast.walk(tree)))


def _is_harmless(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        for alias in node.names:
            first = alias.name.split(".")[0]
            # `os` and `sys` keep their names, by which the rest of the text is judged; no other gets them.
            if first not in _MODULES or (alias.asname is not None and _FIXED_NAMES & {alias.asname, first}):
                return False
        return True
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        if node.level or module.split(".")[0] not in _MODULES:
            return False
        for alias in node.names:
            if (alias.asname or alias.name) in _FIXED_NAMES:
                return False
            if module == "os" and alias.name == "path":
                continue
            if (
                alias.name in _FORBIDDEN_ATTRIBUTES
                or alias.name == "*"
                or alias.name.startswith(_FORBIDDEN_PREFIXES)
            ):
                return False
        return True
    if isinstance(node, ast.Name):
        return node.id not in _FORBIDDEN_NAMES and (
            isinstance(node.ctx, ast.Load) or node.id not in _FIXED_NAMES
        )
    if isinstance(node, ast.Attribute):
        if node.attr == "path" and isinstance(node.value, ast.Name) and node.value.id == "os":
            return True
        return node.attr not in _FORBIDDEN_ATTRIBUTES and not node.attr.startswith(_FORBIDDEN_PREFIXES)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name not in _FIXED_NAMES
    return not isinstance(node, ast.arg) or node.arg not in _FIXED_NAMES
