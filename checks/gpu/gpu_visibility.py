"""Does the job see the GPUs that it was meant to see?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import ERROR, WARNING, Facts, Finding, Host, Scope, Skip, Unknown, _, check

SHOWN = 4096  # of a value, for machines


@check(
    "gpu-visibility",
    scope=Scope.JOB,
    tags={"nvidia"},
    needs=("$CUDA_VISIBLE_DEVICES",),
    codes={
        "gpu-visibility.none-left": ERROR,
        "gpu-visibility.repeated": ERROR,
        "gpu-visibility.no-such-device": WARNING,
        "gpu-visibility.hidden": ERROR,
    },
)
def gpu_visibility(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The job sees every GPU in CUDA_VISIBLE_DEVICES.

    ## What it does

    Reads CUDA_VISIBLE_DEVICES as CUDA does, and compares it with `/dev/nvidiaN`: numbers count from 0 among
    the GPUs that are here, also in a container that was given GPU 4 and 5. CUDA takes them up to the first
    that is none of these. Names (`GPU-...`) may be cut short where one GPU only begins so; the driver is
    asked for them only when there is one in the value.

    - `gpu-visibility.none-left`: nothing of the value is a GPU here, so the job finds none.
    - `gpu-visibility.repeated`: a GPU is named twice: CUDA does not start at all (error 101).
    - `gpu-visibility.no-such-device`: the job gets fewer than are written there.
    - `gpu-visibility.hidden`: the value is empty, -1, or Slurm's NoDevFiles: somebody hid all GPUs.
      Information only, unless `--expect gpu` says that the job needs one.

    Parts of a GPU (`MIG-...`) are "cannot tell" without weight.

    ## Why it matters

    `No CUDA GPUs are available`, or ranks that all land on one GPU. A line copied from a node with eight
    GPUs, or a shell that was left with a value, does it.

    ## Fix safety

    The lines are for the shell that starts the job; nothing is written.

    ## References

    - NVIDIA, CUDA programming guide: CUDA environment variables.
    - How the parts are read was measured with driver 580.159 on an H100.
    """
    from npudoctor.checks.gpu import _visibility
    from npudoctor.facts.gpu.visible import HIDING, RUNTIME

    value = host.variables.get(RUNTIME)
    if value is None:
        raise Skip(_("{name} is not set").format(name=RUNTIME))
    count = len(host.gpus.nodes)
    yield Facts({"nodes": list(host.gpus.nodes), "value": value[:SHOWN]})
    if not count:
        raise Skip(_("this machine has no GPU device node"))
    if value.strip() in HIDING:
        yield _visibility.hidden(host, value)
        return
    seen = _visibility.seen(host, value)
    yield from _visibility.judged(value, seen, count)
    if seen.unknown:
        text = _("{name} lists {part}: could not determine whether this machine has it")
        raise Unknown(text.format(name=RUNTIME, part=seen.unknown[:100]), advisory=True)
