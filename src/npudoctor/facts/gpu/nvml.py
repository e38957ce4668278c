"""What the NVIDIA driver says of its GPUs: by nvidia-ml-py in a child, else by nvidia-smi. Both may hang."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.core.parsing import json_of
from npudoctor.host.host import Host
from npudoctor.host.process.commands import CommandResult

TOOL = "nvidia-smi"
# Bytes of output; eight GPUs with their processes fill some kilobytes.
LIMIT = 1 << 20
FIRST, SECOND = 0.4, 0.22  # of a check's time: the child, and each of the tool's two questions
NO_MODULE = 3  # the child's status where nvidia-ml-py is not installed, or is not what we know
MIB = 1 << 20
LONGEST = 200  # characters of what a tool said
# What the driver says of what it has not, or may not tell: all else is a GPU that is ill.
QUIET = ("Not Supported", "Insufficient Permissions", "Function Not Found")
# A GPU without memory is one that the driver cannot ask.
NOTHING = "memory.total 0"
# nvidia-smi prints these where a value does not apply or is not ours to see.
NOT_TOLD = ("[N/A]", "N/A", "[Not Supported]", "[Insufficient Permissions]")
# Without what only a newer driver has, each GPU is told with what there is.
SCRIPT = f"""
import json, sys
try:
    import pynvml as n
    n.nvmlInit
except (ImportError, AttributeError):
    sys.exit({NO_MODULE})
why = ""
def ask(name, *args, **more):
    global why
    why = ""
    try: return getattr(n, name)(*args, **more)
    except n.NVMLError as error: why = "" if str(error) in {QUIET!r} else str(error)
    except Exception: pass
def text(value): return value.decode() if isinstance(value, bytes) else value
try: n.nvmlInit()
except n.NVMLError as error:
    sys.exit("NVML: " + str(error))
found = []
for index in range(n.nvmlDeviceGetCount()):
    h = ask("nvmlDeviceGetHandleByIndex", index)
    if h is None:
        found.append(dict(index=index, uuid="", name="", used=None, total=None, mig=False, processes=[],
            trouble=why or "no handle"))
        continue
    memory = ask("nvmlDeviceGetMemoryInfo", h, version=getattr(n, "nvmlMemory_v2", None))
    memory = memory or ask("nvmlDeviceGetMemoryInfo", h)
    trouble, held, whole = why, {{}}, True
    mig = ask("nvmlDeviceGetMigMode", h)
    on = bool(mig and mig[0])
    for kind in ("Compute", "Graphics"):
        listed = ask("nvmlDeviceGet" + kind + "RunningProcesses", h)
        trouble, whole = trouble or ("" if on else why), whole and listed is not None
        for one in listed or ():
            held.setdefault(one.pid, [one.pid, one.usedGpuMemory, kind == "Compute"])
    uuid, name = text(ask("nvmlDeviceGetUUID", h)), text(ask("nvmlDeviceGetName", h))
    found.append(dict(index=index, uuid=uuid, name=name,
        used=memory and memory.used, total=memory and memory.total, mig=on,
        processes=list(held.values()), whole=whole, trouble=trouble))
