"""Whether a process that holds a device belongs to this job, and how a message names it."""

from __future__ import annotations

from typing import Optional

from npudoctor.facts.job.examined_job import deepest_group, job_pids
from npudoctor.host import Host
from npudoctor.host.devices.npu_tables import NpuProcess
from npudoctor.host.process.processes import Process
from npudoctor.host.users.accounts import user_names


class DeviceHolders:
    """Judges the processes of npu-smi's table; /proc is read once, and only when needed."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._container = host.system.is_container()

    def is_hidden(self, held: NpuProcess) -> bool:
        """Return whether its pid means nothing here: a container's /proc numbers processes differently."""
        return self._container and held.container_pid is None

    def is_strange(self, held: NpuProcess) -> bool:
        """Return whether it belongs neither to this job nor to its session or container."""
        pid = self._pid(held)
        return not self.is_hidden(held) and not self._is_ours(pid) and not self._is_beside(pid)

    def is_neighbour(self, held: NpuProcess) -> bool:
        """Return whether it is in our session or control group and was not started by this job: an older run,
        with which the job may share the device on purpose.
        """
        pid = self._pid(held)
        return not self.is_hidden(held) and not self._is_ours(pid) and self._is_beside(pid)

    def is_open_beside_us(self, node: str) -> bool:
        """Whether a process of this job, its session or its container has a device node open: then that one
        holds the device, by whatever pid the host lists it."""
        processes = self._host.processes
        return any(
            target == node
            for pid in processes.by_pid()
            for _number, target in processes.open_files(pid) or ()
            if self._is_ours(pid) or self._is_beside(pid)
        )

    def is_users_own(self, held: NpuProcess) -> bool:
        """Return whether the same user runs it, who could end it."""
        process = self._process(held)
        return process is not None and process.uid == self._host.identity.euid

    def describe(self, held: NpuProcess) -> str:
        """ "pid 4711 (python3, alice)", with what can be seen of it."""
        process = self._process(held)
        if process is None:
            return f"pid {held.pid} ({held.name})" if held.name else f"pid {held.pid}"
        user = user_names(self._host.files).get(process.uid, f"uid {process.uid}")
        return f"pid {process.pid} ({process.name}, {user})"

    def _pid(self, held: NpuProcess) -> int:
        return held.container_pid if self._container and held.container_pid is not None else held.pid

    def _process(self, held: NpuProcess) -> Optional[Process]:
        return None if self.is_hidden(held) else self._host.processes.by_pid().get(self._pid(held))

    def _is_ours(self, pid: int) -> bool:
        processes = self._host.processes
        me, process = processes.self_pid, processes.by_pid().get(pid)
        if pid in job_pids(self._host):
            return True
        if process is None:
            return False
        # Our own launcher, or what we started.
        if pid in processes.ancestors(me) or me in processes.ancestors(pid):
            return True
        job = self._host.variables.get("SLURM_JOB_ID")
        # Slurm's cgroup plugin names the groups .../job_123/step_0/....
        return bool(job) and f"/job_{job}/" in f"{deepest_group(self._host, pid)}/"

    def _is_beside(self, pid: int) -> bool:
        processes = self._host.processes
        me, process = processes.self_pid, processes.by_pid().get(pid)
        our_process = processes.by_pid().get(me)
        if process is None:
            return False
        if our_process is not None and our_process.session == process.session > 0:
            return True
        ours, its = deepest_group(self._host, me), deepest_group(self._host, pid)
        # A group right below the root, as /user.slice, is everybody's.
        return ours == its and ours.count("/") > 1 and process.uid == self._host.identity.euid
