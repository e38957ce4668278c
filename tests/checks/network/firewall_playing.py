"""Scenes of firewalls for the tests that have real rules: a program plays them, and stays for the next."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable

TRIES = "nft add table inet t && iptables -L && iptables-legacy -L && ip link add a0 type veth peer name b0"
PROGRAMS = ("nft", "iptables", "iptables-legacy", "ip", "unshare")

# What each of the scenes told, in their order; the reason as "failed" where it could not be played.
Play = Callable[[Sequence[object]], "list[dict[str, Any]]"]


def lacking() -> str:
    """Why no rules can be set here; empty where they can."""
    argv = ["unshare", "--net", "sh", "-c", TRIES]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return f"this kernel has no firewall to try: {done.stderr.strip()}" if done.returncode else ""


@contextmanager
def playing(name: str) -> Iterator[Play]:
    """The program of this name beside us."""
    argv = [sys.executable, str(Path(__file__).with_name(name))]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None and program.stdout is not None
        asks, answers = program.stdin, program.stdout

        def play(scenes: Sequence[object]) -> list[dict[str, Any]]:
            asks.write(json.dumps(list(scenes)) + "\n")
            asks.flush()
            told: list[dict[str, Any]] = json.loads(answers.readline())
            return told

        yield play
