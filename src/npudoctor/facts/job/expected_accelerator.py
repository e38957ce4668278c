"""Whether a job here would use NPUs, asked so that images and closed /dev have an answer too."""

from __future__ import annotations

from npudoctor.core.errors import CannotTell
from npudoctor.host.host import Host

# Distributions that bring code that runs on CANN; mindspore itself may be for the CPU only.
ON_CANN = ("torch-npu", "mindspore", "mindspore-ascend", "vllm-ascend", "paddle-custom-npu")


def npu_expected(host: Host) -> bool:
    """Return whether NPUs are to be used here: as the user said, or, when nothing was said, as seen."""
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
    """Return whether GPUs are to be used here: as the user said, or, when nothing was said, as seen."""
    if host.options.expect != "auto" or host.options.root is not None:
        return host.options.expect == "gpu"
    try:
        return host.gpus.is_usable
    except CannotTell:
        return False


def frameworks_on_cann(host: Host) -> list[str]:
    """The frameworks of the examined interpreter that run on CANN, with their versions."""
    versions = ((name, host.interpreter.version_of(name)) for name in ON_CANN)
    return [f"{name} {version}" for name, version in versions if version is not None]


def accelerators(host: Host) -> tuple[bool, bool]:
    """(whether the job would use NPUs, whether GPUs): as the user said, or, when nothing was said,
    as seen.
    """
    if host.options.expect != "auto":
        return host.options.expect == "npu", host.options.expect == "gpu"
    try:
        return host.npus.is_usable, host.gpus.is_usable
    except CannotTell:
        return False, False


def may_be_for_other_machines(host: Host) -> bool:
    """Return whether the job's variables may be meant for other machines: nothing here could run the job, and
    nobody said that it should.
    """
    return host.options.expect == "auto" and not any(accelerators(host))
