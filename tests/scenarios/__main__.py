"""Prints the table fault x machine and both rates; ends with 1 where they are not 100 % and 0."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor

from npudoctor.model import Severity, Verdict
from npudoctor.registry import load_all

from .fault import Outcome, outcome
from .machines import Machine, all_machines, judge, variants
from .matrix import FAULTS

LOADED = load_all({"NPUDOCTOR_CHECKS_DIR": ""})
MACHINES = all_machines()
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
    whole = [*MACHINES, *variants()]
    ready, alarms = _healthy(whole)
    print(
        ". found alone   + beside another error   x not found   ! a check crashed   (blank: cannot be there)"
    )
    print(f"healthy machines: {len(whole)}, ready {ready}; warnings and errors on them: {alarms}")
    print(f"faults: {len(chosen)}, on machines: {count}; found {found} ({found / (count or 1):.1%})")
    print(f"false alarms: {alarms} on healthy machines, {beside} beside a fault")
    return 0 if ready == len(whole) and found == count and not alarms and not beside else 1


def _line(number: int, machines: list[Machine], cells: dict[str, Outcome], explain: bool) -> None:
    signs = "".join(cells[machine.name].sign if machine.name in cells else " " for machine in machines)
    print(f"{signs}  {FAULTS[number].code}: {FAULTS[number].name}", flush=True)
    for name, seen in cells.items() if explain else ():
        if seen.sign != ".":
            print(f"      {name}: {', '.join((*seen.broken, *seen.others)) or 'not found'}")


def _healthy(machines: list[Machine]) -> tuple[int, int]:
    """How many are ready, and how many warnings and errors there are on them."""
    reports = [judge(LOADED, machine) for machine in machines]
    findings = [finding for report in reports for row in report.results for finding in row.findings]
    alarms = sum(finding.counts and finding.weight > Severity.INFO for finding in findings)
    return sum(report.verdict is Verdict.READY for report in reports), alarms


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
