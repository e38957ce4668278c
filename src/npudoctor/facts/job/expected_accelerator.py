"""Whether a job here would use NPUs, asked so that images and closed /dev have an answer too."""

from __future__ import annotations

from npudoctor.core.errors import CannotTell
from npudoctor.host.host import Host

# Distributions that bring code that runs on CANN; mindspore itself may be for the CPU only.
ON_CANN = ("torch-npu", "mindspore", "mindspore-ascend", "vllm-ascend", "paddle-custom-npu")


def npu_expected(host: Host) -> bool:
    """Whether NPUs are to be used here: said by the user, or seen when nothing was said."""
    if host.options.expect != "auto" or host.options.root is not None:
        return host.options.expect == "npu"
    try:
        return host.wants_npus()
    except CannotTell:
        return False


def npu_here(host: Host) -> bool:
    """Whether NPUs are expected, or something of one is seen."""
    return npu_expected(host) or bool(host.npus.models) or host.npus.is_usable


def gpu_here(host: Host) -> bool:
    """Whether GPUs are expected, or something of one is seen."""
    return host.options.expect == "gpu" or bool(host.gpus.models) or host.gpus.is_usable


def gpu_expected(host: Host) -> bool:
    """The same of GPUs."""
    if host.options.expect != "auto" or host.options.root is not None:
        return host.options.expect == "gpu"
    try:
        return host.gpus.is_usable
    except CannotTell:
        return False


def frameworks_on_cann(host: Host) -> list[str]:
    """The frameworks of the examined interpreter that run on CANN, with their versions."""
    named = ((name, host.interpreter.version_of(name)) for name in ON_CANN)
    return [f"{name} {version}" for name, version in named if version is not None]


def accelerators(host: Host) -> tuple[bool, bool]:
    """Whether the job would use NPUs, and GPUs: said by the user, or seen when nothing was said."""
    if host.options.expect != "auto":
        return host.options.expect == "npu", host.options.expect == "gpu"
    try:
        return host.npus.is_usable, host.gpus.is_usable
    except CannotTell:
        return False, False


def meant_for_other_machines(host: Host) -> bool:
    """Whether what the job's variables name may be of other machines: nothing here could run it, and
    nobody said that it should."""
    return host.options.expect == "auto" and not any(accelerators(host))
