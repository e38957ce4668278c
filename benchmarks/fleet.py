"""The promises about many nodes. Status 0: kept, 1: missed, 2: not measured.

- `fleet check` over ssh takes at most 1.2 times as long as `clush` with the same command on the same nodes,
  and at most 200 MiB: nodes are addresses of the loopback, in a network of their own, with real sshd (root).
- `fleet report` reads, merges, compares and draws the page of 10,000 reports in at most 3 times the time that
  `json.loads` takes for them, in at most 600 MiB.
- The page of 1,000 nodes, no two of them alike, 24 checks ill somewhere, opens in Chromium within a second,
  and so does each filter.

FLEET_BENCH_NODES (256) and FLEET_BENCH_REPORTS (10000) are how many.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SSH_RATIO, SSH_MEMORY, ROUNDS = 1.2, 200, 3
REPORT_RATIO, REPORT_MEMORY = 3.0, 600
PAGE_NODES, PAGE_ILL, PAGE_SECONDS = 1000, 24, 1.0
FANOUT = "64"
BIN = Path(sys.executable).parent
LOADS = "import json, sys\nfor line in open(sys.argv[1], encoding='utf-8'): json.loads(line)"
FILTERS = ("node17", "node9 error", "disk-space.full-500", "6.77", "nothing has this", "")
FILTER = """word => {
    const began = performance.now(), box = document.getElementById('filter');
    box.value = word;
    box.dispatchEvent(new Event('input'));
    document.querySelector('.map').scrollIntoView();
    document.querySelector('.map').scrollHeight;
    return performance.now() - began;
}"""
ILL: dict[str, object] = {
    "code": "disk-space.full", "severity": "error", "evidence": [], "device": None, "action": "none",
    "caused_by": None, "ignored": None, "fix": None,
}  # fmt: skip
SSHD = """\
HostKey {folder}/host
AuthorizedKeysFile {folder}/key.pub
StrictModes no
PermitRootLogin yes
UsePAM no
PidFile none
MaxStartups 2000
"""
SSH = """\
Host *
    IdentityFile {folder}/key
    UserKnownHostsFile {folder}/known
    KexAlgorithms curve25519-sha256
    LogLevel ERROR
"""


def main() -> int:
    """Measure both."""
    folder = Path(tempfile.mkdtemp(prefix="npudoctor-fleet-"))
    try:
        return max(_reports(folder), _page(folder), _nodes(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _reports(folder: Path) -> int:
    count = int(os.environ.get("FLEET_BENCH_REPORTS", "10000"))
    path = folder / "reports.jsonl"
    _write_reports(path, count)
    page = (
        "npudoctor",
        "fleet",
        "report",
        str(path),
        "--format",
        "html",
        "--output",
        str(folder / "page.html"),
    )
    ours, theirs, memory = [], [], 0
    for _round in range(ROUNDS):
        theirs.append(_timed([sys.executable, "-c", LOADS, str(path)])[0])
        seconds, peak = _timed([str(BIN / page[0]), *page[1:]], statuses=(0, 1, 2))
        ours.append(seconds)
        memory = max(memory, peak)
    ratio = statistics.median(one / other for one, other in zip(ours, theirs))
    what = f"{count} reports, {path.stat().st_size >> 20} MiB"
    return _told("fleet report", what, ratio, REPORT_RATIO, memory, REPORT_MEMORY, max(theirs), max(ours))


def _real_report() -> dict[str, Any]:
    command = [str(BIN / "npudoctor"), "check", "--expect", "none", "--format", "json"]
    report: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)
    return report


def _write_reports(path: Path, count: int) -> None:
    """This machine's real report under many names; one in fifty is ill, one in 97 has another kernel."""
    report = _real_report()
    well = report["results"][0]["findings"]
    release = report["host"]["release"]
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            sick = number % 50 == 0
            report["host"].update(name=f"node{number}", release=release if number % 97 else "6.2")
            report["results"][0]["findings"] = [{**ILL, "message": f"{number} MiB left"}] if sick else well
            report.update(verdict="not_ready" if sick else "ready", exit_code=int(sick))
            file.write(json.dumps(report) + "\n")


def _page(folder: Path) -> int:
    """Seconds until the page is loaded, and until it is laid out again after each of some filters."""
    sys.path.insert(0, str(ROOT))
    from tests.support.browser import Browser, find

    chromium = find()
    if chromium is None:
        print("bench: the page of fleet report: could not measure: needs Chromium")
        return 2
    reports, page = folder / "thousand.jsonl", folder / "thousand.html"
    _write_unlike(reports, PAGE_NODES)
    words = [
        str(BIN / "npudoctor"),
        "fleet",
        "report",
        str(reports),
        "--format",
        "html",
        "--output",
        str(page),
    ]
    _timed(words, statuses=(0, 1, 2))
    with Browser(chromium, folder) as browser:
        browser.call(
            "Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False
        )
        browser.open(page)
        opened = browser.run("performance.getEntriesByType('navigation')[0].loadEventEnd") / 1000
        filtered = [browser.run(f"({FILTER})({json.dumps(word)})") / 1000 for word in FILTERS]
    kept = max(opened, *filtered) <= PAGE_SECONDS
    print(
        f"{'ok  ' if kept else 'MISS'} the page of {PAGE_NODES} nodes: opens in {opened:.2f} s,"
        f" filters in {max(filtered):.2f} s (at most {PAGE_SECONDS:g}); {page.stat().st_size >> 10} KiB",
        flush=True,
    )
    return 0 if kept else 1


