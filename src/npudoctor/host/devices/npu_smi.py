"""Finds and asks npu-smi, and recognises how it fails; each question is asked once for all checks."""

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
from npudoctor.host.devices.driver import package_folders
from npudoctor.host.devices.npu_tables import Health, Screen, parse_health, parse_info
from npudoctor.host.fs.files import Files
from npudoctor.host.process.commands import FOLDERS, CommandResult, Commands, run_in_parallel

if TYPE_CHECKING:
    from npudoctor.host.process.processes import Process, Processes

NAME = "npu-smi"
# Of the time of one check: for the first try of `info`, for the second, and for all questions together. On a
# real machine `info` takes 1.5 s.
SHARE_OF_FIRST, SHARE_OF_SECOND, SHARE_OF_ALL = 0.55, 0.25, 0.9
MAX_OUTPUT_BYTES = 1 << 20
# Programs that talk to the driver; others are recognised by an open device node.
DRIVER_TOOLS = ("npu-smi", "hccn_tool", "msnpureport")
NODES = ("/dev/davinci", "/dev/vdavinci", "/dev/hisi_hdc", "/dev/devmm_svm", "/dev/asdrv_svm")


@dataclass(frozen=True)
class NpuSmiFailure:
    """The failure in an answer without a table.

    `kind`: library, no-card, used, no-rights, no-driver, usage, or code for any other code. `line`: the line
    that says it. `code`: the number of `ret is N`, None without one.
    """

    kind: str
    line: str
    code: Optional[int] = None


@dataclass(frozen=True)
class NpuSmiInfo:
    """The answer to `npu-smi info`. `stuck`: processes that use the driver and were in state D after both
    tries, if neither was answered in time. `attempts`: the number of tries."""

    answer: CommandResult
    screen: Optional[Screen] = None
    failure: Optional[NpuSmiFailure] = None
    stuck: tuple[Process, ...] = ()
    attempts: int = 1


def parse_failure(text: str) -> Optional[NpuSmiFailure]:
    """The failure that the tool prints, also with status 0; None if it is none that we know."""
    library = re.search(r"^.*error while loading shared libraries: ([^\s:]+).*$", text, re.MULTILINE)
    if library:
        return NpuSmiFailure("library", library[0].strip())
    if "There is no NPU card" in text:
        return NpuSmiFailure("no-card", _line_with(text, "There is no NPU card"))
    code = re.search(r"ret is (-\d+)", text)
    if code:
        number = int(code[1])
        kind = {-8005: "no-driver", -8020: "used", -8002: "no-rights"}.get(number, "code")
        # -8005 means that the driver is not loaded; with (ret=4), as driver 25.5.2 prints it, that the user
        # is not in the group HwHiAiUser.
        if number == -8005 and "(ret=4)" in text:
            kind = "no-rights"
        return NpuSmiFailure(kind, _line_with(text, code[0]), number)
    for words in ("Invalid card id", "Error parameter", "Command or option is not found", "Usage: npu-smi"):
        if words in text:
            return NpuSmiFailure("usage", _line_with(text, words))
    return None


def _line_with(text: str, words: str) -> str:
    return next(line.strip() for line in text.splitlines() if words in line)


