"""Does the kernel move the memory of jobs between sockets by itself?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import INFO, Facts, Finding, Host, Scope, SetKernel, Skip, _, check
from npudoctor.checks.tuning._settings import advise, numa_nodes, read_setting

NAME = "kernel.numa_balancing"
PATH = "/proc/sys/kernel/numa_balancing"


@check(
    "numa-balancing",
    scope=Scope.NODE,
    needs=("npu", "gpu"),
    advisory=True,
    codes={"numa-balancing.on": INFO},
)
def numa_balancing(host: Host) -> Iterator[Union[Finding, Facts]]:
    """Automatic NUMA balancing is off.

    ## What it does

    Reads `kernel.numa_balancing`, on machines with several NUMA nodes.

    - `numa-balancing.on`: the kernel repeatedly unmaps pages of running processes, to see by the page fault
      which processor uses them.

    ## Why it matters

    These faults hit the threads that feed the accelerators. The kernel's documentation says that it should be
    off if jobs are bound to nodes, for example by numactl, `CPU_AFFINITY_CONF` of torch_npu, or Slurm's
    binding; NVIDIA's guides say the same. Jobs that are not bound may run better with it: measure.

    Gain: the sources state no figure.

    ## Fix safety

    Shown only. The change lasts until the next boot.

    ## References

    - Documentation/admin-guide/sysctl/kernel.rst of the kernel, numa_balancing.
    - NVIDIA, CUDA C++ Best Practices Guide, NUMA best practices; Grace Performance Tuning Guide.
    - openEuler, A-Tune, profile network-intensive: kernel.numa_balancing = 0.
    """
    value = read_setting(host, PATH)
    nodes = numa_nodes(host)
    if len(nodes) < 2:
        raise Skip(_("this machine has one NUMA node"))
    yield Facts({"value": value, "nodes": len(nodes)})
    # 1 moves pages between nodes; 2, from Linux 5.18 on, between tiers of memory; both unmap pages to see who
    # uses them.
    if value != "0":
        yield advise(
            host,
            "numa-balancing.on",
            _(
                "the kernel automatically moves memory between {count} NUMA nodes ({name} is {value})",
                count=len(nodes),
                name=NAME,
                value=value,
            ),
            _("turn it off until the next boot, if jobs here are bound to NUMA nodes"),
            [SetKernel(NAME, "0", value)],
        )
