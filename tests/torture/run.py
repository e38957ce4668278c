"""Rounds of torture, divided among workers in namespaces of their own, and the table of what happened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).parents[2]
UNSHARE = (
    "unshare",
    "-m",
    "-i",
    "-p",
    "-n",
    "-f",
    "--kill-child",
    "--mount-proc",
    "--propagation",
    "private",
)
WORKERS = 2


@dataclass
class Answer:
    """What all rounds came to."""

    seed: str
    rounds: int = 0
    seconds: float = 0.0
    wrongs: list[str] = field(default_factory=list)
    numbers: Counter[str] = field(default_factory=Counter)
    wrong_rounds: int = 0

    def hear(self, told: dict[str, Any]) -> None:
        """One round's line."""
        self.rounds += 1
        self.numbers.update(told["numbers"])
        self.wrongs += [f"round {told['round']}: {wrong}" for wrong in told["wrongs"]]
        self.wrong_rounds += bool(told["wrongs"])

    def table(self) -> str:
        """For a person; how to repeat it comes first."""
        rows = {"rounds": self.rounds, **dict(sorted(self.numbers.items())), "wrong": self.wrong_rounds}
        lines = [f"{what:55} {number:7}" for what, number in rows.items()]
        return "\n".join([f"NPUDOCTOR_SEED={self.seed}", *lines, f"{'seconds':55} {self.seconds:7.0f}"])


def torture(
    seed: str,
    first: int,
    rounds: int,
    workers: int = WORKERS,
    heard: Callable[[Answer], None] = lambda _: None,
) -> Answer:
    """Play these rounds; every one depends on the seed and its number alone."""
    answer, began = Answer(seed), time.monotonic()
    with ExitStack() as stack:
        running = [
            stack.enter_context(_worker(seed, first + index, workers, first + rounds))
            for index in range(min(workers, rounds))
        ]
        for told in _lines([worker for worker, _errors in running]):
            answer.hear(told)
            heard(answer)
        for worker, errors in running:
            if worker.wait(30):
                errors.seek(0)
                answer.wrongs.append(f"a worker ended with {worker.returncode}: {errors.read()[-2000:]}")
    if answer.rounds != rounds:
        answer.wrongs.append(f"{rounds} rounds were asked for, and {answer.rounds} played")
    answer.seconds = time.monotonic() - began
    return answer


@contextmanager
def _worker(seed: str, first: int, step: int, end: int) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    words = [seed, *map(str, (first, step, end))]
    with (
        tempfile.TemporaryDirectory(prefix="npudoctor-torture-") as place,
        tempfile.TemporaryFile("w+") as errors,
    ):
        # Nothing of this shell's settings but the way to programs.
        variables = {"PATH": os.environ["PATH"], "NPUDOCTOR_TORTURE_PLACE": place, "HOME": place}
        command = [*UNSHARE, "--", sys.executable, "-m", "tests.torture.worker", *words]
        worker = subprocess.Popen(
            command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            yield worker, errors
        finally:
            worker.kill()  # all in its pid namespace ends with it
            worker.wait(30)


def _lines(workers: list[subprocess.Popen[str]]) -> Iterator[dict[str, Any]]:
    import selectors

    with selectors.DefaultSelector() as ready:
        for worker in workers:
            assert worker.stdout is not None
            ready.register(worker.stdout, selectors.EVENT_READ)
        while ready.get_map():
            for key, _events in ready.select():
                line = key.fileobj.readline()  # type: ignore[union-attr]
                if line:
                    yield json.loads(line)
                else:
                    ready.unregister(key.fileobj)
