"""For which build of PyTorch torchvision and torchaudio were made, by their extension modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.host.host import Host
from npudoctor.host.python.installed_files import site_of
from npudoctor.host.python.interpreter import Distribution

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

# Where the extension modules lie, and how they are called.
EXTENSIONS = {
    "torchvision": ("torchvision", ("_C.",)),
    # The first was linked against CUDA only from 2.11 on: before, the second one alone names it.
    "torchaudio": ("torchaudio/lib", ("_torchaudio.", "libtorchaudio.")),
}
# PyTorch's own; libtorchaudio.so comes with torchaudio.
OF_TORCH = pattern(r"lib(?:torch(?!audio|vision|text)|c10)\w*\.so\Z")
# The soname of the CUDA runtime ends in its major version.
_CUDA = pattern(r"libcudart\.so\.(\d+)")
# The libraries of PyTorch that name its CUDA.
_WITH_CUDA = ("libc10_cuda.so", "libtorch_cuda.so")

# torchvision 0.20 goes with torch 2.5; torchaudio has torch's number, until it was made for no single one.
# By the metadata of their releases for torch 2.6 to 2.13; tried with torch 2.5.1 and 2.13.0.
_MAJOR, _NEWEST_MINOR, _VISION_AHEAD, _AUDIO_STABLE = 2, 13, 15, 11


@dataclass(frozen=True)
class OtherBuild:
    """Why an extension module does not load with a torch: the library of PyTorch that is missing, else "";
    the major versions of CUDA of both, where they differ.
    """

    library: str
    cuda: Optional[str] = None
    cuda_of_torch: Optional[str] = None


def find_other_build(host: Host, member: Distribution, torch: Distribution) -> Optional[OtherBuild]:
    """Why an extension module does not load with this torch; None where torch has all libraries that it asks
    for, or no library at all.
    """
    needed = libraries_needed_by(host, member)
    lib = f"{site_of(torch)}/torch/lib"
    names = set(host.files.names(lib))
    if not names:
        return None  # package-files speaks of that
    missing = [name for name in needed if OF_TORCH.match(name) and name not in names]
    needed_by_torch: tuple[str, ...] = ()
    for name in _WITH_CUDA:
        library = host.libraries.read(f"{lib}/{name}") if name in names else None
        if library is not None:
            needed_by_torch = library.needed
            break
    own_cuda, torch_cuda = _cuda_of(needed), _cuda_of(needed_by_torch)
    if missing:
        return OtherBuild(missing[0])
    return (
        OtherBuild("", own_cuda, torch_cuda) if own_cuda and torch_cuda and own_cuda != torch_cuda else None
    )


def libraries_needed_by(host: Host, member: Distribution) -> tuple[str, ...]:
    """The libraries that its extension modules ask for; none where it has no known one."""
    folder, starts = EXTENSIONS.get(member.name.lower(), ("", ()))
    path = f"{site_of(member)}/{folder}"
    names = host.files.names(path) if folder else []
    modules = [name for start in starts for name in names if name.startswith(start) and name.endswith(".so")]
    libraries = (host.libraries.read(f"{path}/{module}") for module in modules)
    return tuple(dict.fromkeys(name for library in libraries if library for name in library.needed))


def _cuda_of(needed: tuple[str, ...]) -> Optional[str]:
    return next((match[1] for match in map(_CUDA.match, needed) if match), None)


def companion_releases(name: str, torch: str) -> Optional[SpecifierSet]:
    """The releases that go with a torch, as their metadata does not always say; None where nothing
    is known.
    """
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        major, minor = (*Version(torch).release, 0)[:2]
    except InvalidVersion:
        return None
    # Not known yet: no guess.
    if major != _MAJOR or minor > _NEWEST_MINOR:
        return None
    if name == "torchvision":
        return SpecifierSet(f"==0.{minor + _VISION_AHEAD}.*")
    if name != "torchaudio":
        return None
    # From 2.11 on it asks for an interface that later releases keep.
    return SpecifierSet(">=2.11" if minor >= _AUDIO_STABLE else f"=={major}.{minor}.*")
