"""Does somebody else hold the GPUs that this job gets?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import INFO, WARNING, Facts, Finding, Host, Scope, Skip, Unknown, _, check

VISIBLE, ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"


@check(
    "gpu-busy",
    scope=Scope.JOB,
    tags={"nvidia"},
    needs=("gpu",),
    codes={
        "gpu-busy.held": WARNING,
        "gpu-busy.memory-held": WARNING,
        "gpu-busy.reset-required": WARNING,
        "gpu-busy.held-by-session": INFO,
    },
    quick=False,
)
def gpu_busy(host: Host) -> Iterator[Union[Finding, Facts]]:
    """No other process holds this job's GPUs.

    ## What it does

    Asks the driver for the memory and the processes of each GPU: through nvidia-ml-py where that is installed
    beside npudoctor (the extra `gpu`), in a child process with a deadline, else through nvidia-smi. Only the
    GPUs that this job gets count: those of CUDA_VISIBLE_DEVICES, else all that are here. Processes of this
    job are no strangers: our ancestors and descendants and the same Slurm job; nor are NVIDIA's own services.

    - `gpu-busy.held`: another process computes on such a GPU. Information only, where no variable named the
      GPUs, some are free, and the process is another user's: that is a machine that people share.
    - `gpu-busy.held-by-session`: a process of our session, or the same user's in the same control group, that
      this job did not start: one that was left in the background, or another part of the same work.
    - `gpu-busy.memory-held`: more than 1 GiB is in use that no process explains: something that ended badly,
      or a process that is not shown, holds it. With nvidia-smi, which lists no processes for pictures, it is
      not said of a GPU with a screen.
    - `gpu-busy.reset-required`: the driver tells nothing of such a GPU but that it must be reset first.

    A GPU of which the driver tells only an error, and outside of a container a process without a number, is
    "cannot tell".

    In a container the driver shows only the container's own processes: memory that others hold there is
    `gpu-busy.memory-held`, whoever they are. What may be held by a process beside us that has the GPU open, a
    GPU that is split (MIG), and numbers in CUDA_VISIBLE_DEVICES where the GPUs are of several models and
    CUDA_DEVICE_ORDER is not PCI_BUS_ID are "cannot tell" without weight.

    ## Why it matters

    A job that shares a GPU ends with `CUDA out of memory` or `Out of memory error on GPU 0`, or both become
    slow. Never end every python: look at who it is.

    ## References

    - NVIDIA, NVML API reference; nvidia-smi(1).
    - Paddle, frequently asked questions on training: GPU memory is short.
    """
    if not host.gpus.nodes:
        raise Skip(_("this machine has no GPU device node"))
    from npudoctor.checks.gpu._gpu_busy_findings import ill, judge, split
    from npudoctor.facts.gpu.nvml import ask_gpus, visible_gpus

    gpus = ask_gpus(host)
    value = host.variables.get(VISIBLE)
    named = value is not None
    ours = gpus if value is None else visible_gpus(value, gpus, host.variables.get(ORDER) == "PCI_BUS_ID")
    if ours is None:
        text = _(
            "the GPUs are of several models: could not determine from their numbers which are this job's"
        )
        raise Unknown(text, advisory=True)
    devices = {
        gpu.label: {
            "used": gpu.used,
            "total": gpu.total,
            "pids": [one.pid for one in gpu.processes if one.pid],
        }
        for gpu in ours
    }
    yield Facts({"named": named, "devices": devices})
    if not ours:
        raise Skip(_("{name} matches no GPU of this machine").format(name=VISIBLE))
    sound = [gpu for gpu in ours if not gpu.trouble]
    untold = [
        (yield from ill(ours)),
        (yield from judge(host, [gpu for gpu in sound if not gpu.mig], named)),
        split([gpu for gpu in sound if gpu.mig]),
    ]
    reasons = [one for one in untold if one is not None]
    if reasons:
        whys = "; ".join(one.reason for one in reasons)
        raise Unknown(whys, advisory=all(one.advisory for one in reasons))