def _write_unlike(path: Path, count: int) -> None:
    """Reports of which each has rows, and a finding, that no other has: no row of the page is shared."""
    report = _real_report()
    rows = report["results"]
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            for place, row in enumerate(rows[:PAGE_ILL]):
                row["status"] = "problem" if number >> (place % 12) & 1 else "ok"
            own = {**ILL, "code": f"disk-space.full-{number}", "message": f"{number} MiB left"}
            rows[0]["findings"] = [own]
            report["host"].update(name=f"node{number}", release=f"6.{number // 5}")
            report.update(verdict="not_ready", exit_code=1)
            file.write(json.dumps(report) + "\n")


def _nodes(folder: Path) -> int:
    lacking = [name for name in ("unshare", "sshd", "ssh", "ip") if shutil.which(name) is None]
    if lacking or os.geteuid() != 0:
        print(f"bench: fleet check: could not measure: needs root and {', '.join(lacking) or 'nothing else'}")
        return 2
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    inside = [sys.executable, str(Path(__file__).resolve()), "inside", str(folder)]
    return subprocess.run([*command, *inside], check=False).returncode


def _inside(folder: Path) -> int:
    """In a network of its own, all addresses of whose loopback are nodes."""
    count = int(os.environ.get("FLEET_BENCH_NODES", "256"))
    nodes = ",".join(f"127.0.{number // 250}.{number % 250 + 1}" for number in range(count))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    _start_sshd(folder)
    words = [str(BIN / "npudoctor"), "check", "--format", "json", "--expect", "none", "--profile", "quick"]
    ours = [
        *(
            words[0],
            "fleet",
            "check",
            "-w",
            nodes,
            "--fanout",
            FANOUT,
            "--format",
            "json",
            "--program",
            words[0],
        )
    ]
    ours += ["--", *words[4:]]
    theirs = [str(BIN / "clush"), "-N", "-f", FANOUT, "-w", nodes, " ".join(words)]
    _timed([*theirs[:-1], "true"])
    rows = [(_timed(theirs), _timed(ours)) for _round in range(ROUNDS)]
    ratio = statistics.median(own[0] / other[0] for other, own in rows)
    memory = max(own[1] for _other, own in rows)
    seconds = max(other[0] for other, _own in rows), max(own[0] for _other, own in rows)
    return _told(
        "fleet check", f"{count} nodes, fanout {FANOUT}", ratio, SSH_RATIO, memory, SSH_MEMORY, *seconds
    )


def _start_sshd(folder: Path) -> None:
    for name in ("host", "key"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / name)]
        subprocess.run(words, check=True)
    (folder / "known").write_text(f"* {(folder / 'host.pub').read_text()}")
    (folder / "ssh_config").write_text(SSH.format(folder=folder))
    (folder / "sshd_config").write_text(SSHD.format(folder=folder))
    subprocess.run(["mount", "--bind", str(folder / "ssh_config"), "/etc/ssh/ssh_config"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    os.mkdir("/run/sshd")
    sshd = shutil.which("sshd") or "/usr/sbin/sshd"
    subprocess.Popen([sshd, "-D", "-f", str(folder / "sshd_config")])
    until = time.monotonic() + 10
    while subprocess.run(["ssh", "127.0.0.1", "true"], check=False).returncode and time.monotonic() < until:
        time.sleep(0.1)


def _timed(command: Sequence[str], statuses: Sequence[int] = (0,)) -> tuple[float, int]:
    """Seconds of wall time, and MiB at its peak, of a process without its children."""
    began = time.perf_counter()
    with open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=nowhere)
        _pid, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in statuses:
        raise SystemExit(f"bench: {command[0]} ended with {os.waitstatus_to_exitcode(status)}")
    return time.perf_counter() - began, usage.ru_maxrss >> 10


def _told(
    name: str, what: str, ratio: float, most: float, memory: int, most_memory: int, theirs: float, ours: float
) -> int:
    kept = ratio <= most and memory <= most_memory
    print(
        f"{'ok  ' if kept else 'MISS'} {name}: {ratio:.2f} times as long (at most {most:g}), {memory} MiB"
        f" (at most {most_memory}); {what}; {theirs:.1f} s, {ours:.1f} s",
        flush=True,
    )
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(_inside(Path(sys.argv[2])) if sys.argv[1:2] == ["inside"] else main())
