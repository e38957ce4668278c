"""Follows the imports that modules make as soon as they are imported; nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.host.python.modules import Module, Modules
from npudoctor.host.startup.syntax import parse_source

# An import that begins a line: those in functions, in `try` and under conditions are indented. The line end
# before it, and not ^, as a search for one character is fast.
_IMPORT = pattern(
    r"\n(?:import[ \t]+(?P<modules>[^\n#;\\]+)"
    r"|from[ \t]+(?P<base>[.\w]+)[ \t]+import[ \t]*(?P<names>\([^)]*\)|[^\n]*))"
)
_COMMENT = pattern(r"#[^\n]*")
# A package that puts modules in place that are no files of its folder: six.moves.
_MAKES_MODULES = pattern(
    r"sys\.modules(?:\[(?!__name__\])[^\]\n]*\]\s*=(?!=)|\.update|\.setdefault)|__path__|meta_path"
)
MOST = 8000  # modules; a trainer's whole stack has five thousand


@dataclass(frozen=True)
class BrokenImport:
    """An import that cannot succeed. `importer`: the file with the statement, "" for the job; `missing`: the
    module that it names; `name`: what that module does not have, "" where the module itself is gone.
    `is_cut`: the module is there, and its text ends in the middle; `path` is its file."""

    importer: str
    missing: str
    name: str = ""
    path: str = ""

    @property
    def is_cut(self) -> bool:
        """Whether the module is there and holds less than it did."""
        return bool(self.path)


class ImportWalk:
    """Walks from modules to what these import unconditionally, and on from there.

    `gone`: modules that were installed and are no longer there. `offered`: for modules that became shorter,
    the names that they still have. `complete`: packages without a list of their files, in which whatever
    their own modules import must be found.
    """

    def __init__(
        self,
        modules: Modules,
        gone: Collection[str] = (),
        offered: Optional[Mapping[str, frozenset[str]]] = None,
        complete: Collection[str] = (),
    ) -> None:
        self._modules, self._gone = modules, gone
        self._offered, self._complete = offered or {}, complete
        self._found_by_name: dict[str, Optional[Module]] = {}
        self._importer_by_name: dict[str, str] = {}
        self._todo: list[str] = []

    def find_broken(self, roots: Iterable[str]) -> Iterator[BrokenImport]:
        """Yield the imports that fail when these modules are imported; each has been found in its source."""
        for root in roots:
            yield from self._enter(root, "")
        while self._todo and len(self._found_by_name) < MOST:
            importer = self._todo.pop()
            module = self._found_by_name[importer]
            if module is None or module.file is None or not module.file.endswith(".py") or module.is_archived:
                continue
            for match in _IMPORT.finditer(f"\n{self._modules.text(module.file)}"):
                if match["modules"]:
                    for name in match["modules"].split(","):
                        yield from self._enter(name.partition(" as ")[0].strip(), importer)
                else:
                    yield from self._enter_from(match["base"], match["names"], importer, module)

    def _enter_from(self, base: str, names: str, importer: str, module: Module) -> Iterator[BrokenImport]:
        stem = base.lstrip(".")
        if stem != base:
            package = importer.split(".") if module.folders else importer.split(".")[:-1]
            above = package[: len(package) - (len(base) - len(stem)) + 1]
            base = ".".join([*above, *filter(None, [stem])])
        yield from self._enter(base, importer)
        source = self._found_by_name.get(base)
        if source is None:
            return
        offered = self._offered.get(base)
        if offered is None and base.partition(".")[0] in self._complete and self._is_empty(source):
            offered = frozenset()
        for name in _COMMENT.sub("", names).strip("() \t\r\n;").split(","):
            name = name.partition(" as ")[0].strip()
            part = f"{base}.{name}"
            if part in self._gone or (source.folders and name and self._is_there(source, name)):
                yield from self._enter(part, importer)
            # A part may be compiled.
            elif (
                offered is not None
                and name.isidentifier()
                and name not in offered
                and self._modules.find_part(source, name) is None
            ):
                yield from self._confirm(BrokenImport(importer, base, name, source.file or ""))

    def _is_empty(self, module: Module) -> bool:
        """Return whether a source holds nothing, as of files for which a full disk had no room."""
        path = module.file or ""
        return path.endswith(".py") and not module.is_archived and not self._modules.text(path)

    def _is_cut(self, module: Module) -> bool:
        """Return whether a source ends within a line and cannot be read."""
        text = self._modules.text(module.file or "")
        return bool(text) and not text.endswith("\n") and parse_source(text) is None

    def _is_there(self, package: Module, name: str) -> bool:
        return name.isidentifier() and any(
            name in names or f"{name}.py" in names for names in map(self._modules.names, package.folders)
        )

    def _enter(self, name: str, importer: str) -> Iterator[BrokenImport]:
        """Add a module, and the packages that it lies in, to those that are imported."""
        above: Optional[Module] = None
        parts = name.split(".")
        for number in range(1, len(parts) + 1):
            step = ".".join(parts[:number])
            if not parts[number - 1].isidentifier():
                return
            if step not in self._found_by_name:
                module = (
                    self._modules.find_part(above, parts[number - 1])
                    if above is not None
                    else self._modules.find_top(step)
                )
                self._found_by_name[step] = module
                self._importer_by_name[step] = importer
                if step in self._gone or (module is None and self._must_exist(step, above, importer)):
                    yield from self._confirm(BrokenImport(importer, step))
                if module is not None:
                    self._todo.append(step)
                    if parts[0] in self._complete and self._is_cut(module):
                        yield from self._confirm(BrokenImport(importer, step, "", module.file or ""))
            above = self._found_by_name[step]
            if above is None:
                # The folder is gone as a whole, and its own `__init__.py` was empty.
                if step not in self._gone and name in self._gone:
                    yield from self._confirm(BrokenImport(importer, name))
                return

    def _must_exist(self, name: str, above: Optional[Module], importer: str) -> bool:
        if above is None or name.partition(".")[0] not in self._complete:
            return False
        # An extension module may make modules of its own: torch._C._autograd.
        if not above.folders or above.file is None or not above.file.endswith(".py"):
            return False
        # What the job imports is known to be a file.
        return not importer or _MAKES_MODULES.search(self._modules.text(above.file)) is None

    def _confirm(self, broken: BrokenImport) -> Iterator[BrokenImport]:
        """Yield it with the file's path where every step on the way to it is a statement, and no line of a
        text that looks like one."""
        if not broken.importer:  # what the job itself imports
            yield broken
            return
        module = self._found_by_name.get(broken.importer)
        if module is None or module.file is None:
            return
        path, wanted, importer = module.file, broken.missing, broken.importer
        while importer:
            module = self._found_by_name.get(importer)
            if module is None or module.file is None or not module.file.endswith(".py"):
                return
            if not _imports(self._modules.text(module.file), importer, bool(module.folders), wanted):
                return
            wanted, importer = importer, self._importer_by_name.get(importer, "")
        yield BrokenImport(path, broken.missing, broken.name, broken.path)


def _imports(text: str, importer: str, is_package: bool, wanted: str) -> bool:
    """Return whether a source imports a module, or one below it, at its top level."""
    tree = parse_source(text)
    package = importer if is_package else importer.rpartition(".")[0]
    for node in tree.body if tree else ():
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        if any(name == wanted or name.startswith(f"{wanted}.") for name in names):
            return True
    return False
