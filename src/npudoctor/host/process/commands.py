"""Runs a program of the machine: no shell, a deadline that holds, bounded output, never an exception."""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Callable, Optional

from npudoctor.core.descriptors import open_null
from npudoctor.core.forked import start_apart
from npudoctor.core.frozen import dataclass
from npudoctor.core.threads import share_work
from npudoctor.host.fs.files import Files
from npudoctor.host.process.rights import Limits, leave_session_keyring, limit_process

if TYPE_CHECKING:
    from npudoctor.core.trust.trees import RootTrust
    from npudoctor.host.startup.program_start import ProgramStart
    from npudoctor.host.users.identity import Account

FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
OUTPUT_LIMIT = 4 << 20
SIDE_BY_SIDE = 16  # questions at the same time: as many as a node has devices
START_SECONDS = 0.5  # how long the end of the run waits for a program that is being started


@dataclass(frozen=True)
class CommandResult:
    """How a program ended.

    `ended`: "exited", "missing", "untrusted", "not-started", "timeout", "flooded" (more output than
    the limit). `status` is the exit status, negative for a signal, None when there is none.
    `left_behind` is the pid of a program that did not die when it was killed. Of an untrusted one `stderr`
    says why root does not start it.
    """

    argv: tuple[str, ...]
    ended: str
    status: Optional[int] = None
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    left_behind: Optional[int] = None

    @property
    def ok(self) -> bool:
        """Whether it ran to its end and said so."""
        return self.ended == "exited" and self.status == 0


# Loaded into whatever is started with them, or into some of what a script starts.
PRELOADING = (
    "LD_PRELOAD", "LD_AUDIT", "GCONV_PATH", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONUSERBASE",
    "PYTHONPYCACHEPREFIX", "PYTHONPLATLIBDIR", "PYTHONBREAKPOINT", "PYTHONWARNINGS", "PERL5LIB", "PERL5OPT",
    "PERLLIB", "RUBYLIB", "RUBYOPT", "NODE_PATH", "NODE_OPTIONS", "OPENSSL_CONF", "OPENSSL_ENGINES",
    "OPENSSL_MODULES", "LOCPATH", "BASH_LOADABLES_PATH", "CDPATH",
)  # fmt: skip
NOWHERE = "/npudoctor/nonexistent"


def first_program(files: Files, folders: Sequence[str], name: str) -> Optional[str]:
    """The path of a program in the first of these folders that has it; relative ones are passed over."""
    for folder in folders:
        path = f"{folder.rstrip('/')}/{name}"
        entry = files.stat(path) if folder.startswith("/") else None
        if entry is not None and entry.is_program:
            return path
    return None


