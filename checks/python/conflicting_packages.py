"""Do the installed packages get in each other's way, or belong to another machine?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Callable, Optional, Union

from npudoctor import ERROR, INFO, WARNING, Action, Facts, Finding, Fix, Host, Scope, Skip, _, check
from npudoctor.checks.python._pip import install_one_of, pip_fix, pip_reinstall, pip_replace, version_numbers
from npudoctor.core.frozen import dataclass, replace
from npudoctor.facts.python.compiled_modules import UnfitModule, list_unfit_modules
from npudoctor.facts.python.frameworks import EXTENSIONS, closure_of
from npudoctor.host.libraries.extensions import c_library_of_interpreter, find_extensions, machine_of
from npudoctor.host.python.installed_files import site_of
from npudoctor.host.python.interpreter import Distribution
from npudoctor.host.python.requirements import read_requirement
from npudoctor.knowledge.distributions import list_built_in_names

# Up to 1.10 each device had a distribution of its own; all of them install the folder mindspore.
MINDSPORE = ("mindspore", "mindspore-ascend", "mindspore-gpu")
# Both install the folder paddle.
PADDLE = ("paddlepaddle", "paddlepaddle-gpu")
TRITON = ("triton", "triton-ascend")
# Distributions that put their files into one and the same folder.
# triton beside triton-ascend is common, and torch-family knows which of them is there.
FLAVOURS = (MINDSPORE, PADDLE)
LOOKED_AT = (*MINDSPORE, *PADDLE, *TRITON, "torch", "torch-npu", "vllm", "vllm-ascend", "numpy", "scipy")
# Packages that frameworks import. By themselves they do not train, so only their extension module is judged.
COMPANIONS = ("pillow", "ml-dtypes")


@dataclass(frozen=True)
class TargetInterpreter:
    """The interpreter that would load the modules: its version (3.11), machine, and C library (gnu or musl);
    None where unknown."""

    version: Optional[str]
    machine: Optional[str]
    c_library: Optional[str] = None


@check(
    "conflicting-packages",
    scope=Scope.JOB,
    tags={"mindspore", "paddle", "pytorch"},
    needs=("framework", *sorted({*LOOKED_AT, *list_built_in_names()})),
    codes={
        "conflicting-packages.two-flavours": WARNING,
        "conflicting-packages.mixed-copy": WARNING,
        "conflicting-packages.two-copies": INFO,
        "conflicting-packages.other-machine": ERROR,
        "conflicting-packages.other-python": ERROR,
        "conflicting-packages.other-c-library": ERROR,
    },
)
def conflicting_packages(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The installed frameworks do not conflict with each other.

    ## What it does

    Looks at mindspore, paddlepaddle, triton, torch, torch-npu, vllm, numpy and scipy in the folders of the
    examined interpreter, in the order of its search path. Nothing is imported.

    - `conflicting-packages.two-flavours`: two distributions in one folder contain the same files: mindspore
      and mindspore-ascend or -gpu, paddlepaddle and -gpu. The one that was installed last has overwritten
      parts of the other. torch with torch-npu is correct; triton with triton-ascend is the subject of
      torch-family.
    - `conflicting-packages.mixed-copy`: one folder contains metadata of two versions of one distribution.
    - `conflicting-packages.two-copies`: two folders contain different versions. Information: Python uses the
      first one.
    - `conflicting-packages.other-machine`: the header of the main extension module names a different machine
      than the interpreter's, whatever the tag of the wheel says.
    - `conflicting-packages.other-python`: the main extension module exists for other Python versions only.
    - `conflicting-packages.other-c-library`: the main extension module exists only for a Python with another
      C library: a wheel for musl (Alpine) under glibc, or the reverse. Python does not look for that file
      name.

    The last three findings are also reported for everything that the frameworks and trainers require, such as
    tokenizers and pyarrow: the headers of some of its compiled modules are read, and how the loader would
    find what they need. `other-c-library` also reports a module that needs musl, or a newer glibc than the
    one here. A package that its own modules import without the compiled part is not reported; a warning if
    the frameworks are known to do without the package.

    ## Why it matters

    Wheels of MindSpore for Ascend were published for any machine but contain aarch64 files, so they can be
    installed anywhere. Two variants together fail at import, or the slower one runs without a message.

    ## Fix safety

    Shown only. A package for another machine is installed again if its wheel was for one machine; else it is
    removed, as the index has no other. If two distributions share their files, uninstall both before you
    install one again: removing one removes files of the other.

    ## References

    - The wheels of mindspore-ascend on PyPI (tag none-any, aarch64 inside).
    """
    installed = {name: copies for name in LOOKED_AT if (copies := host.interpreter.distributions(name))}
    if not installed and not closure_of(host).roots:
        raise Skip(_("no framework is installed in {python}", python=host.interpreter.label))
    yield Facts(
        {"installed": {name: [copy.version for copy in copies] for name, copies in installed.items()}}
    )
    winners = {name: copies[0] for name, copies in installed.items()}
    yield from _find_two_flavours(host, winners)
    for copies in installed.values():
        winner_copy = copies[0]
        for other in copies[1:]:
            if other.version != winner_copy.version:
                is_mixed = site_of(other) == site_of(winner_copy)
                yield (
                    _report_mixed_copy(host, winner_copy, other)
                    if is_mixed
                    else _report_two_copies(winner_copy, other)
                )
    # By the ELF header of the interpreter: a 32-bit Python may run on a 64-bit kernel, where uname says
    # x86_64.
    layout = host.interpreter.layout()
    version = ".".join(layout.version.split(".")[:2]) if layout.version else None
    machine = machine_of(host.files, host.interpreter.path) or layout.machine
    target = TargetInterpreter(version, machine, c_library_of_interpreter(host.files, layout.search_path))
    companions = {name: copy for name in COMPANIONS if (copy := host.interpreter.installed(name))}
    said: set[str] = set()
    for name, winner in {**winners, **companions}.items():
        for finding in _judge_extension(host, name, winner, target):
            said.add(winner.folder)
            yield finding
    for unfit in list_unfit_modules(host):
        if unfit.copy.folder not in said and unfit.kind in _REPORTS:
            finding = _REPORTS[unfit.kind](host, unfit, target)
            yield finding if unfit.needed else replace(finding, severity=WARNING)


