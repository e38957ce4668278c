"""Starts jobs on machines of the corpus, or asks npudoctor there.

python -m tests.starts truth [NAME...]      does each job start where it should, and only there?
python -m tests.starts check [NAME...]      what does `npudoctor check` say on the same machines?
python -m tests.starts remedies [NAME...]   does the job start once the lines that `check` showed are typed?
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

from .environments import cache, provide, provide_doctor
from .machine import JOBS, Machine
from .machines import MACHINES
from .stage import Unavailable, run

# These jobs train on CPUs: no accelerator is missed.
CHECK = ("check", "--expect", "none", "--format", "json")


def main(words: list[str]) -> int:
    """As root: the machines need namespaces, and devices of their own."""
    tasks = {"truth": truths, "check": checks, "remedies": remedies}
    if not words or words[0] not in tasks:
        sys.exit(__doc__)
    if os.geteuid():
        sys.exit("python -m tests.starts: needs root")
    chosen = [machine for machine in MACHINES if not words[1:] or machine.name in words[1:]]
    unknown = set(words[1:]) - {machine.name for machine in chosen}
    if unknown:
        sys.exit(f"no machine {', '.join(sorted(unknown))}")
    return tasks[words[0]](chosen)


def truths(machines: list[Machine]) -> int:
    """Start every job; 1 where one starts that should not, or the other way round."""
    seen: Counter[str] = Counter()
    for machine in machines:
        try:
            kept = provide(JOBS[machine.job].environment)
            ended = run(machine, kept, JOBS[machine.job].words)
        except Unavailable as why:
            seen["unavailable"] += 1
            print(f"{machine.name} unavailable: {why}", flush=True)
            continue
        expected, truth = ("broken" if one else "starts" for one in (machine.broken, not ended.started))
        seen[f"{truth}, as expected" if truth == expected else f"{truth}, not as expected"] += 1
        words = "" if ended.started else f" {ended.first_error}"
        print(f"{machine.name} expected={expected} truth={truth} {ended.seconds:.1f}{words}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in sorted(seen.items())))
    return int(any("not as" in what for what in seen))


def checks(machines: list[Machine]) -> int:
    """Ask npudoctor on every machine; its reports are kept beside the environments."""
    provide_doctor()
    reports = cache() / "reports"
    reports.mkdir(exist_ok=True)
    seen: Counter[str] = Counter()
    findings: Counter[str] = Counter()
    for machine in machines:
        try:
            kept = provide(JOBS[machine.job].environment)
            whose = ("--as-user", "root") if machine.user == "root" else ()
            ended = run(machine, kept, (str(kept / "bin" / "npudoctor"), *CHECK, *whose))
        except Unavailable as why:
            seen["unavailable"] += 1
            print(f"{machine.name} unavailable: {why}", flush=True)
            continue
        (reports / f"{machine.name}.json").write_text(ended.output, encoding="utf-8")
        report = _report(ended.output)
        verdict = report.get("verdict", "none")
        errors = _errors(report)
        right = (verdict == "not_ready") if machine.broken else (verdict == "ready")
        seen[f"{'broken' if machine.broken else 'odd'}: {verdict}"] += 1
        findings.update(errors)
        words = " ".join(errors) or ("" if report else ended.first_error)
        kind = "broken" if machine.broken else "starts"
        mark = "right" if right else "WRONG"
        print(
            f"{machine.name} expected={kind} verdict={verdict} {mark} {ended.seconds:.1f} {words}", flush=True
        )
    for what, count in sorted(seen.items()):
        print(f"{count:4} {what}")
    for code, count in findings.most_common():
        print(f"{count:4} {code}")
    return 0


def remedies(machines: list[Machine]) -> int:
    """Type the lines in the reports that `check` kept, start the job, and count."""
    seen: Counter[str] = Counter()
    for machine in machines:
        kept = cache() / "reports" / f"{machine.name}.json"
        report = _report(kept.read_text(encoding="utf-8")) if kept.exists() else {}
        if not machine.broken or report.get("verdict") != "not_ready":
            continue
        lines = [line for finding in _deciding(report) for line in (finding["fix"] or {}).get("commands", ())]
        if not lines:
            seen["no line to type"] += 1
            continue
        ended = run(_typed(machine, lines), provide(JOBS[machine.job].environment), JOBS[machine.job].words)
        seen["the job starts" if ended.started else "of no use"] += 1
        words = "" if ended.started else f": {ended.first_error}"
        print(
            f"{machine.name} {'starts' if ended.started else 'does not start'} after {lines}{words}",
            flush=True,
        )
    print(", ".join(f"{count} {what}" for what, count in sorted(seen.items())))
    return 0


def _typed(machine: Machine, lines: list[str]) -> Machine:
    """The machine once root has typed what is root's, and the job's shell what is its own."""
    own = ("export ", "unset ", "ulimit ")
    shell = [line for line in lines if line.startswith(own)]
    root = [line for line in lines if not line.startswith(own)]
    wrapper = ("/bin/bash", "-c", "; ".join([*shell, 'exec "$@"']), "bash") if shell else ()
    return replace(machine, setup=(*machine.setup, *root), wrapper=(*machine.wrapper, *wrapper))


def _report(output: str) -> dict[str, Any]:
    """The report, empty where there is none."""
    try:
        report = json.loads(output)
    except ValueError:
        return {}
    return report if isinstance(report, dict) else {}


def _deciding(report: dict[str, Any]) -> list[dict[str, Any]]:
    """The findings that decide."""
    found = [finding for result in report.get("results", ()) for finding in result.get("findings", ())]
    return [
        one
        for one in found
        if one["severity"] == "error" and not one.get("ignored") and not one.get("caused_by")
    ]


def _errors(report: dict[str, Any]) -> list[str]:
    """Their codes."""
    return sorted({str(finding["code"]) for finding in _deciding(report)})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
