"""One of the two commands of a promise: how it is started, and what its runs gave."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.environments import Workshop
from benchmarks.npu_machine import NpuMachine
from benchmarks.promise import CannotMeasureError, Command, Output
from benchmarks.timing import SYSTEM_PATH, seconds_of


class Side:
    """A command in its environment, on this machine or on the given one, with the figures so far."""

    def __init__(
        self, command: Command, workshop: Workshop, machine: NpuMachine | None, job: Path | None = None
    ) -> None:
        self.command = command
        self.machine = machine
        self.home = workshop.environment(command.install)
        program = command.argv[0]
        self.argv = [program if program.startswith("/") else self.home.program(program), *command.argv[1:]]
        self.path = f"{job or workshop.job}:{SYSTEM_PATH}"
        self.scratch = workshop.scratch
        self.statuses: Counter[int] = Counter()
        self.milliseconds: list[float] = []

    def run(self) -> Output:
        """Once, from a new empty folder, with the same few variables for both sides."""
        user = self.scratch / "home"
        user.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            variables = {"PATH": self.path, "HOME": str(user), "LANG": "C.UTF-8"}
            enter = partial(self.machine.enter, Path(folder)) if self.machine else None
            seconds, output = seconds_of(self.argv, variables, Path(folder), enter)
        if self.machine:
            output = replace(output, calls=self.machine.calls())
        if output.status not in self.command.statuses:
            lines = (output.stderr or output.stdout).decode(errors="replace").strip().splitlines()
            said = lines[-1] if lines else "it said nothing"
            raise CannotMeasureError(f"{self.command.line}: unexpected status {output.status}: {said}")
        self.statuses[output.status] += 1
        self.milliseconds.append((seconds.wall if self.machine else seconds.cpu) * 1000)
        return output

    def forget(self) -> None:
        """Warm-ups do not count."""
        self.statuses.clear()
        self.milliseconds.clear()
