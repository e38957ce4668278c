"""Which folders a line of code in a .pth file adds, where its text and that of what it imports tell it.

Nothing is run. This answers which distributions are on the search path. Root starts an interpreter with such
a line only where it adds folders by their names, or is known by its text: what else it imports may load
anything.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.host.fs.files import Files
from npudoctor.host.startup.syntax import parse_source

MOST_SOURCES = 64  # of one package, above which it is not read
SOURCE_BYTES = 1 << 18
_MAX_DEPTH = 2  # texts in texts
# Words without which no folder is added and no other program or text is run.
_REACHING = pattern(
    r"\bsys\s*\.\s*path\b|\bfrom\s+sys\s+import\b|\baddsitedir\b|\baddpackage\b|\bmeta_path\b|\bpath_hooks\b"
    r"|\bimport\s+sys\s+as\b|\.path\.(?:append|insert|extend)\b|\b__path__\b|\bpath_importer_cache\b|\bknown_paths\b|\bsite-packages\b|\bPYTHONPATH\b"
)
_RUNNING = frozenset(
    "eval exec compile getattr setattr globals locals vars runpy importlib imp site zipimport pkgutil "
    "subprocess pty system popen execv execve execvp execl spawnl fork builtins __builtins__ __loader__ "
    "__spec__ _getframe addsitedir addpackage known_paths pickle marshal ctypes".split()
)


@dataclass(frozen=True)
class Reach:
    """Folders that a line adds at the end of the search path, and those at its front."""

    folders: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()


def read_reach(files: Files, site: str, line: str) -> Optional[Reach]:
    """What a line of code of a .pth file in `site` adds; None if it is not understood."""
    tree = parse_source(line.strip())
    if tree is None:
        return None
    added = _read_additions(tree.body)
    if added is not None:
        return added
    if _REACHING.search(line):
        return None
    try:
        is_known = all(_leads_nowhere(files, site, module) for module in _list_imports(tree, 0))
    except (CannotTell, _Unclear):
        return None
    return Reach() if is_known else None


class _Unclear(Exception):
    """A line does what its text does not tell."""


def _read_additions(body: Sequence[ast.stmt]) -> Optional[Reach]:
    """Read lines that only import and add folders by name: `sys.path.insert(0, "/opt/packages")`."""
    end: list[str] = []
    front: list[str] = []
    sites: list[str] = []
    for statement in body:
        if isinstance(statement, ast.Import):
            if any(
                name.name not in ("sys", "os", "os.path", "site") or name.asname for name in statement.names
            ):
                return None
            continue
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or call.keywords:
            return None
        name, words = ast.unparse(call.func), list(call.args)
        if name == "sys.path.insert" and len(words) == 2 and isinstance(words[0], ast.Constant):
            target = front if words[0].value in (0, 1) else end
            words = words[1:]
        elif name == "sys.path.append" and len(words) == 1:
            target = end
        elif name == "site.addsitedir" and len(words) == 1:
            target = sites
        else:
            return None
        value = words[0].value if isinstance(words[0], ast.Constant) else None
        if not isinstance(value, str) or not value.startswith("/"):
            return None
        target.append(value)
    return Reach(tuple(end), tuple(front), tuple(sites)) if end or front or sites else None


def _list_imports(tree: ast.AST, depth: int) -> Iterator[str]:
    """Yield the names of all that is imported, in texts of `exec`, too; _Unclear for other code that may run
    any text."""
    if depth > _MAX_DEPTH:
        raise _Unclear
    texts: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level or not node.module:
                raise _Unclear
            yield node.module
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            word = (
                node.args[0].value if len(node.args) == 1 and isinstance(node.args[0], ast.Constant) else None
            )
            if node.func.id in ("exec", "__import__"):
                if not isinstance(word, str) or node.keywords:
                    raise _Unclear
                texts.add(id(node.func))
                if node.func.id == "__import__":
                    yield word
                else:
                    inside = parse_source(word)
                    if inside is None:
                        raise _Unclear
                    yield from _list_imports(inside, depth + 1)
    _require_plain(tree, texts)


def _require_plain(tree: ast.AST, known: set[int]) -> None:
    """Raise _Unclear for names by which any text could be run; `known`: the nodes whose text was read."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in (*_RUNNING, "__import__") and id(node) not in known:
            raise _Unclear
        if isinstance(node, ast.Attribute) and node.attr in _RUNNING:
            raise _Unclear
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = {part for name in node.names for part in name.name.split(".")}
            names |= set((getattr(node, "module", None) or "").split("."))
            if names & _RUNNING:
                raise _Unclear


def _leads_nowhere(files: Files, site: str, module: str) -> bool:
    """Whether a module of this folder, and the packages around it, have no word by which a folder is added.

    True where there is none of that name: of the standard library, which adds none by itself, or nowhere, and
    Python prints an error and goes on with the next file. False for a compiled one.
    """
    place = site
    for part in module.split("."):
        names = files.names(place)
        if part not in names:
            same_named = {name for name in names if name.startswith(f"{part}.") and not name.endswith(".pth")}
            return same_named <= {f"{part}.py"} and all(
                _is_without(files, f"{place}/{name}") for name in same_named
            )
        place = f"{place}/{part}"
        sources = [name for name in files.names(place) if name.endswith(".py")]
        # One that is all compiled, or is large, is not known.
        if len(sources) > MOST_SOURCES or not (sources or files.stat(f"{place}/__init__.so") is None):
            return False
        if not all(_is_without(files, f"{place}/{name}") for name in sources):
            return False
    return True


def _is_without(files: Files, path: str) -> bool:
    content = files.read(path, SOURCE_BYTES)
    if content is None or len(content) >= SOURCE_BYTES:
        return False
    text = re.sub(r"^[ \t]*#.*$", "", content.decode("utf-8", "replace"), flags=re.M)
    return not _REACHING.search(text)