class NpuSmi:
    """npu-smi of the running machine. Thread-safe: the first check asks, others wait for the answer.

    `path()`: the folders of the caller's PATH, none if the variables are another user's. `processes()`: a
    fresh list of processes. `timeout`: of one check, in seconds.
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
        self._read_path, self._read_processes = path, processes
        self._timeout = timeout
        self._lock = threading.Lock()
        self._locks: dict[tuple[str, ...], threading.Lock] = {}
        self._answers: dict[tuple[str, ...], CommandResult] = {}
        self._info: Optional[NpuSmiInfo] = None
        self._until = time.monotonic() + SHARE_OF_ALL * timeout
        self._program: Optional[tuple[Optional[str]]] = None

    def find_program(self) -> Optional[str]:
        """Its path in the system's folders, in the driver's, or on the caller's PATH; None without one."""
        with self._lock:
            if self._program is None:
                program = self._commands.find(NAME)
                if program is None:
                    from_driver = [
                        f"{folder}/tools/{NAME}" for folder in package_folders(self._files, "driver")
                    ]
                    from_path = [f"{folder}/{NAME}" for folder in self._read_path() if folder.startswith("/")]
                    runnable = (path for path in (*from_driver, *from_path) if self._is_runnable(path))
                    # A driver's folder that we may not enter is not "missing": starting the tool says so.
                    unreadable = (path for path in from_driver if self._is_runnable(path) is None)
                    program = next(runnable, None) or next(unreadable, None)
                self._program = (program,)
            return self._program[0]

    def read_info(self) -> NpuSmiInfo:
        """The answer to `npu-smi info`; if none came in time it is asked a second time."""
        with self._locks.setdefault(("look",), threading.Lock()):
            if self._info is None:
                self._info = self._ask_info()
            return self._info

    def read_info_again(self) -> NpuSmiInfo:
        """The answer to `npu-smi info` now, in the time that is left, for checks that look twice."""
        return _read_answer(self._run(("info",), max(0.1, self._until - time.monotonic())), 1)

    def read_health(self, chips: Sequence[tuple[int, Optional[int]]]) -> list[Optional[Health]]:
        """The health of each (NPU, chip), asked in parallel; None if the tool does not say. A chip of None is
        for tools that take no -c."""
        questions = [
            ("info", "-t", "health", "-i", str(npu), *(() if chip is None else ("-c", str(chip))))
            for npu, chip in chips
        ]
        answers = run_in_parallel([partial(self.ask, *question) for question in questions])
        return [parse_health(answer.stdout) if answer else None for answer in answers]

    def ask(self, *arguments: str) -> CommandResult:
        """The answer to one question, in the time that is left; asked once for all checks."""
        with self._lock:
            lock = self._locks.setdefault(arguments, threading.Lock())
        with lock:
            if arguments not in self._answers:
                seconds_left = max(0.1, self._until - time.monotonic())
                self._answers[arguments] = self._run(arguments, seconds_left)
            return self._answers[arguments]

    def _ask_info(self) -> NpuSmiInfo:
        answer = self._run(("info",), SHARE_OF_FIRST * self._timeout)
        if answer.ended != "timeout":
            return _read_answer(answer, 1)
        # State D lasts for a moment in healthy drivers, too: only a process that is in it twice is stuck.
        stuck_before = {(process.pid, process.started) for process in self._find_stuck()}
        answer = self._run(("info",), SHARE_OF_SECOND * self._timeout)
        if answer.ended != "timeout":
            return _read_answer(answer, 2)
        stuck = [process for process in self._find_stuck() if (process.pid, process.started) in stuck_before]
        return NpuSmiInfo(answer, stuck=tuple(stuck), attempts=2)

    def _find_stuck(self) -> Iterator[Process]:
        """Yield the processes that use the driver and are in state D now."""
        processes = self._read_processes()
        for process in processes.by_pid().values():
            if process.state != "D":
                continue
            uses_driver = process.name in DRIVER_TOOLS
            if not uses_driver:
                open_files = processes.open_files(process.pid) or ()
                uses_driver = any(target.startswith(NODES) for _number, target in open_files)
            if uses_driver:
                yield process

    def _run(self, arguments: tuple[str, ...], timeout: float) -> CommandResult:
        program = self.find_program()
        if program is None:
            return CommandResult((NAME, *arguments), "missing", 127)
        # By its name if the system's folders have it, as other programs are run; else by its path.
        name = NAME if program == self._commands.find(NAME) else program
        return self._commands.run(
            [name, *arguments], timeout=timeout, limit=MAX_OUTPUT_BYTES, variables=self._environment()
        )

    def _is_runnable(self, path: str) -> Optional[bool]:
        """Whether a path is a program; None if its folder may not be entered."""
        try:
            entry = self._files.stat(path)
        except CannotTell:
            return None
        return entry is not None and entry.is_program

    def _environment(self) -> dict[str, str]:
        """A small environment with the driver's libraries, as the driver's setenv.bash would set it."""
        libraries = []
        clean = {"PATH": self._commands.join_trusted(FOLDERS), "LC_ALL": "C"}
        for folder in package_folders(self._files, "driver"):
            for part in ("lib64/common", "lib64/driver", "lib64"):
                path, entry = f"{folder}/{part}", None
                with suppress(CannotTell):
                    entry = self._files.stat(path)
                if entry is not None and entry.is_dir and self._commands.may_load_from(path):
                    libraries.append(path)
        return {**clean, "LD_LIBRARY_PATH": ":".join(libraries)} if libraries else clean


def _read_answer(answer: CommandResult, attempts: int) -> NpuSmiInfo:
    if answer.ended != "exited":
        return NpuSmiInfo(answer, attempts=attempts)
    screen = parse_info(answer.stdout)
    failure = None if screen else parse_failure(f"{answer.stdout}\n{answer.stderr}")
    return NpuSmiInfo(answer, screen, failure, attempts=attempts)
