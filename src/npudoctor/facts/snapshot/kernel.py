"""What the kernel says of the machine, of this shell's limits and of the network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from npudoctor.core.errors import NotRunning
from npudoctor.core.sizes import size_text
from npudoctor.facts.snapshot.values import Fact, Value, fact
from npudoctor.facts.system.limits import group_folders, memory_group
from npudoctor.host.host import Host

SMALL = 4096  # bytes of a file of the kernel; of 4 MiB and more it refuses to read anything of /proc/sys
# What makes one node train otherwise than another, or not at all.
SYSCTLS = tuple(
    "fs.file-max fs.nr_open fs.inotify.max_user_instances fs.inotify.max_user_watches fs.aio-max-nr"
    " kernel.msgmax kernel.numa_balancing kernel.pid_max kernel.randomize_va_space kernel.sem kernel.shmall"
    " kernel.shmmax kernel.shmmni kernel.threads-max kernel.yama.ptrace_scope"
    " net.core.netdev_max_backlog net.core.rmem_default net.core.rmem_max net.core.somaxconn"
    " net.core.wmem_default net.core.wmem_max net.ipv4.conf.all.arp_announce net.ipv4.conf.all.arp_ignore"
    " net.ipv4.conf.all.rp_filter net.ipv4.ip_forward net.ipv4.ip_local_port_range"
    " net.ipv4.ip_local_reserved_ports net.ipv4.tcp_rmem net.ipv4.tcp_wmem net.ipv6.conf.all.disable_ipv6"
    " vm.max_map_count vm.nr_hugepages vm.overcommit_memory vm.overcommit_ratio vm.swappiness"
    " vm.zone_reclaim_mode".split()
)
# Settings beside sysctl's; of those with brackets the chosen word is the value.
SETTINGS = {
    "transparent_hugepage": "/sys/kernel/mm/transparent_hugepage/enabled",
    "transparent_hugepage defrag": "/sys/kernel/mm/transparent_hugepage/defrag",
    "cpu governor": "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "clock source": "/sys/devices/system/clocksource/clocksource0/current_clocksource",
}


def system(host: Host) -> Iterator[Fact]:
    """Yield kernel, distribution, processors, memory."""
    machine = host.system
    yield fact("kernel", lambda: _expect_running(host, machine.release))
    yield fact("architecture", lambda: _expect_running(host, machine.machine))
    yield fact("distribution", machine.distribution)
    yield fact("container", lambda: _expect_running(host, machine.is_container()))
    yield fact("processors", lambda: _first_line(host, "/sys/devices/system/cpu/online"))
    # What the firmware keeps for itself differs by some MiB on nodes that are alike.
    yield fact("memory", lambda: f"{round(host.resources.memory().total / (1 << 30))} GiB")


def _expect_running(host: Host, value: Value) -> Value:
    """The value; NotRunning for an image, about which the machine it is looked at on says nothing."""
    if host.options.root is not None:
        raise NotRunning
    return value


def limits(host: Host) -> Iterator[Fact]:
    """Yield what `ulimit` shows for the examined process, and the size of /dev/shm."""
    for name, limit in host.resources.limits(host.options.env_of).items():
        for kind, number in (("soft", limit.soft), ("hard", limit.hard)):
            yield Fact(f"{name}, {kind}", "unlimited" if number is None else number)

    def shared_memory() -> Value:
        space = host.running_files.space("/dev/shm")  # noqa: S108  (its size is asked, nothing is put there)
        return size_text(space.total) if space is not None else None

    yield fact("/dev/shm", shared_memory)  # noqa: S108


def cgroup(host: Host) -> Iterator[Fact]:
    """Yield the tightest limits of the control groups: memory, processors, processes."""

    def memory() -> Value:
        group = memory_group(host)
        return group.limit if group else "unlimited"

    def processors() -> Value:
        for folder, version_2 in group_folders(host, "cpuset"):
            # The effective set: what the groups above allow, too.
            name = "cpuset.cpus.effective" if version_2 else "cpuset.effective_cpus"
            text = _first_line(host, f"{folder}/{name}")
            if text:
                return text
        return None

    yield fact("memory", memory)
    yield fact("processor time", lambda: _tightest(host, "cpu", "cpu.max", "cpu.cfs_quota_us"))
    yield fact("processors", processors)
    yield fact("processes", lambda: _tightest(host, "pids", "pids.max", "pids.max"))


def _tightest(host: Host, controller: str, unified: str, legacy: str) -> Value:
    """The lowest limit of our control group and those above it, as the kernel writes it; "unlimited" without
    one.
    """
    lowest: Optional[tuple[float, str]] = None
    for folder, version_2 in group_folders(host, controller):
        text = _first_line(host, f"{folder}/{unified if version_2 else legacy}")
        # "max" means no limit; version 1 has -1.
        if not isinstance(text, str) or not text[:1].isdigit():
            continue
        # `200000 100000` allows two processors; other limits are a number alone.
        words = [int(word) for word in text.split() if word.isdigit()]
        share = words[0] / (words[1] or 1) if len(words) > 1 else float(words[0] if words else 0)
        if lowest is None or share < lowest[0]:
            lowest = share, text
    return "unlimited" if lowest is None else lowest[1]


def sysctls(host: Host) -> Iterator[Fact]:
    """Yield settings of the kernel; a value of None where this kernel has no such setting."""
    for name in SYSCTLS:
        yield fact(name, lambda name=name: _first_line(host, f"/proc/sys/{name.replace('.', '/')}"))  # type: ignore[misc]
    for name, path in SETTINGS.items():
        yield fact(name, lambda path=path: _read_choice(_first_line(host, path)))  # type: ignore[misc]


def _read_choice(text: Value) -> Value:
    """Of `always [madvise] never` the word in brackets; apart as the file is read when the fact is."""
    if isinstance(text, str) and "[" in text:
        return text.partition("[")[2].partition("]")[0]
    return text


def _first_line(host: Host, path: str) -> Value:
    text = host.running_files.text(path, SMALL)
    return None if text is None else " ".join(text.partition("\n")[0].split())


def network(host: Host) -> Iterator[Fact]:
    """Yield the interfaces that lead out of the node. Addresses are left out: each node has its own."""
    for interface in host.network.interfaces():
        # Bridges, veth pairs and lo differ with the containers of the moment.
        if interface.is_internal:
            continue
        name = interface.name
        yield Fact(f"{name} state", interface.state if interface.up else "off")
        yield Fact(f"{name} kind", interface.kind or "card")
        yield fact(f"{name} MTU", lambda name=name: host.network.link_settings(name).mtu or None)  # type: ignore[misc]
        if interface.master:
            yield Fact(f"{name} is a port of", interface.master)
