"""Every fact that a check declares to be compared is told by that check, on some machine."""

from __future__ import annotations

from npudoctor.fleet.skew import compared_by_check, facts_of
from npudoctor.registry.registry import load_all
from npudoctor.render.report_json import report_object
from npudoctor.testing import interface

from . import gpu, network
from .machines import Machine, healthy, judge
from .variants import of_root

LOADED = load_all({"NPUDOCTOR_CHECKS_DIR": ""})


def cluster() -> Machine:
    """A node of two, on which root sees the ports of its NPUs."""
    machine = healthy("8.0.0", "x86_64", "torch")
    of_root(machine)
    network.of_two_nodes(machine)
    machine.variables.update(HCCL_IF_IP=network.OURS, HCCL_CONNECT_TIMEOUT="600", TASK_QUEUE_ENABLE="1")
    machine.variables.update(ASCEND_GLOBAL_LOG_LEVEL="3")
    return machine


def left_to_hccl() -> Machine:
    """A node on which HCCL chooses the interface, whose MTU the kernel says."""
    machine = healthy("8.0.0", "x86_64", "torch")
    machine.interfaces = [interface("eth0", f"{network.OURS}/24", mtu=9000)]
    return machine


def paddle_on_gpus() -> Machine:
    """A node with GPUs, and variables for NCCL and Paddle."""
    machine = gpu.healthy("paddle-gpu")
    machine.variables.update(NCCL_DEBUG="WARN", FLAGS_allocator_strategy="auto_growth")
    return machine


def test_every_declared_fact_is_told_somewhere() -> None:
    told: set[tuple[str, str]] = set()
    for machine in (cluster(), left_to_hccl(), paddle_on_gpus()):
        facts, _looked = facts_of(report_object(judge(LOADED, machine)))
        told.update((fact.check, "" if fact.is_node_named else name) for name, fact in facts.items())
        assert "HCCL_IF_IP" not in facts
    declared = {(check, compared.name) for check, rows in compared_by_check().items() for compared in rows}
    # CANN is told by whichever of the two was asked.
    assert declared - told == {("cann-driver", "CANN")}
    alone = report_object(judge(LOADED, cluster()))
    alone["results"] = [row for row in alone["results"] if row["check"] == "cann-driver"]
    assert facts_of(alone)[0]["CANN"].check == "cann-driver"
