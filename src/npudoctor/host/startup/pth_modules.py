"""Whether the module that a line of a .pth file imports can add to the search path, told by its source.

`import _numba_cuda_redirector` stands in each environment with numba-cuda: it puts a finder before Python's
own and adds no folder. A module is believed only where all that it imports is of the standard library and
nothing in it names the search path, loads a file by its name or runs a text. What is not understood may add
anything.
"""

from __future__ import annotations

import ast
from typing import Optional

from npudoctor.core.lazy import pattern
from npudoctor.host.fs.files import Files
from npudoctor.host.startup.syntax import parse_source

_LINE = pattern(r"import\s+([A-Za-z_]\w*)\s*;?\s*")
LIMIT = 1 << 18  # bytes of a source
_STANDARD = frozenset(
    "__future__ abc collections contextlib functools importlib importlib.abc importlib.util "
    "importlib.machinery itertools logging os pathlib re sys types typing warnings".split()
)
# Names by which a folder is added, a file loaded or a text run, or by which one of these could be reached.
_FORBIDDEN = frozenset(
    "exec eval compile __import__ import_module exec_module load_module create_module getattr setattr vars "
    "globals locals __dict__ __globals__ __builtins__ builtins modules path path_hooks path_importer_cache "
    "addsitedir addpackage spec_from_file_location spec_from_loader module_from_spec SourceFileLoader "
    "SourcelessFileLoader ExtensionFileLoader FileFinder PathFinder environ putenv system popen reload "
    "get_type_hints ForwardRef fork forkpty".split()
)
_STARTING = ("exec", "spawn", "posix_spawn")  # of os
_MODULES_AS_NAMES = ("sys", "os", "importlib")


def imports_what_leads_nowhere(files: Files, site: str, line: str) -> bool:
    """Whether a line of code of a .pth file in `site` imports a module of that folder that surely adds
    nothing to the search path and loads nothing from elsewhere."""
    named = _LINE.fullmatch(line.rstrip())
    source = _source(files, site, named[1]) if named else None
    tree = parse_source(source) if source is not None else None
    if tree is None:
        return False
    nodes = list(ast.walk(tree))
    return not any(map(_is_doubtful, nodes)) and not _hands_on(nodes)


def _source(files: Files, site: str, name: str) -> Optional[str]:
    """The module's source; None where there is none, or something else of that name comes first."""
    others = (file for file in files.names(site) if file.partition(".")[0] == name)
    if set(others) - {f"{name}.py", f"{name}.pth"}:
        return None
    content = files.read(f"{site}/{name}.py", LIMIT)
    return content.decode("utf-8", "replace") if content is not None and len(content) < LIMIT else None


def _is_doubtful(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(name.name not in _STANDARD or name.asname for name in node.names)
    if isinstance(node, ast.ImportFrom):
        names = {name.name for name in node.names}
        return node.module not in _STANDARD or bool(node.level) or "*" in names or bool(names & _FORBIDDEN)
    if isinstance(node, ast.Attribute):
        return node.attr in _FORBIDDEN or node.attr.startswith(_STARTING)
    # A parameter may be called `path`, as that of find_spec is: no module is reached by it.
    return isinstance(node, ast.Name) and node.id in _FORBIDDEN - {"path"}


def _hands_on(nodes: list[ast.AST]) -> bool:
    """Whether a module is used otherwise than by one of its attributes: what has another name is not seen."""
    owners = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    return any(
        isinstance(node, ast.Name) and node.id in _MODULES_AS_NAMES and id(node) not in owners
        for node in nodes
    )
