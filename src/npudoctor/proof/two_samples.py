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
_NODE = pattern(r"/dev/(?:v?davinci|nvidia)(\d+)\Z")
UTILISATION = ("nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")


@dataclass(frozen=True)
class Holder:
    """A process that has device nodes open."""

    process: Process
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class TwoSamples:
    """What was so at both looks. `stuck`: in state D, with the devices that they hold. `holders`: how many
    hold a device at all."""

    zombies: tuple[Process, ...] = ()
    stuck: tuple[Holder, ...] = ()
    idle: tuple[Holder, ...] = ()
    holders: int = 0


def sample_twice(host: Host, wanted: Callable[[Process], bool]) -> TwoSamples:
    """Look at the processes that are wanted; waits only when there is something to look at again."""
    ours = set(host.processes.ancestors(host.processes.self_pid))
    known = [process for pid, process in host.processes.all().items() if pid not in ours and wanted(process)]
    holders = _holders(host, known)
    # One of training, or one whose other threads live on and hold what it held.
    zombies = [
        process
        for process in known
        if process.state == "Z" and (process.threads > 1 or process.name.lower().startswith(TRAINING))
    ]
    stuck = [process for process in known if process.state == "D" and not is_kernel_thread(host, process.pid)]
    at_rest = [
        holder
        for holder in holders
        # A service's, or one in somebody's session, holds the device on purpose.
        if holder.process.state != "D"
        and not service_of(host, holder.process.pid)
        and not session_of(host, holder.process.pid)
    ]
    first = {
        process.pid: host.processes.now(process.pid)
        for process in (*zombies, *stuck, *[holder.process for holder in at_rest])
    }
    if not first:
        return TwoSamples(holders=len(holders))
    began = host.clock.steady()
    rates = _rates(host, at_rest, again=False)
    host.clock.wait_until(began + APART)
    same = {
        pid for pid, process in first.items() if process and _is_unchanged(process, host.processes.now(pid))
    }
    stayed = {(process.pid, process.state) for process in first.values() if process and process.pid in same}
    nodes = {holder.process.pid: holder.nodes for holder in holders}
    # Who holds a device beside one that is at work with it belongs to that one: its launcher, its workers.
    busy = {node for holder in at_rest if holder.process.pid not in same for node in holder.nodes}
    idle = [
        holder
        for holder in at_rest
        if holder.process.pid in same and busy.isdisjoint(holder.nodes) and _zero(holder, rates)
    ]
    if idle:
        rates = _rates(host, idle, again=True)
    return TwoSamples(
        tuple(process for process in zombies if (process.pid, "Z") in stayed),
        tuple(
            Holder(process, nodes.get(process.pid, ())) for process in stuck if (process.pid, "D") in stayed
        ),
        tuple(holder for holder in idle if _zero(holder, rates)),
        len(holders),
    )


def _is_unchanged(before: Process, now: Optional[Process]) -> bool:
    """The same process in the same state, which used no time of a processor."""
    if now is None or before.started != now.started or before.cpu != now.cpu:
        return False
    resting = {"S", "I", "T", "t"}
    return before.state == now.state or {before.state, now.state} <= resting


def _holders(host: Host, processes: Iterable[Process]) -> list[Holder]:
    """Those that have a device open, as far as our rights show it; none where there is no device."""
    try:
        if not (host.npus.usable or host.gpus.usable):
            return []
    except CannotTell:
        return []
    opened = host.processes.all_open()
    holders = []
    for process in processes:
        nodes = {target for _number, target in opened.get(process.pid) or () if _NODE.match(target)}
        if nodes and not process.gone:
            holders.append(Holder(process, tuple(sorted(nodes))))
    return holders


def _rates(host: Host, holders: list[Holder], *, again: bool) -> dict[str, Optional[int]]:
    """How busy each node is, in percent; None where nobody can say."""
    nodes = {node for holder in holders for node in holder.nodes}
    rates: dict[str, Optional[int]] = {}
    npus = {node for node in nodes if "davinci" in node}
    if npus:
        look = host.npu_smi.look_again() if again else host.npu_smi.look()
        rates.update({node: core_rate(look.screen, _number(node)) for node in npus})
    if nodes - npus:
        # The use of the busiest GPU: the numbers of nodes and of the tool may differ.
        answer = host.commands.run(UTILISATION, timeout=0.3 * host.options.timeout)
        words = answer.stdout.split() if answer.ok else []
        busiest = max(map(int, words)) if words and all(word.isdecimal() for word in words) else None
        rates.update(dict.fromkeys(nodes - npus, busiest))
    return rates


def _zero(holder: Holder, rates: dict[str, Optional[int]]) -> bool:
    return all(rates.get(node) == 0 for node in holder.nodes)


def _number(node: str) -> int:
    match = _NODE.match(node)
    return int(match[1]) if match else -1


def core_rate(screen: Optional[Screen], number: int) -> Optional[int]:
    """The AI core's use of /dev/davinciN; where the table does not say which chip that is, of the busiest."""
    chips = screen.chips if screen and not screen.cut else ()
    named = [chip for chip in chips if chip.physical == number]
    if not named and [(chip.npu, chip.chip) for chip in chips] == [(at, 0) for at in range(len(chips))]:
        named = [chip for chip in chips if chip.npu == number]
    rates = [chip.core for chip in named or chips]
    known = [rate for rate in rates if rate is not None]
    return max(known) if known and len(known) == len(rates) else None
