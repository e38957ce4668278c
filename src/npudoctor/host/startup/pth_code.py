"""Whether a line of code in a .pth file can add to the search path, by its text; it is not run.

`site` runs it among its own names: `sys`, `os`, `addsitedir` and `known_paths` are there without an import.
So only names count that the line itself imports or binds, and what is not understood may add anything.
"""

from __future__ import annotations

import ast

from npudoctor.core.lazy import pattern
from npudoctor.host.startup.syntax import parse_source

# Modules that such lines use and that lead to no folder for packages.
_MODULES = ("os", "sys", "certifi", "coverage")
_CALLS = frozenset(
    "os.getenv os.environ.get os.environ.setdefault os.path.isfile os.path.isdir os.path.exists "
    "os.path.getsize os.path.join os.path.dirname os.path.basename certifi.where "
    "coverage.process_startup".split()
)
_VALUES = ("os.environ", "os.path", "os.name", "os.sep")
_BUILT_IN = ("open", "len", "max", "min", "bool", "str", "int")
# What is written to a file counts for the next start of Python, which is judged by what is there then.
_METHODS = "read write seek close get lower upper strip startswith endswith split splitlines encode decode"
_ERRORS = ("Exception", "ImportError", "OSError", "ValueError", "KeyError", "AttributeError")
_NODES = (
    ast.Module, ast.Import, ast.alias, ast.Expr, ast.Assign, ast.If, ast.IfExp, ast.Try, ast.ExceptHandler,
    ast.With, ast.withitem, ast.Pass, ast.BoolOp, ast.boolop, ast.BinOp, ast.operator, ast.UnaryOp,
    ast.unaryop, ast.Compare, ast.cmpop, ast.Constant, ast.Tuple, ast.List, ast.Subscript, ast.Slice,
    ast.expr_context, ast.Call, ast.keyword, ast.Name, ast.Attribute,
)  # fmt: skip
_MAX_DEPTH = 2  # texts in texts

_QUOTED = r"'[A-Za-z_]\w*'"
# setuptools: it declares a package whose parts lie in several folders.
_NAMESPACE = (
    (
        r"import sys, types, os;(?:has_mfs = sys\.version_info > \(3, 5\);)?"
        r"p = os\.path\.join\(sys\._getframe\(1\)\.f_locals\['sitedir'\], \*\((?:Q,(?: Q,?)*)\)\);"
        r"(?:importlib = @__import__\('importlib\.util'\);"
        r"@__import__\('importlib\.machinery'\);"
        r"m = @sys\.modules\.setdefault\(D, importlib\.util\.module_from_spec\("
        r"importlib\.machinery\.PathFinder\.find_spec\(D, \[os\.path\.dirname\(p\)\]\)\)\);"
        r"m = m or sys\.modules\.setdefault\(D, types\.ModuleType\(D\)\);"
        r"|ie = os\.path\.exists\(os\.path\.join\(p,'__init__\.py'\)\);"
        r"m = not ie and sys\.modules\.setdefault\(D, types\.ModuleType\(D\)\);)"
        r"mp = \(m or \[\]\) and m\.__dict__\.setdefault\('__path__',\[\]\);"
        r"\(p not in mp\) and mp\.append\(p\)"
        r"(?:;m and setattr\(sys\.modules\[D\], Q, m\))?"
    )
    .replace("@", "(?:has_mfs and )?")
    .replace("Q", _QUOTED)
    .replace("D", r"'[A-Za-z_][\w.]*'")
)
# As they are written by what everybody installs: setuptools, virtualenv, and easy_install, which changes the
# order of the search path.
_PRECEDENCE = (
    r"import os; var = 'SETUPTOOLS_USE_DISTUTILS'; "
    r"enabled = os\.environ\.get\(var, '(?:stdlib|local)'\) == 'local'; "
    r"enabled and __import__\('_distutils_hack'\)(?:\.add_shim\(\))?;?"
)
_ORDER = (
    r"import sys; new ?= ?sys\.path\[sys\.__plen:\]; del sys\.path\[sys\.__plen:\]; "
    r"p ?= ?getattr\(sys, ?'__egginsert', ?0\); sys\.path\[p:p\] ?= ?new; "
    r"sys\.__egginsert ?= ?p ?\+ ?len\(new\)"
)
# pytest-cov up to 6: the text of its file, in which only its own module is imported.
_PYTEST_COV = (
    r"""import os, sys;exec('if \'COV_CORE_SOURCE\' in os.environ:\n try:\n  from pytest_cov.embed """
    r"""import init\n  init()\n except Exception as exc:\n  sys.stderr.write(\n   "pytest-cov: Failed to """
    r"""setup subprocess coverage. "\n   "Environ: {0!r} "\n   "Exception: {1!r}\\n".format(\n    dict((k, v) for k, v in """  # noqa: E501
    r"""os.environ.items() if k.startswith(\'COV_CORE\')),\n    exc\n   )\n  )\n')"""
)
# manhole's: what it evaluates is in a variable of its own, which only a person sets.
_MANHOLE = (
    """import os, sys;exec('if "PYTHONMANHOLE" in os.environ:\\n try:\\n  from manhole import install\\n  """
    """eval("install({0[PYTHONMANHOLE]})".format(os.environ))\\n except Exception as exc:\\n  """
    """sys.stderr.write("Failed to manhole.install({[PYTHONMANHOLE]}): {!r}\\\\n".format(os.environ, exc))\\n')"""  # noqa: E501
)
_TEXTS = ("import _virtualenv", "import sys; sys.__plen = len(sys.path)", _PYTEST_COV, _MANHOLE)
_FUTURE_FSTRINGS = (
    "import sys; exec('try:\\n    import future_fstrings\\nexcept ImportError:\\n    pass\\nelse:\\n"
    "    future_fstrings.register()\\n')"
)
_COLOREDLOGS = (
    'import os; exec(\'try: __import__("coloredlogs").auto_install() if '
    'os.environ.get("COLOREDLOGS_AUTO_INSTALL") else None\\nexcept ImportError: pass\')'
)
_REORDERS = "import sys; new"
# By how each begins, as compiling the others would take longer than to read all .pth files.
_PATTERNS = {
    "import sys, types, os;": pattern(_NAMESPACE),
    "import os; var = 'SETUPTOOLS": pattern(_PRECEDENCE),
    _REORDERS: pattern(_ORDER),
}


