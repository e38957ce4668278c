"""The job's process as the loader would build it: the interpreter, then the frameworks' extension modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _
from npudoctor.facts.job.working_directory import working_directory
from npudoctor.host.host import Host
from npudoctor.host.libraries.extensions import find_extensions
from npudoctor.host.libraries.library import BadLibrary
from npudoctor.host.libraries.loader import LOADERS, Loader

# Prefix and version, from which the program beside the standard library follows.
_STDLIB = pattern(r"(.*)/lib(?:64)?/python(\d+\.\d+)\Z")
_NUMBER = pattern(r"\d+")


@dataclass(frozen=True)
class Framework:
    """An installed framework: the files that its import loads, in their order."""

    name: str
    modules: tuple[str, ...]


# What is imported first, and in which file the extension module of each is: (package, module).
_IMPORTS = {
    "torch": (("torch", "_C"),),
    "torch_npu": (("torch", "_C"), ("torch_npu", "_C")),
    "mindspore": (("mindspore", "_c_expression"),),
    "paddle": (("paddle/base", "libpaddle"),),
    "paddle_custom_device": (("paddle/base", "libpaddle"), ("paddle_custom_device", "libpaddle-custom-npu")),
    "tensorflow": (("tensorflow/python", "_pywrap_tensorflow_internal"),),
}


def frameworks(host: Host, *names: str) -> list[Framework]:
    """Those of these frameworks (by default: those for Ascend) whose files are all in the interpreter."""
    complete = []
    for name in names or ("torch_npu", "mindspore", "paddle_custom_device"):
        modules = [_module(host, package, module) for package, module in _IMPORTS[name]]
        there = [module for module in modules if module]
        if len(there) == len(modules):
            complete.append(Framework(name, tuple(there)))
    return complete


def ascend_plugin(host: Host, mindspore: Framework) -> Optional[str]:
    """The library that MindSpore loads for Ascend, besides its extension module; None where it has none."""
    folder = mindspore.modules[-1].rpartition("/")[0] + "/lib/plugin"
    names = [name for name in host.files.names(folder) if name.startswith("libmindspore_ascend.so")]
    newest = max(names, key=lambda name: [int(number) for number in _NUMBER.findall(name)], default=None)
    return f"{folder}/{newest}" if newest else None


def process(host: Host, framework: Framework) -> Loader:
    """The simulated process that has imported a framework; shared by the checks, which only look at it."""
    return host.once(f"process of {framework.name}", lambda: _process(host, framework))


def _process(host: Host, framework: Framework) -> Loader:
    made = loader(host)
    for module in framework.modules:
        made.dlopen(module)
    return made


def process_with(host: Host, framework: Framework, libraries: Sequence[str]) -> Loader:
    """The simulated process that has imported a framework and opened these libraries; not shared."""
    made = _process(host, framework)
    for path in libraries:
        made.dlopen(path)
    return made


def python_itself(host: Host) -> Loader:
    """The simulated process of the interpreter with ctypes, which all frameworks import, and no framework."""
    made = loader(host)
    for folder in host.interpreter.layout().search_path:
        # The folder of the standard library's extension modules.
        if folder.endswith("/lib-dynload"):
            for extension in find_extensions(host.files, folder, "_ctypes"):
                made.dlopen(extension.path)
    return made


def loader(host: Host) -> Loader:
    """A loader that has started the interpreter, where its program is known; else with nothing loaded."""
    made = bare_loader(host)
    path = program(host)
    if path is not None:
        made.start(path)
    return made


def bare_loader(host: Host, variables: Optional[Mapping[str, str]] = None) -> Loader:
    """The loader of a process that is still to be started, with the examined variables unless others are
    given; in an image with none.
    """
    image = host.options.root is not None
    if variables is None:
        variables = {} if image else host.variables
    return Loader(
        host.files,
        host.libraries,
        variables,
        machine=machine_of(host),
        working_folder=None if image else working_directory(host),
    )


def machine_of(host: Host) -> str:
    """The machine that the interpreter is for; CannotTell where our loader knows nothing of it."""
    path = program(host)
    library = host.libraries.read(path) if path else None
    machine = library.machine if library else host.interpreter.layout().machine or host.system.machine
    if machine not in LOADERS:
        raise CannotTell(_("npudoctor does not know the dynamic loader of {machine}", machine=machine))
    # Alpine's loader searches other folders in another order.
    if library and "musl" in (library.interpreter or ""):
        raise CannotTell(_("{path} uses musl's loader, which npudoctor does not know", path=path))
    return machine


def program(host: Host) -> Optional[str]:
    """The interpreter's program: its path, or, where that is a script of a version manager, the program
    beside the standard library; None when there is none.
    """
    for path in _programs(host):
        try:
            if host.libraries.read(path) is not None:
                return path
        # A script of pyenv or conda is no ELF file.
        except BadLibrary:
            continue
    return None


def _programs(host: Host) -> Iterator[str]:
    """One by one: the search path is asked for only where the path itself is no program."""
    yield host.interpreter.path
    for folder in host.interpreter.layout().search_path:
        match = _STDLIB.match(folder)
        if match:
            yield f"{match[1]}/bin/python{match[2]}"


def _module(host: Host, package: str, module: str) -> Optional[str]:
    """The extension module that the import takes: of the first folder that has the package."""
    layout = host.interpreter.layout()
    version = ".".join((layout.version or "").split(".")[:2])
    for folder in layout.search_path:
        place = f"{folder}/{package}"
        # The first folder that has the package decides, also where its module is for another Python.
        if folder.startswith("/") and host.files.stat(place) is not None:
            fitting = [
                extension.path
                for extension in find_extensions(host.files, place, module)
                if extension.python in (version, None)
            ]
            return next(iter(fitting), None)
    return None
