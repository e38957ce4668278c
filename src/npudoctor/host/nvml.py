"""What the NVIDIA driver says of its GPUs: by nvidia-ml-py in a child, else by nvidia-smi. Both may hang."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from npudoctor.frozen import dataclass
from npudoctor.host.commands import Answer
from npudoctor.host.errors import CannotTell
from npudoctor.host.host import Host
from npudoctor.messages import _

TOOL = "nvidia-smi"
LIMIT = 1 << 20
FIRST, SECOND = 0.4, 0.22  # of a check's time: the child, and each of the tool's two questions
NO_MODULE = 3  # the child's status where nvidia-ml-py is not installed, or is not what we know
MIB = 1 << 20
# Without what only a newer driver has, each GPU is told with what there is.
SCRIPT = f"""
import json, sys
try:
    import pynvml as n
    n.nvmlInit
except (ImportError, AttributeError):
    sys.exit({NO_MODULE})
def ask(name, *args, **more):
    try: return getattr(n, name)(*args, **more)
    except Exception: return None
def text(value): return value.decode() if isinstance(value, bytes) else value
try: n.nvmlInit()
except n.NVMLError as error:
    sys.exit("NVML: " + str(error))
found = []
for index in range(n.nvmlDeviceGetCount()):
    h = n.nvmlDeviceGetHandleByIndex(index)
    memory = ask("nvmlDeviceGetMemoryInfo", h, version=getattr(n, "nvmlMemory_v2", None))
    memory = memory or ask("nvmlDeviceGetMemoryInfo", h)
    held = {{}}
    for kind in ("Compute", "Graphics"):
        for one in ask("nvmlDeviceGet" + kind + "RunningProcesses", h) or ():
            held.setdefault(one.pid, [one.pid, one.usedGpuMemory, kind == "Compute"])
    mig = ask("nvmlDeviceGetMigMode", h)
    uuid, name = text(ask("nvmlDeviceGetUUID", h)), text(ask("nvmlDeviceGetName", h))
    found.append(dict(index=index, uuid=uuid, name=name,
        used=memory and memory.used, total=memory and memory.total, mig=bool(mig and mig[0]),
        processes=list(held.values())))
print(json.dumps(found))
"""
GPUS = "index,uuid,name,memory.used,memory.total,mig.mode.current,display_active"
APPS = "gpu_uuid,pid,used_gpu_memory"
FORMAT = "--format=csv,noheader,nounits"


@dataclass(frozen=True)
class Held:
    """A process on a GPU; memory in MiB, 0 where it is not told. `compute`: not for a picture only."""

    pid: int
    memory: int
    compute: bool = True


@dataclass(frozen=True)
class Gpu:
    """One GPU; memory in MiB. `whole`: all of its processes are listed, those for pictures too."""

    index: int
    uuid: str
    name: str
    used: int
    total: int
    mig: bool
    processes: tuple[Held, ...]
    whole: bool = True

    @property
    def label(self) -> str:
        """How a message names it."""
        return f"GPU {self.index}"


def look(host: Host) -> list[Gpu]:
    """All GPUs that the driver shows here; CannotTell when nobody answers."""
    answer = host.commands.run(
        [sys.executable, "-I", "-c", SCRIPT], timeout=FIRST * host.options.timeout, limit=LIMIT
    )
    if answer.ok:
        return list(_by_nvml(answer.stdout))
    if answer.ended == "timeout":
        raise CannotTell(_("the NVIDIA driver does not answer"))
    return _by_tool(host, answer)


def chosen(value: str, gpus: Sequence[Gpu], by_bus: bool) -> Optional[list[Gpu]]:
    """The GPUs that CUDA makes of its variable: up to the first that is none. None where a number may mean
    another GPU to CUDA, which counts faster models first unless told otherwise."""
    found: list[Gpu] = []
    for part in value.split(","):
        text = part.strip()
        if text.isascii() and text.isdecimal():
            if not by_bus and len({gpu.name for gpu in gpus}) > 1:
                return None
            same = [gpu for gpu in gpus if gpu.index == int(text[:9])]
        else:
            same = [gpu for gpu in gpus if text.startswith("GPU-") and gpu.uuid.startswith(text)]
        if len(same) != 1 or same[0] in found:
            return found
        found += same
    return found


def _by_nvml(text: str) -> Iterator[Gpu]:
    try:
        told: list[dict[str, Any]] = json.loads(text)
        for one in told:
            held = tuple(Held(pid, (used or 0) // MIB, bool(kind)) for pid, used, kind in one["processes"])
            used, total = (one["used"] or 0) // MIB, (one["total"] or 0) // MIB
            name, uuid = one["name"] or "", one["uuid"] or ""
            yield Gpu(int(one["index"]), uuid, name, used, total, bool(one["mig"]), held)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CannotTell(_("the answer of nvidia-ml-py cannot be understood")) from error


def _by_tool(host: Host, before: Answer) -> list[Gpu]:
    """By two questions to nvidia-smi, which lists no processes for pictures."""
    if host.commands.find(TOOL) is None:
        # A container is often given the GPU without the library that answers for it.
        if before.ended != "exited" or before.status == NO_MODULE or "Not Found" in before.stderr:
            text = _("there is no nvidia-smi here, and no NVML with nvidia-ml-py beside npudoctor")
            raise CannotTell(text, advisory=True)
        raise CannotTell(_("the NVIDIA driver does not answer: {why}").format(why=_why(before)))
    rows = [_ask(host, f"--query-gpu={GPUS}"), _ask(host, f"--query-compute-apps={APPS}")]
    try:
        return [_gpu(row, rows[1]) for row in rows[0]]
    except (ValueError, IndexError) as error:
        raise CannotTell(_("the answer of nvidia-smi cannot be understood")) from error


def _ask(host: Host, question: str) -> list[list[str]]:
    answer = host.commands.run([TOOL, question, FORMAT], timeout=SECOND * host.options.timeout, limit=LIMIT)
    if not answer.ok:
        raise CannotTell(_("the NVIDIA driver does not answer: {why}").format(why=_why(answer)))
    return [[word.strip() for word in line.split(",")] for line in answer.stdout.splitlines() if line.strip()]


def _gpu(row: list[str], apps: list[list[str]]) -> Gpu:
    index, uuid, *name, used, total, mig, display = row
    held = tuple(Held(int(pid), _number(memory)) for owner, pid, memory in apps if owner == uuid)
    whole = display.lower() == "disabled"
    on = mig.lower() == "enabled"
    return Gpu(int(index), uuid, ", ".join(name), _number(used), _number(total), on, held, whole)


def _number(text: str) -> int:
    """Of MiB; what the driver may not tell is [N/A] or [Insufficient Permissions]."""
    return int(text) if text.isdecimal() else 0


def _why(answer: Answer) -> str:
    lines = f"{answer.stderr}\n{answer.stdout}".strip().splitlines()
    return lines[-1].strip() if lines else answer.ended
