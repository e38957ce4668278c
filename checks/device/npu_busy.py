"""Does somebody else hold the NPUs that this job gets?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional, Union

from npudoctor import INFO, WARNING, Facts, Finding, Host, Scope, Skip, Unknown, _, check
from npudoctor.checks.device import _busy_findings as say
from npudoctor.core.frozen import dataclass
from npudoctor.facts.job.device_holders import DeviceHolders
from npudoctor.host.devices.npu_tables import Chip, NpuProcess

MARGIN = 1024  # MB: what else an idle chip may have in use
MOST = 8  # processes that npu-smi lists of one chip
WORKING = 20  # percent: an AI core that nobody uses is at 0


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

    Reads the memory and the processes that `npu-smi info` shows for the devices that this job gets: those of
    ASCEND_RT_VISIBLE_DEVICES, else those that Slurm allocated, else all that are present. Processes of this
    job are not reported: ancestors and descendants of npudoctor, processes of the same Slurm job, and with
    --env-of all processes of that job.

    - `npu-busy.held`: another process holds a device of this job. This is information if no variable names
      the devices, some are free, and the process belongs to another user: such a machine is shared.
    - `npu-busy.held-by-session`: a process of this session, or of the same user in the same control group (a
      container, a login), holds a device, and this job did not start it: for example an open notebook or an
      older run.
    - `npu-busy.memory-held`: over 1 GiB more memory is in use than an idle chip of this kind uses (the table
      names its captures) and the listed processes explain. A process that ended badly, or one that npu-smi
      does not show, holds it. Old versions of npu-smi show no processes at all; the message then says so.
      With eight processes on a chip, the most that npu-smi lists, nothing is reported.

    In a container npu-smi shows pids of the host, or none. `npu-busy.memory-held` is reported, whoever the
    holder is, if a process that the container cannot see holds more than 1 GiB or keeps an AI core busy. If
    it holds less, or the holder may be a process of this job, session or container that has the device open,
    the result is unknown, which does not affect the verdict.

    ## Why it matters

    A job that shares a device ends with `Malloc device memory failed`, or both jobs become slow. Never kill
    all python processes: first look at who owns them.

    ## References

    - Captures of npu-smi 1.8.21 to 26.1.0, idle and busy.
    - MindSpore FAQ and Ascend guides: processes left over from a job that ended badly.
    """
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.checks.device._npu_smi_screen import screen_of
    from npudoctor.facts.npu.visible import chips_of_job

    screen = screen_of(host)
    chips, is_chosen = chips_of_job(host, screen.chips)
    if chips is None:
        text = _("npu-smi shows devices other than this machine's: could not determine which are this job's")
        raise Unknown(text, advisory=True)
    uses = [ChipUse.from_screen(host, chip, screen.processes) for chip in chips]
    yield Facts({"named": is_chosen, "devices": {use.chip.label: use.facts() for use in uses}})
    if not uses:
        raise Skip(_("this job gets no NPU"))
    # A finding for each device that a stranger holds, and for each with memory that no process explains.
    in_container = host.system.is_container()
    holders = DeviceHolders(host)
    strangers = {
        use: [process for process in use.listed or () if holders.is_strange(process)] for use in uses
    }
    shared = not is_chosen and any(not strangers[use] and not use.has_unexplained_memory for use in uses)
    for use, processes in strangers.items():
        if processes:
            yield say.report_held("npu-busy", use.chip.label, use.total, processes, holders, shared)
        neighbours = [process for process in use.listed or () if holders.is_neighbour(process)]
        if neighbours:
            yield say.report_held_by_session("npu-busy", use.chip.label, use.total, neighbours, holders)
    if in_container:
        yield from _report_unseen(uses, holders)
    else:
        for use in uses:
            if use.has_unexplained_memory:
                idle = use.idle if use.listed is None else None
                yield say.report_memory_held(
                    "npu-busy", use.chip.label, use.used, use.total, use.leftover_memory, idle
                )
    unknown = sorted({use.chip.name for use in uses if use.has_unknown_idle})
    if unknown:
        text = _("how much memory an idle {names} uses is unknown")
        raise Unknown(text.format(names=", ".join(unknown)), advisory=True)


