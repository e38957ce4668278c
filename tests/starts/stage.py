"""Sets a machine up in namespaces of its own, and runs one command there as its job would run."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .machine import JOBS, OTHER, TRAINER, Machine

HERE = Path(__file__).resolve().parent
UNSHARE = (
    "unshare --mount --net --ipc --pid --uts --fork --kill-child --mount-proc --propagation private".split()
)
NOT_SET_UP = 97
GROUPS = Path("/sys/fs/cgroup")
TELLING = re.compile(
    r"error|exception|refused|denied|cannot|can't|failed|no space|killed|unable", re.IGNORECASE
)
NOISE = re.compile("hostname of the client socket|Distributed job exited")
RAISED = re.compile(r"^(\[rank\d\]: )?[\w.]*(Error|Exception)\b( \(.*\))?:")


class Unavailable(Exception):
    """The machine cannot be set up here; says why."""


@dataclass(frozen=True)
class Ended:
    """What became of a command on a machine."""

    # None: it was still running when its time was over.
    status: int | None
    output: str
    errors: str
    seconds: float

    @property
    def started(self) -> bool:
        """As a job: did it end well, and did every rank say so?"""
        return self.status == 0 and all(f"STARTED rank {rank}" in self.output for rank in (0, 1))

    @property
    def first_error(self) -> str:
        """The first line that tells of an error, else the last one."""
        words = f"{self.errors}\n{self.output}".splitlines()
        lines = [line.strip() for line in words if line.strip() and not NOISE.search(line)]
        telling = [line for line in lines if RAISED.search(line)] or [
            line for line in lines if TELLING.search(line)
        ]
        end = "no end" if self.status is None else f"status {self.status}"
        return f"{end}: {(telling or lines[-1:] or ['no words'])[0]}"[:160]


def run(machine: Machine, cache: Path, words: tuple[str, ...], seconds: float = 60) -> Ended:
    """Set it up and run this command there; whatever lives then ends with the namespaces."""
    missing = [program for program in machine.needs if shutil.which(program) is None]
    if missing:
        raise Unavailable(f"no {', '.join(missing)} here")
    with contextlib.ExitStack() as stack:
        groups = stack.enter_context(_groups(machine))
        script = f"trap 'exit {NOT_SET_UP}' EXIT\n. {HERE}/base.sh\n{_script(machine, cache, words, groups)}"
        begun = time.monotonic()
        # Pipes, which no limit of the machine's files touches; they end with the namespaces.
        process = stack.enter_context(
            subprocess.Popen(
                ["timeout", "--signal=KILL", f"{seconds + 30}", *UNSHARE, "/bin/sh", "-c", script],
                env={"CACHE": str(cache), "USER_ID": str(TRAINER), "OTHER_ID": str(OTHER)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        )
        stack.callback(_end, process)
        try:
            output, errors = process.communicate(timeout=seconds)
            status: int | None = process.returncode
        except subprocess.TimeoutExpired:
            _end(process)
            output, errors = process.communicate()
            status = None
        ended = Ended(status, output, errors, time.monotonic() - begun)
    if ended.status == NOT_SET_UP:
        raise Unavailable(f"not set up: {ended.errors.strip()}")
    return ended


def _script(machine: Machine, cache: Path, words: tuple[str, ...], groups: list[Path]) -> str:
    """What follows the healthy machine: its changes, and the command in place."""
    changes = "\n".join(machine.setup)
    entering = "\n".join(f"echo 0 >{shlex.quote(str(group))}/cgroup.procs" for group in groups)
    return (
        f"{changes}\n"
        f"trap - EXIT\nset +e\n({entering}\nexec {shlex.join(_command(machine, cache, words))})\nstatus=$?\n"
        "tail -qc 20000 msrun_log/*.log worker_*.log scheduler.log 2>/dev/null\nexit $status\n"
    )


def _command(machine: Machine, cache: Path, words: tuple[str, ...]) -> list[str]:
    """As this user, with these variables, limits and refusals."""
    job = JOBS[machine.job]
    paths = [str(cache / job.environment / "bin")] if job.environment else []
    home, number = ("/root", 0) if machine.user == "root" else ("/home/trainer", TRAINER)
    variables = {
        "PATH": ":".join([*paths, str(cache / "bin"), "/usr/bin", "/bin"]), "HOME": home, "LANG": "C.UTF-8",
        "USER": machine.user, "JOBS": str(cache / "jobs"), "PYTHONDONTWRITEBYTECODE": "1",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", **machine.variables,
    }  # fmt: skip
    told = (f"{name}={value.replace('$CACHE', str(cache))}" for name, value in variables.items())
    command = ["env", "-i", *told]
    command += [
        "/usr/bin/setpriv",
        f"--reuid={number}",
        f"--regid={number}",
        "--clear-groups",
        *machine.privileges,
    ]
    if machine.refused:
        command += ["/usr/bin/python3", "-I", str(cache / "refuse.py"), *machine.refused, "--"]
    if machine.limits:
        command += ["/usr/bin/prlimit", *machine.limits]
    return [*command, *machine.wrapper, *words]


@contextlib.contextmanager
def _groups(machine: Machine) -> Iterator[list[Path]]:
    """Control groups of its own, below the one that this process is in; gone afterwards."""
    made: dict[str, Path] = {}
    try:
        try:
            for setting, value in machine.group.items():
                controller, _slash, file = setting.partition("/")
                if controller not in made:
                    group = _own_group(controller) / f"npudoctor-starts-{os.getpid()}"
                    group.mkdir()
                    made[controller] = group
                (made[controller] / file).write_text(value)
        except OSError as error:
            raise Unavailable(f"control group: {error}") from error
        yield list(made.values())
    finally:
        for group in made.values():
            _remove(group)


def _own_group(controller: str) -> Path:
    """Where this process is, in the hierarchy of this controller (control groups of version 1)."""
    for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
        _number, controllers, path = line.split(":", 2)
        if controller in controllers.split(",") and (GROUPS / controller).is_dir():
            return GROUPS / controller / path.lstrip("/")
    raise Unavailable(f"no control groups of {controller} here")


def _remove(group: Path) -> None:
    """Once the last process has left it."""
    for _ in range(100):
        try:
            group.rmdir()
            return
        except OSError:
            time.sleep(0.1)


def _end(process: subprocess.Popen[str]) -> None:
    """End unshare, with it pid 1 of the namespaces, and with it all."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