def _judge_extension(
    host: Host, name: str, copy: Distribution, target: TargetInterpreter
) -> Iterator[Finding]:
    built = [
        module
        for folder, stem in EXTENSIONS.get(name, ())
        for module in find_extensions(host.files, f"{site_of(copy)}/{folder}", stem)
    ]
    fitting = [
        module
        for module in built
        if None in (module.python, target.version) or module.python == target.version
    ]
    if built and not fitting:
        pythons = sorted({module.python for module in built if module.python})
        yield _report_other_python(host, copy, built[0].path, ", ".join(pythons), target)
        return
    libraries = {module.c_library for module in fitting}
    if fitting and target.c_library and None not in libraries and target.c_library not in libraries:
        yield _report_other_c_library(host, copy, fitting[0].path, target.c_library)
        return
    machines = {module.path: machine_of(host.files, module.path) for module in fitting}
    known_machines = {machine for machine in machines.values() if machine}
    if target.machine and known_machines and target.machine not in known_machines:
        yield _report_other_machine(host, copy, machines, target.machine)


def _find_two_flavours(host: Host, winners: dict[str, Distribution]) -> Iterator[Finding]:
    """Report two distributions with the same files in one folder."""
    layout = host.interpreter.layout()
    for family in FLAVOURS:
        # Two members of a family in one folder conflict, unless one requires the other: then that is on
        # purpose.
        members = [winners[name] for name in family if name in winners]
        for first, second in zip(members, members[1:]):
            requirement = read_requirement(first, second.name, layout) or read_requirement(
                second, first.name, layout
            )
            if site_of(first) == site_of(second) and requirement is None:
                # Keep the newer one; if equal, the one whose name has the accelerator, the second of the
                # family.
                is_first_newer = version_numbers(first.version) > version_numbers(second.version)
                chosen = first if is_first_newer else second
                title = _("remove both, then install {name} again", name=chosen.name)
                yield Finding(
                    "conflicting-packages.two-flavours",
                    _(
                        "{first} and {second} share one folder: the one installed last has overwritten the "
                        "other",
                        first=first.label,
                        second=second.label,
                    ),
                    evidence=(first.evidence, second.evidence),
                    action=Action.CONFIG,
                    fix=pip_replace(
                        host, title, (first.name, second.name), f"{chosen.name}=={chosen.version}"
                    ),
                )


def _report_mixed_copy(host: Host, first: Distribution, other: Distribution) -> Finding:
    """Report two versions of one distribution in one folder."""
    return Finding(
        "conflicting-packages.mixed-copy",
        _(
            "{name} is installed twice in one folder, as {first} and as {other}",
            name=first.name,
            first=first.version,
            other=other.version,
        ),
        evidence=(first.evidence, other.evidence),
        action=Action.CONFIG,
        fix=install_one_of(host, first, other),
        echo_of=("package-files.two-versions",),  # which looks at the files too
    )


