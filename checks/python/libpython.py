"""Do the programs of MindSpore and CANN that embed Python find its shared library?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import (
    INFO,
    WARNING,
    Action,
    Export,
    Facts,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    Skip,
    Unknown,
    _,
    check,
)
from npudoctor.facts.cann.installations import installs_of
from npudoctor.facts.job import process as job
from npudoctor.host import CannotTell

PATH = "LD_LIBRARY_PATH"
# The cache server and its tool, under their new and their old names.
PROGRAMS = (
    "utils/bin/dataset-cache-server",
    "utils/bin/dataset-cache",
    "bin/cache_server",
    "bin/cache_admin",
)
# TE Fusion embeds Python to compile operators. Its place: lib64 from 5.1 on, fwkacllib before.
EMBEDDING = ("lib64/libte_fusion.so", "fwkacllib/lib64/libte_fusion.so")
USED = ("MS_CACHE_HOST", "MS_CACHE_PORT")


@check(
    "libpython",
    scope=Scope.JOB,
    tags={"mindspore"},
    needs=("cann", "framework"),
    codes={"libpython.not-found": WARNING, "libpython.other-version": WARNING},
)
def libpython(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The cache server finds the shared library of Python.

    ## What it does

    Reads which libraries the programs of MindSpore's cache server, and CANN's library that compiles operators
    in Python, need, and looks for libpython as the loader would: their RPATH, LD_LIBRARY_PATH,
    /etc/ld.so.cache, the default folders. The check applies if one of them needs libpython.

    - `libpython.not-found`: libpython is not found. Information, because jobs without a cache server do not
      need it; a warning if MS_CACHE_HOST or MS_CACHE_PORT is set.
    - `libpython.other-version`: the program requires the libpython of a different Python than the examined
      one.

    ## Why it matters

    `dataset-cache: error while loading shared libraries: libpython3.7m.so.1.0: cannot open shared object
    file`: Python itself knows its library by its own RPATH or has it built in; other programs do not.

    ## Fix safety

    One `export` line that appends the folder. If the lib folder of a conda environment came first, it would
    hide the libstdc++ of the system. It is never applied by `npudoctor fix`.

    ## References

    - MindSpore FAQ: the cache server and libpython.
    - ld.so(8).
    """
    is_used = any(host.variables.get(name) for name in USED)
    try:
        programs = list(_find_embedders(host))
    except CannotTell as unknown:
        # MindSpore's wheel installs its cache server for its owner alone (0700): who may not read it does not
        # start it either, and a job without a cache server does not need it.
        if is_used or not isinstance(unknown.__cause__, PermissionError):
            raise
        raise Unknown(str(unknown), advisory=True) from unknown
    if not programs:
        raise Skip(_("nothing on this machine needs the shared library of Python"))
    for path, soname in programs:
        loader = job.bare_loader(host)
        library = host.libraries.read(path)
        # A file without PT_INTERP is a shared library and is opened; a program is started by the loader it
        # names.
        if library is not None and library.interpreter is None:
            loader.dlopen(path)
        else:
            loader.start(path)
        resolved = next((library.path for library in loader.loaded if library.name == soname), None)
        yield Facts({"program": path, "wanted": soname, "library": resolved})
        missing = next((library for library in loader.missing if library.name == soname), None)
        if missing is not None:
            folder = next(_find_folders(host, missing.name), None)
            version = ".".join((host.interpreter.layout().version or "").split(".")[:2])
            code = "libpython.not-found"
            text = _("{program} does not find {name}, which is in {folder}")
            if folder is None:
                text = _("{program} does not find {name}: this Python was built without its shared library")
                if version and not missing.name.startswith(f"libpython{version}"):
                    code = "libpython.other-version"
                    text = _("{program} needs {name}, but the interpreter is Python {version}")
            words = {"program": path, "name": missing.name, "folder": folder, "version": version}
            yield Finding(
                code,
                text.format(**words),
                severity=WARNING if is_used else INFO,
                action=Action.CONFIG if is_used else Action.NONE,
                fix=_append_fix(host, folder) if folder else None,
            )
            return


def _find_embedders(host: Host) -> Iterator[tuple[str, str]]:
    """Yield the programs and libraries that need libpython, with the soname that they need."""
    places = []
    for framework in job.frameworks(host, "mindspore"):
        folder = framework.modules[-1].rpartition("/")[0]
        places += [f"{folder}/{program}" for program in PROGRAMS]
    for install in installs_of(host)[:1]:
        places += [f"{install.path}/{library}" for library in EMBEDDING]
    for path in places:
        library = host.libraries.read(path)
        for name in library.needed if library else ():
            if name.startswith("libpython"):
                yield path, name


def _find_folders(host: Host, name: str) -> Iterator[str]:
    """Yield the lib folders next to the interpreter and its standard library that contain the library."""
    prefixes = [host.interpreter.path.rpartition("/")[0].rpartition("/")[0]]
    program = job.program(host)
    library = host.libraries.read(program) if program else None
    if library is not None:
        prefixes.append(library.path.rpartition("/")[0].rpartition("/")[0])
    for folder in host.interpreter.layout().search_path:
        if "/lib/python" in folder:
            prefixes.append(folder.rpartition("/lib/python")[0])
    for prefix in dict.fromkeys(prefixes):
        for lib in ("lib", "lib64"):
            try:
                library = host.libraries.read(f"{prefix}/{lib}/{name}")
            except CannotTell:
                # A file that cannot be read is of no use to the loader either.
                continue
            if library is not None:
                yield f"{prefix}/{lib}"


def _append_fix(host: Host, folder: str) -> Optional[Fix]:
    entries = host.variables.path_list(PATH)
    return Fix(
        _("append {folder} to LD_LIBRARY_PATH", folder=folder),
        steps=(Export(PATH, ":".join([*entries, folder])),),
        undo=Export(PATH, ":".join(entries)).lines() if entries else (f"unset {PATH}",),
        risk=Risk.MANUAL,
        needs_root=False,
    )
