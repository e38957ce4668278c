"""Starts the job: everything as the caller had it, and the reason when it cannot be."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Mapping, Sequence
from typing import NoReturn

from npudoctor.core import forked
from npudoctor.launch.inherited import InheritedState
from npudoctor.launch.program import find_program, is_script, start_error

PR_SET_PDEATHSIG = 1


def start_job(command: Sequence[str], variables: Mapping[str, str], inherited: InheritedState) -> int:
    """The pid of the job. Signals must be held before, so that none is lost. CannotStart."""
    path = find_program(command[0], variables)
    arguments = [os.fsencode(word) for word in command]
    environment = {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
    us = os.getpid()
    pid, reading = forked.start(
        lambda writing: _become(os.fsencode(path), arguments, environment, inherited, us, writing)
    )
    # The child's end of the pipe is closed by a successful execve.
    with open(reading, "rb") as pipe:
        message = pipe.read()
    if message:
        os.waitpid(pid, 0)
        raise start_error(path, int(message))
    return pid


def _become(
    path: bytes,
    arguments: list[bytes],
    environment: dict[bytes, bytes],
    inherited: InheritedState,
    parent: int,
    writing: int,
) -> NoReturn:
    """In the child: become the job, or tell the errno."""
    number = errno.EINVAL
    try:
        # Let the job get SIGTERM when we are killed: a job that nobody waits for would keep the devices.
        # SIGTERM and not SIGKILL, so that a launcher can end its workers.
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes  # here and not in the parent, which stays small

            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(128 + signal.SIGTERM)
        inherited.restore()
        try:
            os.execve(path, arguments, environment)  # noqa: S606  (what we are for)
        except OSError as error:
            if error.errno != errno.ENOEXEC or not is_script(path):
                raise
            # As execvp and every shell do.
            script = [b"/bin/sh", path, *arguments[1:]]
            os.execve(b"/bin/sh", script, environment)  # noqa: S606
    except OSError as error:
        number = error.errno or number
    finally:
        os.write(writing, b"%d" % number)
        os._exit(126)
