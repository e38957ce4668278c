"""Which NCCL the installed frameworks for GPUs would load, and its version: by reading, nothing is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.facts.job import process as job
from npudoctor.host.host import Host
from npudoctor.host.libraries.loader import LoadedLibrary, Loader

# The soname of NCCL 2, which all frameworks link.
NAME = "libnccl.so.2"
MARK = b"NCCL version "  # followed by 2.27.5+cuda12.9 in every build
# Bytes behind the mark: 2.27.5+cuda12.9 has fifteen.
LONGEST = 64
WHEEL = "nvidia/nccl/lib"  # where all distributions nvidia-nccl-cu* put it, below site-packages


@dataclass(frozen=True)
class NcclBuild:
    """What a libnccl says of itself; None for what it does not say."""

    version: Optional[str]
    cuda: Optional[str] = None


@dataclass(frozen=True)
class NcclUse:
    """What one framework does about NCCL. `path`: the file that it would load, None when it finds none.

    `by`: the library that needs it, "" where the framework opens it by name. `entry`: the entry of
    LD_LIBRARY_PATH that led there. `built_in`: it is part of the framework's own libraries. `own`: the copy
    that pip installed with the framework.
    """

    framework: str
    package: str
    version: str
    path: Optional[str]
    by: str = ""
    entry: str = ""
    built_in: bool = False
    own: Optional[str] = None


def nccl_uses(host: Host) -> Iterator[NcclUse]:
    """Each framework for GPUs in the interpreter, with its NCCL."""
    for use in (_torch_use(host), _mindspore_use(host), _paddle_use(host)):
        if use is not None:
            yield use


def build_of(host: Host, path: str) -> NcclBuild:
    """The version in the library's constants, else that in its file's name."""
    try:
        build = parse_build(host.libraries.section(path, ".rodata") or b"")
    except CannotTell:
        # The section cannot be read: then the name of the file must do.
        build = None
    if build is not None:
        return build
    version = (host.files.real(path) or path).rpartition(".so.")[2]
    return NcclBuild(version if version.count(".") == 2 and _is_version(version) else None)


def parse_build(content: bytes) -> Optional[NcclBuild]:
    """The version behind the first mark that is followed by one; None where there is none."""
    at = content.find(MARK)
    while at >= 0:
        start = at + len(MARK)
        words = content[start : start + LONGEST].split(b"\0")[0].decode("ascii", "replace").split()
        version, _plus, cuda = (words or [""])[0].partition("+cuda")
        if version.count(".") == 2 and _is_version(version):
            return NcclBuild(version, cuda or None)
        at = content.find(MARK, start)
    return None


def find_collectives(host: Host, folder: str) -> list[str]:
    """The libraries of a MindSpore for GPUs that use NCCL."""
    plugins = f"{folder}/lib/plugin"
    folders = [f"{folder}/lib"]
    folders += [f"{plugins}/{name}" for name in host.files.names(plugins) if name.startswith("gpu")]
    names = ("libgpu_collective.so", "libnvidia_collective.so")
    paths = [f"{place}/{name}" for place in folders for name in names]
    return [path for path in paths if host.files.stat(path) is not None]


def package_folder(host: Host, package: str) -> Optional[str]:
    """The folder of an installed package, in the first folder of the search path that has it; None where none
    has.
    """
    for folder in host.interpreter.layout().search_path:
        if folder.startswith("/") and host.files.stat(f"{folder}/{package}/__init__.py") is not None:
            return f"{folder}/{package}"
    return None


def find_wheel_copies(host: Host) -> list[str]:
    """The libraries that the distributions nvidia-nccl-cu* have put into the interpreter's folders."""
    folders = [folder for folder in host.interpreter.layout().search_path if folder.startswith("/")]
    paths = [host.files.real(f"{folder}/{WHEEL}/{NAME}") for folder in folders]
    return [path for path in dict.fromkeys(paths) if path is not None]


