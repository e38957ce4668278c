"""Does somebody else hold the GPUs that this job gets?"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Optional, Union

from npudoctor import INFO, WARNING, Action, Facts, Finding, Host, Scope, Skip, Unknown, _, check
from npudoctor.checks.device import _busy_findings as say
from npudoctor.facts.gpu.nvml import Gpu, ask_gpus, visible_gpus
from npudoctor.facts.job.device_holders import DeviceHolders
from npudoctor.host.devices.npu_tables import NpuProcess as Listed

VISIBLE, ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
MARGIN = 1024  # MiB: what a GPU without a process may have in use
# NVML's error NVML_ERROR_RESET_REQUIRED, as each of the two tools words it.
RESET = ("requires reset", "requires restart")  # nvidia-smi's words, and nvidia-ml-py's
# Services of NVIDIA that have a context on every GPU. /proc/PID/comm holds 15 bytes of a name, so the longer
# ones are cut (proc_pid_comm(5)).
SERVICES = ("nvidia-cuda-mps", "nv-hostengine", "dcgm", "nvidia-persiste", "dcgm-exporter")


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

    Asks the driver for the memory and the processes of each GPU: through nvidia-ml-py if it is installed with
    npudoctor (the extra `gpu`), in a child process with a time limit, otherwise through nvidia-smi. Only the
    GPUs of this job are examined: those of CUDA_VISIBLE_DEVICES, else all that are present. Processes of this
    job are not reported (ancestors and descendants of npudoctor, and processes of the same Slurm job);
    neither are NVIDIA's own services.

    - `gpu-busy.held`: another process computes on a GPU of this job. This is information if no variable names
      the GPUs, some are free, and the process belongs to another user: such a machine is shared.
    - `gpu-busy.held-by-session`: a process of this session, or of the same user in the same control group,
      computes on a GPU, and this job did not start it: it was left in the background, or is another part of
      the same work.
    - `gpu-busy.memory-held`: more than 1 GiB is in use that no process accounts for: a process that ended
      badly, or one that is not shown, holds it. nvidia-smi lists no graphics processes, so with it this is
      not reported for a GPU with a screen.
    - `gpu-busy.reset-required`: the driver reports only that the GPU must be reset first.

    If the driver reports only an error for a GPU, or, outside a container, a process without a pid, the
    result is unknown.

    In a container the driver shows only the container's own processes: memory that others hold is reported
    there as `gpu-busy.memory-held`, whoever they are. The result is unknown, which does not affect the
    verdict, if the memory may be held by a process of this job, session or container that has the GPU open,
    if a GPU is split (MIG), or if CUDA_VISIBLE_DEVICES contains numbers, the GPUs are of several models and
    CUDA_DEVICE_ORDER is not PCI_BUS_ID.

    ## Why it matters

    A job that shares a GPU ends with `CUDA out of memory` or `Out of memory error on GPU 0`, or both jobs
    become slow. Never kill all python processes: first look at who owns them.

    ## References

    - NVIDIA, NVML API reference; nvidia-smi(1).
    - Paddle, frequently asked questions on training: GPU memory is short.
    """
    if not host.gpus.nodes:
        raise Skip(_("this machine has no GPU device node"))

    gpus = ask_gpus(host)
    value = host.variables.get(VISIBLE)
    is_named = value is not None
    # CUDA numbers GPUs by speed unless CUDA_DEVICE_ORDER is PCI_BUS_ID; NVML numbers them by bus. With
    # several models the two orders may differ.
    job_gpus = gpus if value is None else visible_gpus(value, gpus, host.variables.get(ORDER) == "PCI_BUS_ID")
    if job_gpus is None:
        text = _(
            "the GPUs are not all the same model: could not determine from their numbers which belong "
            "to this job"
        )
        raise Unknown(text, advisory=True)
    devices = {
        gpu.label: {
            "used": gpu.used,
            "total": gpu.total,
            "pids": [reason.pid for reason in gpu.processes if reason.pid],
        }
        for gpu in job_gpus
    }
    yield Facts({"named": is_named, "devices": devices})
    if not job_gpus:
        raise Skip(_("{name} matches no GPU of this machine", name=VISIBLE))
    healthy = [gpu for gpu in job_gpus if not gpu.trouble]
    results = [
        (yield from _judge_silent(job_gpus)),
        (yield from _judge(host, [gpu for gpu in healthy if not gpu.mig], is_named)),
        _explain_split([gpu for gpu in healthy if gpu.mig]),
    ]
    reasons = [reason for reason in results if reason is not None]
    if reasons:
        whys = "; ".join(reason.reason for reason in reasons)
        raise Unknown(whys, advisory=all(reason.advisory for reason in reasons))


def _judge_silent(gpus: Sequence[Gpu]) -> Generator[Finding, None, Optional[Unknown]]:
    """Yield a finding for each GPU that must be reset; return why other GPUs could not be examined, None if
    all could."""
    silent = []
    for gpu in gpus:
        if gpu.trouble.lower().endswith(RESET):
            yield Finding(
                "gpu-busy.reset-required",
                _(
                    "{device} must be reset before a job can use it; the driver says: {why}",
                    device=gpu.label,
                    why=gpu.trouble,
                ),
                device=gpu.label,
                action=Action.RESET_DEVICE,
            )
        elif gpu.trouble:
            silent.append(f"{gpu.label}: {gpu.trouble}")
    return (
        Unknown(_("the driver does not report which process holds it: {devices}", devices="; ".join(silent)))
        if silent
        else None
    )


