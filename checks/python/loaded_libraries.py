"""Are the libraries that the loader takes for a framework whole, and those that it was built with?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import (
    ERROR,
    WARNING,
    Action,
    Command,
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
from npudoctor.core.lazy import pattern
from npudoctor.facts.cann.installations import installs_of
from npudoctor.facts.job import process as job
from npudoctor.facts.python.backends import find_backends, libraries_of
from npudoctor.facts.python.installed_modules import is_altered
from npudoctor.facts.python.replaced_libraries import (
    LED_BY,
    PRELOAD,
    MissingSymbol,
    ReplacedLibrary,
    find_hollow_library,
    find_missing_symbols,
    find_replaced,
)
from npudoctor.host.libraries.loader import Loaded, Loader, Missing
from npudoctor.host.python.installed_files import is_whole

FRAMEWORKS = ("torch", "mindspore", "paddle", "tensorflow")
Said = Iterator[tuple[Finding, str]]
SHOWN = 4
# CUDA's: other checks know them, and torch finds some by itself that the loader does not.
_OF_CUDA = pattern(r"lib(?:cu|nv|nccl|cusparseLt)")
# What only the framework itself brings.
_OWN = pattern(r"lib(?:torch|c10|caffe2|shm|mindspore|paddle|phi|tensorflow)\w*\.so")


@check(
    "loaded-libraries",
    scope=Scope.JOB,
    tags={"mindspore", "paddle", "pytorch", "tensorflow"},
    needs=("framework", "tensorflow", "tensorflow-cpu"),
    codes={
        "loaded-libraries.not-loadable": ERROR,
        "loaded-libraries.not-found": ERROR,
        "loaded-libraries.lacks-symbols": ERROR,
        "loaded-libraries.foreign-copy": WARNING,
    },
)
def loaded_libraries(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The dynamic loader finds intact libraries that match the frameworks.

    ## What it does

    Looks for every library that torch, MindSpore, Paddle and TensorFlow load when they are imported,
    including torch's other back ends, as the loader does: LD_PRELOAD, RPATH, LD_LIBRARY_PATH, RUNPATH,
    /etc/ld.so.cache, the default folders. A library that LD_LIBRARY_PATH or LD_PRELOAD selects in place of a
    wheel's own is compared with the wheel's own. A library for another machine is skipped, as the loader
    does. Nothing is run or imported.

    - `loaded-libraries.not-loadable`: the loader finds a file that is not a library, or a truncated one, and
      stops: a Git LFS pointer, an interrupted copy, a folder.
    - `loaded-libraries.not-found`: a system library is missing. Missing libraries of CANN, where it is
      installed, are reported by `library-path`; those of CUDA by `package-requirements` and `nccl-version`.
    - `loaded-libraries.lacks-symbols`: the library that LD_LIBRARY_PATH or LD_PRELOAD selects lacks a
      function that the framework calls, or requires one that no library has; the wheel's own library has it.
      Also reported if a library of a different size is in the framework's own folder and lacks a version, or
      nearly all of them.
    - `loaded-libraries.foreign-copy`: a framework's own library is loaded from another copy of the framework.
      No function is missing; whether it works is unknown.

    An older libstdc++ is the subject of `libstdcxx`.

    ## Why it matters

    `undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12`, `invalid ELF header`,
    `file too short`: the framework cannot be imported, although pip has installed everything correctly. A
    truncated library ends Python without a message. LD_LIBRARY_PATH does not affect wheels with RPATH. It
    affects wheels with RUNPATH, such as PyTorch from 2.8 on and all of `nvidia-*`.

    ## Fix safety

    One line for the shell that starts the job: it removes the entry, or puts the wheel's own folder first if
    other libraries come from that entry too. Never applied by `npudoctor fix`.

    ## References

    - ld.so(8): "Shared object search order"; dlopen(3).
    """
    installed = job.frameworks(host, *FRAMEWORKS)
    if not installed:
        raise Skip(_("no framework is installed in {python}", python=host.interpreter.label))
    taken: set[str] = set()
    reported: set[tuple[str, str]] = set()
    for name, loader in _processes(host, installed):
        taken |= {library.path for library in loader.loaded if library.via == LED_BY} | {
            library.path for library in loader.preloaded
        }
        for finding, subject in _judge(host, name, loader):
            if (finding.code, subject) not in reported:
                reported.add((finding.code, subject))
                yield finding
    yield Facts({"frameworks": [framework.name for framework in installed], "led_to": sorted(taken)})


