"""Faults of the interfaces that a job is told to use, and of HCCL's other variables."""

from __future__ import annotations

from tests.scenarios.fault import Where, fault, layout
from tests.scenarios.faults.meeting import elsewhere, spoilt
from tests.scenarios.machines import Machine
from tests.scenarios.network import OURS, of_two_nodes

from npudoctor.testing import interface

NAME, ADDRESS = "HCCL_SOCKET_IFNAME", "HCCL_IF_IP"


def changed(at: int, name: str, code: str, *addresses: str, **more: object) -> None:
    """A job on two nodes on a machine one of whose interfaces is another."""

    def breaks(machine: Machine) -> None:
        of_two_nodes(machine)
        machine.interfaces[at] = interface(machine.interfaces[at].name, *addresses, **more)

    fault(name, code)(breaks)


spoilt(
    "an empty name in the list of interfaces", "socket-interfaces.bad-value", HCCL_SOCKET_IFNAME="eth0,,eth1"
)
spoilt("quotes of the document about the interface", "socket-interfaces.pasted-punctuation",
       HCCL_SOCKET_IFNAME="“eth0”")  # fmt: skip
spoilt("the interface has another name on this node", "socket-interfaces.missing", HCCL_SOCKET_IFNAME="ens33")
spoilt("Gloo's interface is missing on this node", "socket-interfaces.missing", GLOO_SOCKET_IFNAME="ib0")
spoilt("two nodes over the bridge of docker", "socket-interfaces.inner", GLOO_SOCKET_IFNAME="lo")


@fault("the interface of the job is down", "socket-interfaces.down")
def _(machine: Machine) -> None:
    of_two_nodes(machine).variables.update(HCCL_SOCKET_IFNAME="eth2", GLOO_SOCKET_IFNAME="eth2")
    machine.interfaces.append(interface("eth2", "198.18.0.5/24", up=False, state="down"))


@fault("the interface of the job has lost its address", "socket-interfaces.no-address")
def _(machine: Machine) -> None:
    of_two_nodes(machine).variables.update(HCCL_SOCKET_IFNAME="eth2", GLOO_SOCKET_IFNAME="eth2")
    machine.interfaces.append(interface("eth2"))


def bound(name: str, code: str, value: str) -> None:
    """HCCL is told its address and not its interface."""

    def breaks(machine: Machine) -> None:
        of_two_nodes(machine).variables[ADDRESS] = value
        machine.unset(NAME)

    fault(name, f"hccl-interface.{code}")(breaks)


bound("two addresses in HCCL_IF_IP", "bad-value", f"{OURS},203.0.113.5")
bound("a full-width stop in HCCL_IF_IP", "pasted-punctuation", f"{OURS}；")
bound("HCCL_IF_IP of the first node on the second", "not-ours", "192.0.2.9")
bound("loopback as HCCL_IF_IP of two nodes", "inner", "127.0.0.1")


@fault("the interface of HCCL_IF_IP is down", "hccl-interface.down")
def _(machine: Machine) -> None:
    of_two_nodes(machine).variables[ADDRESS] = "198.18.0.5"
    machine.unset(NAME)
    machine.interfaces.append(interface("eth2", "198.18.0.5/24", up=False, state="down"))


@fault("no way from HCCL_IF_IP to the master", "hccl-interface.no-way")
def _(machine: Machine) -> None:
    elsewhere(machine).variables.update(MASTER_ADDR="node9", **{ADDRESS: "203.0.113.5"})
    machine.names = {"node9": ("2001:db8::9", "10.99.0.1")}
    machine.interfaces.append(interface("eth3", "2001:db8::5/64"))
    machine.peers, machine.routes = (), ()
    machine.unset(NAME)


@fault("HCCL_IF_IP is of the storage network", "hccl-interface.other-way")
def _(machine: Machine) -> None:
    elsewhere(machine).variables[ADDRESS] = "203.0.113.5"
    machine.unset(NAME)


# HCCL's other variables.

LATE: Where = layout("latest", "new")
spoilt("seconds as a word", "hccl-env.bad-value", HCCL_CONNECT_TIMEOUT="10min")
spoilt("a semicolon behind a limit of time", "hccl-env.pasted-punctuation", HCCL_CONNECT_TIMEOUT="1800;")
spoilt("PCIe and RoCE are both asked for", "hccl-env.unsupported-pair", HCCL_INTRA_PCIE_ENABLE="1",
       HCCL_INTRA_ROCE_ENABLE="1")  # fmt: skip
spoilt("a chief and a rank table", "hccl-env.conflict", CM_CHIEF_IP=OURS, CM_CHIEF_PORT="6000",
       CM_CHIEF_DEVICE="0", CM_WORKER_SIZE="4", CM_WORKER_IP=OURS)  # fmt: skip
spoilt("a whitelist without its file", "hccl-env.whitelist", HCCL_WHITELIST_DISABLE="0",
       HCCL_WHITELIST_FILE="/data/whitelist.json")  # fmt: skip
spoilt("waiting for events ends before the operators do", "hccl-env.timeout-order",
       HCCL_CONNECT_TIMEOUT="600", HCCL_EXEC_TIMEOUT="1836", HCCL_EVENT_TIMEOUT="1200")  # fmt: skip