def _explain_split(gpus: Sequence[Gpu]) -> Optional[Unknown]:
    """Return why GPUs that MIG splits cannot be judged; None if there are none."""
    if not gpus:
        return None
    return Unknown(
        _(
            "{devices}: split by MIG; only the instances can be checked",
            devices=", ".join(gpu.label for gpu in gpus),
        ),
        advisory=True,
    )


def _judge(host: Host, gpus: Sequence[Gpu], is_chosen: bool) -> Generator[Finding, None, Optional[Unknown]]:
    """Yield a finding for each GPU that a stranger holds and for each with memory that no process explains;
    returns what could not be determined, None if nothing."""
    holders = DeviceHolders(host)
    in_container = host.system.is_container()
    processes_by_gpu = {gpu: _list_processes(host, gpu, in_container) for gpu in gpus}
    strangers = {
        gpu: [process for process in listed if holders.is_strange(process) and not _is_service(host, process)]
        for gpu, listed in processes_by_gpu.items()
    }
    hidden = [
        gpu
        for gpu, listed in processes_by_gpu.items()
        if _is_unexplained(gpu) or any(map(holders.is_hidden, listed))
    ]
    unnamed = [gpu for gpu in gpus if any(process.compute and not process.pid for process in gpu.processes)]
    free = [gpu for gpu in gpus if not strangers[gpu] and gpu not in hidden and gpu not in unnamed]
    is_shared = not is_chosen and bool(free)
    for gpu, listed in strangers.items():
        if listed:
            yield say.report_held("gpu-busy", gpu.label, gpu.total, listed, holders, is_shared)
        neighbours = [
            process
            for process in processes_by_gpu[gpu]
            if holders.is_neighbour(process) and not _is_service(host, process)
        ]
        if neighbours:
            yield say.report_held_by_session("gpu-busy", gpu.label, gpu.total, neighbours, holders)
    if in_container:
        return (yield from _report_unseen(host, {gpu: processes_by_gpu[gpu] for gpu in hidden}, holders))
    for gpu in hidden:
        yield say.report_memory_held(
            "gpu-busy", gpu.label, gpu.used, gpu.total, _unexplained_memory(gpu), None
        )
    if unnamed:
        return Unknown(
            _(
                "{devices}: in use, but the driver does not report by which process",
                devices=", ".join(gpu.label for gpu in unnamed),
            )
        )
    return None


def _report_unseen(
    host: Host, hidden: Mapping[Gpu, Sequence[Listed]], holders: DeviceHolders
) -> Generator[Finding, None, Optional[Unknown]]:
    """Report GPUs in use whose holder this container cannot see: a warning whoever it is, because two jobs do
    not fit on one GPU. Returns Unknown for those that this job or session may hold itself."""
    undetermined, nodes = [], host.gpus.nodes
    for gpu, listed in hidden.items():
        memory = max(_unexplained_memory(gpu), 0) if _is_unexplained(gpu) else 0
        memory += sum(process.memory for process in listed if holders.is_hidden(process))
        node = nodes[gpu.index] if gpu.index < len(nodes) else ""
        if memory > MARGIN and not holders.is_open_beside_us(node):
            yield say.report_held_outside("gpu-busy", gpu.label, gpu.used, gpu.total, memory)
        else:
            undetermined.append(gpu.label)
    return (
        Unknown(
            _("{devices}: this container cannot see which process holds it", devices=", ".join(undetermined)),
            advisory=True,
        )
        if undetermined
        else None
    )


def _list_processes(host: Host, gpu: Gpu, in_container: bool) -> list[Listed]:
    """Return the computing processes of the GPU in the form that DeviceHolders takes. Memory is in MiB."""
    visible_processes = host.processes.by_pid() if in_container and gpu.processes else {}
    return [
        Listed(
            gpu.index,
            0,
            process.pid,
            "",
            process.memory,
            process.pid if process.pid in visible_processes else None,
        )
        for process in gpu.processes
        if process.compute and (process.pid or in_container)
    ]


def _is_service(host: Host, listed: Listed) -> bool:
    process = host.processes.by_pid().get(listed.pid)
    return process is not None and process.name.startswith(SERVICES)


def _unexplained_memory(gpu: Gpu) -> int:
    return gpu.used - sum(process.memory for process in gpu.processes)


def _is_unexplained(gpu: Gpu) -> bool:
    """Whether more than MARGIN is in use that no process explains. False if a process does not report its
    memory."""
    has_secret_memory = any(process.memory == 0 for process in gpu.processes)
    # nvidia-smi lists no graphics processes: with a screen attached, memory that no process explains may be
    # theirs.
    return gpu.whole and not has_secret_memory and _unexplained_memory(gpu) > MARGIN
