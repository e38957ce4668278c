"""Whether a process that is proven stale may be ended: no session holds it, and no other process needs it.

What proof.stale proves is that nothing looks after its job or its container any more. Here is what must
be so besides, before npudoctor itself ends one: Slurm says that the job is over, where it is here; it is no
parent of ours, no login of somebody's, runs with the rights of its one user, and all its living children
are of those that end with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Optional

from npudoctor.core.marks import ProcessMark
from npudoctor.core.messages import _
from npudoctor.facts.leftovers.sessions import is_kernel_thread, session_of
from npudoctor.host import Host
from npudoctor.proof.slurm import why_not_over
from npudoctor.proof.stale import StaleJudge, jobs_of

LOGINS = ("sshd", "login", "in.telnetd")  # beginnings of the names of those that look after a login


class EndingJudge:
    """Says which processes may be ended, at one moment."""

    def __init__(self, host: Host, judge: Optional[StaleJudge] = None) -> None:
        self._host = host
        self._judge = judge or StaleJudge(host)
        self._ours = set(host.processes.ancestors(host.processes.self_pid))
        self._jobs: dict[str, str] = {}
        self._children: dict[int, list[int]] = {}
        for pid, process in host.processes.by_pid().items():
            if not process.has_exited:
                self._children.setdefault(process.parent, []).append(pid)

    def mark(self, pid: int) -> Optional[ProcessMark]:
        """The mark of a process, by which it is recognised later; None when it cannot be seen."""
        process, cgroups = self._host.processes.by_pid().get(pid), self._host.processes.cgroups(pid)
        return None if process is None or cgroups is None else ProcessMark(pid, process.started, cgroups)

    def why_not(self, pid: int) -> str:
        """Why a process may not be ended, whatever becomes of its children; "" when it may."""
        if pid <= 1 or pid in self._ours or is_kernel_thread(self._host, pid):
            return _("process {pid} belongs to npudoctor itself or to the system", pid=pid)
        staleness = self._judge.staleness(pid)
        if not staleness.proven:
            return staleness.why
        for job in jobs_of(self._host, pid):
            # Slurm is asked once for each job: a question may take seconds.
            if job not in self._jobs:
                self._jobs[job] = why_not_over(self._host, job)
            if self._jobs[job]:
                return self._jobs[job]
        session = session_of(self._host, pid) or self._login(pid)
        if session:
            return _(
                "process {pid} belongs to a session that a user may return to ({session})",
                pid=pid,
                session=session,
            )
        # A set-user-id program has a real and another effective uid: it is not its user's alone.
        if self._host.processes.owner(pid) is None:
            return _("process {pid} runs with the rights of several users", pid=pid)
        return ""

    def unproven_child(self, pid: int, ending_pids: Collection[int]) -> Optional[int]:
        """A living descendant that is not among those that end with it; None without such."""
        visited, todo = {pid}, [pid]
        while todo:
            for child in self._children.get(todo.pop(), ()):
                if child in visited:
                    continue
                if child not in ending_pids:
                    return child
                visited.add(child)
                todo.append(child)
        return None

    def children_first(self, pids: Iterable[int]) -> list[int]:
        """The pids in the order in which they may be signalled: each after its children."""
        # The more ancestors, the deeper: the deepest first.
        depth = {pid: sum(1 for _each in self._host.processes.ancestors(pid)) for pid in pids}
        return sorted(depth, key=lambda pid: (-depth[pid], pid))

    def _login(self, pid: int) -> Optional[str]:
        """The login that a process is part of, such as one that pam_slurm_adopt put in the group of a job;
        None without one.
        """
        for path in self._host.processes.cgroups(pid) or ():
            # pam_systemd puts every login there.
            if path.startswith("/user.slice/"):
                return path.rstrip("/").rpartition("/")[2]
        everybody = self._host.processes.by_pid()
        names = (everybody[ancestor].name for ancestor in self._host.processes.ancestors(pid))
        return next((name for name in names if name.startswith(LOGINS)), None)
