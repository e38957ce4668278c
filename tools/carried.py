"""The wheels that npudoctor carries to machines without an index, as tools/locked pins them.

`make locked` writes the pins: one version and its hashes for each Python. What a build carries thus hangs on
the commit alone, not on the day, and nothing but what was pinned reaches a node, where root runs it. pip
judges markers by the Python that runs it, so they are judged here, for the one that is meant.
"""

from __future__ import annotations

import atexit
import functools
import json
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from packaging.requirements import Requirement

LOCKED = Path(__file__).resolve().parent / "locked"
MACHINES = ("x86_64", "aarch64")
# The oldest C library first: of two wheels that fit, the one that fits more machines.
PLATFORMS = ("manylinux2014", "manylinux_2_17", "manylinux_2_24", "manylinux_2_28")

# Reads the words of a pip from each line, and answers with its exit status. A pip is a fork of a process that
# has loaded it: to load pip takes three times as long as to download with it.
PIPS = """
import importlib, json, os, runpy, sys
for name in ("cli.main", "cli.main_parser", "commands.download", "resolution.resolvelib.resolver"):
    try:
        importlib.import_module("pip._internal." + name)
    except ImportError:  # of another pip: each loads it then
        pass
for line in sys.stdin:
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)  # ours is for the answers
        sys.argv = ["pip", *json.loads(line)]
        runpy.run_module("pip", run_name="__main__")
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def environment(python: str, machine: str) -> dict[str, str]:
    """What markers ask about CPython of this version ("3.9") on this machine; no extra is asked for."""
    return {
        "extra": "",
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
    }


def pins(name: str, python: str, machine: str) -> list[str]:
    """The lines of tools/locked/NAME.txt that are meant for this Python on this machine."""
    chosen = []
    for line in (LOCKED / f"{name}.txt").read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        wanted, *hashes = line.split(" --hash=")
        pinned = Requirement(wanted)
        if pinned.marker is None or pinned.marker.evaluate(environment(python, machine)):
            options = "".join(f" --hash={one.strip()}" for one in hashes)
            chosen.append(f"{pinned.name}{pinned.specifier}{options}")
    return chosen


def download(name: str, python: str, machine: str, folder: Path, leave_out: Collection[str] = ()) -> None:
    """The wheels of these pins into a folder; ends with pip's words when one is missing or is another."""
    wanted = folder / "wanted.txt"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [line for line in pins(name, python, machine) if line.split("==")[0] not in leave_out]
    wanted.write_text("\n".join(lines) + "\n", encoding="utf-8")
    platforms = [word for tag in PLATFORMS for word in ("--platform", f"{tag}_{machine}")]
    run_pip(
        "download", "-qqq", "--no-deps", "--require-hashes", "--only-binary=:all:",
        "--implementation", "cp", "--python-version", python, *platforms,
        "--dest", str(folder), "--requirement", str(wanted),
    )  # fmt: skip
    wanted.unlink()


def run_pip(*words: str) -> None:
    """Run `pip WORDS`; CalledProcessError where it fails."""
    pips = _loaded_pip()
    assert pips.stdin and pips.stdout
    pips.stdin.write(json.dumps(words) + "\n")
    pips.stdin.flush()
    status = pips.stdout.readline()
    if status != "0\n":
        raise subprocess.CalledProcessError(int(status or "1"), ["pip", *words])


@functools.cache
def _loaded_pip() -> subprocess.Popen[str]:
    """PIPS, until this process ends."""
    pips = subprocess.Popen(
        [sys.executable, "-c", PIPS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(pips.communicate)
    return pips
