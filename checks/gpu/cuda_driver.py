"""Is the NVIDIA driver new enough for the CUDA of the frameworks, and of one version?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Optional, Union

from npudoctor import ERROR, Facts, Finding, Host, Scope, Skip, Unknown, _, check

if TYPE_CHECKING:
    from npudoctor.facts.gpu.cuda import DriverLibrary, Runtime
    from npudoctor.knowledge.tables import Row


@check(
    "cuda-driver",
    scope=Scope.NODE,
    tags={"nvidia", "pytorch", "mindspore", "paddle"},
    needs=("gpu",),
    codes={
        "cuda-driver.too-old": ERROR,
        "cuda-driver.mismatch": ERROR,
        "cuda-driver.compat-unusable": ERROR,
        "cuda-driver.no-library": ERROR,
        "cuda-driver.stub-first": ERROR,
    },
)
def cuda_driver(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The NVIDIA driver suits the CUDA of the frameworks.

    ## What it does

    Reads the version of the loaded kernel module (/sys/module/nvidia/version, /proc/driver/nvidia/version)
    and compares it with the libraries of the driver that a job would load (libcuda.so.1, libnvidia-ml.so.1,
    by the names of their files) and with the CUDA that torch, Paddle and MindSpore were built for. Nothing is
    run or loaded. It applies where a GPU's device node is here.

    - `cuda-driver.too-old`: the driver is older than the oldest one for that CUDA. From CUDA 11 on one
      driver serves all minor releases of a major one, so that is what is compared. A package for forward
      compatibility (`cuda-compat`) whose libcuda is found counts. A warning where another framework in the
      interpreter is served.
    - `cuda-driver.mismatch`: the libraries are of another version than the loaded module: NVML and CUDA
      refuse to start. A warning where the libraries are the older ones of the same major version.
    - `cuda-driver.compat-unusable`: the libcuda that is found is of a package for forward compatibility
      that is older than the loaded module, or the GPU is a GeForce, for which there is no forward
      compatibility: CUDA ends with error 803 or 804.
    - `cuda-driver.no-library`: a framework for GPUs is installed, and libcuda.so.1 is not found.
    - `cuda-driver.stub-first`: the loader finds the stand-in that is meant for builds.

    ## Why it matters

    `CUDA driver version is insufficient for CUDA runtime version`, `Failed to initialize NVML:
    Driver/library version mismatch` (after an update of the driver without a reboot), `torch.cuda` that
    finds no device: the job ends at its first line.

    ## References

    - NVIDIA, CUDA Compatibility: minor version and forward compatibility; CUDA Toolkit release notes.
    - espressomd/espresso pull request 4090 (module 450.102.04, cuda-compat 450.80.02: error 803);
      ggml-org/llama.cpp issue 17542 (cuda-compat 12.9 on GeForce).
    - Each row of the table cuda_driver names its own.
    """
    if not host.gpus.nodes:
        raise Skip(_("this machine has no GPU device node"))
    from npudoctor.checks.gpu import _cuda_driver_findings as say
    from npudoctor.facts.gpu.cuda import driver_library, module_version, runtimes

    module = module_version(host.running_files)
    found = list(runtimes(host))
    cuda, nvml = (driver_library(host, name) for name in ("libcuda.so.1", "libnvidia-ml.so.1"))
    yield Facts(say.facts(module, found, cuda, nvml))
    if cuda is not None and cuda.stub:
        yield say.stub(host, cuda)
    elif cuda is None and found:
        yield say.no_library(host, found)
    if module is None:
        text = _("could not determine the version of the loaded NVIDIA module: there is no {path}")
        raise Unknown(text.format(path="/sys/module/nvidia/version"), advisory=True)
    for library in _apart(module, cuda, nvml):
        yield say.mismatch(host, module, library)
    if cuda is not None and cuda.compat and cuda.version and found:
        yield from _compat(host, module, cuda.version, cuda)
    yield from _too_old(host, module, found, cuda)
    if not found:
        raise Skip(_("no framework for CUDA is in {python}").format(python=host.interpreter.label))


def _apart(
    module: str, cuda: Optional[DriverLibrary], nvml: Optional[DriverLibrary]
) -> Iterator[DriverLibrary]:
    """The first library that is of another version than the module, one for forward compatibility apart."""
    for library in (nvml, cuda):
        if library and library.version and not library.compat and library.version != module:
            yield library
            return


def _compat(host: Host, module: str, version: str, cuda: DriverLibrary) -> Iterator[Finding]:
    from npudoctor.checks.gpu import _cuda_driver_findings as say
    from npudoctor.facts.gpu.cuda import consumer_gpu, order

    if order(version) < order(module):
        yield say.compat_older(module, version, cuda)
    elif version != module:
        model = consumer_gpu(host.running_files)
        if model is not None:
            yield say.compat_on_geforce(model, cuda)


def _too_old(
    host: Host, module: str, found: list[Runtime], cuda: Optional[DriverLibrary]
) -> Iterator[Finding]:
    from npudoctor.checks.gpu import _cuda_driver_findings as say
    from npudoctor.facts.gpu.cuda import order

    served = cuda.version if cuda and cuda.compat and cuda.version else module
    rows = {runtime: _least(host, runtime.cuda) for runtime in found}
    old = [one for one, row in rows.items() if row and order(served) < order(row["driver"])]
    for runtime in old:
        row = rows[runtime]
        if row is not None:
            yield say.too_old(runtime, module, row, alone=len(old) == len(found))


def _least(host: Host, cuda: str) -> Optional[Row]:
    """The row about this CUDA: about its minor release, else about its major one."""
    major, _point, rest = cuda.partition(".")
    rows = {row["cuda"]: row for row in reversed(host.knowledge.rows("cuda_driver", "least"))}
    return rows.get(f"{major}.{rest.partition('.')[0]}") or rows.get(major)
