"""The processes of a running job that is examined: what they hold is no obstacle to it."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.host.host import Host

INIT = ("init", "systemd")  # everybody's ancestor, and may hold the sockets of services


def job_pids(host: Host) -> frozenset[int]:
    """The pids of the examined job (--env-of): the process, its ancestors without init, its descendants, and
    its user's processes in its session or control group. Empty where no process is examined.
    """
    if not host.options.env_of:
        return frozenset()
    return host.once(
        "processes of the examined job", lambda: frozenset(_find_processes(host, host.options.env_of))
    )


def deepest_group(host: Host, pid: int) -> str:
    """The deepest control group of a process: the others may be everybody's. "" where none is known."""
    groups = host.processes.cgroups(pid) or ()
    return max(groups, key=lambda path: path.count("/"), default="")


def _find_processes(host: Host, job: int) -> Iterator[int]:
    processes = host.processes
    everybody = processes.by_pid()
    examined = everybody.get(job)
    if examined is None:
        return
    # The launcher belongs to the job; init does not.
    yield from (pid for pid in processes.ancestors(job) if everybody[pid].name not in INIT and pid != 1)
    group = deepest_group(host, job)
    for pid, process in everybody.items():
        if job in processes.ancestors(pid) or (
            process.uid == examined.uid
            and (
                process.session == examined.session > 0
                or (group.count("/") > 1 and deepest_group(host, pid) == group)
            )
        ):
            yield pid
