"""Faults of a job's network: ports, firewall rules, rank tables, addresses."""

from __future__ import annotations

import json

from npudoctor.core.messages import _
from npudoctor.rehearsal.fault import FIX, TYPED, register_fault
from npudoctor.rehearsal.namespaces import CannotRehearse
from npudoctor.rehearsal.stage import ADDRESS, PEER, Stage

RESERVED = "/proc/sys/net/ipv4/ip_local_reserved_ports"


def _set_up_two_nodes(stage: Stage) -> None:
    """Make the machine the first rank of a job on two nodes with two NPUs each."""
    stage.add_npus()
    stage.add_network()
    stage.variables.update(MASTER_ADDR=ADDRESS, MASTER_PORT="29500", RANK="0", WORLD_SIZE="4")
    stage.variables.update(LOCAL_RANK="0", LOCAL_WORLD_SIZE="2")


@register_fault(
    "port-held",
    "hccl-ports.held",
    _("another process listens on a port that HCCL needs"),
    programs=("ip",),
    remedy=TYPED,
)
def _hold_port(stage: Stage) -> None:
    _set_up_two_nodes(stage)
    stage.listen(29500)


@register_fault(
    "ports-not-reserved",
    "hccl-ports.ephemeral",
    _("the kernel may assign HCCL's ports to outgoing connections"),
    remedy=FIX,
    by_root=True,
    programs=("ip",),
)
def _use_ephemeral_ports(stage: Stage) -> None:
    _set_up_two_nodes(stage)
    stage.variables["HCCL_IF_BASE_PORT"] = "50000"


@register_fault(
    "firewall",
    "firewall.blocked",
    _("a firewall rule drops traffic to the rendezvous port"),
    remedy=FIX,
    programs=("ip", "nft"),
    options=("--peers", PEER),
)
def _drop_rendezvous_traffic(stage: Stage) -> None:
    if not stage.is_root:
        raise CannotRehearse(_("only root may see firewall rules: run this rehearsal as root"))
    _set_up_two_nodes(stage)
    stage.run("nft", "add", "table", "inet", "filter")
    stage.run("nft", "add chain inet filter input { type filter hook input priority 0; }")
    stage.run("nft", "add", "rule", "inet", "filter", "input", "tcp", "dport", "29500", "drop")


@register_fault("rank-table-not-json", "rank-table.not-json", _("the rank table is truncated"))
def _cut_rank_table(stage: Stage) -> None:
    stage.add_npus()
    table = json.dumps({"status": "completed", "version": "1.0", "server_count": "2", "server_list": []})
    stage.write(f"{stage.job}/hccl.json", table[:40])
    stage.variables.update(RANK_TABLE_FILE=f"{stage.job}/hccl.json", RANK_ID="0")


@register_fault(
    "rank-table-missing",
    "rank-table.missing",
    _("RANK_TABLE_FILE names a file that does not exist"),
)
def _name_missing_rank_table(stage: Stage) -> None:
    stage.add_npus()
    stage.variables.update(RANK_TABLE_FILE=f"{stage.job}/hccl.json", RANK_ID="0")


@register_fault(
    "master-loopback",
    "master-address.loopback",
    _("the master address of a two-node job is localhost"),
    programs=("ip",),
)
def _use_loopback_master(stage: Stage) -> None:
    _set_up_two_nodes(stage)
    stage.variables["MASTER_ADDR"] = "127.0.0.1"


@register_fault(
    "master-unknown", "master-address.unresolvable", _("the master's name does not resolve"), programs=("ip",)
)
def _name_unknown_master(stage: Stage) -> None:
    _set_up_two_nodes(stage)
    stage.variables["MASTER_ADDR"] = "node-17"


@register_fault(
    "rank-out-of-range",
    "rank-env.out-of-range",
    _("this process has rank 4, but the job has only ranks 0 to 3"),
    remedy=TYPED,
    programs=("ip",),
)
def _set_rank_out_of_range(stage: Stage) -> None:
    _set_up_two_nodes(stage)
    stage.variables["RANK"] = "4"


@register_fault(
    "wrong-interface",
    "socket-interfaces.missing",
    _("GLOO_SOCKET_IFNAME names an interface that does not exist"),
    programs=("ip",),
)
def _name_missing_interface(stage: Stage) -> None:
    _set_up_two_nodes(stage)
    stage.variables["GLOO_SOCKET_IFNAME"] = "ens17f9"