def _report_two_copies(first: Distribution, other: Distribution) -> Finding:
    """Report two versions of one distribution in two folders."""
    words = {
        "first": first.version,
        "folder": site_of(first),
        "other": other.version,
        "behind": site_of(other),
    }
    return Finding(
        "conflicting-packages.two-copies",
        _(
            "{name} is installed twice: {first} in {folder} takes precedence over {other} in {behind}",
            name=first.name,
            **words,
        ),
    )


def _report_other_python(
    host: Host, copy: Distribution, path: str, pythons: str, target: TargetInterpreter
) -> Finding:
    """Report a package without an extension module for this Python."""
    words = {"folder": site_of(copy), "pythons": pythons, "version": target.version or ""}
    return Finding(
        "conflicting-packages.other-python",
        _(
            "{name} in {folder} is built for Python {pythons}, but {python} is {version}",
            name=copy.label,
            python=host.interpreter.label,
            **words,
        ),
        evidence=(path,),
        action=Action.CONFIG,
        fix=_reinstall_fix(host, copy),
        echo_of=("interpreter.other-abi",),
    )


def _report_newer_c_library(host: Host, unfit: UnfitModule) -> Finding:
    """Report a package that is built for a newer glibc than the one here."""
    return Finding(
        "conflicting-packages.other-c-library",
        _(
            "{name} in {folder} is built for a newer glibc, which has {version}",
            name=unfit.copy.label,
            folder=site_of(unfit.copy),
            version=unfit.built,
        ),
        evidence=(_("{by} needs {symbol}", by=unfit.by, symbol=unfit.built),),
        action=Action.CONFIG,
        fix=_reinstall_fix(host, unfit.copy),
    )


def _report_other_c_library(host: Host, copy: Distribution, path: str, own: str) -> Finding:
    """Report a package without an extension module for this Python's C library. `own`: gnu or musl."""
    built, own = ("musl", "glibc") if own == "gnu" else ("glibc", "musl")
    words = {"folder": site_of(copy), "built": built, "own": own}
    return Finding(
        "conflicting-packages.other-c-library",
        _(
            "{name} in {folder} is built for Python with {built}, but {python} is built with {own}",
            name=copy.label,
            python=host.interpreter.label,
            **words,
        ),
        evidence=(path,),
        action=Action.CONFIG,
        fix=_reinstall_fix(host, copy),
    )


def _report_other_machine(
    host: Host, copy: Distribution, machines: Mapping[str, Optional[str]], machine: str
) -> Finding:
    """Report an extension module for another machine."""
    path, built = next((path, built) for path, built in machines.items() if built)
    fix = _reinstall_fix(host, copy)
    if not _is_tagged(host, copy):
        title = _("remove {names}, which cannot run here", names=copy.name)
        fix = pip_fix(host, title, ("uninstall", copy.name))
    words = {"folder": site_of(copy), "built": built, "machine": machine}
    return Finding(
        "conflicting-packages.other-machine",
        _(
            "{name} in {folder} is built for {built}, but {python} runs on {machine}",
            name=copy.label,
            python=host.interpreter.label,
            **words,
        ),
        evidence=(f"{path}: ELF, {built}",),
        action=Action.CONFIG,
        fix=fix,
    )


def _is_tagged(host: Host, copy: Distribution) -> bool:
    """Whether its wheel names a machine: then an index has another one for this machine. MindSpore's for any
    machine (none-any) had aarch64 files inside, and would come again."""
    path = f"{copy.folder}/WHEEL"
    entry = host.files.stat(path)
    text = (host.files.text(path, 1 << 16) if entry is not None and entry.is_file else None) or ""
    tags = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("Tag:")]
    return bool(tags) and not any(tag.endswith("-any") for tag in tags)


def _reinstall_fix(host: Host, copy: Distribution) -> Fix:
    title = _("reinstall {name}", name=copy.name)
    fix: Fix = pip_reinstall(host, title, f"{copy.name}=={copy.version}")
    return fix


# By the kind of an unfit module; loaded-libraries reports the others.
_REPORTS: Mapping[str, Callable[[Host, UnfitModule, TargetInterpreter], Finding]] = {
    "python": lambda host, unfit, target: _report_other_python(
        host, unfit.copy, unfit.path, unfit.built, target
    ),
    "machine": lambda host, unfit, target: _report_other_machine(
        host, unfit.copy, {unfit.path: unfit.built}, target.machine or ""
    ),
    "c-library": lambda host, unfit, target: _report_other_c_library(
        host, unfit.copy, unfit.path, "gnu" if unfit.built == "musl" else "musl"
    ),
    "version": lambda host, unfit, target: _report_newer_c_library(host, unfit),
}
