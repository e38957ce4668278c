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
# GCC 7.3.0 is what the installation guides of MindSpore and of PyTorch on Ascend require.
FIRST_COMPILER = (7, 3)
SHOWN = 4
# Prefixes of symbol versions: those of glibc, and those of libstdc++ (GCC, "ABI Policy and Guidelines").
C_LIBRARY = "GLIBC_"
CXX = ("GLIBCXX_", "CXXABI_")
GOMP = "libgomp.so.1"
# glibc 2.32 introduced optional_static_tls: it keeps some static TLS for libraries that are loaded late.
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
    is_judged = False
    for framework in installed:
        loader = job.process(host, framework)
        path_by_name = {library.name: library.path for library in loader.loaded}
        is_judged = is_judged or STDCXX in path_by_name or LIBC in path_by_name
        yield Facts({STDCXX: path_by_name.get(STDCXX), LIBC: path_by_name.get(LIBC)})
        tls_finding = _find_second_libgomp(host, loader) if host.options.root is None else None
        for finding in (*_judge(host, loader, framework.name), *([tls_finding] if tls_finding else [])):
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
    if not is_judged:
        raise Skip(_("no framework in {python} loads the C or C++ library", python=host.interpreter.label))


def find_unmet_versions(
    loader: Loader, prefixes: Sequence[str]
) -> list[tuple[LoadedLibrary, LoadedLibrary, str]]:
    """Return (user, provider, version) for each symbol version with one of the prefixes that `user` needs and
    the loaded `provider` does not define."""
    by_name = {name: user for user in loader.loaded for name in (user.library.soname, user.name) if name}
    return [
        (user, provider, version)
        for user in loader.loaded
        for name, versions in user.library.required_versions
        for provider in [by_name.get(name)]
        # If a library defines no versions at all, the loader only warns (ld.so: "no version information
        # available").
        if provider is not None and provider.library.defined_versions
        for version in versions
        if version.startswith(tuple(prefixes)) and version not in provider.library.defined_versions
    ]


def _judge(host: Host, loader: Loader, framework: str) -> Iterator[Finding]:
    old = find_unmet_versions(loader, (C_LIBRARY,))
    if old:
        text = _(
            "{framework} needs {version}, which {library} does not provide: the system is too old for it"
        )
        yield _finding("libstdcxx.glibc-too-old", text, framework, old, None)
    old = find_unmet_versions(loader, CXX)
    if old:
        text = _("{framework} needs {version}, which {library} does not provide")
        versions = {version for _user, provider, version in old if provider is old[0][1]}
        yield _finding("libstdcxx.too-old", text, framework, old, _newer_fix(host, old[0][1], versions))


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


def _newer_fix(host: Host, old: LoadedLibrary, versions: set[str]) -> Optional[Fix]:
    """Return the line that makes the loader find a libstdc++ with all `versions`; None if there is none."""
    if host.options.root is not None:
        return None
    entries = host.variables.path_list(PATH)
    hiding = old.entry if old.via == PATH else None
    other_entries = [entry for entry in entries if entry != hiding]
    # Candidates: the other entries, the system's own ("" stands for it), and lib of the interpreter (conda).
    for folder in [
        *other_entries,
        "",
        *[f"{host.interpreter.path.rpartition('/')[0].rpartition('/')[0]}/lib"],
    ]:
        if folder and not _has_versions(host, f"{folder.rstrip('/')}/{STDCXX}", versions):
            continue
        if not folder:
            # Where the loader would find it without LD_LIBRARY_PATH.
            library = job.bare_loader(host, {}).dlopen(STDCXX) if hiding else None
            if library is None or not _has_versions(host, library.path, versions):
                continue
        last = [folder] if folder and folder not in other_entries else []
        # Every entry of LD_LIBRARY_PATH comes before the system's folders: to find the system's own, the
        # hiding entry must be dropped; else it may stay at the end.
        trailing = [hiding] if hiding and folder else []
        return Fix(
            _("let the loader find the newer libstdc++"),
            steps=(Export(PATH, ":".join([*other_entries, *last, *trailing])),),
            undo=Export(PATH, ":".join(entries)).lines() if entries else (f"unset {PATH}",),
            risk=Risk.MANUAL,
            needs_root=False,
        )
    return None


def _has_versions(host: Host, path: str, versions: set[str]) -> bool:
    try:
        library = host.libraries.read(path) if path.startswith("/") else None
        return (
            library is not None
            and library.machine == job.machine_of(host)
            and versions <= {*library.defined_versions}
        )
    except CannotTell:
        # A copy that cannot be read is not proposed.
        return False


def _find_second_libgomp(host: Host, loader: Loader) -> Optional[Finding]:
    """Report, on aarch64, a second libgomp next to the interpreter that may be loaded after the framework's
    own. None if it is preloaded or if the C library is newer than 2.31."""
    offered = next(
        (library.library.defined_versions for library in loader.loaded if library.name == LIBC), ()
    )
    bundled = [library.path for library in loader.loaded if "/libgomp" in library.path]
    if not offered or ENOUGH in offered or not bundled or job.machine_of(host) != "aarch64":
        return None
    own_library = f"{host.interpreter.path.rpartition('/')[0].rpartition('/')[0]}/lib/{GOMP}"
    real = host.files.real(own_library)
    if real is None or real in set(map(host.files.real, bundled)):
        return None
    before = host.variables.get(PRELOAD, "")
    return Finding(
        "libstdcxx.static-tls",
        _(
            "a second libgomp, {own}, may be loaded after {path}: with this C library that can end in "
            "'cannot allocate memory in static TLS block'",
            own=own_library,
            path=bundled[0],
        ),
        evidence=(*bundled, own_library),
        fix=Fix(
            _("load it first if that message appears"),
            steps=(Export(PRELOAD, f"{own_library}:{before}" if before else own_library),),
            undo=Export(PRELOAD, before).lines() if before else (f"unset {PRELOAD}",),
            risk=Risk.MANUAL,
            needs_root=False,
        ),
    )
