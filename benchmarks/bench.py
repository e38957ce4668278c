"""The command: makes the environments, measures promise by promise, ends with the verdict as its status."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.environments import Workshop, cache
from benchmarks.promise import CannotMeasureError, Promise, promises
from benchmarks.report import show
from benchmarks.side import Side
from benchmarks.timing import adopt_orphans

KEPT, MISSED, NOT_MEASURED, INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and measure what was asked for."""
    known = promises()
    parser = argparse.ArgumentParser(prog="run.py", description="Measure the speed promises.")
    parser.add_argument("promise", nargs="*", help=f"default: all of {', '.join(known)}")
    parser.add_argument("--runs", type=int, help="pairs of runs, at least 3; default: what the promise says")
    options = parser.parse_args(arguments)
    if options.runs is not None and options.runs < 3:
        parser.error("--runs: at least 3")
    for name in options.promise:
        if name not in known:
            parser.error(f"no promise is called {name}: there are {', '.join(known)}")
    try:
        return measure_all({name: known[name] for name in options.promise or known}, options.runs)
    except (CannotMeasureError, OSError) as error:
        print(f"bench: could not measure: {error}", file=sys.stderr)
        return NOT_MEASURED
    except KeyboardInterrupt:
        return INTERRUPTED


def measure_all(chosen: dict[str, Promise], runs: int | None) -> int:
    """One promise that cannot be measured keeps no other from it; a missed one outranks it."""
    results: set[int] = set()
    load = ", ".join(f"{figure:.1f}" for figure in os.getloadavg())
    print(f"CPU: user and system, with all children; {os.cpu_count()} cores, load {load}", flush=True)
    adopt_orphans()
    with tempfile.TemporaryDirectory(dir=cache()) as scratch:
        workshop = Workshop(Path(scratch), full=any(promise.in_packages for promise in chosen.values()))
        for name, promise in chosen.items():
            try:
                kept = measure(name, promise, runs or promise.runs, workshop)
                results.add(KEPT if kept else MISSED)
            except (CannotMeasureError, OSError) as error:
                print(f"bench: {name}: could not measure: {error}", file=sys.stderr, flush=True)
                results.add(NOT_MEASURED)
    return MISSED if MISSED in results else max(results)


def measure(name: str, promise: Promise, runs: int, workshop: Workshop) -> bool:
    """Both commands by turns, so that a change of the machine's mood meets both alike."""
    machine = workshop.npu_machine() if promise.on_npus else None
    job = workshop.job_of(promise)
    sides = [Side(command, workshop, machine, job) for command in (promise.ours, promise.theirs)]
    proofs = [side.command.prove(side.run()) for side in sides]
    for _ in range(promise.warm_ups - 1):
        for side in sides:
            side.run()
    for side in sides:
        side.forget()
    for _round in range(2):
        for _ in range(runs):
            for side in sides:
                side.run()
        if show(name, promise, sides, proofs):
            return True
        # Where a machine was busy until now the kernel still takes pages back, and one build was measured at
        # 0.93 and 1.05 times within ten minutes: all pairs of both rounds count then.
    return False
