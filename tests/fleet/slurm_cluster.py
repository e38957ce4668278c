"""The cluster of cluster.py with a Slurm: slurmctld on the login node, a slurmd on each node."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from .cluster import Cluster

# Each node has a /run of its own; what all see lies in the folder, munge's socket too.
_CONFIGURATION = """
ClusterName=test
SlurmctldHost=login(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
StateSaveLocation=/run/slurm/state
SlurmdSpoolDir=/run/slurm/spool
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%h.log
SwitchType=switch/none
MpiDefault=none
KillWait=2
MessageTimeout=5
SlurmdTimeout=600
ReturnToService=2
JobAcctGatherType=jobacct_gather/none
SchedulerParameters=sched_interval=1,batch_sched_delay=1
NodeName=node[1-{count}] CPUs=1 State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES State=UP
"""
_LOGIN = """
hostname login
mkdir -p /run/slurm/state
export SLURM_CONF={folder}/slurm.conf
head -c 1024 /dev/urandom >{folder}/munge.key
chmod 600 {folder}/munge.key
munged --force --key-file {folder}/munge.key --socket {folder}/munge.socket --seed-file /run/munge.seed \\
    --pid-file /run/munge.pid --log-file {folder}/munge.log
slurmctld -f {folder}/slurm.conf
"""
_NODE = """
mkdir -p /run/slurm/spool
slurmd -f {folder}/slurm.conf
"""


class SlurmCluster(Cluster):
    """Nodes node1, node2, ... of a Slurm with one partition."""

    def __init__(self, folder: Path, count: int) -> None:
        super().__init__(folder, count, {})

    def prepare(self) -> None:
        """Write what all have in common."""
        super().prepare()
        text = _CONFIGURATION.format(folder=self.folder, count=self._count)
        (self.folder / "slurm.conf").write_text(text)
        # Which one it is slurmd would see on /sys/fs/cgroup, which ip netns leaves empty.
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self.on_login(_LOGIN.format(folder=self.folder))
        for node in range(1, self._count + 1):
            self.on(node, "")

    def on(self, node: int, script: str) -> None:
        """Before its slurmd starts, this node runs these lines."""
        super().on(node, script + _NODE.format(folder=self.folder))

    def wait_for(self, state: str = "idle") -> None:
        """Go on once all nodes are in this state."""
        until = time.monotonic() + 20
        while time.monotonic() < until:
            if self.lines("sinfo -h -N -o %t") == [state] * self._count:
                return
            time.sleep(0.1)
        raise AssertionError(self.lines("sinfo -N -l") + self.lines(f"tail -n 20 {self.folder}/slurm*.log"))

    def lines(self, script: str) -> list[str]:
        """What these lines of bash print on the login node."""
        done = subprocess.run(
            self.enter("env", f"SLURM_CONF={self.folder}/slurm.conf", "bash", "-c", script),
            capture_output=True,
            text=True,
            check=False,
        )
        return (done.stdout + done.stderr).splitlines()
