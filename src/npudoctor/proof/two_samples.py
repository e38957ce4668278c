"""What is so at two looks: zombies, processes stuck in the kernel, holders of a device that do nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Callable, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.facts.leftovers.sessions import is_kernel_thread, service_of, session_of
from npudoctor.host import CannotTell, Host
from npudoctor.host.process.processes import Process

if TYPE_CHECKING:
    from npudoctor.host.devices.npu_tables import Screen

APART = 2.0  # seconds between two looks: most of what waits for a disk or its parent is over by then
# How processes of training are called: a zombie of another program is no concern of this tool.
TRAINING = (
    "python", "pt_", "torchrun", "mpirun", "mpiexec", "orterun", "orted", "prterun", "msrun", "deepspeed",
    "accelerate", "ray", "vllm",
)  # fmt: skip
# vdavinci: a virtual NPU.
_NODE = pattern(r"/dev/(?:v?davinci|nvidia)(\d+)\Z")
# One number for each GPU.
UTILISATION = ("nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")


@dataclass(frozen=True)
class DeviceHolder:
    """A process that has device nodes open."""

    process: Process
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class TwoSamples:
    """What was so at both looks. `stuck`: in state D, with the devices that they hold. `idle`: holders of
    devices that did nothing. `holders`: how many hold a device at all.
    """

    zombies: tuple[Process, ...] = ()
    stuck: tuple[DeviceHolder, ...] = ()
    idle: tuple[DeviceHolder, ...] = ()
    holders: int = 0


def sample_twice(host: Host, is_wanted: Callable[[Process], bool]) -> TwoSamples:
    """Look at these processes twice; it waits only when there is something to look at again."""
    ours = set(host.processes.ancestors(host.processes.self_pid))
    processes = [
        process for pid, process in host.processes.by_pid().items() if pid not in ours and is_wanted(process)
    ]
    holders = _find_holders(host, processes)
    # One of training, or one whose other threads live on and hold what it held.
    zombies = [
        process
        for process in processes
        if process.state == "Z" and (process.threads > 1 or process.name.lower().startswith(TRAINING))
    ]
    stuck = [
        process for process in processes if process.state == "D" and not is_kernel_thread(host, process.pid)
    ]
    at_rest = [
        holder
        for holder in holders
        # A service's, or one in somebody's session, holds the device on purpose.
        if holder.process.state != "D"
        and not service_of(host, holder.process.pid)
        and not session_of(host, holder.process.pid)
    ]
    first = {
        process.pid: host.processes.read_now(process.pid)
        for process in (*zombies, *stuck, *[holder.process for holder in at_rest])
    }
    if not first:
        return TwoSamples(holders=len(holders))
    # The rates are read within the two seconds, not in addition to them.
    began = host.clock.monotonic()
    rates = _read_rates(host, at_rest, again=False)
    host.clock.wait_until(began + APART)
    same = {
        pid
        for pid, process in first.items()
        if process and _is_unchanged(process, host.processes.read_now(pid))
    }
    stayed = {(process.pid, process.state) for process in first.values() if process and process.pid in same}
    nodes = {holder.process.pid: holder.nodes for holder in holders}
    # Who holds a device beside one that is at work with it belongs to that one: its launcher, its workers.
    busy = {node for holder in at_rest if holder.process.pid not in same for node in holder.nodes}
    idle = [
        holder
        for holder in at_rest
        if holder.process.pid in same and busy.isdisjoint(holder.nodes) and _is_idle(holder, rates)
    ]
    if idle:
        rates = _read_rates(host, idle, again=True)
    return TwoSamples(
        tuple(process for process in zombies if (process.pid, "Z") in stayed),
        tuple(
            DeviceHolder(process, nodes.get(process.pid, ()))
            for process in stuck
            if (process.pid, "D") in stayed
        ),
        tuple(holder for holder in idle if _is_idle(holder, rates)),
        len(holders),
    )


def _is_unchanged(before: Process, now: Optional[Process]) -> bool:
    """Return whether it is the same process in the same state, and used no processor time."""
    if now is None or before.started != now.started or before.cpu != now.cpu:
        return False
    # proc(5): sleeping, idle thread of the kernel, stopped, stopped by a tracer.
    resting = {"S", "I", "T", "t"}
    return before.state == now.state or {before.state, now.state} <= resting


def _find_holders(host: Host, processes: Iterable[Process]) -> list[DeviceHolder]:
    """The processes that have a device open, as far as our rights show it; none where there is no device."""
    try:
        if not (host.npus.is_usable or host.gpus.is_usable):
            return []
    except CannotTell:
        return []
    opened = host.processes.open_files_by_pid()
    holders = []
    for process in processes:
        nodes = {target for _number, target in opened.get(process.pid) or () if _NODE.match(target)}
        if nodes and not process.has_exited:
            holders.append(DeviceHolder(process, tuple(sorted(nodes))))
    return holders


def _read_rates(host: Host, holders: list[DeviceHolder], *, again: bool) -> dict[str, Optional[int]]:
    """How busy each node is, in percent; None where that is unknown."""
    nodes = {node for holder in holders for node in holder.nodes}
    rates: dict[str, Optional[int]] = {}
    npus = {node for node in nodes if "davinci" in node}
    if npus:
        look = host.npu_smi.read_info_again() if again else host.npu_smi.read_info()
        rates.update({node: core_rate(look.screen, _node_number(node)) for node in npus})
    if nodes - npus:
        # The use of the busiest GPU: the numbers of nodes and of the tool may differ.
        answer = host.commands.run(UTILISATION, timeout=0.3 * host.options.timeout)
        words = answer.stdout.split() if answer.ok else []
        busiest = max(map(int, words)) if words and all(word.isdecimal() for word in words) else None
        rates.update(dict.fromkeys(nodes - npus, busiest))
    return rates


def _is_idle(holder: DeviceHolder, rates: dict[str, Optional[int]]) -> bool:
    return all(rates.get(node) == 0 for node in holder.nodes)


def _node_number(node: str) -> int:
    match = _NODE.match(node)
    return int(match[1]) if match else -1


def core_rate(screen: Optional[Screen], number: int) -> Optional[int]:
    """The AI core's use of /dev/davinciN in percent; of the busiest chip where the table does not say which
    one that is. None where it is unknown.
    """
    chips = screen.chips if screen and not screen.is_cut else ()
    matching = [chip for chip in chips if chip.physical == number]
    if not matching and [(chip.npu, chip.chip) for chip in chips] == [(at, 0) for at in range(len(chips))]:
        matching = [chip for chip in chips if chip.npu == number]
    rates = [chip.core_percent for chip in matching or chips]
    readable_rates = [rate for rate in rates if rate is not None]
    # One chip that does not tell its rate may be the busy one.
    return max(readable_rates) if readable_rates and len(readable_rates) == len(rates) else None