def adds_no_path(line: str) -> bool:
    """Whether a line certainly adds nothing to the search path; False if it is not understood."""
    line = line.strip()
    if line in _TEXTS:
        return True
    is_known = any(line.startswith(begin) and shape.fullmatch(line) for begin, shape in _PATTERNS.items())
    return is_known or _is_harmless(line, frozenset(), frozenset(), 0)


def is_known_hook(line: str) -> bool:
    """Whether a line is, by its exact text, that of a package which adds nothing to the search path.

    future-fstrings registers a codec; coloredlogs does something only if a variable asks for it.
    """
    return line.strip() in (_FUTURE_FSTRINGS, _COLOREDLOGS)


def moves_to_front(line: str) -> bool:
    """Whether a line is easy_install's, which moves what its file has added to the front of the path."""
    line = line.strip()
    return line.startswith(_REORDERS) and _PATTERNS[_REORDERS].fullmatch(line) is not None


def _is_harmless(text: str, modules: frozenset[str], bound_names: frozenset[str], depth: int) -> bool:
    """`modules` and `bound_names` are the names of the text around it, which runs among the same."""
    tree = parse_source(text.strip())
    if tree is None:
        return False
    nodes = list(ast.walk(tree))
    if depth > _MAX_DEPTH or not all(isinstance(node, _NODES) for node in nodes):
        return False
    names = [name for node in nodes if isinstance(node, ast.Import) for name in node.names]
    if any(name.name not in _MODULES or name.asname for name in names):
        return False
    modules |= {name.name for name in names}
    bound_names |= {
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    bound_names |= {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
    if bound_names & {*_MODULES, *_BUILT_IN, *_ERRORS, "exec"}:
        return False
    reader = _ExpressionJudge(modules, bound_names, depth)
    return all(map(reader.is_harmless, ast.iter_child_nodes(tree)))


class _ExpressionJudge:
    """Judges expressions by the modules and names that the line has bound."""

    def __init__(self, modules: frozenset[str], bound_names: frozenset[str], depth: int) -> None:
        self._modules, self._bound_names, self._depth = modules, bound_names, depth

    def is_harmless(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Name) and function.id == "exec":
                text = node.args[0] if len(node.args) == 1 and not node.keywords else None
                if not isinstance(text, ast.Constant) or not isinstance(text.value, str):
                    return False
                is_allowed = _is_harmless(text.value, self._modules, self._bound_names, self._depth + 1)
            elif isinstance(function, ast.Name):
                is_allowed = function.id in _BUILT_IN
            elif isinstance(function, ast.Attribute):
                dotted = self._dotted_name(function)
                if dotted is not None:
                    is_allowed = dotted in _CALLS
                else:
                    is_allowed = function.attr in _METHODS.split() and self.is_harmless(function.value)
            else:
                is_allowed = False
            arguments = [*node.args, *(word.value for word in node.keywords)]
            return is_allowed and all(map(self.is_harmless, arguments))
        if isinstance(node, ast.Attribute):
            return isinstance(node.ctx, ast.Load) and self._dotted_name(node) in _VALUES
        if isinstance(node, ast.Name):
            return node.id in self._bound_names or node.id in _ERRORS
        return all(map(self.is_harmless, ast.iter_child_nodes(node)))

    def _dotted_name(self, node: ast.Attribute) -> object:
        """The name with its module, as os.path.isfile; None where it does not begin with one."""
        words, owner = [node.attr], node.value
        while isinstance(owner, ast.Attribute):
            words.append(owner.attr)
            owner = owner.value
        if not isinstance(owner, ast.Name) or owner.id not in self._modules:
            return None
        return ".".join((owner.id, *reversed(words)))
