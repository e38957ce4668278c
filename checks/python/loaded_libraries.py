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
from npudoctor.checks.python._pip import pip_reinstall
from npudoctor.core.lazy import pattern
from npudoctor.facts.cann.installations import installs_of
from npudoctor.facts.job import process as job
from npudoctor.facts.python.backends import find_backends, libraries_of
from npudoctor.facts.python.compiled_modules import UnfitModule, list_unfit_modules
from npudoctor.facts.python.frameworks import installed_job_distributions
from npudoctor.facts.python.installed_modules import is_altered, list_recorded_files
from npudoctor.facts.python.interrupted import find_stop_codes
from npudoctor.facts.python.replaced_libraries import (
    LED_BY,
    PRELOAD,
    MissingSymbol,
    ReplacedLibrary,
    find_hollow_library,
    find_missing_symbols,
    find_replaced,
)
from npudoctor.host.libraries.loader import LoadedLibrary, Loader, MissingLibrary
from npudoctor.host.python.installed_files import is_complete_elf
from npudoctor.host.python.interpreter import Distribution
from npudoctor.knowledge.distributions import list_built_in_names

# torch_npu, vllm and the like load the libraries of one of these.
FRAMEWORKS = ("torch", "mindspore", "paddle", "tensorflow")
SubjectFindings = Iterator[tuple[Finding, str]]
SHOWN = 4
# CUDA's libraries: package-requirements and nccl-version judge them, and torch preloads some of them by
# itself from nvidia/*/lib, where the loader does not look.
_OF_CUDA = pattern(r"lib(?:cu|nv|nccl|cusparseLt)")
# What only the framework itself brings.
_OWN = pattern(r"lib(?:torch|c10|caffe2|shm|mindspore|paddle|phi|tensorflow)\w*\.so")


