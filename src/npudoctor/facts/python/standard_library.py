"""What the standard library of the job's Python lacks of what frameworks import, told by its files alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.facts.job import process
from npudoctor.host.fs.disk import CLOSED
from npudoctor.host.host import Host
from npudoctor.host.libraries.elf_damage import is_damaged
from npudoctor.host.libraries.extensions import find_extensions
from npudoctor.host.python.byte_code import ByteCode
from npudoctor.host.python.interpreter import Layout
from npudoctor.host.startup.site_folders import PYTHON_LIB, read_home

# Packages and modules without which `import torch` of 2.13 fails: each was taken away from Python 3.11, and
# the import tried. All of them are in each release from 3.9 to 3.14.
PACKAGES = (
    *("asyncio", "collections", "concurrent", "ctypes", "email", "encodings", "http", "importlib", "json"),
    *("logging", "multiprocessing", "unittest", "urllib"),
)
MODULES = (
    *("argparse", "ast", "base64", "bisect", "calendar", "contextlib", "contextvars", "copy", "copyreg"),
    *("csv", "dataclasses", "datetime", "difflib", "dis", "enum", "fnmatch", "functools", "gettext", "glob"),
    *("hashlib", "heapq", "inspect", "ipaddress", "keyword", "linecache", "locale", "numbers", "opcode"),
    *("operator", "pickle", "pickletools", "pkgutil", "platform", "pprint", "queue", "random", "reprlib"),
    *("selectors", "shutil", "signal", "socket", "string", "struct", "subprocess", "tarfile", "tempfile"),
    *("textwrap", "threading", "timeit", "token", "tokenize", "traceback", "types", "typing", "uuid"),
    *("warnings", "weakref", "zipfile"),
)
EXTENSIONS = (
    *("_contextvars", "_csv", "_ctypes", "_datetime", "_multiprocessing", "_posixshmem", "_posixsubprocess"),
    *("_random", "_socket", "_struct", "array", "binascii", "cmath", "math", "mmap", "select", "zlib"),
)
# What frameworks do without, and data sets, downloads or compressed files do not.
OPTIONAL = ("_bz2", "_hashlib", "_lzma", "_sqlite3", "_ssl")
# Distributions whose import fails without one of these, as seen with those of 2026.
# They were taken away one by one from Python 3.11, with huggingface-hub 2.4.0 and datasets 5.2.0.
NEEDED_BY = {
    "huggingface-hub": ("_ssl", "configparser", "decimal", "mimetypes", "secrets", "shlex"),
    "datasets": ("_bz2", "_lzma", "sysconfig", "termios", "xml", "zoneinfo"),
}
_COMPILED = ("termios",)  # of these; those of OPTIONAL are looked for anyway
# Files that other modules import, which not every release has.
_IF_PRESENT = (
    "_collections_abc",
    "_compat_pickle",
    "_compression",
    "_weakrefset",
    "codecs",
    "gzip",
    "pathlib",
)
_END = 64  # bytes at the end of a source: a crash leaves zeros there, a full disk half a line
_ABSENT = -1


@dataclass(frozen=True)
class Flaw:
    """What is wrong with one module. `kind`: absent, damaged, closed, or library, whose name is `library`.

    `is_extension`: it is compiled, so that a build of Python may never have had it.
    """

    kind: str
    module: str
    path: str
    is_extension: bool = False
    library: str = ""


@dataclass(frozen=True)
class StandardLibrary:
    """Where it lies, and what its Python has compiled in; None where that Python was not asked."""

    folder: str
    extensions: Optional[str]
    version: str
    built_in: Optional[frozenset[str]]


def find_standard_library(host: Host, layout: Optional[Layout]) -> Optional[StandardLibrary]:
    """Return the standard library of the examined interpreter; None where there is no such folder.

    `layout`: None for an interpreter that does not start, which is known by the name of its file.
    """
    if layout is None:
        name = PYTHON_LIB.match((host.files.real(host.interpreter.path) or "").rpartition("/")[2])
        layout = Layout((), name[1] if name else None, None, asked=False)
    version = ".".join((layout.version or "").split(".")[:2])
    for folder in _find_candidates(host, layout, version):
        if len(host.files.names(folder)) > len(PACKAGES) + len(MODULES):
            compiled = next((entry for entry in layout.search_path if entry.endswith("/lib-dynload")), None)
            if compiled is None and host.files.stat(f"{folder}/lib-dynload") is not None:
                compiled = f"{folder}/lib-dynload"
            return StandardLibrary(folder, compiled, version, layout.built_in)
    return None


def _find_candidates(host: Host, layout: Layout, version: str) -> Iterator[str]:
    if not version:
        return
    end = f"/python{version}"
    yield from (entry for entry in layout.search_path if entry.endswith((end, f"{end}t")))
    # The search path of a virtual environment that was only read has no standard library: it lies beside the
    # program of which the environment was made, which is the real file, or is named where that is a copy
    # (`venv --copies`).
    real = host.files.real(host.interpreter.program) or ""
    if real.count("/") > 1:
        home = read_home(host.files, real)
        bases = [real.rsplit("/", 2)[0], *([home.rpartition("/")[0]] if home is not None else [])]
        yield from (f"{base}/{lib}{end}" for base in bases for lib in ("lib", "lib64"))


def list_needed(host: Host) -> tuple[str, ...]:
    """Return the modules that only some installed distributions import, apart from those of OPTIONAL."""
    needed = (modules for name, modules in NEEDED_BY.items() if host.interpreter.installed(name) is not None)
    return tuple(module for modules in needed for module in modules if module not in OPTIONAL)


def find_optional(host: Host) -> frozenset[str]:
    """Return the modules without which all that is installed here can be imported."""
    needed = (modules for name, modules in NEEDED_BY.items() if host.interpreter.installed(name) is not None)
    return frozenset(OPTIONAL).difference(*needed)


def find_flaws(host: Host, library: StandardLibrary, more: Sequence[str] = ()) -> Iterator[Flaw]:
    """Yield what is missing, damaged or closed to this user of the modules that frameworks import, and of
    `more`."""
    sources: dict[str, str] = {}
    plain = (*MODULES, *(module for module in more if module not in _COMPILED))
    for module in (*plain, *_IF_PRESENT):
        sources[f"{module}.py"] = module
    names = frozenset(host.files.names(library.folder))
    for package in PACKAGES:
        try:
            inside = host.files.names(f"{library.folder}/{package}")
        except CannotTell as unknown:
            if not isinstance(unknown.__cause__, PermissionError):
                raise
            yield Flaw("closed", package, f"{library.folder}/{package}")
            continue
        if package not in names or not {"__init__.py", "__init__.pyc", "futures"} & set(inside):
            yield Flaw("absent", package, f"{library.folder}/{package}")
        for name in inside:
            if name.endswith(".py"):
                sources[f"{package}/{name}"] = f"{package}.{name[:-3]}".replace(".__init__", "")
    # A package from some release on: importlib.metadata, pathlib, re.
    for module in plain:
        if not {module, f"{module}.py", f"{module}.pyc"} & names:
            yield Flaw("absent", module, f"{library.folder}/{module}.py")
    yield from _find_damaged_sources(host, library, sources)
    compiled = (*EXTENSIONS, *OPTIONAL, *(module for module in more if module in _COMPILED))
    yield from _find_flaws_of_extensions(host, library, compiled)


def _find_damaged_sources(host: Host, library: StandardLibrary, sources: dict[str, str]) -> Iterator[Flaw]:
    paths = list(sources)
    sizes = host.files.sizes(library.folder, paths)
    yield from (
        Flaw("closed", sources[path], f"{library.folder}/{path}")
        for path, size in zip(paths, sizes)
        if size == CLOSED
    )
    here = [(path, size) for path, size in zip(paths, sizes) if size >= 0]
    starts = [max(0, size - _END) for _path, size in here]
    ends = host.files.parts(library.folder, [path for path, _size in here], starts, _END) if here else ()
    code = ByteCode(host.files, library.folder, library.version)
    for (path, size), end in zip(here, ends):
        if end is None:
            # A source is not read where its byte code is there and may be read.
            if code.read_ends(path) is None:
                yield Flaw("closed", sources[path], f"{library.folder}/{path}")
            continue
        # Every source of the standard library ends with a line end, and only some __init__.py are empty.
        is_cut = (not path.endswith("/__init__.py")) if not size else bool(end) and not end.endswith(b"\n")
        if is_cut or b"\0" in end:
            yield Flaw("damaged", sources[path], f"{library.folder}/{path}")
            continue
        byte_code = code.read_ends(path)
        if byte_code is not None and code.is_cut(path, byte_code):
            yield Flaw("damaged", sources[path], f"{library.folder}/{code.path_of(path)}")


def _find_flaws_of_extensions(host: Host, library: StandardLibrary, modules: Sequence[str]) -> Iterator[Flaw]:
    """Yield those of compiled modules: what is neither a file nor compiled in, no library, or lacks one."""
    compiled_in, place = library.built_in, library.extensions
    if place is None:  # every build has this folder: without it Python itself prints a warning at each start
        place = f"{library.folder}/lib-dynload"
        if compiled_in is None:
            yield Flaw("absent", "lib-dynload", place, True)
            return
    try:
        names = host.files.names(place)
    except CannotTell as unknown:
        if not isinstance(unknown.__cause__, PermissionError):
            raise
        yield Flaw("closed", "lib-dynload", place)
        return
    loader = None
    for module in modules:
        if compiled_in is not None and module in compiled_in:
            continue
        if not any(name.startswith(f"{module}.") for name in names):
            if compiled_in is not None:
                yield Flaw("absent", module, f"{place}/{module}", True)
            continue
        files = find_extensions(host.files, place, module)
        path = next((file.path for file in files if file.python in (library.version, None)), None)
        if path is None:
            continue
        with host.files.open_file(path) as file:
            size = host.files.sizes(place, [path.rpartition("/")[2]])[0]
            if size >= 0 and is_damaged(file, size):
                yield Flaw("damaged", module, path, True)
                continue
        loader = loader or process.loader(host)
        before = len(loader.missing)
        loader.dlopen(path)
        for missing in loader.missing[before:]:
            if missing.broken and missing.path == path:
                yield Flaw("damaged", module, path, True)
            elif not missing.broken:
                yield Flaw("library", module, path, True, missing.name)
