"""The words of the check cuda-driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor import ERROR, WARNING, Action, Finding, Host, _
from npudoctor.facts.gpu.cuda import DriverLibrary, Runtime, order
from npudoctor.knowledge.tables import Row


def facts(
    module: Optional[str],
    found: Sequence[Runtime],
    cuda: Optional[DriverLibrary],
    nvml: Optional[DriverLibrary],
) -> dict[str, object]:
    """For machines."""
    libraries = {"libcuda": cuda, "libnvidia-ml": nvml}
    return {
        "module": module,
        "cuda": {runtime.framework: runtime.cuda for runtime in found},
        **{name: one.path if one else None for name, one in libraries.items()},
    }


def stub(host: Host, cuda: DriverLibrary) -> Finding:
    """A stand-in for builds."""
    text = _("the loader finds {path}, a stub that is only meant for builds")
    return Finding("cuda-driver.stub-first", text.format(path=cuda.path), action=Action.CONFIG)


def no_library(host: Host, found: Sequence[Runtime]) -> Finding:
    """Frameworks that will find no driver."""
    text = _("{names} is installed for GPUs, and the loader does not find the driver's libcuda.so.1")
    if host.system.container():
        text = _(
            "{names} is installed for GPUs, but this container lacks the driver's libcuda.so.1 "
            "(NVIDIA_DRIVER_CAPABILITIES must include compute)"
        )
    names = ", ".join(one.framework for one in found)
    return Finding("cuda-driver.no-library", text.format(names=names), action=Action.CONFIG)


def mismatch(host: Host, module: str, library: DriverLibrary) -> Finding:
    """A module and libraries of two versions."""
    theirs = library.version or ""
    older = order(theirs) < order(module) and order(theirs)[0] == order(module)[0]
    text = _(
        "the loaded NVIDIA module is {module}, its libraries are {library}: reboot, or reload the module"
    )
    action = Action.REBOOT
    if host.system.container():
        text = _(
            "the host's NVIDIA module is {module}, the libraries here are {library}: this image brings its "
            "own, or the host's driver was updated after this container was started"
        )
        action = Action.CONFIG
    return Finding(
        "cuda-driver.mismatch",
        text.format(module=module, library=theirs),
        severity=WARNING if older else ERROR,
        evidence=(library.path,),
        action=action,
    )


def compat_older(module: str, version: str, cuda: DriverLibrary) -> Finding:
    """A package for forward compatibility of which the driver has no need any more."""
    text = _(
        "the loader finds {path} of driver {library}, a package for forward compatibility that is older than "
        "the loaded NVIDIA module {module}: CUDA ends with error 803; take its folder out of LD_LIBRARY_PATH"
    )
    words = {"path": cuda.path, "library": version, "module": module}
    return Finding("cuda-driver.compat-unusable", text.format(**words), action=Action.CONFIG)


def compat_on_geforce(model: str, cuda: DriverLibrary) -> Finding:
    """A package for forward compatibility, which only data centre GPUs have."""
    text = _(
        "the loader finds {path}, a package for forward compatibility, which NVIDIA offers for data centre "
        "GPUs and not for {model}: CUDA ends with error 803 or 804; take its folder out of LD_LIBRARY_PATH, "
        "or install a newer driver"
    )
    return Finding(
        "cuda-driver.compat-unusable", text.format(path=cuda.path, model=model), action=Action.CONFIG
    )


def too_old(runtime: Runtime, module: str, row: Row, alone: bool) -> Finding:
    """A driver that does not know this CUDA."""
    text = _(
        "{framework} was built for CUDA {cuda}, which needs driver {least} or newer; this "
        "machine has {module}"
    )
    source = _("built-in table of {as_of}: {source}").format(as_of=row["as_of"], source=row["source"])
    words = {"framework": runtime.framework, "cuda": runtime.cuda, "least": row["driver"]}
    return Finding(
        "cuda-driver.too-old",
        text.format(module=module, **words),
        severity=ERROR if alone else WARNING,
        evidence=(runtime.said_by, source),
        action=Action.CONFIG,
    )
