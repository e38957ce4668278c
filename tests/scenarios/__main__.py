"""Prints the table fault x machine and both rates; ends with 1 where they are not 100 % and 0."""

from __future__ import annotations

import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from npudoctor.core.model import Severity, Status, Verdict
from npudoctor.registry.registry import load_all

from .fault import Outcome, outcome
from .gpu import gpu_machines
from .machines import Machine, all_machines, judge
from .matrix import FAULTS
from .variants import elsewhere, variants

LOADED = load_all({"NPUDOCTOR_CHECKS_DIR": ""})
MACHINES = [*all_machines(), *gpu_machines()]
OPTIONS = ("-v", "-q")


def tried(number: int, step: int) -> list[tuple[str, Outcome]]:
    """One fault on every machine on which it can be: the place in the table, and what became of it."""
    fault = FAULTS[number]
    return [
        (machine.name, outcome(fault, judge(LOADED, fault.on(machine))))
        for machine in MACHINES[::step]
        if fault.where(machine)
    ]


def main(words: list[str]) -> int:
    """`-v` explains every cell that is not well, `-q` takes every third machine only; other words choose
    faults by parts of name or code."""
    step = 3 if "-q" in words else 1
    machines = MACHINES[::step]
    wanted = [word for word in words if word not in OPTIONS]
    chosen = [
        number
        for number, fault in enumerate(FAULTS)
        if all(word in f"{fault.name} {fault.code}" for word in wanted)
    ]
    for number, machine in enumerate(machines, 1):
        print(f"{number:3}  {machine.name}")
    count = found = beside = 0
    with ProcessPoolExecutor() as pool:
        for number, cells in zip(chosen, pool.map(tried, chosen, [step] * len(chosen))):
            _line(number, machines, dict(cells), "-v" in words)
            count += len(cells)
            found += sum(seen.found for _name, seen in cells)
            beside += sum(bool(seen.others or seen.broken) for _name, seen in cells)
    whole, others = [*MACHINES, *variants()], elsewhere()
    seen, there = _healthy(whole), _healthy(others)
    ready, alarms = seen.ready, seen.alarms + there.alarms
    print(
        ". found alone   + beside another error   x not found   ! a check crashed   (blank: cannot be there)"
    )
    print(f"healthy machines: {len(whole)}, ready {ready}; warnings and errors on them: {seen.alarms}")
    print(f"rows on them that apply: {seen.rows}; unknown {seen.unknown} ({seen.unknown / seen.rows:.1%}), "
          f"of which needed {seen.needed}: {', '.join(seen.named)}")  # fmt: skip
    print(f"machines without an accelerator: {len(others)}; needed rows that are unknown on them: "
          f"{there.needed}; warnings and errors: {there.alarms}")  # fmt: skip
    print(f"faults: {len(chosen)}, on machines: {count}; found {found} ({found / (count or 1):.1%})")
    print(f"false alarms: {alarms} on healthy machines, {beside} beside a fault")
    return 0 if ready == len(whole) and found == count and not alarms and not beside else 1


def _line(number: int, machines: list[Machine], cells: dict[str, Outcome], explain: bool) -> None:
    signs = "".join(cells[machine.name].sign if machine.name in cells else " " for machine in machines)
    print(f"{signs}  {FAULTS[number].code}: {FAULTS[number].name}", flush=True)
    for name, seen in cells.items() if explain else ():
        if seen.sign != ".":
            print(f"      {name}: {', '.join((*seen.broken, *seen.others)) or 'not found'}")


@dataclass
class Healthy:
    """What is said on healthy machines. `named`: the checks that do not know, and how often."""

    ready: int = 0
    alarms: int = 0
    rows: int = 0
    unknown: int = 0
    needed: int = 0
    named: tuple[str, ...] = ()


def _healthy(machines: list[Machine]) -> Healthy:
    """How many are ready, the warnings and errors on them, and what is not known of them."""
    reports = [judge(LOADED, machine) for machine in machines]
    rows = [row for report in reports for row in report.results if row.status is not Status.SKIPPED]
    findings = [finding for row in rows for finding in row.findings]
    unknown = Counter(row.check for row in rows if row.status is Status.UNKNOWN)
    return Healthy(
        ready=sum(report.verdict is Verdict.READY for report in reports),
        alarms=sum(finding.counts and finding.weight > Severity.INFO for finding in findings),
        rows=len(rows),
        unknown=sum(unknown.values()),
        needed=sum(row.needed and row.status is Status.UNKNOWN for row in rows),
        named=tuple(f"{check} {count}" for check, count in unknown.most_common()),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
