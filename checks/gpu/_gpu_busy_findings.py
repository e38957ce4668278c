"""Who holds a GPU, what its memory says, and how to put that."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Optional

from npudoctor import Action, Finding, Host, Severity, Unknown, _
from npudoctor.checks.device._npu_owners import Owners
from npudoctor.facts.gpu.nvml import Gpu
from npudoctor.host.devices.npu_tables import NpuProcess as Listed

MARGIN = 1024  # MiB: what a GPU without a process may have in use
RESET = ("requires reset", "requires restart")  # nvidia-smi's words, and nvidia-ml-py's
# Services of NVIDIA that have a context on every GPU; names as the kernel cuts them.
SERVICES = ("nvidia-cuda-mps", "nv-hostengine", "dcgm", "nvidia-persiste", "dcgm-exporter")


def ill(gpus: Sequence[Gpu]) -> Generator[Finding, None, Optional[Unknown]]:
    """A finding for each GPU that waits for its reset; and what the driver could not say of the others."""
    silent = []
    for gpu in gpus:
        if gpu.trouble.lower().endswith(RESET):
            text = _("{device} must be reset before a job can use it; the driver says: {why}")
            yield Finding(
                "gpu-busy.reset-required",
                text.format(device=gpu.label, why=gpu.trouble),
                device=gpu.label,
                action=Action.RESET_DEVICE,
            )
        elif gpu.trouble:
            silent.append(f"{gpu.label}: {gpu.trouble}")
    text = _("the driver does not report who holds it: {devices}")
    return Unknown(text.format(devices="; ".join(silent))) if silent else None


def split(gpus: Sequence[Gpu]) -> Optional[Unknown]:
    """What cannot be said of those that are split."""
    if not gpus:
        return None
    text = _("{devices}: split by MIG; only the instances can be checked")
    return Unknown(text.format(devices=", ".join(gpu.label for gpu in gpus)), advisory=True)


def judge(host: Host, gpus: Sequence[Gpu], named: bool) -> Generator[Finding, None, Optional[Unknown]]:
    """A finding for each GPU that a stranger holds, and for each whose memory nobody explains; and what
    cannot be told."""
    owners = Owners(host)
    inside = host.system.container()
    listed = {gpu: _listed(host, gpu, inside) for gpu in gpus}
    strangers = {
        gpu: [one for one in held if owners.is_strange(one) and not _is_service(host, one)]
        for gpu, held in listed.items()
    }
    hidden = [gpu for gpu, held in listed.items() if _unexplained(gpu) or any(map(owners.is_hidden, held))]
    unnamed = [gpu for gpu in gpus if any(one.compute and not one.pid for one in gpu.processes)]
    free = [gpu for gpu in gpus if not strangers[gpu] and gpu not in hidden and gpu not in unnamed]
    shared = not named and bool(free)
    for gpu, held in strangers.items():
        if held:
            yield _held(gpu, held, owners, shared)
        beside = [one for one in listed[gpu] if owners.is_neighbour(one) and not _is_service(host, one)]
        if beside:
            yield _held_beside(gpu, beside, owners)
    if inside:
        return (yield from _unseen(host, {gpu: listed[gpu] for gpu in hidden}, owners))
    yield from map(_memory, hidden)
    if unnamed:
        text = _("{devices}: in use, but the driver does not report by which process")
        return Unknown(text.format(devices=", ".join(gpu.label for gpu in unnamed)))
    return None


def _unseen(
    host: Host, hidden: Mapping[Gpu, Sequence[Listed]], owners: Owners
) -> Generator[Finding, None, Optional[Unknown]]:
    """What a container does not see the holder of: a warning whoever that is, as two jobs do not fit."""
    untold, nodes = [], host.gpus.nodes
    for gpu, held in hidden.items():
        memory = max(_left_over(gpu), 0) if _unexplained(gpu) else 0
        memory += sum(one.memory for one in held if owners.is_hidden(one))
        node = nodes[gpu.index] if gpu.index < len(nodes) else ""
        if memory > MARGIN and not owners.is_open_beside_us(node):
            yield _held_outside(gpu, memory)
        else:
            untold.append(gpu.label)
    text = _("{devices}: this container cannot see who holds it")
    return Unknown(text.format(devices=", ".join(untold)), advisory=True) if untold else None


def _held_outside(gpu: Gpu, memory: int) -> Finding:
    text = _("{device} is in use: {used} MB of {total} MB are taken; this container cannot see by whom")
    return Finding(
        "gpu-busy.memory-held",
        text.format(device=gpu.label, used=gpu.used, total=gpu.total),
        evidence=(_("not explained: {count} MB").format(count=memory),),
        device=gpu.label,
        action=Action.CLEANUP,
    )


def _listed(host: Host, gpu: Gpu, inside: bool) -> list[Listed]:
    """Its computing processes, as the answers about owners want them."""
    here = host.processes.all() if inside and gpu.processes else {}
    return [
        Listed(gpu.index, 0, one.pid, "", one.memory, one.pid if one.pid in here else None)
        for one in gpu.processes
        if one.compute and (one.pid or inside)
    ]


def _is_service(host: Host, held: Listed) -> bool:
    process = host.processes.all().get(held.pid)
    return process is not None and process.name.startswith(SERVICES)


def _left_over(gpu: Gpu) -> int:
    return gpu.used - sum(one.memory for one in gpu.processes)


def _unexplained(gpu: Gpu) -> bool:
    """Whether so much is in use that somebody must hold it; not where a process keeps its memory secret."""
    silent = any(one.memory == 0 for one in gpu.processes)
    return gpu.whole and not silent and _left_over(gpu) > MARGIN


def _held(gpu: Gpu, held: Sequence[Listed], owners: Owners, shared: bool) -> Finding:
    text = _("{device} is held by {process}: {memory} MB of {total} MB")
    severity = Severity.INFO if shared and not any(map(owners.is_users_own, held)) else None
    return _holding("gpu-busy.held", text, gpu, held, owners, severity)


def _held_beside(gpu: Gpu, held: Sequence[Listed], owners: Owners) -> Finding:
    text = _("{device} is held by {process} of the same container or session: {memory} MB of {total} MB")
    return _holding("gpu-busy.held-by-session", text, gpu, held, owners)


def _holding(
    code: str,
    text: str,
    gpu: Gpu,
    held: Sequence[Listed],
    owners: Owners,
    severity: Optional[Severity] = None,
) -> Finding:
    told = [owners.describe(one) for one in held]
    return Finding(
        code,
        text.format(
            device=gpu.label,
            process=told[0] + (f" (+{len(told) - 1})" if told[1:] else ""),
            memory=sum(one.memory for one in held),
            total=gpu.total,
        ),
        severity=severity,
        evidence=tuple(f"{who}: {one.memory} MB" for who, one in zip(told, held)),
        device=gpu.label,
        action=Action.CLEANUP,
    )


def _memory(gpu: Gpu) -> Finding:
    text = _("{device} has {used} MB of {total} MB in use; no process that is shown accounts for {rest} MB")
    return Finding(
        "gpu-busy.memory-held",
        text.format(device=gpu.label, used=gpu.used, total=gpu.total, rest=_left_over(gpu)),
        device=gpu.label,
        action=Action.CLEANUP,
    )
