"""Runs programs of the machine: without a shell, with a deadline and bounded output; never raises."""

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

# The PATH that Debian and others give root; not the caller's, which others may write to.
FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
OUTPUT_LIMIT = 4 << 20
MAX_PARALLEL = 16  # programs at the same time: as many as the largest nodes have devices
START_SECONDS = 0.5  # how long close() waits for a program that is being started


@dataclass(frozen=True)
class CommandResult:
    """How a program ended, and what it printed.

    `ended`: "exited", "missing", "untrusted", "not-started", "timeout", "flooded" (more output than the
    limit). `status`: the exit status, negative for a signal, None if there is none. `seconds`: how long it
    ran. `left_behind`: the pid of a program that did not die when it was killed, else None. For an untrusted
    program `stderr` says why root does not start it.
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
        """Whether the program exited with status 0."""
        return self.ended == "exited" and self.status == 0


# Variables by which code is loaded into a program, or into something that a script may start.
PRELOADING_VARIABLES = (
    "LD_PRELOAD", "LD_AUDIT", "GCONV_PATH", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONUSERBASE",
    "PYTHONPYCACHEPREFIX", "PYTHONPLATLIBDIR", "PYTHONBREAKPOINT", "PYTHONWARNINGS", "PERL5LIB", "PERL5OPT",
    "PERLLIB", "RUBYLIB", "RUBYOPT", "NODE_PATH", "NODE_OPTIONS", "OPENSSL_CONF", "OPENSSL_ENGINES",
    "OPENSSL_MODULES", "LOCPATH", "BASH_LOADABLES_PATH", "CDPATH",
)  # fmt: skip
DROPPED_FOLDERS = "/npudoctor/nonexistent"


def find_program(files: Files, folders: Sequence[str], name: str) -> Optional[str]:
    """The path of a program in the first of these folders that has it; None if none has. Relative folders
    are skipped."""
    for folder in folders:
        path = f"{folder.rstrip('/')}/{name}"
        entry = files.stat(path) if folder.startswith("/") else None
        if entry is not None and entry.is_program:
            return path
    return None


class Commands:
    """Finds and starts programs of the running machine; as root only those that root may trust.

    `may_block(path)`: whether a path lies on a mount that may hang. `variables`: those of the caller.
    """

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
        # By pid: the program's name, and its start in seconds of the monotonic clock.
        self._running: dict[int, tuple[str, float]] = {}
        self._starting, self._closed = threading.Lock(), False
        # Called by close(), after the running programs were killed.
        self.at_close: list[Callable[[], None]] = []
        self._trust: Optional[RootTrust] = None
        self._program_start: Optional[ProgramStart] = None

    def close(self) -> None:
        """Kill what still runs, with its group, and start nothing more.

        A check that starts a program after this is one that the run no longer waits for.
        """
        self._closed = True
        # A program that is being started is in `_running` once the lock is free; one whose start hangs, as
        # execve on a dead mount does, is left behind.
        if self._starting.acquire(timeout=START_SECONDS):
            self._starting.release()
        for pid in list(self._running):
            from npudoctor.host.process.child_output import kill_group

            kill_group(pid)
        for clean in list(self.at_close):
            clean()

    def list_running(self) -> list[tuple[str, float]]:
        """The names of the programs that run, and for how many seconds they have; the longest first."""
        now = time.monotonic()
        running = [(name, now - since) for name, since in list(self._running.values())]
        return sorted(running, key=lambda program: -program[1])

    def find(self, name: str) -> Optional[str]:
        """The absolute path of a program in the system's folders; None if it is in none of them."""
        return find_program(self._files, FOLDERS, name)

    def may_run(self, path: str) -> bool:
        """Whether this user may run a file: root only one that nobody else could have written."""
        return not self._as_root or self.is_trusted(path)

    def may_load_from(self, folder: str) -> bool:
        """Whether a program may look for libraries in a folder: for root only if all of them are root's.

        This includes subfolders for certain processors (glibc-hwcaps).
        """
        return not self._as_root or self.trust.why_not_libraries(folder) is None

    def may_import_from(self, folder: str) -> bool:
        """Whether Python may look for packages in a folder: for root only if everything in it is root's."""
        return not self._as_root or self.trust.why_not_tree(folder) is None

    def is_trusted(self, path: str) -> bool:
        """Whether root may run a file: it and all folders and links on the way belong to root, and nobody
        else may write to them (in a sticky folder others only touch their own entries). Then nobody can swap
        the file between this look and the start."""
        return self.trust.why_not(path) is None

    def why_untrusted(self, argv: Sequence[str], variables: Mapping[str, str]) -> Optional[str]:
        """Why root must not start a program (argv[0] is absolute) with these variables, as a sentence.

        None if everything that its start loads is root's, and always for other users.
        """
        if not self._as_root:
            return None
        if argv[0] == sys.executable:  # its libraries and site-packages are loaded already: they run us
            return self.trust.why_not(argv[0])
        if self._program_start is None:
            from npudoctor.host.startup.program_start import ProgramStart

            self._program_start = ProgramStart(self._files, self.trust)
        return self._program_start.why_untrusted(argv, variables)

    def join_trusted(self, folders: Sequence[str]) -> str:
        """The absolute ones of these folders as a PATH; for root without those that others may write to."""
        absolute = [folder for folder in folders if folder.startswith("/")]
        if not self._as_root:
            return ":".join(absolute)
        existing = (folder for folder in absolute if self._files.stat(folder) is not None)
        return ":".join(folder for folder in existing if self.trust.why_not_folder(folder) is None)

    def trusted_path(self) -> str:
        """The caller's PATH; for root without the folders that others may write to."""
        return self.join_trusted(self._variables.get("PATH", "").split(":"))

    def narrow_variables(self, variables: Mapping[str, str]) -> dict[str, str]:
        """These variables as root may give them to a shell; unchanged for other users.

        Folders that others may write to are dropped from search paths, with DROPPED_FOLDERS in their place:
        so the caller can put them back where they were.
        """
        if not self._as_root:
            return dict(variables)
        narrowed_variables = {
            name: value for name, value in variables.items() if name not in PRELOADING_VARIABLES
        }
        for name, may in TRUST_BY_SEARCH_PATH.items():
            # ld.so(8): entries of LD_LIBRARY_PATH are separated by colons or semicolons.
            entries = (
                narrowed_variables.get(name, "").replace(";", ":")
                if name == "LD_LIBRARY_PATH"
                else narrowed_variables.get(name, "")
            )
            folders = [folder for folder in entries.split(":") if folder]
            safe = [folder for folder in folders if folder.startswith("/") and may(self, folder)]
            if name in narrowed_variables and safe != narrowed_variables[name].split(":"):
                narrowed_variables[name] = ":".join([*safe, DROPPED_FOLDERS])
        return narrowed_variables

    @property
    def trust(self) -> RootTrust:
        """The judge of what root may run or load."""
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
        in_working_directory: bool = False,
        group: bool = False,
        farewell: Optional[int] = None,
        user: Optional[Account] = None,
        limits: Optional[Limits] = None,
    ) -> CommandResult:
        """Run a program given by absolute path, or by a name that is looked up in the system's folders.

        - `timeout`: in seconds; the program is killed after it.
        - `limit`: bytes of output on one pipe.
        - `variables`: its whole environment, instead of the small clean one.
        - `in_working_directory`: run it where the caller is instead of in "/", unless that may block.
        - `group`, `farewell`: as of collect_output.
        - `user`: root starts it with this user's rights alone; it need not be trusted then.
        - `limits`: its limits by the kernel's names, as (soft, hard).
        """
        requested_argv = tuple(argv)
        path = argv[0] if argv[0].startswith("/") else self.find(argv[0])
        if path is None or (self._as_root and self._files.real(path) is None):
            # 127 is what a shell says of a command that it does not find.
            return CommandResult(requested_argv, "missing", 127)
        environment = self._environment() if variables is None else dict(variables)
        why_untrusted = None if user and user.uid else self.why_untrusted([path, *argv[1:]], environment)
        if why_untrusted:
            return CommandResult(requested_argv, "untrusted", stderr=why_untrusted)
        command: list[str] = [path, *argv[1:]]
        if self._may_block(path):
            # Popen waits until the child's execve is done, which on a dead mount never returns. env is on
            # the root file system, and only its own execve hangs.
            command.insert(0, "/usr/bin/env")
        folder: Optional[str] = "/"
        # None: the child inherits our working directory, which it might not be allowed to enter by its path.
        with suppress(OSError):
            folder = None if in_working_directory and not self._may_block(os.getcwd()) else "/"
        return self._start_and_collect(
            requested_argv, command, timeout, limit, environment, folder, group, farewell, user, limits
        )

    def _environment(self) -> dict[str, str]:
        clean = {"PATH": self.join_trusted(FOLDERS), "LC_ALL": "C"}
        for name in ("HOME", "USER"):
            if name in self._variables:
                clean[name] = self._variables[name]
        home = clean.get("HOME", "")
        if self._as_root and home and not self.join_trusted([home]):
            del clean["HOME"]  # sudo -E keeps the caller's HOME: root would read another user's settings
        return clean

    def _start_and_collect(
        self,
        requested_argv: tuple[str, ...],
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
        # Imported here: most runs start no program, and these two take a tenth of the time of `list`.
        import subprocess

        from npudoctor.host.process.child_output import collect_output, end_child

        started = time.monotonic()
        if user and user.uid:
            leave_session_keyring()
        try:
            with self._starting:  # so that close() knows of it
                if self._closed:
                    raise OSError(errno.ECANCELED, os.strerror(errno.ECANCELED))
                # Not DEVNULL: in a container without /dev/null Popen would raise FileNotFoundError, as if
                # the program were missing.
                with open(open_null(), "rb") as null_input:
                    child = start_apart(
                        command,
                        stdin=null_input,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        env=environment,
                        cwd=folder,
                        # For uid 0 nothing is set: in a user namespace setgroups(2) may be denied.
                        user=user.uid if user and user.uid else None,
                        group=user.gid if user and user.uid else None,
                        extra_groups=user.groups if user and user.uid else None,
                    )
                self._running[child.pid] = (os.path.basename(requested_argv[0]), time.monotonic())
                if limits:
                    limit_process(child.pid, limits)
        except (OSError, ValueError) as error:
            is_missing = isinstance(error, FileNotFoundError)
            return CommandResult(
                requested_argv,
                "missing" if is_missing else "not-started",
                127 if is_missing else None,
                stderr=str(error),
            )
        ended, output = collect_output(child, started + timeout, limit, group=group, farewell=farewell)
        left_behind = end_child(child, ended)
        self._running.pop(child.pid, None)
        return CommandResult(
            requested_argv,
            ended,
            child.returncode if ended == "exited" else None,
            output[0].decode("utf-8", "surrogateescape"),
            output[1].decode("utf-8", "surrogateescape"),
            time.monotonic() - started,
            left_behind,
        )


# The search paths of a shell and of what it starts, with the rule that says whether a folder may stay in one.
TRUST_BY_SEARCH_PATH: Mapping[str, Callable[[Commands, str], bool]] = {
    "PATH": lambda commands, folder: bool(commands.join_trusted([folder])),
    "LD_LIBRARY_PATH": lambda commands, folder: commands.may_load_from(folder),
    "PYTHONPATH": lambda commands, folder: commands.may_import_from(folder),
}


def run_in_parallel(questions: Sequence[Callable[[], CommandResult]]) -> list[Optional[CommandResult]]:
    """Run questions in threads, at most MAX_PARALLEL at once; results in their order, None if one raised."""
    answers: list[Optional[CommandResult]] = [None] * len(questions)
    unasked = list(enumerate(questions))

    def work() -> None:
        while unasked:
            with suppress(Exception):  # another one was faster; or this question failed, and has no answer
                index, question = unasked.pop(0)
                answers[index] = question()

    share_work(work, min(MAX_PARALLEL, len(questions)))
    return answers