class Commands:
    """The programs of the running machine. Each answer is asked once and kept for all checks."""

    def __init__(
        self,
        files: Files,
        *,
        as_root: bool,
        may_block: Callable[[str], bool] = lambda path: False,
        variables: Optional[Mapping[str, str]] = None,
    ) -> None:
        self._files = files
        self._as_root = as_root
        self._may_block = may_block
        self._variables = dict(variables or {})
        # By pid: the program's name, and when it was started, on the steady clock.
        self._running: dict[int, tuple[str, float]] = {}
        self._starting, self._closed = threading.Lock(), False
        # What else is to be done where the run is broken off, after all that runs was killed.
        self.at_close: list[Callable[[], None]] = []
        self._trust: Optional[RootTrust] = None
        self._start_of: Optional[ProgramStart] = None

    def close(self) -> None:
        """Kill what still runs, with its group, and start nothing more: who asks now was left behind."""
        self._closed = True
        # What is being started is in the list a moment later; a start that hangs is left behind.
        if self._starting.acquire(timeout=START_SECONDS):
            self._starting.release()
        for pid in list(self._running):
            from npudoctor.host.process.child_output import kill_group

            kill_group(pid)
        for clean in list(self.at_close):
            clean()

    def under_way(self) -> list[tuple[str, float]]:
        """The programs that have not ended yet, by name, and for how many seconds; the longest first."""
        now = time.monotonic()
        running = [(name, now - since) for name, since in list(self._running.values())]
        return sorted(running, key=lambda program: -program[1])

    def find(self, name: str) -> Optional[str]:
        """The absolute path of a program in the system's own folders, or None."""
        return first_program(self._files, FOLDERS, name)

    def may_run(self, path: str) -> bool:
        """Whether this user runs a file at all: root only what nobody else could have written."""
        return not self._as_root or self.trusted(path)

    def may_load_from(self, folder: str) -> bool:
        """Whether this user lets a program look for libraries in a folder: root only where all are root's,
        those for some processors below it, too."""
        return not self._as_root or self.trust.why_not_libraries(folder) is None

    def may_import_from(self, folder: str) -> bool:
        """Whether this user lets Python look for packages in a folder: root only where all is root's."""
        return not self._as_root or self.trust.why_not_tree(folder) is None

    def trusted(self, path: str) -> bool:
        """Whether root may run it: the file, all folders and links on the way to it are root's, and nobody
        else may write them (in a sticky folder others touch only their own). So nobody can put another
        file there between this look and the start."""
        return self.trust.why_not(path) is None

    def why_not(self, argv: Sequence[str], variables: Mapping[str, str]) -> Optional[str]:
        """Why root does not start a program, by absolute path, with these variables: anything that its start
        loads could be another user's. None where it may, and for everybody else."""
        if not self._as_root:
            return None
        if argv[0] == sys.executable:  # which has loaded already what it would load, to run us
            return self.trust.why_not(argv[0])
        if self._start_of is None:
            from npudoctor.host.startup.program_start import ProgramStart

            self._start_of = ProgramStart(self._files, self.trust)
        return self._start_of.why_not(argv, variables)

    def path_of(self, folders: Sequence[str]) -> str:
        """These folders as a PATH; for root without those into which others may put programs."""
        absolute = [folder for folder in folders if folder.startswith("/")]
        if not self._as_root:
            return ":".join(absolute)
        there = (folder for folder in absolute if self._files.stat(folder) is not None)
        return ":".join(folder for folder in there if self.trust.why_not_folder(folder) is None)

    def trusted_path(self) -> str:
        """The caller's PATH; for root without the folders into which others may put programs."""
        return self.path_of(self._variables.get("PATH", "").split(":"))

    def narrowed(self, variables: Mapping[str, str]) -> dict[str, str]:
        """These variables as root gives them to a shell: without the folders from which others could have it
        load something. What is dropped from a list leaves NOWHERE there, which tells where it was."""
        if not self._as_root:
            return dict(variables)
        left = {name: value for name, value in variables.items() if name not in PRELOADING}
        for name, may in SEARCHED.items():
            # The loader takes a semicolon, too.
            listed = left.get(name, "").replace(";", ":") if name == "LD_LIBRARY_PATH" else left.get(name, "")
            folders = [folder for folder in listed.split(":") if folder]
            safe = [folder for folder in folders if folder.startswith("/") and may(self, folder)]
            if name in left and safe != left[name].split(":"):
                left[name] = ":".join([*safe, NOWHERE])
        return left

    @property
    def trust(self) -> RootTrust:
        """What root may run or load."""
        if self._trust is None:
            from npudoctor.core.trust.trees import RootTrust  # for root only

            self._trust = RootTrust(self._files)
        return self._trust

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float = 5.0,
        limit: int = OUTPUT_LIMIT,
        variables: Optional[Mapping[str, str]] = None,
        here: bool = False,
        group: bool = False,
        farewell: Optional[int] = None,
        user: Optional[Account] = None,
        limits: Optional[Limits] = None,
    ) -> CommandResult:
        """Run a program given by absolute path, or by a name that is looked up in the system's folders.

        `variables` replace the small clean environment; `here` runs it in the caller's working
        directory instead of "/", where that cannot block. `group`: nothing of its group outlives it, and of
        too much output the middle is dropped. `farewell`: the signal at which it says where it is, before it
        is killed at its deadline. `user`: root starts it as this user, with his rights alone, so that it does
        not matter whose it is. `limits`: its own, by the kernel's names, soft and hard.
        """
        as_asked = tuple(argv)
        path = argv[0] if argv[0].startswith("/") else self.find(argv[0])
        if path is None or (self._as_root and self._files.real(path) is None):
            return CommandResult(as_asked, "missing", 127)
        environment = self._environment() if variables is None else dict(variables)
        why = None if user and user.uid else self.why_not([path, *argv[1:]], environment)
        if why:
            return CommandResult(as_asked, "untrusted", stderr=why)
        command: list[str] = [path, *argv[1:]]
        if self._may_block(path):
            # execve of a file on a dead mount would hang this process before the child is free of it.
            command.insert(0, "/usr/bin/env")
        folder: Optional[str] = "/"
        # None: the child stays where we are, which this user may not be allowed to enter again.
        with suppress(OSError):
            folder = None if here and not self._may_block(os.getcwd()) else "/"
        return self._run(
            as_asked, command, timeout, limit, environment, folder, group, farewell, user, limits
        )

    def _environment(self) -> dict[str, str]:
        clean = {"PATH": self.path_of(FOLDERS), "LC_ALL": "C"}
        for name in ("HOME", "USER"):
            if name in self._variables:
                clean[name] = self._variables[name]
        home = clean.get("HOME", "")
        if self._as_root and home and not self.path_of([home]):
            del clean["HOME"]  # as under sudo -E: what programs read there would be another user's
        return clean

    def _run(
        self,
        as_asked: tuple[str, ...],
        command: list[str],
        timeout: float,
        limit: int,
        environment: dict[str, str],
        folder: Optional[str],
        group: bool = False,
        farewell: Optional[int] = None,
        user: Optional[Account] = None,
        limits: Optional[Limits] = None,
    ) -> CommandResult:
        # Most questions start no program: these two take a tenth of the time of `list`.
        import subprocess

        from npudoctor.host.process.child_output import collect, end

        started = time.monotonic()
        if user and user.uid:
            leave_session_keyring()
        try:
            with self._starting:  # so that close() knows of it
                if self._closed:
                    raise OSError(errno.ECANCELED, os.strerror(errno.ECANCELED))
                # Not DEVNULL: where a container has no /dev/null, every program would seem to be missing.
                with open(open_null(), "rb") as nothing:
                    child = start_apart(
                        command,
                        stdin=nothing,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        env=environment,
                        cwd=folder,
                        # Root is who it is already; in a user namespace it may set no groups.
                        user=user.uid if user and user.uid else None,
                        group=user.gid if user and user.uid else None,
                        extra_groups=user.groups if user and user.uid else None,
                    )
                self._running[child.pid] = (os.path.basename(as_asked[0]), time.monotonic())
                if limits:
                    limit_process(child.pid, limits)
        except (OSError, ValueError) as error:
            missing = isinstance(error, FileNotFoundError)
            return CommandResult(
                as_asked, "missing" if missing else "not-started", 127 if missing else None, stderr=str(error)
            )
        ended, output = collect(child, started + timeout, limit, group=group, farewell=farewell)
        left_behind = end(child, ended)
        self._running.pop(child.pid, None)
        return CommandResult(
            as_asked,
            ended,
            child.returncode if ended == "exited" else None,
            output[0].decode("utf-8", "surrogateescape"),
            output[1].decode("utf-8", "surrogateescape"),
            time.monotonic() - started,
            left_behind,
        )


# The lists by which a shell and what it starts look for more of them.
SEARCHED: Mapping[str, Callable[[Commands, str], bool]] = {
    "PATH": lambda commands, folder: bool(commands.path_of([folder])),
    "LD_LIBRARY_PATH": lambda commands, folder: commands.may_load_from(folder),
    "PYTHONPATH": lambda commands, folder: commands.may_import_from(folder),
}


def side_by_side(questions: Sequence[Callable[[], CommandResult]]) -> list[Optional[CommandResult]]:
    """The answers in the order of the questions, a bounded number at a time; None where asking failed."""
    answers: list[Optional[CommandResult]] = [None] * len(questions)
    left = list(enumerate(questions))

    def work() -> None:
        while left:
            with suppress(Exception):  # another one was faster; or this question failed, and has no answer
                index, question = left.pop(0)
                answers[index] = question()

    share_work(work, min(SIDE_BY_SIDE, len(questions)))
    return answers
