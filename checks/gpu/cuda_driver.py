"""Is the NVIDIA driver new enough for the CUDA of the frameworks, and of one version?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Optional, Union

from npudoctor import ERROR, WARNING, Action, Facts, Finding, Host, Scope, Skip, Unknown, _, check
from npudoctor.facts.gpu.cuda import (
    CudaRuntime,
    DriverLibrary,
    consumer_gpu,
    driver_library,
    module_version,
    runtimes,
    version_key,
)

if TYPE_CHECKING:
    from npudoctor.knowledge.tables import KnowledgeRow


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
    """The NVIDIA driver supports the CUDA of the frameworks.

    ## What it does

    Reads the version of the loaded kernel module (/sys/module/nvidia/version, /proc/driver/nvidia/version)
    and compares it with the driver libraries that a job would load (libcuda.so.1, libnvidia-ml.so.1, by their
    file names) and with the CUDA that torch, Paddle and MindSpore were built for. Nothing is run or loaded.
    The check applies if this machine has a GPU device node.

    - `cuda-driver.too-old`: the driver is older than the oldest driver for that CUDA. From CUDA 11 on one
      driver supports all minor releases of a major release, so only the major release is compared. If the
      libcuda of a package for forward compatibility (`cuda-compat`) is found, its version is compared
      instead. A warning if the driver supports another framework in the interpreter.
    - `cuda-driver.mismatch`: the libraries have a different version than the loaded module, so NVML and CUDA
      refuse to start. A warning if the libraries are older and have the same major version.
    - `cuda-driver.compat-unusable`: the libcuda that is found belongs to a package for forward compatibility
      that is older than the loaded module, or the GPU is a GeForce, which does not support forward
      compatibility: CUDA ends with error 803 or 804.
    - `cuda-driver.no-library`: a framework for GPUs is installed, but libcuda.so.1 is not found.
    - `cuda-driver.stub-first`: the loader finds a stub that is only meant for builds.

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
    module = module_version(host.running_files)
    frameworks = list(runtimes(host))
    cuda, nvml = (driver_library(host, name) for name in ("libcuda.so.1", "libnvidia-ml.so.1"))
    yield Facts(_facts(module, frameworks, cuda, nvml))
    if cuda is not None and cuda.is_stub:
        yield Finding(
            "cuda-driver.stub-first",
            _("the loader finds {path}, a build-time stub", path=cuda.path),
            action=Action.CONFIG,
        )
    elif cuda is None and frameworks:
        yield _report_no_library(host, frameworks)
    if module is None:
        raise Unknown(
            _(
                "could not determine the version of the loaded NVIDIA module: there is no {path}",
                path="/sys/module/nvidia/version",
            ),
            advisory=True,
        )
    for library in _find_mismatched(module, cuda, nvml):
        yield _report_mismatch(host, module, library)
    if cuda is not None and cuda.is_compat and cuda.version and frameworks:
        yield from _judge_compat(host, module, cuda)
    yield from _judge_driver_age(host, module, frameworks, cuda)
    if not frameworks:
        raise Skip(_("no framework for CUDA is in {python}", python=host.interpreter.label))


def _find_mismatched(
    module: str, cuda: Optional[DriverLibrary], nvml: Optional[DriverLibrary]
) -> Iterator[DriverLibrary]:
    """Yield the first library whose version differs from the module's. Libraries for forward compatibility
    may differ."""
    for library in (nvml, cuda):
        if library and library.version and not library.is_compat and library.version != module:
            yield library
            return