def _processes(host: Host, installed: list[job.Framework]) -> Iterator[tuple[str, Loader]]:
    """Python with what every framework imports of its own, where a variable could lead that astray; then
    each framework."""
    if host.options.root is None and any(map(host.variables.get, (LED_BY, "LD_PRELOAD"))):
        yield "ctypes", job.python_itself(host)
    for framework in installed:
        yield framework.name, job.process(host, framework)
    torch = next((framework for framework in installed if framework.name == "torch"), None)
    if torch is None:
        return
    for backend in find_backends(host):
        libraries = libraries_of(host, backend)
        # What torch-npu needs is CANN's, which library-path knows.
        if libraries and backend.module != "torch_npu":
            yield "torch", job.process_with(host, torch, libraries)


def _judge(host: Host, framework: str, loader: Loader) -> Said:
    """All findings of one process, each with what it is about, as the next framework may have the same."""
    for missing in loader.missing:
        if missing.broken:
            words = _(
                "{framework} cannot be imported: the loader finds {path}, which is not a library",
                framework=framework,
                path=missing.path,
            )
            fix = _fix(host, loader, missing.name, missing.entry) if missing.via == LED_BY else None
            yield _report_not_loadable(words, (missing.broken, _describe_need(missing)), fix), missing.path
    for library in loader.loaded:
        # Of what a variable leads to: the rest belongs to packages, whose files have a check of their own.
        if library.via == LED_BY and not is_whole(host.files, library.library.path):
            words = _(
                "{framework} cannot be imported: the loader finds {path}, which is truncated",
                framework=framework,
                path=library.path,
            )
            yield (
                _report_not_loadable(
                    words, (_describe_need(library),), _fix(host, loader, library.name, library.entry)
                ),
                library.path,
            )
    yield from _not_found(host, framework, loader)
    if host.options.root is not None:
        return
    taken = find_replaced(host, loader)
    lacking = list(find_missing_symbols(host, loader, taken))
    if lacking:
        yield _lacks(host, framework, loader, lacking), lacking[0].replacement.loaded.path
    else:
        lack = find_hollow_library(host, loader, lambda path: is_altered(host, path))
        if lack is not None:
            yield _hollow(framework, lack), lack.replacement.loaded.path
    copies = []
    for copy in taken:
        here, own = host.files.stat(copy.loaded.path), host.files.stat(copy.own)
        # Of one size it is a copy of the very same build, as far as can be seen.
        if _OWN.match(copy.name) and (here is None or own is None or here.size != own.size):
            copies.append(copy)
    if copies and not lacking:
        yield _copies(host, framework, loader, copies), copies[0].loaded.path


def _describe_need(library: Union[Loaded, Missing]) -> str:
    return _("{name}: needed by {by}", name=library.name, by=library.needed_by)


def _report_not_loadable(message: str, evidence: tuple[str, ...], fix: Optional[Fix]) -> Finding:
    return Finding(
        "loaded-libraries.not-loadable",
        message,
        evidence=evidence,
        action=Action.CONFIG,
        fix=fix,
        echo_of=(
            *("library-path.broken", "package-files.cut-short", "package-files.spoiled"),
            "interpreter.does-not-run",
        ),
    )


def _not_found(host: Host, framework: str, loader: Loader) -> Said:
    gone = [missing for missing in loader.missing if not missing.broken and not _OF_CUDA.match(missing.name)]
    if not gone or installs_of(host):
        return
    yield (
        Finding(
            "loaded-libraries.not-found",
            _(
                "{framework} cannot be imported: the loader does not find {names}",
                framework=framework,
                names=", ".join(list(dict.fromkeys(library.name for library in gone))[:SHOWN]),
            ),
            evidence=tuple(map(_describe_need, gone[:SHOWN])),
            action=Action.CONFIG,
            echo_of=("package-files.missing", "package-requirements.missing", "torch-family.other-build"),
        ),
        gone[0].name,
    )


