"""Who holds a device, what its memory says, and how to put that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor import Action, Finding, Host, Severity, Unknown, _
from npudoctor.checks.device._npu_owners import Owners
from npudoctor.core.frozen import dataclass
from npudoctor.host.devices.npu_tables import Chip, NpuProcess

MARGIN = 1024  # MB: what else an idle chip may have in use
MOST = 8  # processes that npu-smi lists of one chip
WORKING = 20  # percent: an AI core that nobody uses is at 0


@dataclass(frozen=True)
class Use:
    """What is known of one chip: its memory, what an idle one uses (None: not known), and who is listed."""

    chip: Chip
    used: int
    total: int
    idle: Optional[int]
    held: Optional[tuple[NpuProcess, ...]]

    @classmethod
    def of(cls, host: Host, chip: Chip, processes: Optional[Sequence[NpuProcess]]) -> Use:
        """What the table says of a chip."""
        idle, column = _idle(host, chip.name)
        memory = chip.memory if column.startswith("Memory") or chip.hbm is None else chip.hbm
        used, total = memory or (0, 0)
        held = None
        if processes is not None:
            held = tuple(one for one in processes if (one.npu, one.chip) == (chip.npu, chip.chip))
        return cls(chip, used, total, idle, held)

    @property
    def left_over(self) -> int:
        """Memory in use that neither idling nor a listed process explains."""
        return self.used - sum(one.memory for one in self.held or ()) - (self.idle or 0)

    @property
    def unexplained(self) -> bool:
        """Whether that is so much that somebody must hold it."""
        return self.idle is not None and self.left_over > MARGIN and len(self.held or ()) < MOST

    @property
    def unknown(self) -> bool:
        """A chip of which nobody knows what it uses when it idles, and that uses much."""
        return self.idle is None and self.left_over * 4 > self.total > 0

    def unseen(self, hidden: Sequence[NpuProcess]) -> int:
        """Memory in use that neither idling nor a process explains whose pid says something here."""
        return (self.left_over if self.unexplained else 0) + sum(one.memory for one in hidden)

    @property
    def working(self) -> bool:
        """Whether its AI core computes."""
        return self.chip.core is not None and self.chip.core >= WORKING

    def facts(self) -> dict[str, object]:
        """For machines."""
        pids = None if self.held is None else [one.pid for one in self.held]
        told = {"used": self.used, "total": self.total, "idle": self.idle, "pids": pids}
        return {**told, "core": self.chip.core}


def _idle(host: Host, name: str) -> tuple[Optional[int], str]:
    """What an idle chip of this name has in use, and in which column."""
    for row in host.knowledge.rows("npu_idle", "idle"):
        if name.startswith(row["chip"]) and row["most"].isdecimal():
            return int(row["most"]), row["column"]
    return None, ""


def judge(host: Host, uses: Sequence[Use], named: bool) -> Iterator[Finding]:
    """A finding for each device that a stranger holds, and for each whose memory nobody explains."""
    inside = host.system.container()
    owners = Owners(host)
    strangers = {use: [one for one in use.held or () if owners.is_strange(one)] for use in uses}
    shared = not named and any(not strangers[use] and not use.unexplained for use in uses)
    for use, held in strangers.items():
        if held:
            yield _held(use, held, owners, shared)
        beside = [one for one in use.held or () if owners.is_neighbour(one)]
        if beside:
            yield _held_beside(use, beside, owners)
    if inside:
        yield from _unseen(uses, owners)
    else:
        yield from (_memory(use) for use in uses if use.unexplained)


def _unseen(uses: Sequence[Use], owners: Owners) -> Iterator[Finding]:
    """What a container does not see the holder of: a warning whoever that is, as two jobs do not fit."""
    untold = []
    for use in uses:
        hidden = [one for one in use.held or () if owners.is_hidden(one)]
        heavy = use.unseen(hidden) > MARGIN or (use.working and not use.held)
        number = use.chip.npu if use.chip.physical is None else use.chip.physical
        if heavy and not owners.is_open_beside_us(f"/dev/davinci{number}"):
            yield _held_outside(use, use.unseen(hidden))
        elif heavy or hidden:
            untold.append(use.chip.label)
    if untold:
        text = _("{devices}: this container cannot see who holds it")
        raise Unknown(text.format(devices=", ".join(untold)), advisory=True)


def _held(use: Use, held: Sequence[NpuProcess], owners: Owners, shared: bool) -> Finding:
    text = _("{device} is held by {process}: {memory} MB of {total} MB")
    severity = Severity.INFO if shared and not any(map(owners.is_users_own, held)) else None
    return _holding("npu-busy.held", text, use, held, owners, severity)


def _held_beside(use: Use, held: Sequence[NpuProcess], owners: Owners) -> Finding:
    text = _("{device} is held by {process} of the same container or session: {memory} MB of {total} MB")
    return _holding("npu-busy.held-by-session", text, use, held, owners)


def _holding(
    code: str,
    text: str,
    use: Use,
    held: Sequence[NpuProcess],
    owners: Owners,
    severity: Optional[Severity] = None,
) -> Finding:
    told = [owners.describe(one) for one in held]
    return Finding(
        code,
        text.format(
            device=use.chip.label,
            process=told[0] + (f" (+{len(told) - 1})" if told[1:] else ""),
            memory=sum(one.memory for one in held),
            total=use.total,
        ),
        severity=severity,
        evidence=tuple(f"{told_of}: {one.memory} MB" for told_of, one in zip(told, held)),
        device=use.chip.label,
        action=Action.CLEANUP,
    )


def _held_outside(use: Use, unseen: int) -> Finding:
    text = _("{device} is in use: {used} MB of {total} MB are taken; this container cannot see by whom")
    if use.chip.core is not None:
        text = _(
            "{device} is in use: {used} MB of {total} MB are taken, and its AI core is {core} % "
            "busy; this container cannot see by whom"
        )
    return Finding(
        "npu-busy.memory-held",
        text.format(device=use.chip.label, used=use.used, total=use.total, core=use.chip.core),
        evidence=(_("not explained: {count} MB").format(count=unseen),),
        device=use.chip.label,
        action=Action.CLEANUP,
    )


def _memory(use: Use) -> Finding:
    if use.held is None:
        text = _(
            "{device} has {used} MB of {total} MB in use, an idle one {idle}; this npu-smi lists no processes"
        )
    else:
        text = _(
            "{device} has {used} MB of {total} MB in use; no process that is shown accounts for {rest} MB"
        )
    return Finding(
        "npu-busy.memory-held",
        text.format(device=use.chip.label, used=use.used, total=use.total, idle=use.idle, rest=use.left_over),
        device=use.chip.label,
        action=Action.CLEANUP,
    )