@check(
    "loaded-libraries",
    scope=Scope.JOB,
    tags={"mindspore", "paddle", "pytorch", "tensorflow"},
    needs=("framework", *sorted(list_built_in_names())),
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
      Also reported for compiled modules of everything that the frameworks and trainers require.
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
    # Where CANN is installed, its own checks report what the loader does not find of it.
    has_cann = bool(installs_of(host))
    unfit_modules = [unfit for unfit in list_unfit_modules(host) if unfit.kind == "library" and not has_cann]
    if not installed and not unfit_modules:
        raise Skip(_("no framework is installed in {python}", python=host.interpreter.label))
    led_paths: set[str] = set()
    reported: set[tuple[str, str]] = set()
    for name, loader in _simulate_processes(host, installed):
        led_paths |= {library.path for library in loader.loaded if library.via == LED_BY} | {
            library.path for library in loader.preloaded
        }
        for finding, subject in _judge(host, name, loader):
            if (finding.code, subject) not in reported:
                reported.add((finding.code, subject))
                yield finding
    yield from map(_report_module, unfit_modules)
    yield Facts({"frameworks": [framework.name for framework in installed], "led_to": sorted(led_paths)})


def _simulate_processes(host: Host, installed: list[job.Framework]) -> Iterator[tuple[str, Loader]]:
    """Yield a simulated loader for ctypes, which every framework imports, if a variable could mislead it;
    then one for each framework, and one for torch with each of its other back ends."""
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


def _judge(host: Host, framework: str, loader: Loader) -> SubjectFindings:
    """Yield the findings about one process, each with its subject, so that the next framework does not repeat
    it."""
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
        # Only libraries found through the variable: package-files judges those of packages.
        if library.via == LED_BY and not is_complete_elf(host.files, library.library.path):
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
    yield from _find_missing(host, framework, loader)
    if host.options.root is not None:
        return
    replaced = find_replaced(host, loader)
    lacking = list(find_missing_symbols(host, loader, replaced))
    if lacking:
        yield _report_lacking(host, framework, loader, lacking), lacking[0].replacement.loaded.path
    else:
        lack = find_hollow_library(host, loader, lambda path: is_altered(host, path))
        if lack is not None:
            yield _report_hollow(framework, lack), lack.replacement.loaded.path
    copies = []
    for copy in replaced:
        loaded_file, own_file = host.files.stat(copy.loaded.path), host.files.stat(copy.own)
        # A file of the same size is taken for a copy of the same build.
        if _OWN.match(copy.name) and (
            loaded_file is None or own_file is None or loaded_file.size != own_file.size
        ):
            copies.append(copy)
    if copies and not lacking:
        yield _report_copies(host, framework, loader, copies), copies[0].loaded.path


def _describe_need(library: Union[LoadedLibrary, MissingLibrary]) -> str:
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


def _find_missing(host: Host, framework: str, loader: Loader) -> SubjectFindings:
    missing_libraries = [
        missing for missing in loader.missing if not missing.broken and not _OF_CUDA.match(missing.name)
    ]
    # Where CANN is installed, library-path reports its missing libraries.
    if not missing_libraries or installs_of(host):
        return
    yield (
        Finding(
            "loaded-libraries.not-found",
            _(
                "{framework} cannot be imported: the loader does not find {names}",
                framework=framework,
                names=", ".join(list(dict.fromkeys(library.name for library in missing_libraries))[:SHOWN]),
            ),
            evidence=tuple(map(_describe_need, missing_libraries[:SHOWN])),
            action=Action.CONFIG,
            fix=_reinstall_fix(host, framework, missing_libraries),
            echo_of=(
                *find_stop_codes(host),
                *("package-files.missing", "package-files.unreadable", "package-requirements.missing"),
                "torch-family.other-build",
            ),
        ),
        missing_libraries[0].name,
    )


def _report_module(unfit: UnfitModule) -> Finding:
    """Report a compiled module of what the frameworks require that needs a library which is not there."""
    return Finding(
        "loaded-libraries.not-found",
        _(
            "{framework} cannot be imported: the loader does not find {names}",
            framework=unfit.copy.label,
            names=unfit.built,
        ),
        severity=ERROR if unfit.needed else WARNING,
        evidence=(_("{name}: needed by {by}", name=unfit.built, by=unfit.by),),
        action=Action.CONFIG,
        echo_of=("package-files.interrupted", "package-files.missing", "package-files.unreadable"),
    )


def _reinstall_fix(host: Host, framework: str, missing: list[MissingLibrary]) -> Optional[Fix]:
    """Return the line that installs the package again whose list has the library, or the framework where only
    it brings such a one.

    One that is there may be for another machine: the loader passes it over, and says that it is not there.
    """
    names = {library.name for library in missing}
    members = installed_job_distributions(host)
    copy = next((copy for copy in members.values() if _brings(host, copy, names)), None)
    if copy is None and any(map(_OWN.match, names)):
        # By the module, which is no name for pip: `paddle` on PyPI is somebody else's.
        copy = next((copy for member, copy in members.items() if framework in member.modules), None)
    if copy is None:
        return None
    requirement = copy.requirement if copy.version else copy.name
    fix: Fix = pip_reinstall(host, _("reinstall {name}", name=copy.label), requirement)
    return fix


def _brings(host: Host, copy: Distribution, names: set[str]) -> bool:
    return any(file.path.rpartition("/")[2] in names for file in list_recorded_files(host, copy))


def _report_lacking(host: Host, framework: str, loader: Loader, lacking: list[MissingSymbol]) -> Finding:
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
        fix=_lead_back_fix(host, loader, first.replacement),
        echo_of=("libstdcxx.too-old", "nccl-version.missing-symbols"),
    )


def _report_hollow(framework: str, lack: MissingSymbol) -> Finding:
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


def _report_copies(host: Host, framework: str, loader: Loader, copies: list[ReplacedLibrary]) -> Finding:
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
        fix=_lead_back_fix(host, loader, first),
    )


def _lead_back_fix(host: Host, loader: Loader, replaced: ReplacedLibrary) -> Optional[Fix]:
    if replaced.variable == PRELOAD:
        return _remove_entry_fix(
            host, PRELOAD, replaced.loaded.name, re.split(r"[ :]+", host.variables.get(PRELOAD, ""))
        )
    return _fix(host, loader, replaced.name, replaced.loaded.entry)


def _fix(host: Host, loader: Loader, name: str, entry: str) -> Optional[Fix]:
    """Return the line that removes the entry from LD_LIBRARY_PATH; if other libraries are found only there,
    the line prepends the folder of the right library instead."""
    entries = host.variables.path_list(LED_BY)
    same_entry = [
        library
        for library in loader.loaded
        if library.via == LED_BY and library.entry == entry and library.name != name
    ]
    if all(loader.find_without_environment(library.name) for library in same_entry):
        return _remove_entry_fix(host, LED_BY, entry, entries)
    own = loader.find_without_environment(name)
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


def _remove_entry_fix(host: Host, variable: str, entry: str, entries: list[str]) -> Optional[Fix]:
    """Return the line that removes an entry from the variable; None if the variable does not contain it, as
    for a file that /etc/ld.so.preload names."""
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