print(json.dumps(found))
"""
GPUS = "index,uuid,name,memory.used,memory.total,mig.mode.current,display_active"
APPS = "gpu_uuid,pid,used_gpu_memory"
FORMAT = "--format=csv,noheader,nounits"


@dataclass(frozen=True)
class GpuProcess:
    """A process on a GPU; `pid`, and `memory` in MiB, are 0 where they are not stated. `compute`: it
    computes; False where it only draws pictures.
    """

    pid: int
    memory: int
    compute: bool = True


@dataclass(frozen=True)
class Gpu:
    """One GPU; memory in MiB. `whole`: all of its processes are listed, those for pictures too. `trouble`:
    what the driver said instead of an answer."""

    index: int
    uuid: str
    name: str
    used: int
    total: int
    mig: bool
    processes: tuple[GpuProcess, ...]
    whole: bool = True
    trouble: str = ""

    @property
    def label(self) -> str:
        """How a message names it."""
        return f"GPU {self.index}"


def ask_gpus(host: Host) -> list[Gpu]:
    """All GPUs that the driver shows here; CannotTell when nothing answers, or the profile does not let us
    ask.
    """
    if not host.options.vendor_tools:
        raise CannotTell(_("the quick profile does not query the NVIDIA driver"), advisory=True)
    answer = host.commands.run(
        [sys.executable, "-I", "-W", "ignore", "-c", SCRIPT],
        timeout=FIRST * host.options.timeout,
        limit=LIMIT,
    )
    if answer.ok:
        return list(_parse_nvml(answer.stdout))
    # nvidia-smi asks the same driver: it would hang as well.
    if answer.ended == "timeout":
        raise CannotTell(_("the NVIDIA driver does not answer"))
    # By two questions to nvidia-smi, which lists no processes for pictures.
    if host.commands.find(TOOL) is None:
        # A container is often given the GPU without the library that answers for it.
        if answer.ended != "exited" or answer.status == NO_MODULE or "Not Found" in answer.stderr:
            text = _("nvidia-smi is not installed, and nvidia-ml-py is not installed next to npudoctor")
            raise CannotTell(text, advisory=True)
        raise CannotTell(_("the NVIDIA driver does not answer: {why}", why=_failure_text(answer)))
    rows = [_query_tool(host, f"--query-gpu={GPUS}"), _query_tool(host, f"--query-compute-apps={APPS}")]
    try:
        return [_parse_gpu(place, row, rows[1]) for place, row in enumerate(rows[0])]
    except (ValueError, IndexError) as error:
        raise CannotTell(_("the output of nvidia-smi cannot be parsed")) from error


def visible_gpus(value: str, gpus: Sequence[Gpu], by_bus: bool) -> Optional[list[Gpu]]:
    """The GPUs that CUDA takes from its variable: up to the first part that names none.

    `by_bus`: CUDA_DEVICE_ORDER=PCI_BUS_ID. None where a number may mean another GPU to CUDA, which puts
    faster models first unless told otherwise.
    """
    visible: list[Gpu] = []
    for part in value.split(","):
        text = part.strip()
        if text.isascii() and text.isdecimal():
            if not by_bus and len({gpu.name for gpu in gpus if gpu.name}) > 1:
                return None
            same = [gpu for gpu in gpus if gpu.index == int(text[:9])]
        else:
            by_uuid = text.upper().startswith("GPU-")
            same = [gpu for gpu in gpus if by_uuid and gpu.uuid.upper().startswith(text.upper())]
            if by_uuid and not same:
                # A GPU that does not answer tells no UUID: if only one does so, it is the one.
                same = [gpu for gpu in gpus if gpu.trouble and not gpu.uuid]
        if len(same) != 1 or same[0] in visible:
            return visible
        visible += same
    return visible


def _parse_nvml(text: str) -> Iterator[Gpu]:
    try:
        gpus: list[dict[str, Any]] = json_of(text)
        for gpu in gpus:
            held = tuple(
                GpuProcess(pid, (used or 0) // MIB, bool(kind)) for pid, used, kind in gpu["processes"]
            )
            used, total = (gpu["used"] or 0) // MIB, (gpu["total"] or 0) // MIB
            name, uuid = gpu["name"] or "", gpu["uuid"] or ""
            whole, trouble = bool(gpu.get("whole", True)), gpu.get("trouble") or ""
            # None: the driver does not tell it; 0 is an answer.
            if gpu["total"] == 0 and not trouble:
                trouble = NOTHING
            mig = bool(gpu["mig"])
            yield Gpu(int(gpu["index"]), uuid, name, used, total, mig, held, whole, _shorten(trouble))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CannotTell(_("the output of nvidia-ml-py cannot be parsed")) from error


def _query_tool(host: Host, question: str) -> list[list[str]]:
    answer = host.commands.run([TOOL, question, FORMAT], timeout=SECOND * host.options.timeout, limit=LIMIT)
    if not answer.ok:
        raise CannotTell(_("the NVIDIA driver does not answer: {why}", why=_failure_text(answer)))
    return [[word.strip() for word in line.split(",")] for line in answer.stdout.splitlines() if line.strip()]


def _parse_gpu(place: int, row: list[str], apps: list[list[str]]) -> Gpu:
    index, uuid, *words, used, total, mig, display = row
    name = ", ".join(words)
    held = tuple(GpuProcess(_number(pid), _number(memory)) for owner, pid, memory in apps if owner == uuid)
    # The rows are in the order of the indices, which one that is ill may not tell.
    number = place if _is_words(index) else int(index)
    # What stands where a number of bytes should, unless the driver just has none to tell.
    texts = [text for text in (used, total) if not text.isdecimal() and text not in NOT_TOLD]
    trouble = NOTHING if total.isdecimal() and not int(total) else ""
    if texts:
        trouble = _shorten(texts[0].strip("[]"))
    return Gpu(
        number,
        "" if _is_words(uuid) else uuid,
        "" if _is_words(name) else name,
        _number(used),
        _number(total),
        mig.lower() == "enabled",
        held,
        # nvidia-smi lists no processes for pictures: only without a display are all of them listed.
        display.lower() == "disabled",
        trouble,
    )


def _is_words(text: str) -> bool:
    return text.startswith("[") or text == "N/A"


def _number(text: str) -> int:
    """A number of MiB, or a pid; 0 where the driver does not state it."""
    return int(text) if text.isdecimal() else 0


def _failure_text(answer: CommandResult) -> str:
    """What a tool said, in one line: its first line states the cause, but of a Python program that broke the
    last.
    """
    lines = f"{answer.stderr}\n{answer.stdout}".strip().splitlines()
    if not lines:
        return answer.ended
    line = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    return _shorten(line.strip(), answer.ended == "flooded")


def _shorten(line: str, flooded: bool = False) -> str:
    if len(line) <= LONGEST and not flooded:
        return line
    return _("{line}... (the output was cut)", line=line[:LONGEST])
