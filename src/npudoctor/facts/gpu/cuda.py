"""NVIDIA's driver and the CUDA that frameworks bring: by files only, nothing is loaded or asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.facts.gpu.nccl import package_folder, read_constant
from npudoctor.facts.job import process as job
from npudoctor.host.fs.files import Files
from npudoctor.host.host import Host

MODULE, PROC = "/sys/module/nvidia/version", "/proc/driver/nvidia/version"
GPUS = "/proc/driver/nvidia/gpus"
OLDEST = 100  # no driver's version begins with less; libcuda.so.1.1 of a Jetson does


@dataclass(frozen=True)
class CudaRuntime:
    """The CUDA that a framework was built for; `said_by` is the file that states it."""

    framework: str
    cuda: str
    said_by: str


@dataclass(frozen=True)
class DriverLibrary:
    """A library of the driver as the job's loader finds it. `version` is None where its file has none."""

    path: str
    version: Optional[str]

    @property
    def is_compat(self) -> bool:
        """Whether it comes from a package for forward compatibility, newer than the kernel's module."""
        return "/compat" in self.path or "cuda-compat" in self.path

    @property
    def is_stub(self) -> bool:
        """Whether it stands in for the driver while something is built."""
        return "/stubs/" in self.path


def module_version(files: Files) -> Optional[str]:
    """The version of the kernel module that is loaded; None when none is."""
    lines = [(files.text(path, 4096) or "").splitlines()[:1] for path in (MODULE, PROC)]
    # NVRM version: NVIDIA UNIX x86_64 Kernel Module 535.129.03 ...: the first word that is a version.
    for word in " ".join(line for part in lines for line in part).split():
        if is_driver_version(word):
            return word
    return None


def runtimes(host: Host) -> Iterator[CudaRuntime]:
    """The CUDA of each framework for GPUs in the interpreter."""
    for framework, package, path, name in (
        ("torch", "torch", "version.py", "cuda"),
        ("Paddle", "paddle", "version/__init__.py", "cuda_version"),
    ):
        folder = package_folder(host, package)
        text = (host.files.text(f"{folder}/{path}") or "") if folder else ""
        cuda = read_constant(text, name) or ""
        # torch for CPUs has None, Paddle for CPUs "False".
        if cuda[:1].isdecimal():
            yield CudaRuntime(framework, cuda, f"{folder}/{path}")
    yield from _mindspore(host)


def consumer_gpu(files: Files) -> Optional[str]:
    """The model of a GeForce, for which NVIDIA supports no forward compatibility; None where none is seen."""
    for name in files.names(GPUS):
        for line in (files.text(f"{GPUS}/{name}/information", 4096) or "").splitlines():
            key, _colon, model = line.partition(":")
            if key.strip() == "Model" and "GeForce" in model:
                return model.strip()
    return None


def driver_library(host: Host, name: str) -> Optional[DriverLibrary]:
    """The library of this name that a job would load; None where the loader finds none."""
    loader = job.bare_loader(host)
    loaded = loader.dlopen(name)
    path = host.files.real(loaded.path) if loaded else None
    if path is None:
        return None
    # The driver's files end in its version: libcuda.so.535.129.03.
    version = path.rpartition(".so.")[2]
    return DriverLibrary(path, version if is_driver_version(version) else None)


def is_driver_version(text: str) -> bool:
    """Return whether the text is the version of a driver, as 535.129.03."""
    parts = text.split(".")
    plain = all(part.isascii() and part.isdecimal() for part in parts)
    return plain and 2 <= len(parts) <= 3 and int(parts[0][:9]) >= OLDEST


def version_key(version: str) -> list[int]:
    """The numbers of a version, as a key for sorting."""
    return [int(part) for part in version.split(".") if part.isdecimal()]


def _mindspore(host: Host) -> Iterator[CudaRuntime]:
    """The CUDA of MindSpore, whose own files name the runtime that they need: libcudart.so.11.0 for all of
    11.
    """
    for framework in job.frameworks(host, "mindspore"):
        module = framework.modules[-1]
        folder = module.rpartition("/")[0] + "/lib/plugin"
        plugins = [name for name in host.files.names(folder) if name.startswith("libmindspore_gpu.so")]
        for path in [*(f"{folder}/{name}" for name in sorted(plugins)), module]:
            library = host.libraries.read(path)
            for name in library.needed if library else ():
                if name.startswith("libcudart.so."):
                    major, _point, minor = name[len("libcudart.so.") :].partition(".")
                    # From CUDA 11 on libcudart keeps one soname for the whole major version.
                    exact = int(major) < 11 if major.isdecimal() else False
                    yield CudaRuntime("MindSpore", f"{major}.{minor}" if exact else major, path)
                    return
