"""What the advice of this group shares: reading one setting, the lines that change it and take it back."""

from __future__ import annotations

from collections.abc import Sequence

from npudoctor import Command, Finding, Fix, Host, Risk, Skip, Step, _

# Documentation/ABI/stable/sysfs-devices-node of the kernel.
NODES = "/sys/devices/system/node"
MOST_CPUS = 1 << 16  # no kernel numbers more: a longer list is not one of CPUs


def read_setting(host: Host, path: str) -> str:
    """Return the text of a kernel setting with single spaces; raises Skip if the kernel does not have it."""
    text = host.running_files.text(path)
    if text is None:
        raise Skip(_("{path} does not exist: nothing to set here", path=path))
    return " ".join(text.split())


def read_or_empty(host: Host, path: str) -> str:
    """Return the text of a kernel setting with single spaces; "" if the kernel does not have it."""
    return " ".join((host.running_files.text(path) or "").split())


def write_command(value: str, *paths: str) -> tuple[str, ...]:
    """Return the argv that writes one value into kernel files; the paths may contain a `*` for the shell."""
    if len(paths) == 1 and "*" not in paths[0]:
        return ("sh", "-c", f"echo {value} > {paths[0]}")
    return ("sh", "-c", f"echo {value} | tee {' '.join(paths)}")


def write_setting(path: str, value: str, before: str) -> Command:
    """Return the command for one kernel file, with the one that undoes it."""
    return Command(write_command(value, path), undo=write_command(before, path))


def advise(host: Host, code: str, message: str, title: str, steps: Sequence[Step], *evidence: str) -> Finding:
    """Return one piece of advice. Its commands are shown only: a person knows what else runs on the
    machine."""
    if (
        host.system.is_container()
    ):  # /proc and /sys show the machine's setting, which nobody changes from inside
        title = _("on the host, not in this container: {title}", title=title)
    return Finding(code, message, evidence=evidence, fix=Fix(title, tuple(steps), risk=Risk.MANUAL))


def numa_nodes(host: Host) -> list[str]:
    """Return the names of the NUMA nodes that are online, by number; empty if the kernel does not report
    them."""
    return [f"node{number}" for number in sorted(parse_cpu_list(read_or_empty(host, f"{NODES}/online")))]


def parse_cpu_list(text: str) -> set[int]:
    """Return the numbers of a kernel list such as 0-3,8; parts that are no number or range are left out."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, _dash, last = part.strip().partition("-")
        if first.isascii() and first.isdigit() and (not last or (last.isascii() and last.isdigit())):
            # [:6] and MOST_CPUS bound the range: a file that is not the kernel's must not make a set of
            # billions.
            numbers.update(range(int(first[:6]), min(int((last or first)[:6]), MOST_CPUS) + 1))
    return numbers
