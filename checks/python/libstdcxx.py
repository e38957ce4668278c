"""Do the C and C++ libraries that the loader takes have the versions that the extension modules want?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional, Union

from npudoctor import (
    ERROR,
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
    _,
    check,
)
from npudoctor.facts.cann.installations import installs_of
from npudoctor.facts.cann.toolchain import compiler
from npudoctor.facts.job import process as job
from npudoctor.facts.job.expected_accelerator import npu_expected
from npudoctor.host import CannotTell
from npudoctor.host.libraries.loader import LoadedLibrary, Loader
from npudoctor.host.process.commands import FOLDERS

PATH = "LD_LIBRARY_PATH"
STDCXX, LIBC = "libstdc++.so.6", "libc.so.6"
FIRST_COMPILER = (7, 3)
SHOWN = 4
C_LIBRARY = "GLIBC_"
CXX = ("GLIBCXX_", "CXXABI_")
GOMP = "libgomp.so.1"
# From here on the C library keeps some static TLS for what is loaded late.
ENOUGH = "GLIBC_2.32"
PRELOAD = "LD_PRELOAD"


@check(
    "libstdcxx",
    scope=Scope.JOB,
    tags={"mindspore", "pytorch"},
    needs=("framework",),
    codes={
        "libstdcxx.glibc-too-old": ERROR,
        "libstdcxx.too-old": ERROR,
        "libstdcxx.compiler-too-old": WARNING,
        "libstdcxx.compiler-missing": INFO,
        "libstdcxx.static-tls": INFO,
    },
)
def libstdcxx(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The C and C++ libraries meet the frameworks' requirements.

    ## What it does

    Reads which versions (GLIBC, GLIBCXX, CXXABI) the extension modules of torch, torch_npu, MindSpore, Paddle
    and TensorFlow, and all libraries that they load, require. Compares them with the versions in the libc and
    libstdc++ that the loader would use: by RPATH, LD_LIBRARY_PATH, RUNPATH, /etc/ld.so.cache, the default
    folders, and libraries that are already loaded. Nothing is run or imported. If CANN is installed, it also
    looks for g++, by files only.

    - `libstdcxx.glibc-too-old`: the system's C library is older than the one that the wheel was built for.
    - `libstdcxx.too-old`: the libstdc++ that is found first is too old.
    - `libstdcxx.compiler-too-old`: g++ is older than 7.3, which is required to build operators.
    - `libstdcxx.compiler-missing`: there is no g++ on PATH. Information, because jobs that build no operators
      do not need it.
    - `libstdcxx.static-tls`: on aarch64 with a C library before 2.32 the framework contains a libgomp, and
      the environment has another one, which gets no space when it is loaded late. Information: whether any
      program loads it is unknown.

    ## Why it matters

    `ImportError: /lib/x86_64-linux-gnu/libm.so.6: version 'GLIBC_2.27' not found`, and the same for
    GLIBCXX_3.4.x of libstdc++.so.6: the framework cannot be imported. `libgomp.so.1: cannot allocate memory
    in static TLS block` comes from the order in which libraries are loaded.

    ## Fix safety

    For libstdc++ one `export` line: the folder that hides the newer one is moved to the end, or the folder of
    the newer one is appended; a conda environment's lib is never put first. For libgomp the line sets
    LD_PRELOAD, which affects every program of that shell. Neither is applied by `npudoctor fix`. The C
    library is part of the system: there is no line for that.

    ## References

    - ld.so(8); GCC, "ABI Policy and Guidelines".
    - MindSpore and PyTorch on Ascend, installation guides: GCC 7.3.0.
    """
    installed = job.frameworks(
        host, "torch", "torch_npu", "mindspore", "paddle", "paddle_custom_device", "tensorflow"
    )
    if not installed:
        raise Skip(_("no framework is installed in {python}", python=host.interpreter.label))
    reported: set[str] = set()
    judged = False
    for framework in installed:
        loader = job.process(host, framework)
        taken = {library.name: library.path for library in loader.loaded}
        judged = judged or STDCXX in taken or LIBC in taken
        yield Facts({STDCXX: taken.get(STDCXX), LIBC: taken.get(LIBC)})
        late = _second_libgomp(host, loader) if host.options.root is None else None
        for finding in (*_judge(host, loader, framework.name), *([late] if late else [])):
            if finding.code not in reported:
                reported.add(finding.code)
                yield finding
    if host.options.root is None and npu_expected(host) and installs_of(host):
        folders = [*host.variables.path_list("PATH"), *(() if "PATH" in host.variables else FOLDERS)]
        gxx = compiler(host.files, folders)
        if gxx is None:
            text = _("there is no g++ on PATH: custom operators cannot be built")
            yield Finding("libstdcxx.compiler-missing", text)
        elif gxx.version is not None and gxx.version < FIRST_COMPILER[: len(gxx.version)]:
            text = _("{path} is GCC {version}; building operators needs 7.3 or newer")
            version = ".".join(map(str, gxx.version))
            yield Finding(
                "libstdcxx.compiler-too-old",
                text.format(path=gxx.path, version=version),
                action=Action.CONFIG,
            )
    if not judged:
        raise Skip(_("no framework in {python} loads the C or C++ library", python=host.interpreter.label))


