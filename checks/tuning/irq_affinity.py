"""Are the interrupts of fast network ports handled beside their card?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import INFO, Command, Facts, Finding, Host, Scope, Skip, _, check
from npudoctor.checks.tuning._fast_links import NET, FastLink, fast_links
from npudoctor.checks.tuning._settings import NODES, advise, numa_nodes, parse_cpu_list, read_or_empty

# Documentation/core-api/irq/irq-affinity.rst of the kernel.
IRQ = "/proc/irq"
MOST = 1024  # interrupts of one port: no card has more


@check(
    "irq-affinity",
    scope=Scope.NODE,
    needs=("npu", "gpu"),
    advisory=True,
    codes={"irq-affinity.other-node": INFO},
)
def irq_affinity(host: Host) -> Iterator[Union[Finding, Facts]]:
    """Network interrupts are handled on the card's NUMA node.

    ## What it does

    For each Ethernet port of 25 Gb/s and more whose card belongs to a NUMA node, reads which CPUs handle
    its interrupts.

    - `irq-affinity.other-node`: CPUs of another NUMA node handle some of the port's interrupts.

    ## Why it matters

    Incoming data must then cross the link between the sockets. Traffic over RDMA (RoCE, the NPUs' own ports)
    raises few interrupts and gains little; data loading, checkpoints and collectives over TCP gain.

    Gain: according to ESnet, TCP may be up to twice as slow from the wrong socket, at 40 and 100 Gb/s.

    ## Fix safety

    Shown only. The change lasts until the next boot. A running irqbalance moves the interrupts again, so stop
    it first, or configure the policy in irqbalance instead.

    ## References

    - ESnet, fasterdata.es.net, interrupt binding.
    - Huawei Kunpeng, performance tuning: binding NIC interrupts to NUMA cores.
    - Documentation/core-api/irq/irq-affinity.rst of the kernel.
    """
    if len(numa_nodes(host)) < 2:
        raise Skip(_("this machine has one NUMA node"))
    # The CPUs of the NUMA node of the port's card; "" if the card has no node (the kernel then says -1).
    links = []
    for link in fast_links(host):
        node = read_or_empty(host, f"{NET}/{link.name}/device/numa_node")
        cpus = ""
        if node.isascii() and node.isdigit():
            cpus = read_or_empty(host, f"{NODES}/node{node}/cpulist")
        links.append((link, cpus))
    local_links = [(link, cpus) for link, cpus in links if cpus]
    if not local_links:
        raise Skip(_("no Ethernet port of 25 Gb/s or more has a known NUMA node"))
    counts = {}
    for link, cpus in local_links:
        foreign = _find_foreign_irqs(host, link, cpus)
        counts[link.name] = len(foreign)
        if foreign:
            finding: Finding = advise(
                host,
                "irq-affinity.other-node",
                _(
                    "{count} interrupts of {port} are handled outside the CPUs of its card's NUMA node "
                    "({cpus})",
                    count=len(foreign),
                    port=link.name,
                    cpus=cpus,
                ),
                _(
                    "bind them to the card's node; if irqbalance is running, stop it first, as it moves them "
                    "again"
                ),
                [
                    Command(
                        ("sh", "-c", _write_affinities(dict.fromkeys(foreign, cpus))),
                        undo=("sh", "-c", _write_affinities(foreign)),
                    )
                ],
                *(f"IRQ {number}: {allowed}" for number, allowed in list(foreign.items())[:8]),
            )
            yield finding
    yield Facts({"elsewhere": counts})


def _find_foreign_irqs(host: Host, link: FastLink, cpus: str) -> dict[int, str]:
    """Return the port's interrupts that CPUs of another node handle, each with the CPUs that it may use
    now."""
    local_cpus, foreign = parse_cpu_list(cpus), {}
    names = host.running_files.names(f"{NET}/{link.name}/device/msi_irqs", MOST)
    for number in sorted(int(name) for name in names if name.isascii() and name.isdigit()):
        # smp_affinity is what was asked for, effective_affinity what the interrupt controller uses
        # (irq-affinity.rst); kernels that lack the latter show only the first.
        effective = read_or_empty(host, f"{IRQ}/{number}/effective_affinity_list")
        allowed = read_or_empty(host, f"{IRQ}/{number}/smp_affinity_list")
        if allowed and not parse_cpu_list(effective or allowed) <= local_cpus:
            foreign[number] = allowed
    return foreign


def _write_affinities(cpus_by_irq: dict[int, str]) -> str:
    """Return a shell line that sets the affinity of each interrupt, with one loop for each list of CPUs."""
    parts = []
    for cpus in sorted(set(cpus_by_irq.values())):
        irqs = " ".join(str(number) for number, value in cpus_by_irq.items() if value == cpus)
        parts.append(f"for irq in {irqs}; do echo {cpus} > {IRQ}/$irq/smp_affinity_list; done")
    return "; ".join(parts)
