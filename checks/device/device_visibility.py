"""Does the job see the NPUs that it was meant to see?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import ERROR, INFO, WARNING, Facts, Finding, Host, Scope, Skip, _, check

SHOWN = 4096  # of a value, for machines


@check(
    "device-visibility",
    scope=Scope.JOB,
    tags={"ascend"},
    needs=("npu",),
    codes={
        "device-visibility.none-left": ERROR,
        "device-visibility.bad-value": WARNING,
        "device-visibility.cut": WARNING,
        "device-visibility.no-such-device": WARNING,
        "device-visibility.not-ascending": WARNING,
        "device-visibility.not-given": WARNING,
        "device-visibility.beyond-slurm": WARNING,
        "device-visibility.empty": INFO,
        "device-visibility.container-only": INFO,
    },
)
def device_visibility(host: Host) -> Iterator[Union[Finding, Facts]]:
    """Variables that choose NPUs match each other and the devices.

    ## What it does

    Compares ASCEND_RT_VISIBLE_DEVICES, which a job's runtime reads, ASCEND_VISIBLE_DEVICES, by which the
    container runtime chooses device nodes, and the devices that Slurm gave the job, with `/dev/davinciN`. No
    tool is run.

    The runtime counts from 0 among the devices that are here (logic ids), also in a container that was
    given NPU 4 and 5. It reads up to the first id that is none of these, or the first character that is
    neither digit nor comma: `1, 2,3` is 1, and `1,3,8` of eight is 1,3.

    - `device-visibility.none-left`: nothing of the value is read, so the job has no device.
    - `device-visibility.bad-value`: a value of more than 4096 characters, which cannot be meant.
    - `device-visibility.cut`, `device-visibility.no-such-device`: it gets fewer than are written there.
    - `device-visibility.not-ascending`: ids must ascend, each once.
    - `device-visibility.empty`: the variable is set to nothing; what the runtime makes of that is not known.
    - `device-visibility.not-given`: in a container: it was to be given a device whose node is not here.
    - `device-visibility.container-only`: on a host ASCEND_VISIBLE_DEVICES limits no job.
    - `device-visibility.beyond-slurm`: the job sees devices that Slurm did not give to it. Slurm sets no
      variable of Ascend's; where it locks the other devices by control groups, this is harmless.

    ## Why it matters

    A list that is cut leaves ranks without a device, or all of them on the first one. Two jobs that both
    see all devices both start on device 0.

    ## Fix safety

    The lines are for the shell that starts the job; nothing is written.

    ## References

    - CANN, "Environment variables": ASCEND_RT_VISIBLE_DEVICES.
    - Ascend Docker Runtime: ASCEND_VISIBLE_DEVICES, ASCEND_RUNTIME_OPTIONS.
    - Slurm, "Prolog and Epilog Guide": SLURM_JOB_GPUS.
    """
    from npudoctor.facts.npu.visible import CONTAINER, RUNTIME, SLURM

    variables = host.variables
    if not host.npus.usable:
        raise Skip(_("this machine has no NPU device node"))
    if not any(name in variables for name in (RUNTIME, CONTAINER, *SLURM)):
        raise Skip(_("no variable that chooses NPUs is set"))
    from npudoctor.checks.device import _visibility_findings as findings

    told = {name: variables[name][:SHOWN] for name in (RUNTIME, CONTAINER, *SLURM) if name in variables}
    yield Facts({"nodes": list(host.npus.nodes), "variables": told})
    yield from findings.of_runtime(host)
    yield from findings.of_container(host)
    yield from findings.of_slurm(host)
