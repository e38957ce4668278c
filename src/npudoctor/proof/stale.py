"""Whether a living process is proven stale: its job or container is over, and it was left behind.

Its parent says nothing: whoever starts a program with nohup and logs out leaves it without one. What
counts is the control group, which a process cannot leave by itself, and whether that which looks after
the group still lives: the slurmstepd of a job, the shim or conmon of a container.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Callable, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _
from npudoctor.host import Host
from npudoctor.host.process.processes import Process

# The namespaces of the machine itself have fixed numbers (PROC_PID_INIT_INO, PROC_CGROUP_INIT_INO).
FIRST = {"pid": "pid:[4026531836]", "cgroup": "cgroup:[4026531835]"}

# Version 1 has /slurm/uid_1000/job_7/step_0, version 2 /system.slice/slurmstepd.scope/job_7/step_0/user.
# From the root on: nobody but root can make these.
_JOB = pattern(r"/(?:slurm[^/]*/uid_\d+|system\.slice/[^/]*slurmstepd\.scope)/job_(\d+)(?:/|\Z)")
# docker: docker-ID.scope or /docker/ID; containerd of Kubernetes; podman.
_CONTAINER = pattern(r"/(docker[-/]|cri-containerd-|libpod-)([0-9a-f]{64})(?:\.scope)?(?=/|\Z)")
_TITLE = pattern(r"slurmstepd: \[(?:StepId=)?(\d+)")


@dataclass(frozen=True)
class Staleness:
    """Whether it is proven, and the sentence that says why, or what is missing."""

    proven: bool
    why: str


def staleness(host: Host, pid: int) -> Staleness:
    """Judge one process; whatever cannot be seen makes it not proven."""
    return StaleJudge(host).staleness(pid)


def jobs_of(host: Host, pid: int) -> list[str]:
    """The Slurm jobs in whose control groups a process is: one, if any."""
    paths = host.processes.cgroups(pid) or ()
    return sorted({match[1] for path in paths if (match := _JOB.match(path))}, key=int)


def containers_of(host: Host, pid: int) -> list[tuple[str, str]]:
    """The containers in whose control groups a process is: (id, prefix of the name of its control group)."""
    paths = host.processes.cgroups(pid) or ()
    return sorted({(match[2], match[1]) for path in paths for match in _CONTAINER.finditer(path)})


class StaleJudge:
    """Judges many processes at one moment: what they share is read once."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._missing: Optional[str] = None
        self._lives: dict[tuple[str, ...], str] = {}

    @property
    def why_blind(self) -> str:
        """Why not all processes of the machine can be seen from here; "" when they can."""
        if self._missing is None:
            self._missing = why_blind(self._host)
        return self._missing

    def staleness(self, pid: int) -> Staleness:
        """Judge one process; whatever cannot be seen makes it not proven."""
        host = self._host
        if self.why_blind:
            return Staleness(False, self.why_blind)
        # A pid that was given anew between two looks is another process.
        before, now = host.processes.by_pid().get(pid), host.processes.read_now(pid)
        if before is None or now is None or now.has_exited or before.started != now.started:
            return Staleness(False, _("pid {pid} is gone or now belongs to another process", pid=pid))
        if host.processes.cgroups(pid) is None:
            return Staleness(False, _("the control groups of pid {pid} cannot be read", pid=pid))
        jobs, containers = jobs_of(host, pid), containers_of(host, pid)
        if not jobs and not containers:
            return Staleness(False, _("pid {pid} is in neither a Slurm job nor a container", pid=pid))
        lives = [
            *map(self.why_job_lives, jobs),
            *(self._why_container_lives(*container) for container in containers),
        ]
        # Only where nothing local speaks for it: the question may take seconds.
        lives += [self._why_slurm_lives(job) for job in jobs if not any(lives)]
        if any(lives):
            return Staleness(False, next(filter(None, lives)))
        over = [
            _(
                "it is in the control group of Slurm job {job}, which has no slurmstepd left on this node",
                job=job,
            )
            for job in jobs
        ]
        over += [
            _(
                "it is in the control group of container {name}, whose managing processes are all gone",
                name=name[:12],
            )
            for name, _kind in containers
        ]
        return Staleness(True, _("; ").join(over))

    def why_job_lives(self, job: str) -> str:
        """What may still manage a Slurm job on this node; "" when nothing does."""
        return self._remember(("job", job), lambda: _why_job_lives(self._host, job))

    def _why_slurm_lives(self, job: str) -> str:
        """Slurm is asked last, and its module is loaded only then."""
        from npudoctor.proof.slurm import why_lives

        return self._remember(("slurm", job), lambda: why_lives(self._host, job))

    def _why_container_lives(self, name: str, kind: str) -> str:
        return self._remember(("container", name, kind), lambda: _why_container_lives(self._host, name, kind))

    def _remember(self, key: tuple[str, ...], look: Callable[[], str]) -> str:
        if key not in self._lives:
            self._lives[key] = look()
        return self._lives[key]


def why_blind(host: Host) -> str:
    """Why not all processes of the machine can be seen from here; "" when they can."""
    if host.system.is_container() or any(host.system.namespace(kind) != FIRST[kind] for kind in FIRST):
        return _("the processes of the machine are not visible in a container")
    everybody = host.processes.by_pid()
    # With hidepid=2 not even init is shown.
    if 1 not in everybody or host.processes.cgroups(1) is None:
        return _("the processes of other users are hidden")
    for name in host.running_files.names("/proc"):
        if name.isdecimal() and int(name) not in everybody and host.processes.is_hidden(int(name)):
            return _("pid {pid} is hidden", pid=name)
    return ""


def _why_job_lives(host: Host, job: str) -> str:
    """What may still manage a Slurm job on this node; "" when nothing does."""
    for process in _list_living(host):
        own_job = _job_of_slurmstepd(host, process)
        if own_job in (job, ""):
            return _("slurmstepd {pid} may still manage Slurm job {job}", pid=process.pid, job=job)
    return ""


def _job_of_slurmstepd(host: Host, process: Process) -> Optional[str]:
    """The job that a slurmstepd manages, "" when that cannot be determined; None for other processes."""
    arguments = host.processes.arguments(process.pid)
    if arguments is None:
        return ""
    first = arguments[0] if arguments else ""
    if process.name != "slurmstepd" and first.rsplit("/", 1)[-1] != "slurmstepd":
        title = _TITLE.match(first)
        return title[1] if title else None
    if arguments[1:2] == ("infinity",):
        return None  # keeps the scope, looks after no job
    title = _TITLE.match(first)
    if title:
        return title[1]
    # Without a title its own control group tells the job.
    inside = [match[1] for path in host.processes.cgroups(process.pid) or () if (match := _JOB.match(path))]
    return inside[0] if inside else ""


def _why_container_lives(host: Host, name: str, kind: str) -> str:
    """What may still manage a container; "" when nothing does.

    Docker's shim and conmon have its id in their arguments. A shim of Kubernetes manages a whole pod and has
    only the id of the pod's sandbox, so that each living one may be the one.
    """
    for process in _list_living(host):
        arguments = host.processes.arguments(process.pid)
        shim = process.name.startswith("containerd-shim") and "moby" not in (arguments or ())
        if arguments is None or any(name in word for word in arguments) or (kind.startswith("cri-") and shim):
            return _(
                "pid {pid} ({program}) may still manage container {name}",
                pid=process.pid,
                program=process.name,
                name=name[:12],
            )
    return ""


def _list_living(host: Host) -> Iterator[Process]:
    for process in host.processes.by_pid().values():
        if host.processes.still_runs(process.pid):
            yield process
