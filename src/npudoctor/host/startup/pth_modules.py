"""Whether the module that a line of a .pth file imports can add to the search path, told by its source.

`import _numba_cuda_redirector` stands in each environment with numba-cuda: it puts a finder before Python's
own and adds no folder. A module is believed only where all that it imports is of the standard library and
nothing in it names the search path, loads a file by its name or runs a text. What is not understood may add
anything.
"""

from __future__ import annotations

import ast

from npudoctor.core.lazy import pattern
from npudoctor.host.fs.files import Files
from npudoctor.host.startup.syntax import parse_source

_LINE = pattern(r"import\s+([A-Za-z_]\w*)\s*;?\s*")
MAX_SOURCE_BYTES = 1 << 18  # bytes of a source
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


def imports_harmless_module(files: Files, site: str, line: str) -> bool:
    """Whether a line of code of a .pth file in `site` imports a module of that folder that surely adds
    nothing to the search path and loads nothing from elsewhere."""
    statement = _LINE.fullmatch(line.rstrip())
    if statement is None:
        return False
    name = statement[1]
    same_named = {file for file in files.names(site) if file.partition(".")[0] == name}
    if same_named - {f"{name}.py", f"{name}.pth"}:
        return False  # something else of that name may come first
    content = files.read(f"{site}/{name}.py", MAX_SOURCE_BYTES)
    # A longer source was not read to its end: it may do anything there.
    if content is None or len(content) >= MAX_SOURCE_BYTES:
        return False
    tree = parse_source(content.decode("utf-8", "replace"))
    if tree is None:
        return False
    nodes = list(ast.walk(tree))
    # A module that is used otherwise than by one of its attributes may get another name, which is not seen.
    used_by_attribute = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    modules = (node for node in nodes if isinstance(node, ast.Name) and node.id in _MODULES_AS_NAMES)
    return not any(map(_is_doubtful, nodes)) and all(id(module) in used_by_attribute for module in modules)


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
