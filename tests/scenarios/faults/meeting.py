"""Faults of the place where the ranks meet: its name, its ports, and the variables that number the ranks."""

from __future__ import annotations

from tests.scenarios import network, system
from tests.scenarios.fault import Where, anywhere, fault, kind
from tests.scenarios.machines import Machine
from tests.scenarios.network import OURS, PEER, of_two_nodes

from npudoctor.testing import Content, interface


def spoilt(name: str, code: str, where: Where = anywhere, **variables: str) -> None:
    """A job on two nodes with these variables."""

    def breaks(machine: Machine) -> None:
        of_two_nodes(machine).variables.update(variables)

    fault(name, code, where)(breaks)


def elsewhere(machine: Machine) -> Machine:
    """The second node of the job: its master is the peer."""
    of_two_nodes(machine).variables.update(MASTER_ADDR=PEER, RANK="2", RANK_ID="2")
    machine.unset("RANK_TABLE_FILE")
    return machine


spoilt("a protocol in front of the master's address", "master-address.bad-value", MASTER_ADDR=f"tcp://{OURS}")
spoilt("the port behind the master's address", "master-address.bad-value", MASTER_ADDR=f"{OURS}:29500")
spoilt("a port that is none", "hccl-ports.bad-value", MASTER_ADDR=OURS, MASTER_PORT="295000")
spoilt("a port of Paddle that is none", "master-address.bad-port", PADDLE_MASTER=f"{OURS}:295000")
spoilt("the master's name is known to nobody", "master-address.unresolvable", MASTER_ADDR="node-1")
spoilt("localhost as the master of two nodes", "master-address.loopback", MASTER_ADDR="127.0.0.1")
spoilt("the first rank names the other node as the master", "master-address.not-ours", MASTER_ADDR=PEER)
spoilt("the bridge of docker as the master's address", "master-address.inner", MASTER_ADDR="172.17.0.1")


@fault("the scheduler of MindSpore by IPv6", "master-address.ipv6", kind("mindspore"))
def _(machine: Machine) -> None:
    machine.interfaces[2] = interface("eth0", f"{OURS}/24", "2001:db8::5/64")
    machine.names = {"node1": ("2001:db8::5",)}
    machine.variables.update(MS_ROLE="MS_WORKER", MS_WORKER_NUM="2", MS_NODE_ID="0")
    machine.variables.update(MS_SCHED_HOST="node1", MS_SCHED_PORT="8118")


@fault("no way to the network of the master", "master-address.no-way")
def _(machine: Machine) -> None:
    elsewhere(machine).variables["MASTER_ADDR"] = "10.99.0.1"
    machine.peers = ()
    machine.routes = ()


@fault("the node's own name is 127.0.1.1 in /etc/hosts", "master-address.own-name")
def _(machine: Machine) -> None:
    import os

    name = os.uname().nodename
    of_two_nodes(machine).variables["MASTER_ADDR"] = name
    machine.names = {name: ("127.0.1.1",)}


spoilt("a rank that is no number", "rank-env.bad-value", RANK="node1")
spoilt("a rank that the job does not have", "rank-env.out-of-range", RANK="4")
spoilt("two launchers number this process differently", "rank-env.disagree", OMPI_COMM_WORLD_SIZE="4",
       OMPI_COMM_WORLD_RANK="3")  # fmt: skip
spoilt("more processes than NPUs", "rank-env.no-device", LOCAL_WORLD_SIZE="8", WORLD_SIZE="16", RANK_SIZE="4")


@fault("a role of MindSpore without its scheduler", "rank-env.half-set", kind("mindspore"))
def _(machine: Machine) -> None:
    machine.variables["MS_ROLE"] = "MS_WORKER"


# Ports.

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def listening(*ports: int, uid: int = system.USER) -> dict[str, Content]:
    """Sockets that listen on all addresses, with inodes from 100 on."""
    lines = [
        f"   {at}: 00000000:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000 "
        f"{uid:5}        0 {100 + at} 1 0000000000000000 100 0 0 10 0\n"
        for at, port in enumerate(ports)
    ]
    return {"/proc/net/tcp": HEAD + "".join(lines)}


def socket(inode: int) -> dict[int, str]:
    """A descriptor of such a socket."""
    return {5: f"socket:[{inode}]"}


@fault("another job listens on the port of the master", "hccl-ports.held")
def _(machine: Machine) -> None:
    of_two_nodes(machine).files.update(listening(29500))
    machine.files.update(system.process(4000, "python3", descriptors=socket(100)))


@fault("a process of an ended Slurm job holds HCCL's ports", "hccl-ports.held-by-stale")
def _(machine: Machine) -> None:
    of_two_nodes(machine).variables["HCCL_IF_BASE_PORT"] = "50000"
    group = "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n"
    machine.files.update(listening(50000))
    machine.files.update(system.process(4000, "python3", group, descriptors=socket(100)))


@fault("a base port beyond all ports", "hccl-ports.bad-value")
def _(machine: Machine) -> None:
    of_two_nodes(machine).variables["HCCL_IF_BASE_PORT"] = "65530"


# The firewall: only root sees it.


def closed(name: str, rules: str) -> None:
    """Rules that keep the peer out."""

    def breaks(machine: Machine) -> None:
        of_two_nodes(machine).uid = 0
        machine.variables.update(HOME="/root", USER="root")
        machine.commands[network.RULES] = rules

    fault(name, "firewall.blocked")(breaks)


PORT = {"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 29500}}
closed("a rule drops the port of the master", network.rules([PORT, {"drop": None}]))
ALL = {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "eth0"}}
NEW = {"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["new"]}}
closed("all that is new is rejected on the network of the nodes", network.rules([ALL, NEW, {"reject": None}]))
