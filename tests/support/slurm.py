"""A Slurm of one node for tests, in namespaces of its own: its configuration, and the lines that start it."""

from __future__ import annotations

CONFIGURATION = """
ClusterName=test
SlurmctldHost=localhost
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
StateSaveLocation=/run/slurm/state
SlurmdSpoolDir=/run/slurm/spool
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmctldLogFile=/run/slurm/slurmctld.log
SlurmdLogFile=/run/slurm/slurmd.log
SwitchType=switch/none
MpiDefault=none
KillWait=5
JobAcctGatherType=jobacct_gather/none
NodeName=localhost CPUs=1 State=UNKNOWN
PartitionName=p Nodes=localhost Default=YES State=UP OverSubscribe=FORCE:8
"""
# Slurm looks names up only where an address beside loopback's is.
STAGE = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/slurm/state /run/slurm/spool /run/munge
cp "$CONF" /run/slurm/slurm.conf
export SLURM_CONF=/run/slurm/slurm.conf
ip link set lo up
ip link add d0 type dummy 2>/dev/null || ip link add d0 type veth peer name d1
ip addr add 10.9.9.1/24 dev d0
ip link set d0 up
echo "127.0.0.1 localhost" >/run/hosts
mount --bind /run/hosts /etc/hosts
hostname localhost
head -c 1024 /dev/urandom >/run/munge.key
chmod 600 /run/munge.key
munged --force --key-file /run/munge.key --socket /run/munge/munge.socket.2 --seed-file /run/munge.seed \\
    --pid-file /run/munge.pid --log-file /run/munge.log
slurmctld -f $SLURM_CONF
slurmd -f $SLURM_CONF
for _ in $(seq 100); do sinfo -h -o %t 2>/dev/null | grep -q idle && break; sleep 0.1; done
sinfo -h -o %t | grep -q idle || { cat /run/slurm/*.log >&2; exit 99; }
cd "$WORK"
set +e
"""
