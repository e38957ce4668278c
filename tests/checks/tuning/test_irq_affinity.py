"""irq-affinity: beside the card, elsewhere, no node, one socket, slow ports; the lines are run."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.checks.tuning.tuned_machine import TWO_NODES, card, judge, port

from npudoctor import Status
from npudoctor.checks.tuning.irq_affinity import IRQ, irq_affinity
from npudoctor.testing import Asked, Content, unreadable

PORTS = [card("eth0", "192.0.2.1/24")]


def _irqs(*lists: str, effective: bool = True, name: str = "eth0") -> dict[str, Content]:
    files: dict[str, Content] = {}
    for number, cpus in enumerate(lists, 100):
        files[f"/sys/class/net/{name}/device/msi_irqs/{number}"] = "msix\n"
        files[f"{IRQ}/{number}/smp_affinity_list"] = cpus + "\n"
        if effective:
            files[f"{IRQ}/{number}/effective_affinity_list"] = cpus + "\n"
    return files


def _asked(files: dict[str, Content], node: str = "0", speed: int = 100_000) -> Asked:
    ports = [card("eth0", "192.0.2.1/24", speed=speed)]
    return judge(irq_affinity, {**TWO_NODES, **port("eth0", node), **files}, ports)


def scene(tmp: Path) -> Iterator[Asked]:
    """Each way of putting it."""
    yield _asked(_irqs("3", "40"))
    yield _asked({}, node="-1")
    yield judge(irq_affinity, {})


def test_beside_the_card_is_quiet() -> None:
    asked = _asked(_irqs("0", "31", "4-7"))
    assert (asked.status, asked.codes, asked.facts) == (Status.OK, [], {"elsewhere": {"eth0": 0}})


def test_what_the_kernel_does_counts_more_than_what_it_may() -> None:
    files = _irqs("0-63")
    files[f"{IRQ}/100/effective_affinity_list"] = "5\n"
    assert _asked(files).codes == []


def test_elsewhere_is_said_with_lines_that_work_both_ways(tmp_path: Path) -> None:
    (finding,) = _asked(_irqs("3", "40", "0-63", "41", effective=False)).findings
    assert finding.message.startswith("3 interrupts of eth0") and finding.fix is not None
    before = {"101": "40", "102": "0-63", "103": "41"}
    for number, cpus in before.items():
        (tmp_path / number).mkdir()
        (tmp_path / number / "smp_affinity_list").write_text(cpus + "\n")
    for lines, then in (
        (finding.fix.commands, dict.fromkeys(before, "0-31")),
        (finding.fix.undo_commands, before),
    ):
        for line in lines:
            subprocess.run(["sh", "-c", line.replace(IRQ, str(tmp_path))], check=True)
        assert {
            number: (tmp_path / number / "smp_affinity_list").read_text().strip() for number in before
        } == then


def test_skipped_where_it_does_not_apply() -> None:
    assert _asked(_irqs("40"), node="-1").status is Status.SKIPPED
    assert _asked(_irqs("40"), speed=10_000).status is Status.SKIPPED
    assert judge(irq_affinity, {**port("eth0"), **_irqs("40")}, PORTS).status is Status.SKIPPED


def test_cannot_tell() -> None:
    files = {**_irqs("40"), f"{IRQ}/100/smp_affinity_list": unreadable()}
    assert _asked(files).status is Status.UNKNOWN
