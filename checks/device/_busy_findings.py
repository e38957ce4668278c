"""What npu-busy and gpu-busy say about a device and the processes that hold it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor import Action, Finding, Severity, _
from npudoctor.facts.job.device_holders import DeviceHolders
from npudoctor.host.devices.npu_tables import NpuProcess


def report_held(
    check: str, device: str, total: int, processes: Sequence[NpuProcess], holders: DeviceHolders, shared: bool
) -> Finding:
    """Report a device that other processes hold. `total` is in MB. `shared`: other devices are free and none
    was chosen; then another user's process is only information."""
    text = _("{device} is held by {process}: {memory} MB of {total} MB")
    # No variable chooses devices and some are free: the machine is shared, and another user's job on one is
    # no fault.
    severity = Severity.INFO if shared and not any(map(holders.is_users_own, processes)) else None
    return _held_finding(f"{check}.held", text, device, total, processes, holders, severity)


def report_held_by_session(
    check: str, device: str, total: int, processes: Sequence[NpuProcess], holders: DeviceHolders
) -> Finding:
    text = _("{device} is held by {process} of the same container or session: {memory} MB of {total} MB")
    return _held_finding(f"{check}.held-by-session", text, device, total, processes, holders)


def _held_finding(
    code: str,
    text: str,
    device: str,
    total: int,
    processes: Sequence[NpuProcess],
    holders: DeviceHolders,
    severity: Optional[Severity] = None,
) -> Finding:
    names = [holders.describe(process) for process in processes]
    return Finding(
        code,
        text.format(
            device=device,
            process=names[0] + (f" (+{len(names) - 1})" if names[1:] else ""),
            memory=sum(process.memory for process in processes),
            total=total,
        ),
        severity=severity,
        evidence=tuple(f"{name}: {process.memory} MB" for name, process in zip(names, processes)),
        device=device,
        action=Action.CLEANUP,
    )


def report_held_outside(
    check: str, device: str, used: int, total: int, unseen: int, core: Optional[int] = None
) -> Finding:
    """Report a device whose holder this container cannot see. `used`, `total`: MB. `unseen`: MB that no
    visible process explains. `core`: load of the AI core in percent, None if unknown."""
    text = _(
        "{device} is in use: {used} MB of {total} MB are taken; this container cannot see which "
        "process uses it"
    )
    if core is not None:
        text = _(
            "{device} is in use: {used} MB of {total} MB are taken, and its AI core is {core} % busy; "
            "this container cannot see which process uses it"
        )
    return Finding(
        f"{check}.memory-held",
        text.format(device=device, used=used, total=total, core=core),
        evidence=(_("unaccounted for: {count} MB", count=unseen),),
        device=device,
        action=Action.CLEANUP,
    )


def report_memory_held(
    check: str, device: str, used: int, total: int, rest: int, idle: Optional[int]
) -> Finding:
    """Report memory (MB) that no visible process accounts for. `idle`: what an idle device uses, given only
    if npu-smi lists no processes."""
    text = _("{device} has {used} MB of {total} MB in use; no visible process accounts for {rest} MB")
    if idle is not None:
        text = _(
            "{device} has {used} MB of {total} MB in use (idle: {idle} MB); this npu-smi lists no processes"
        )
    return Finding(
        f"{check}.memory-held",
        text.format(device=device, used=used, total=total, idle=idle, rest=rest),
        device=device,
        action=Action.CLEANUP,
    )