def _lacks(host: Host, framework: str, loader: Loader, lacking: list[MissingSymbol]) -> Finding:
    first = lacking[0]
    lines = (_("{by} needs {symbol}", by=lack.by, symbol=lack.symbol) for lack in lacking[:SHOWN])
    return Finding(
        "loaded-libraries.lacks-symbols",
        _(
            "{framework} cannot be imported: {variable} leads to {path}, and no library has {symbol}",
            framework=framework,
            variable=first.replacement.variable,
            path=first.replacement.loaded.path,
            symbol=first.symbol,
        ),
        evidence=(*lines, _("loaded without the variable: {path}", path=first.replacement.own)),
        action=Action.CONFIG,
        fix=_lead_back(host, loader, first.replacement),
        echo_of=("libstdcxx.too-old", "nccl-version.missing-symbols"),
    )


def _hollow(framework: str, lack: MissingSymbol) -> Finding:
    library = lack.replacement.loaded
    entry = _("{by} leads to {path}", by=library.via, path=library.path)
    return Finding(
        "loaded-libraries.lacks-symbols",
        _(
            "{framework} cannot be imported: {path} is loaded as {name}, and no library has {symbol}",
            framework=framework,
            path=library.path,
            name=lack.replacement.name,
            symbol=lack.symbol,
        ),
        evidence=(_("{by} needs {symbol}", by=lack.by, symbol=lack.symbol), entry),
        action=Action.CONFIG,
        echo_of=("libstdcxx.too-old", "package-files.spoiled"),
    )


def _copies(host: Host, framework: str, loader: Loader, copies: list[ReplacedLibrary]) -> Finding:
    first = copies[0]
    return Finding(
        "loaded-libraries.foreign-copy",
        _(
            "{framework} loads {path} instead of its own {own} because of {variable}",
            framework=framework,
            path=first.loaded.path,
            variable=first.variable,
            own=first.own,
        ),
        evidence=tuple(copy.loaded.path for copy in copies[:SHOWN]),
        action=Action.CONFIG,
        fix=_lead_back(host, loader, first),
    )


def _lead_back(host: Host, loader: Loader, taken: ReplacedLibrary) -> Optional[Fix]:
    if taken.variable == PRELOAD:
        return _without(host, PRELOAD, taken.loaded.name, re.split(r"[ :]+", host.variables.get(PRELOAD, "")))
    return _fix(host, loader, taken.name, taken.loaded.entry)


def _fix(host: Host, loader: Loader, name: str, entry: str) -> Optional[Fix]:
    """LD_LIBRARY_PATH without the entry; where other libraries come from there alone, with the folder of the
    right one before it."""
    entries = host.variables.path_list(LED_BY)
    others = [
        library
        for library in loader.loaded
        if library.via == LED_BY and library.entry == entry and library.name != name
    ]
    if all(loader.otherwise(library.name) for library in others):
        return _without(host, LED_BY, entry, entries)
    own = loader.otherwise(name)
    if own is None:
        return None
    folder = (host.files.real(own) or own).rpartition("/")[0]
    return Fix(
        _("put {folder} first in LD_LIBRARY_PATH", folder=folder),
        steps=(Export(LED_BY, ":".join((folder, *entries))),),
        undo=Export(LED_BY, ":".join(entries)).lines(),
        risk=Risk.MANUAL,
        needs_root=False,
    )


def _without(host: Host, variable: str, entry: str, entries: list[str]) -> Optional[Fix]:
    """None where the file is preloaded for the whole system."""
    if entry not in entries:
        return None
    rest = ":".join(other for other in entries if other != entry)
    return Fix(
        _("remove {entry} from {variable}", entry=entry or _("the empty entry"), variable=variable),
        steps=(Export(variable, rest) if rest else Command(("unset", variable)),),
        undo=Export(variable, host.variables.get(variable, "")).lines(),
        risk=Risk.MANUAL,
        needs_root=False,
    )