def _judge_driver_age(
    host: Host, module: str, frameworks: list[CudaRuntime], cuda: Optional[DriverLibrary]
) -> Iterator[Finding]:
    driver = cuda.version if cuda and cuda.is_compat and cuda.version else module
    # The row about its CUDA: about the minor release, else about the major one.
    # From CUDA 11 on, a driver of a major release runs all of its minor releases (NVIDIA, "CUDA
    # Compatibility"), so most rows name the major release only.
    least = {row["cuda"]: row for row in reversed(host.knowledge.rows("cuda_driver", "least"))}
    rows: dict[CudaRuntime, Optional[KnowledgeRow]] = {}
    for runtime in frameworks:
        major, _point, rest = runtime.cuda.partition(".")
        rows[runtime] = least.get(f"{major}.{rest.partition('.')[0]}") or least.get(major)
    old = [
        runtime for runtime, row in rows.items() if row and version_key(driver) < version_key(row["driver"])
    ]
    for runtime in old:
        row = rows[runtime]
        if row is not None:
            source = _("built-in table of {as_of}: {source}", as_of=row["as_of"], source=row["source"])
            words = {"framework": runtime.framework, "cuda": runtime.cuda, "least": row["driver"]}
            yield Finding(
                "cuda-driver.too-old",
                _(
                    "{framework} was built for CUDA {cuda}, which needs driver {least} or newer; this "
                    "machine has {module}",
                    module=module,
                    **words,
                ),
                severity=ERROR if (len(old) == len(frameworks)) else WARNING,
                evidence=(runtime.said_by, source),
                action=Action.CONFIG,
            )


def _facts(
    module: Optional[str],
    frameworks: Sequence[CudaRuntime],
    cuda: Optional[DriverLibrary],
    nvml: Optional[DriverLibrary],
) -> dict[str, object]:
    libraries = {"libcuda": cuda, "libnvidia-ml": nvml}
    return {
        "module": module,
        "cuda": {runtime.framework: runtime.cuda for runtime in frameworks},
        **{name: library.path if library else None for name, library in libraries.items()},
    }


def _report_no_library(host: Host, frameworks: Sequence[CudaRuntime]) -> Finding:
    text = _("{names} is installed for GPUs, but the loader does not find the driver's libcuda.so.1")
    if host.system.is_container():
        text = _(
            "{names} is installed for GPUs, but this container lacks the driver's libcuda.so.1 "
            "(NVIDIA_DRIVER_CAPABILITIES must include compute)"
        )
    names = ", ".join(runtime.framework for runtime in frameworks)
    return Finding("cuda-driver.no-library", text.format(names=names), action=Action.CONFIG)


def _report_mismatch(host: Host, module: str, library: DriverLibrary) -> Finding:
    version = library.version or ""
    is_older = (
        version_key(version) < version_key(module) and version_key(version)[0] == version_key(module)[0]
    )
    text = _(
        "the loaded NVIDIA module is {module}, but its libraries are {library}: reboot, or reload the module"
    )
    action = Action.REBOOT
    if host.system.is_container():
        text = _(
            "the host's NVIDIA module is {module}, but the libraries here are {library}: this image "
            "ships its own, or the host's driver was updated after this container started"
        )
        action = Action.CONFIG
    return Finding(
        "cuda-driver.mismatch",
        text.format(module=module, library=version),
        severity=WARNING if is_older else ERROR,
        evidence=(library.path,),
        action=action,
    )


def _judge_compat(host: Host, module: str, cuda: DriverLibrary) -> Iterator[Finding]:
    """Judge a package for forward compatibility (cuda-compat) that the loader finds first: whether this
    driver and this GPU support it."""
    version = cuda.version or ""
    # libcuda of cuda-compat 450.80.02 with the module 450.102.04 ended with error 803 (espressomd/espresso,
    # pull request 4090).
    if version_key(version) < version_key(module):
        # The package is older than the installed driver, which does not need it any more.
        yield Finding(
            "cuda-driver.compat-unusable",
            _(
                "the loader finds {path} of driver {library}, a forward compatibility package that is older "
                "than the loaded NVIDIA module {module}: CUDA fails with error 803; remove its folder from "
                "LD_LIBRARY_PATH",
                path=cuda.path,
                library=version,
                module=module,
            ),
            action=Action.CONFIG,
        )
        return
    # NVIDIA offers forward compatibility for data center GPUs only: cuda-compat 12.9 failed on a GeForce
    # (ggml-org/llama.cpp, issue 17542).
    model = consumer_gpu(host.running_files) if version != module else None
    if model is not None:
        # CUDA on a GeForce refuses the newer libcuda.
        yield Finding(
            "cuda-driver.compat-unusable",
            _(
                "the loader finds {path}, a forward compatibility package, which NVIDIA offers for data "
                "center GPUs and not for {model}: CUDA fails with error 803 or 804; remove its folder from "
                "LD_LIBRARY_PATH, or install a newer driver",
                path=cuda.path,
                model=model,
            ),
            action=Action.CONFIG,
        )