def unmet(loader: Loader, prefixes: Sequence[str]) -> list[tuple[LoadedLibrary, LoadedLibrary, str]]:
    """Who wants which version of whom, where the library that was taken does not offer it."""
    by_name = {name: user for user in loader.loaded for name in (user.library.soname, user.name) if name}
    return [
        (user, provider, version)
        for user in loader.loaded
        for name, versions in user.library.required_versions
        for provider in [by_name.get(name)]
        # A library without versions of its own only makes the loader warn.
        if provider is not None and provider.library.defined_versions
        for version in versions
        if version.startswith(tuple(prefixes)) and version not in provider.library.defined_versions
    ]


def _judge(host: Host, loader: Loader, framework: str) -> Iterator[Finding]:
    old = unmet(loader, (C_LIBRARY,))
    if old:
        text = _(
            "{framework} needs {version}, which {library} does not provide: the system is too old for it"
        )
        yield _finding("libstdcxx.glibc-too-old", text, framework, old, None)
    old = unmet(loader, CXX)
    if old:
        text = _("{framework} needs {version}, which {library} does not provide")
        versions = {version for _one, provider, version in old if provider is old[0][1]}
        yield _finding("libstdcxx.too-old", text, framework, old, _newer(host, old[0][1], versions))


def _finding(
    code: str,
    text: str,
    framework: str,
    old: list[tuple[LoadedLibrary, LoadedLibrary, str]],
    fix: Optional[Fix],
) -> Finding:
    words = {"framework": framework, "version": old[0][2], "library": old[0][1].path}
    lines = [_("{by} needs {version}", by=user.path, version=version) for user, _to, version in old]
    more = (f"... (+{len(lines) - SHOWN})",) if lines[SHOWN:] else ()
    return Finding(
        code, text.format(**words), evidence=(*lines[:SHOWN], *more), action=Action.CONFIG, fix=fix
    )


def _newer(host: Host, old: LoadedLibrary, versions: set[str]) -> Optional[Fix]:
    """The line by which a libstdc++ that offers all is found; None where none is at hand."""
    if host.options.root is not None:
        return None
    entries = host.variables.path_list(PATH)
    hiding = old.entry if old.via == PATH else None
    kept = [entry for entry in entries if entry != hiding]
    # The lib folder of the interpreter's own installation, which may be conda's.
    for folder in [*kept, "", *[f"{host.interpreter.path.rpartition('/')[0].rpartition('/')[0]}/lib"]]:
        if folder and not _offers(host, f"{folder.rstrip('/')}/{STDCXX}", versions):
            continue
        if not folder:
            # Where the loader would find it without LD_LIBRARY_PATH.
            library = job.bare_loader(host, {}).dlopen(STDCXX) if hiding else None
            if library is None or not _offers(host, library.path, versions):
                continue
        last = [folder] if folder and folder not in kept else []
        # What stands before the system's own hides it even when it stands last: then it has to go.
        keep = [hiding] if hiding and folder else []
        return Fix(
            _("let the loader find the newer libstdc++"),
            steps=(Export(PATH, ":".join([*kept, *last, *keep])),),
            undo=Export(PATH, ":".join(entries)).lines() if entries else (f"unset {PATH}",),
            risk=Risk.MANUAL,
            needs_root=False,
        )
    return None


def _offers(host: Host, path: str, versions: set[str]) -> bool:
    try:
        library = host.libraries.read(path) if path.startswith("/") else None
        return (
            library is not None
            and library.machine == job.machine_of(host)
            and versions <= {*library.defined_versions}
        )
    except CannotTell:
        return False


def _second_libgomp(host: Host, loader: Loader) -> Optional[Finding]:
    """On aarch64: a framework brings its own libgomp, and beside the interpreter lies another one, which is
    loaded after it when something needs that; None where it is preloaded, or the C library is newer."""
    offered = next(
        (library.library.defined_versions for library in loader.loaded if library.name == LIBC), ()
    )
    brought = [library.path for library in loader.loaded if "/libgomp" in library.path]
    if not offered or ENOUGH in offered or not brought or job.machine_of(host) != "aarch64":
        return None
    own = f"{host.interpreter.path.rpartition('/')[0].rpartition('/')[0]}/lib/{GOMP}"
    real = host.files.real(own)
    if real is None or real in set(map(host.files.real, brought)):
        return None
    before = host.variables.get(PRELOAD, "")
    return Finding(
        "libstdcxx.static-tls",
        _(
            "a second libgomp, {own}, may be loaded after {path}: with this C library that can end in "
            "'cannot allocate memory in static TLS block'",
            own=own,
            path=brought[0],
        ),
        evidence=(*brought, own),
        fix=Fix(
            _("load it first if that message appears"),
            steps=(Export(PRELOAD, f"{own}:{before}" if before else own),),
            undo=Export(PRELOAD, before).lines() if before else (f"unset {PRELOAD}",),
            risk=Risk.MANUAL,
            needs_root=False,
        ),
    )
