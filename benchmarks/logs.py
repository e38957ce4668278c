"""The promise about `explain`: a tree of plogs takes at most the time in which ripgrep counts the
lines that hold any of the same literals, and at most 200 MiB. Status 0: kept, 1: missed, 2: not measured.

EXPLAIN_BENCH_MIB (1024) is the size of the tree, EXPLAIN_BENCH_DIR where it is written.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

AT_MOST = 1.0
MEMORY = 200  # MiB, of all processes together
PAIRS = 3


def start() -> int:
    """Run with the checkout, not this folder, at the head of the path."""
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from benchmarks.plogs import build

    rg = shutil.which("rg")
    if rg is None:
        print("bench: logs: could not measure: there is no rg (ripgrep)", file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="npudoctor-logs-", dir=os.environ.get("EXPLAIN_BENCH_DIR")))
    try:
        size = build(folder / "logs", int(os.environ.get("EXPLAIN_BENCH_MIB", "1024")) << 20)
        literals = folder / "literals"
        count = write_literals(literals)
        ours = [sys.executable, "-m", "npudoctor", "explain", "--format", "json", str(folder / "logs")]
        theirs = [rg, "-c", "-F", "-f", str(literals), str(folder / "logs")]
        return measured(ours, theirs, folder, f"{size / 2**20:.0f} MiB, {count} literals")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_literals(path: Path) -> int:
    """All that `explain` looks for, one a line; how many."""
    from npudoctor.explain.signatures.signatures import built_in
    from npudoctor.explain.signatures.table import make_table

    texts = sorted({literal.text for literal in make_table(built_in()).literals})
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return len(texts)


def measured(ours: Sequence[str], theirs: Sequence[str], folder: Path, what: str) -> int:
    """Both by turns, after a warm-up of each; the median of the ratios of wall time decides."""
    variables = {"PATH": os.environ["PATH"], "HOME": str(folder), "NPUDOCTOR_KNOWLEDGE_DIR": ""}
    done = subprocess.run(ours, env=variables, capture_output=True, check=False)
    found = json.loads(done.stdout)
    print(f"logs: {what}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; {found['msg']}")
    timed(theirs, variables)
    pairs = [(timed(ours, variables), timed(theirs, variables)) for _pair in range(PAIRS)]
    for name, mine in (("npudoctor explain", 0), ("rg -c -F -f", 1)):
        told = (f"{pair[mine][0]:.2f} ({pair[mine][1]:.2f})" for pair in pairs)
        print(f"  {name:18} {'  '.join(told)} s wall (CPU)")
    ratio, cpu = (statistics.median(pair[0][kind] / pair[1][kind] for pair in pairs) for kind in (0, 1))
    peak = memory(ours, variables)
    kept = ratio <= AT_MOST and peak <= MEMORY and not missing(found)
    if missing(found):
        print(f"  not found: the failures of ranks {missing(found)}")
    print(
        f"  ratio {ratio:.2f} (at most {AT_MOST}; of CPU {cpu:.2f}), peak {peak:.0f} MiB (at most {MEMORY}):",
        end=" ",
    )
    print("ok" if kept else "MISSED")
    return 0 if kept else 1


def missing(found: dict[str, object]) -> list[int]:
    """The ranks whose failure was not named."""
    from benchmarks.plogs import NEEDLES

    diagnoses = found["diagnoses"]
    assert isinstance(diagnoses, list)
    named = {one["rank"] for one in diagnoses}
    return sorted(set(NEEDLES) - named)


def timed(argv: Sequence[str], variables: dict[str, str]) -> tuple[float, float]:
    """The wall time and the CPU time of a command."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, cpu


def memory(argv: Sequence[str], variables: dict[str, str]) -> float:
    """The most MiB that all processes of a command took together, what they share counted once."""
    running = subprocess.Popen(argv, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = 0
    while running.poll() is None:
        peak = max(peak, sum(map(proportional, family(running.pid))))
        time.sleep(0.02)
    return peak / 1024


def family(pid: int) -> list[int]:
    """A process and its children."""
    with contextlib.suppress(OSError):
        told = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [pid, *map(int, told.split())]
    return [pid]


def proportional(pid: int) -> int:
    """The KiB of a process; of what it shares, its part."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


if __name__ == "__main__":
    sys.exit(start())