def read_constant(text: str, name: str) -> Optional[str]:
    """The value of `name = 'value'` in a module of constants, with or without an annotation; None where it is
    not assigned.
    """
    for line in text.splitlines():
        target, equals, right = line.partition("=")
        if equals and target.partition(":")[0].strip() == name:
            return right.partition("#")[0].strip().strip("'\"")
    return None


def _torch_use(host: Host) -> Optional[NcclUse]:
    installed = job.frameworks(host, "torch")
    if not installed:
        return None
    module = installed[0].modules[0]
    libraries = f"{module.rpartition('/')[0]}/lib"
    cuda = f"{libraries}/libtorch_cuda.so"
    library = host.libraries.read(cuda)
    version = host.interpreter.version_of("torch") or ""
    if library is None:
        return None  # a build for CPUs
    # Linked statically into libtorch_cuda.so.
    if NAME not in library.needed:
        return NcclUse("torch", "torch", version, cuda, built_in=True)
    loader = job.loader(host)
    # In the order in which its import loads them.
    if host.files.stat(f"{libraries}/libtorch_global_deps.so") is not None:
        loader.dlopen(f"{libraries}/libtorch_global_deps.so")
    loader.dlopen(module)
    own = next(iter(find_wheel_copies(host)), None)
    loaded = _find_loaded(loader)
    if loaded is None and own is not None and host.libraries.read(own) is not None:
        # Its import looks below all folders of the search path for what the loader did not find.
        return NcclUse("torch", "torch", version, own, cuda, own=own)
    return _use(host, "torch", "torch", version, loaded, cuda, own)


def _mindspore_use(host: Host) -> Optional[NcclUse]:
    installed = job.frameworks(host, "mindspore")
    libraries = find_collectives(host, installed[0].modules[0].rpartition("/")[0]) if installed else []
    if not libraries:
        return None
    package = next((name for name in ("mindspore-gpu", "mindspore") if host.interpreter.version_of(name)), "")
    version = host.interpreter.version_of(package) if package else None
    loader = job.loader(host)
    loader.dlopen(installed[0].modules[0])
    for path in libraries:
        loader.dlopen(path)
    return _use(host, "MindSpore", package, version or "", _find_loaded(loader), libraries[0], None)


def _paddle_use(host: Host) -> Optional[NcclUse]:
    folder = package_folder(host, "paddle")
    text = (host.files.text(f"{folder}/version/__init__.py") or "") if folder else ""
    if folder is None or read_constant(text, "cuda_version") in (None, "False"):
        return None
    nccl_folder = "" if host.options.root is not None else host.variables.get("FLAGS_nccl_dir", "")
    own = next(iter(find_wheel_copies(host)), None)
    site = folder.rpartition("/")[0]
    if "FLAGS_nccl_dir" in (host.files.text(f"{folder}/__init__.py") or ""):
        nccl_folder = f"{site}/{WHEEL}"  # set by its import, whatever the variable says
    version = host.interpreter.version_of("paddlepaddle-gpu") or ""
    loader = job.loader(host)
    for name in ("libnccl.so", NAME):
        places: Sequence[str] = [f"{nccl_folder.rstrip('/')}/{name}"] if nccl_folder.startswith("/") else []
        for place in (*places, name):
            loaded = loader.dlopen(place)
            if loaded is not None:
                return _use(host, "Paddle", "paddlepaddle-gpu", version, loaded, "", own)
    return NcclUse("Paddle", "paddlepaddle-gpu", version, None, own=own)


def _find_loaded(loader: Loader) -> Optional[LoadedLibrary]:
    return next((loaded for loaded in loader.loaded if NAME in (loaded.name, loaded.library.soname)), None)


def _use(
    host: Host,
    framework: str,
    package: str,
    version: str,
    loaded: Optional[LoadedLibrary],
    by: str,
    own: Optional[str],
) -> NcclUse:
    if loaded is None:
        return NcclUse(framework, package, version, None, by, own=own)
    entry = loaded.entry if loaded.via == "LD_LIBRARY_PATH" else ""
    return NcclUse(framework, package, version, host.files.real(loaded.path), by, entry, own=own)


def _is_version(text: str) -> bool:
    return all(part.isascii() and part.isdecimal() for part in text.split("."))
