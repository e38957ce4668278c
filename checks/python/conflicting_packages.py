"""Do the installed packages get in each other's way, or belong to another machine?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional, Union

from npudoctor import ERROR, INFO, WARNING, Facts, Finding, Host, Scope, Skip, _, check
from npudoctor.checks.python import _conflicting_packages_findings as say
from npudoctor.core.frozen import dataclass
from npudoctor.host.libraries.extensions import Extension, extensions, machine_of, own_c_library
from npudoctor.host.python.interpreter import Distribution
from npudoctor.host.python.requirements import required

MINDSPORE = ("mindspore", "mindspore-ascend", "mindspore-gpu")
PADDLE = ("paddlepaddle", "paddlepaddle-gpu")
TRITON = ("triton", "triton-ascend")
# Distributions that put their files into one and the same folder.
# triton beside triton-ascend is common, and torch-family knows which of them is there.
FLAVOURS = (MINDSPORE, PADDLE)
LOOKED_AT = (*MINDSPORE, *PADDLE, *TRITON, "torch", "torch-npu", "vllm", "vllm-ascend", "numpy", "scipy")
# The extension module without which a package cannot be imported: folder and name.
EXTENSIONS = {
    "mindspore": (("mindspore", "_c_expression"),),
    "mindspore-ascend": (("mindspore", "_c_expression"),),
    "mindspore-gpu": (("mindspore", "_c_expression"),),
    "paddlepaddle": (("paddle/base", "libpaddle"), ("paddle/fluid", "libpaddle")),
    "paddlepaddle-gpu": (("paddle/base", "libpaddle"), ("paddle/fluid", "libpaddle")),
    "torch": (("torch", "_C"),),
    "torch-npu": (("torch_npu", "_C"),),
    "numpy": (("numpy/_core", "_multiarray_umath"), ("numpy/core", "_multiarray_umath")),
    "scipy": (("scipy/linalg", "_fblas"),),
    "pillow": (("PIL", "_imaging"),),
    "ml-dtypes": (("ml_dtypes", "_ml_dtypes_ext"),),
}
# What frameworks import and does nothing for training by itself: only its extension module is judged.
BESIDE = ("pillow", "ml-dtypes")


@dataclass(frozen=True)
class Here:
    """The interpreter that would load them: its version (3.11), its machine, and its C library (gnu, musl),
    where they are known."""

    version: Optional[str]
    machine: Optional[str]
    c_library: Optional[str] = None


@check(
    "conflicting-packages",
    scope=Scope.JOB,
    tags={"mindspore", "paddle", "pytorch"},
    needs=LOOKED_AT,
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
    """The installed frameworks do not get in each other's way.

    ## What it does

    Looks at mindspore, paddlepaddle, triton, torch, torch-npu, vllm, numpy and scipy in the folders of the
    examined interpreter, in the order of its search path. Nothing is imported.

    - `conflicting-packages.two-flavours`: two distributions in one folder whose files are the same ones:
      mindspore and mindspore-ascend or -gpu, paddlepaddle and -gpu. What was installed last has
      overwritten parts of the other. torch beside torch-npu is as it must be; triton beside triton-ascend
      is torch-family's.
    - `conflicting-packages.mixed-copy`: metadata of two versions of one distribution in one folder, which an
      upgrade that broke off leaves behind.
    - `conflicting-packages.two-copies`: other versions in two folders; information: the first one wins.
    - `conflicting-packages.other-machine`: the header of the main extension module names another machine
      than the interpreter's, whatever the tag of the wheel says.
    - `conflicting-packages.other-python`: the main extension module is there for other Pythons only.
    - `conflicting-packages.other-c-library`: it is there for a Python with another C library only: a wheel
      for musl (Alpine) under glibc, or the other way round. Python does not look for that name.

    Of Pillow and ml_dtypes, which frameworks import, the last three are judged too.

    ## Why it matters

    Wheels of MindSpore for Ascend were published as fit for any machine, and hold aarch64 files: they
    install anywhere. Two flavours together fail at import, or run the slower one without a word.

    ## Fix safety

    Shown only. Where two distributions share their files, both must go before one is installed again:
    removing one removes files of the other.

    ## References

    - The wheels of mindspore-ascend on PyPI (tag none-any, aarch64 inside).
    """
    installed = {name: copies for name in LOOKED_AT if (copies := host.interpreter.distributions(name))}
    if not installed:
        raise Skip(_("no framework is installed in {python}").format(python=host.interpreter.label))
    yield Facts(
        {"installed": {name: [copy.version for copy in copies] for name, copies in installed.items()}}
    )
    winners = {name: copies[0] for name, copies in installed.items()}
    for family in FLAVOURS:
        yield from _flavours(host, [winners[name] for name in family if name in winners])
    for copies in installed.values():
        yield from _copies(host, copies)
    here = _here(host)
    beside = {name: found for name in BESIDE if (found := host.interpreter.installed(name))}
    for name, winner in {**winners, **beside}.items():
        yield from _extension(host, name, winner, here)


def _flavours(host: Host, members: Sequence[Distribution]) -> Iterator[Finding]:
    """Of one family, those that share a folder; one that requires the other knows what it does."""
    layout = host.interpreter.layout()
    for first, second in zip(members, members[1:]):
        friends = required(first, second.name, layout) or required(second, first.name, layout)
        if say.site(first) == say.site(second) and friends is None:
            yield say.two_flavours(host, first, second)


def _copies(host: Host, copies: Sequence[Distribution]) -> Iterator[Finding]:
    first = copies[0]
    for other in copies[1:]:
        if other.version != first.version:
            mixed = say.site(other) == say.site(first)
            yield say.mixed_copy(host, first, other) if mixed else say.two_copies(first, other)


def _here(host: Host) -> Here:
    """The machine by the interpreter's own file: a 32-bit one may run on a 64-bit kernel."""
    layout = host.interpreter.layout()
    version = ".".join(layout.version.split(".")[:2]) if layout.version else None
    machine = machine_of(host.files, host.interpreter.path) or layout.machine
    return Here(version, machine, own_c_library(host.files, layout.search_path))


def _extension(host: Host, name: str, found: Distribution, here: Here) -> Iterator[Finding]:
    built = [
        built
        for folder, module in EXTENSIONS.get(name, ())
        for built in extensions(host.files, f"{say.site(found)}/{folder}", module)
    ]
    fitting = [one for one in built if _loads(one, here)]
    if built and not fitting:
        pythons = sorted({one.python for one in built if one.python})
        yield say.other_python(host, found, built[0].path, pythons, here.version or "")
        return
    libraries = {one.c_library for one in fitting}
    if fitting and here.c_library and None not in libraries and here.c_library not in libraries:
        yield say.other_c_library(host, found, fitting[0].path, here.c_library)
        return
    machines = {one.path: machine_of(host.files, one.path) for one in fitting}
    known = {machine for machine in machines.values() if machine}
    if here.machine and known and here.machine not in known:
        yield say.other_machine(host, found, machines, here.machine)


def _loads(extension: Extension, here: Here) -> bool:
    return None in (extension.python, here.version) or extension.python == here.version
