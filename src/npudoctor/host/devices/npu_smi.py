"""npu-smi: where it is, what it answers, and how it fails. Each question is asked once for all checks."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Callable, Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.host.devices.driver import folders
from npudoctor.host.devices.npu_tables import Health, Screen, parse_health, parse_info
from npudoctor.host.fs.files import Files
from npudoctor.host.process.commands import FOLDERS, CommandResult, Commands, side_by_side

if TYPE_CHECKING:
    from npudoctor.host.process.processes import Process, Processes

NAME = "npu-smi"
# Parts of the time of one check. A real one takes 1.5 s; the answers must be there before the check's end.
FIRST, SECOND, ALL = 0.55, 0.25, 0.9
OUTPUT = 1 << 20
# Programs that talk to the driver, besides all that have a device node open.
TALKERS = ("npu-smi", "hccn_tool", "msnpureport")
NODES = ("/dev/davinci", "/dev/vdavinci", "/dev/hisi_hdc", "/dev/devmm_svm", "/dev/asdrv_svm")


@dataclass(frozen=True)
class NpuSmiFailure:
    """What an answer without a table complains of.

    `kind`: library, no-card, used, no-rights, no-driver, usage, or code for another one of its codes.
    """

    kind: str
    line: str
    code: Optional[int] = None


@dataclass(frozen=True)
class NpuSmiInfo:
    """The answer to `npu-smi info`. `stuck`: processes at work with the driver that were in state D both
    times when it did not answer. `asked`: how often it was."""

    answer: CommandResult
    screen: Optional[Screen] = None
    failure: Optional[NpuSmiFailure] = None
    stuck: tuple[Process, ...] = ()
    asked: int = 1


def parse_failure(text: str) -> Optional[NpuSmiFailure]:
    """What the tool complains of; None when that is nothing that we know. Its exit status may be 0."""
    library = re.search(r"^.*error while loading shared libraries: ([^\s:]+).*$", text, re.MULTILINE)
    if library:
        return NpuSmiFailure("library", library[0].strip())
    if "There is no NPU card" in text:
        return NpuSmiFailure("no-card", _line(text, "There is no NPU card"))
    code = re.search(r"ret is (-\d+)", text)
    if code:
        number = int(code[1])
        kind = {-8005: "no-driver", -8020: "used", -8002: "no-rights"}.get(number, "code")
        if number == -8005 and "(ret=4)" in text:
            kind = "no-rights"
        return NpuSmiFailure(kind, _line(text, code[0]), number)
    for words in ("Invalid card id", "Error parameter", "Command or option is not found", "Usage: npu-smi"):
        if words in text:
            return NpuSmiFailure("usage", _line(text, words))
    return None


def _line(text: str, words: str) -> str:
    return next(line.strip() for line in text.splitlines() if words in line)


class NpuSmi:
    """The tool of the running machine. Safe for parallel checks: the first that asks waits for all.

    `path`: the caller's folders of programs, none where the variables are of somebody else. `processes` reads
    them again. `timeout`: of one check, in seconds.
    """

    def __init__(
        self,
        files: Files,
        commands: Commands,
        *,
        path: Callable[[], Sequence[str]],
        processes: Callable[[], Processes],
        timeout: float,
    ) -> None:
        self._files, self._commands = files, commands
        self._path, self._processes = path, processes
        self._timeout = timeout
        self._lock = threading.Lock()
        self._locks: dict[tuple[str, ...], threading.Lock] = {}
        self._answers: dict[tuple[str, ...], CommandResult] = {}
        self._look: Optional[NpuSmiInfo] = None
        self._until = time.monotonic() + ALL * timeout
        self._program: Optional[tuple[Optional[str]]] = None

    def program(self) -> Optional[str]:
        """Its path: in the system's folders, in the driver's, or on the caller's PATH; None without one."""
        with self._lock:
            if self._program is None:
                program = self._commands.find(NAME)
                if program is None:
                    drivers = [f"{folder}/tools/{NAME}" for folder in folders(self._files, "driver")]
                    others = [f"{folder}/{NAME}" for folder in self._path() if folder.startswith("/")]
                    runnable = (path for path in (*drivers, *others) if self._runnable(path))
                    # A driver's folder that is closed to us is not "not found": starting it will say so.
                    closed = (path for path in drivers if self._runnable(path) is None)
                    program = next(runnable, None) or next(closed, None)
                self._program = (program,)
            return self._program[0]

    def look(self) -> NpuSmiInfo:
        """What `npu-smi info` says; asked a second time where there was no answer in time."""
        with self._locks.setdefault(("look",), threading.Lock()):
            if self._look is None:
                self._look = self._ask_info()
            return self._look

    def look_again(self) -> NpuSmiInfo:
        """What `npu-smi info` says now, with what is left of the time: for what must be so twice."""
        return _read_answer(self._run(("info",), max(0.1, self._until - time.monotonic())), 1)

    def health(self, chips: Sequence[tuple[int, Optional[int]]]) -> list[Optional[Health]]:
        """What the tool says of each (NPU, chip), asked side by side; None where it says nothing."""
        questions = [
            ("info", "-t", "health", "-i", str(npu), *(() if chip is None else ("-c", str(chip))))
            for npu, chip in chips
        ]
        answers = side_by_side([partial(self.ask, *question) for question in questions])
        return [parse_health(answer.stdout) if answer else None for answer in answers]

    def ask(self, *arguments: str) -> CommandResult:
        """One question, with what is left of the time; asked once, whoever asks."""
        with self._lock:
            lock = self._locks.setdefault(arguments, threading.Lock())
        with lock:
            if arguments not in self._answers:
                left = max(0.1, self._until - time.monotonic())
                self._answers[arguments] = self._run(arguments, left)
            return self._answers[arguments]

    def _ask_info(self) -> NpuSmiInfo:
        answer = self._run(("info",), FIRST * self._timeout)
        if answer.ended != "timeout":
            return _read_answer(answer, 1)
        before = {(process.pid, process.started) for process in self._find_stuck()}
        answer = self._run(("info",), SECOND * self._timeout)
        if answer.ended != "timeout":
            return _read_answer(answer, 2)
        stuck = [process for process in self._find_stuck() if (process.pid, process.started) in before]
        return NpuSmiInfo(answer, stuck=tuple(stuck), asked=2)

    def _find_stuck(self) -> Iterator[Process]:
        """Those at work with the driver that are in state D now. Read each time: a state lasts a moment."""
        now = self._processes()
        for process in now.all().values():
            if process.state != "D":
                continue
            at_work = process.name in TALKERS
            if not at_work:
                opened = now.open_files(process.pid) or ()
                at_work = any(target.startswith(NODES) for _number, target in opened)
            if at_work:
                yield process

    def _run(self, arguments: tuple[str, ...], timeout: float) -> CommandResult:
        program = self.program()
        if program is None:
            return CommandResult((NAME, *arguments), "missing", 127)
        # By its name where it is found by it: so it is asked as the other programs of the machine are.
        name = NAME if program == self._commands.find(NAME) else program
        return self._commands.run(
            [name, *arguments], timeout=timeout, limit=OUTPUT, variables=self._environment()
        )

    def _runnable(self, path: str) -> Optional[bool]:
        """Whether it is a program; None where its folder is closed."""
        try:
            entry = self._files.stat(path)
        except CannotTell:
            return None
        return entry is not None and entry.is_program

    def _environment(self) -> dict[str, str]:
        """A small one with the driver's own libraries, as the driver's own script would set it."""
        libraries = []
        clean = {"PATH": self._commands.path_of(FOLDERS), "LC_ALL": "C"}
        for folder in folders(self._files, "driver"):
            for part in ("lib64/common", "lib64/driver", "lib64"):
                path, entry = f"{folder}/{part}", None
                with suppress(CannotTell):
                    entry = self._files.stat(path)
                if entry is not None and entry.is_dir and self._commands.may_load_from(path):
                    libraries.append(path)
        return {**clean, "LD_LIBRARY_PATH": ":".join(libraries)} if libraries else clean


def _read_answer(answer: CommandResult, asked: int) -> NpuSmiInfo:
    if answer.ended != "exited":
        return NpuSmiInfo(answer, asked=asked)
    screen = parse_info(answer.stdout)
    complaint = None if screen else parse_failure(f"{answer.stdout}\n{answer.stderr}")
    return NpuSmiInfo(answer, screen, complaint, asked=asked)
