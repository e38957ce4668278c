"""Whether torchvision and torchaudio were built for the build of PyTorch that is installed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Optional

from npudoctor import Action, Finding, Fix, Host, _
from npudoctor.checks.python._pip import pip_fix
from npudoctor.checks.python._requirements import held
from npudoctor.checks.python._stack import accepts, at
from npudoctor.checks.python._triton import overwritten_by_torch
from npudoctor.host.python.installed_files import site_of
from npudoctor.host.python.interpreter import Distribution
from npudoctor.host.python.requirements import required

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

# Where the extension modules lie, and how they are called.
EXTENSIONS = {
    "torchvision": ("torchvision", ("_C.",)),
    # The first was linked against CUDA only from 2.11 on: before, the second one alone names it.
    "torchaudio": ("torchaudio/lib", ("_torchaudio.", "libtorchaudio.")),
}
# PyTorch's own; libtorchaudio.so comes with torchaudio.
_OF_TORCH = re.compile(r"lib(?:torch(?!audio|vision|text)|c10)\w*\.so\Z")
_CUDA = re.compile(r"libcudart\.so\.(\d+)")
# The libraries of PyTorch that name its CUDA.
_WITH_CUDA = ("libc10_cuda.so", "libtorch_cuda.so")

# torchvision 0.20 goes with torch 2.5; torchaudio has torch's number, until it was made for no single one.
# By the metadata of their releases for torch 2.6 to 2.13; tried with torch 2.5.1 and 2.13.0.
_MAJOR, _NEWEST_MINOR, _VISION_AHEAD, _AUDIO_STABLE = 2, 13, 15, 11


def other_build(host: Host, member: Distribution, torch: Distribution) -> Optional[Finding]:
    """What its extension module asks for and this torch does not have; None where all is there."""
    needed = needed_by(host, member)
    lib = f"{site_of(torch)}/torch/lib"
    have = set(host.files.names(lib))
    missing = [name for name in needed if _OF_TORCH.match(name) and name not in have]
    if not have:
        return None  # package-files speaks of that
    words = {"name": member.name, "version": member.version, "torch": torch.version}
    mine, theirs = _cuda(needed), _cuda(_of_torch(host, lib, have))
    if missing:
        text = _(
            "{name} {version} was built for another torch: it needs {library}, which torch {torch} lacks"
        )
        return _finding(host, member, torch, text.format(library=missing[0], **words))
    if mine and theirs and mine != theirs:
        text = _("{name} {version} was built for CUDA {mine}, but torch {torch} for CUDA {theirs}")
        return _finding(host, member, torch, text.format(mine=mine, theirs=theirs, **words))
    return None


def needed_by(host: Host, member: Distribution) -> tuple[str, ...]:
    """The libraries that its extension modules ask for; none where it has no known one."""
    folder, starts = EXTENSIONS.get(member.name.lower(), ("", ()))
    path = f"{site_of(member)}/{folder}"
    names = host.files.names(path) if folder else []
    modules = [name for start in starts for name in names if name.startswith(start) and name.endswith(".so")]
    libraries = (host.libraries.at(f"{path}/{module}") for module in modules)
    return tuple(dict.fromkeys(name for library in libraries if library for name in library.needed))


def _of_torch(host: Host, lib: str, have: set[str]) -> tuple[str, ...]:
    for name in _WITH_CUDA:
        library = host.libraries.at(f"{lib}/{name}") if name in have else None
        if library is not None:
            return library.needed
    return ()


def _cuda(needed: tuple[str, ...]) -> Optional[str]:
    return next((match[1] for match in map(_CUDA.match, needed) if match), None)


def _finding(host: Host, member: Distribution, torch: Distribution, message: str) -> Finding:
    _public, _plus, local = torch.version.partition("+")
    title = _("install the {name} that goes with the installed torch").format(name=member.name)
    if local:
        text = _("install the {name} of the same index as torch, built for {local}")
        title = text.format(name=member.name, local=local)
    return Finding(
        "torch-family.other-build",
        message,
        evidence=(at(member), at(torch)),
        action=Action.CONFIG,
        fix=matching(host, title, member, torch),
        echo_of=("torch-family.mismatch", "torch-npu.torch-mismatch"),
    )


def matching(host: Host, title: str, member: Distribution, torch: Distribution) -> Fix:
    """The line that puts in the release that goes with this torch, of its build; torch itself stays.

    The release that is there is put in once more where it is the right one of another build.
    """
    release, _plus, local = torch.version.partition("+")
    alike = member.version.partition("+")[0]
    wanted = _companion(member.name.lower(), release)
    fits = required(member, "torch", host.interpreter.layout())
    if (fits and accepts(fits, torch.version)) or (wanted and wanted.contains(alike)):
        build = f"{alike}+{local}" if local else alike
        again: Fix = pip_fix(
            host, title, ("install", "--force-reinstall", "--no-deps", f"{member.name}=={build}")
        )
        return again
    keep = held(host, member.name)
    if "--no-deps" in keep and not overwritten_by_torch(host):
        keep = (f"torch=={torch.version}",)
    if wanted is None:  # pip finds it out by what each release requires
        keep = ("--upgrade", *keep)
    fix: Fix = pip_fix(host, title, ("install", *keep, f"{member.name}{wanted or ''}"))
    return fix


def _companion(name: str, torch: str) -> Optional[SpecifierSet]:
    """Which releases go with a torch, as their metadata does not always say; None where nothing is known."""
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        major, minor = (*Version(torch).release, 0)[:2]
    except InvalidVersion:
        return None
    if major != _MAJOR or minor > _NEWEST_MINOR:
        return None
    if name == "torchvision":
        return SpecifierSet(f"==0.{minor + _VISION_AHEAD}.*")
    if name != "torchaudio":
        return None
    # From 2.11 on it asks for an interface that later releases keep.
    return SpecifierSet(">=2.11" if minor >= _AUDIO_STABLE else f"=={major}.{minor}.*")
