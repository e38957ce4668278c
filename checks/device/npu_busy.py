"""Does somebody else hold the NPUs that this job gets?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import INFO, WARNING, Facts, Finding, Host, Scope, Skip, Unknown, _, check


@check(
    "npu-busy",
    scope=Scope.JOB,
    tags={"ascend"},
    needs=("npu",),
    codes={
        "npu-busy.held": WARNING,
        "npu-busy.memory-held": WARNING,
        "npu-busy.held-by-session": INFO,
    },
    quick=False,
)
def npu_busy(host: Host) -> Iterator[Union[Finding, Facts]]:
    """No other process holds this job's NPUs.

    ## What it does

    Reads the memory and the processes that `npu-smi info` shows, of the devices that this job gets: those
    of ASCEND_RT_VISIBLE_DEVICES, else those that Slurm named, else all that are here. Processes of this job
    are no strangers: our ancestors and descendants, the same Slurm job, and with --env-of all of that job.

    - `npu-busy.held`: another process holds such a device. Information only, where no variable named the
      devices, some are free, and the process is another user's: that is a machine that people share.
    - `npu-busy.held-by-session`: a process of our session, or the same user's in our control group (a
      container, a login), that this job did not start: a notebook that is still open, an older run.
    - `npu-busy.memory-held`: more memory is in use than an idle chip of this kind has (the table names its
      captures) and the listed processes explain, by more than 1 GiB. Something that ended badly, or a
      process that npu-smi does not show, holds it. Old ones show no processes at all, and that is said. With
      eight processes on a chip, which is all that is ever shown, nothing is said.

    In a container npu-smi shows pids of the host, or none. More than 1 GiB that is held there by a process
    which the container does not see, or an AI core that computes for one, is `npu-busy.memory-held`, whoever
    it is; less, or what may be a process beside us that has the device open, is "cannot tell" without weight.

    ## Why it matters

    A job that shares a device ends with `Malloc device memory failed`, or both become slow. Never end every
    python: look at who it is.

    ## References

    - Captures of npu-smi 1.8.21 to 26.1.0, idle and busy.
    - MindSpore FAQ and Ascend guides: processes left over from a job that ended badly.
    """
    from npudoctor.checks.device._npu_busy_findings import Use, judge
    from npudoctor.checks.device._screen import screen_of
    from npudoctor.facts.npu.visible import chips_of_job

    screen = screen_of(host)
    chips, named = chips_of_job(host, screen.chips)
    if chips is None:
        text = _("npu-smi shows devices other than this machine's: could not determine which are this job's")
        raise Unknown(text, advisory=True)
    uses = [Use.of(host, chip, screen.processes) for chip in chips]
    yield Facts({"named": named, "devices": {use.chip.label: use.facts() for use in uses}})
    if not uses:
        raise Skip(_("this job gets no NPU"))
    yield from judge(host, uses, named)
    unknown = sorted({use.chip.name for use in uses if use.unknown})
    if unknown:
        text = _("how much memory an idle {names} uses is unknown")
        raise Unknown(text.format(names=", ".join(unknown)), advisory=True)