@dataclass(frozen=True)
class ChipUse:
    """The use of one chip, memory in MB. `idle`: what an idle chip uses, None if unknown. `listed`: the
    processes of npu-smi's table, None if it has no such table."""

    chip: Chip
    used: int
    total: int
    idle: Optional[int]
    listed: Optional[tuple[NpuProcess, ...]]

    @classmethod
    def from_screen(cls, host: Host, chip: Chip, processes: Optional[Sequence[NpuProcess]]) -> ChipUse:
        """Return the use of one chip; `processes` are those of all chips, None if the table lists none."""
        # How much memory (MB) an idle chip of this name uses, and the column of the table that shows it.
        idle, column = next(
            (
                (int(row["most"]), row["column"])
                for row in host.knowledge.rows("npu_idle", "idle")
                if chip.name.startswith(row["chip"]) and row["most"].isdecimal()
            ),
            (None, ""),
        )
        # On a 910B the Memory column is 0 / 0 and HBM counts; the table of a 310P has no HBM column.
        memory = chip.memory if column.startswith("Memory") or chip.hbm is None else chip.hbm
        used, total = memory or (0, 0)
        listed = None
        if processes is not None:
            listed = tuple(
                process for process in processes if (process.npu, process.chip) == (chip.npu, chip.chip)
            )
        return cls(chip, used, total, idle, listed)

    @property
    def leftover_memory(self) -> int:
        """Memory (MB) in use beyond what an idle chip and the listed processes use."""
        return self.used - sum(process.memory for process in self.listed or ()) - (self.idle or 0)

    @property
    def has_unexplained_memory(self) -> bool:
        """Whether so much memory is left over that a process must hold it."""
        # npu-smi lists at most eight processes of a chip: with eight, the memory of the others looks
        # unexplained.
        return self.idle is not None and self.leftover_memory > MARGIN and len(self.listed or ()) < MOST

    @property
    def has_unknown_idle(self) -> bool:
        """Whether more than a quarter of the memory is in use and an idle chip's use is unknown."""
        return self.idle is None and self.leftover_memory * 4 > self.total > 0

    def unseen_memory(self, hidden: Sequence[NpuProcess]) -> int:
        """Memory (MB) in use that no process visible in this container explains."""
        return (self.leftover_memory if self.has_unexplained_memory else 0) + sum(
            process.memory for process in hidden
        )

    @property
    def is_working(self) -> bool:
        """Whether its AI core computes."""
        return self.chip.core_percent is not None and self.chip.core_percent >= WORKING

    def facts(self) -> dict[str, object]:
        pids = None if self.listed is None else [process.pid for process in self.listed]
        memory = {"used": self.used, "total": self.total, "idle": self.idle, "pids": pids}
        return {**memory, "core": self.chip.core_percent}


def _report_unseen(uses: Sequence[ChipUse], holders: DeviceHolders) -> Iterator[Finding]:
    """Report devices in use whose holder this container cannot see: a warning whoever it is, because two jobs
    do not fit on one device. Raises Unknown for those that this job or session may hold itself."""
    undetermined = []
    for use in uses:
        hidden = [process for process in use.listed or () if holders.is_hidden(process)]
        is_heavy = use.unseen_memory(hidden) > MARGIN or (use.is_working and not use.listed)
        # /dev/davinciN is numbered by the physical id, which only the table of an A3 shows (Phy-ID).
        number = use.chip.npu if use.chip.physical is None else use.chip.physical
        if is_heavy and not holders.is_open_beside_us(f"/dev/davinci{number}"):
            unseen = use.unseen_memory(hidden)
            yield say.report_held_outside(
                "npu-busy", use.chip.label, use.used, use.total, unseen, use.chip.core_percent
            )
        elif is_heavy or hidden:
            undetermined.append(use.chip.label)
    if undetermined:
        raise Unknown(
            _("{devices}: this container cannot see which process holds it", devices=", ".join(undetermined)),
            advisory=True,
        )
