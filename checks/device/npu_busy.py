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
    from npudoctor.checks.device._npu_smi_screen import screen_of
    from npudoctor.facts.npu.visible import chips_of_job

    screen = screen_of(host)
    chips, named = chips_of_job(host, screen.chips)
    if chips is None:
        text = _("npu-smi shows devices other than this machine's: could not determine which are this job's")
        raise Unknown(text, advisory=True)
    uses = [ChipUse.of(host, chip, screen.processes) for chip in chips]
    yield Facts({"named": named, "devices": {use.chip.label: use.facts() for use in uses}})
    if not uses:
        raise Skip(_("this job gets no NPU"))
    # A finding for each device that a stranger holds, and for each with memory that no process explains.
    inside = host.system.is_container()
    holders = DeviceHolders(host)
    strangers = {use: [process for process in use.held or () if holders.is_strange(process)] for use in uses}
    shared = not named and any(not strangers[use] and not use.unexplained for use in uses)
    for use, held in strangers.items():
        if held:
            yield say.held("npu-busy", use.chip.label, use.total, held, holders, shared)
        neighbours = [process for process in use.held or () if holders.is_neighbour(process)]
        if neighbours:
            yield say.held_by_session("npu-busy", use.chip.label, use.total, neighbours, holders)
    if inside:
        yield from _report_unseen(uses, holders)
    else:
        for use in uses:
            if use.unexplained:
                idle = use.idle if use.held is None else None
                yield say.memory_held("npu-busy", use.chip.label, use.used, use.total, use.left_over, idle)
    unknown = sorted({use.chip.name for use in uses if use.unknown})
    if unknown:
        text = _("how much memory an idle {names} uses is unknown")
        raise Unknown(text.format(names=", ".join(unknown)), advisory=True)


@dataclass(frozen=True)
class ChipUse:
    """What is known of one chip: its memory, what an idle one uses (None: not known), and who is listed."""

    chip: Chip
    used: int
    total: int
    idle: Optional[int]
    held: Optional[tuple[NpuProcess, ...]]

    @classmethod
    def of(cls, host: Host, chip: Chip, processes: Optional[Sequence[NpuProcess]]) -> ChipUse:
        """What the table says of a chip."""
        # What an idle chip of this name has in use, and in which column.
        idle, column = next(
            (
                (int(row["most"]), row["column"])
                for row in host.knowledge.rows("npu_idle", "idle")
                if chip.name.startswith(row["chip"]) and row["most"].isdecimal()
            ),
            (None, ""),
        )
        memory = chip.memory if column.startswith("Memory") or chip.hbm is None else chip.hbm
        used, total = memory or (0, 0)
        held = None
        if processes is not None:
            held = tuple(
                process for process in processes if (process.npu, process.chip) == (chip.npu, chip.chip)
            )
        return cls(chip, used, total, idle, held)

    @property
    def left_over(self) -> int:
        """Memory in use that neither idling nor a listed process explains."""
        return self.used - sum(process.memory for process in self.held or ()) - (self.idle or 0)

    @property
    def unexplained(self) -> bool:
        """Whether that is so much that somebody must hold it."""
        return self.idle is not None and self.left_over > MARGIN and len(self.held or ()) < MOST

    @property
    def unknown(self) -> bool:
        """Whether it uses much, and what an idle chip of its kind uses is unknown."""
        return self.idle is None and self.left_over * 4 > self.total > 0

    def unseen(self, hidden: Sequence[NpuProcess]) -> int:
        """Memory in use that neither idling nor a process explains whose pid says something here."""
        return (self.left_over if self.unexplained else 0) + sum(process.memory for process in hidden)

    @property
    def working(self) -> bool:
        """Whether its AI core computes."""
        return self.chip.core_percent is not None and self.chip.core_percent >= WORKING

    def facts(self) -> dict[str, object]:
        pids = None if self.held is None else [process.pid for process in self.held]
        memory = {"used": self.used, "total": self.total, "idle": self.idle, "pids": pids}
        return {**memory, "core": self.chip.core_percent}


def _report_unseen(uses: Sequence[ChipUse], holders: DeviceHolders) -> Iterator[Finding]:
    """What a container does not see the holder of: a warning whoever that is, as two jobs do not fit."""
    undetermined = []
    for use in uses:
        hidden = [process for process in use.held or () if holders.is_hidden(process)]
        heavy = use.unseen(hidden) > MARGIN or (use.working and not use.held)
        number = use.chip.npu if use.chip.physical is None else use.chip.physical
        if heavy and not holders.is_open_beside_us(f"/dev/davinci{number}"):
            unseen = use.unseen(hidden)
            yield say.held_outside(
                "npu-busy", use.chip.label, use.used, use.total, unseen, use.chip.core_percent
            )
        elif heavy or hidden:
            undetermined.append(use.chip.label)
    if undetermined:
        raise Unknown(
            _("{devices}: this container cannot see which process holds it", devices=", ".join(undetermined)),
            advisory=True,
        )
