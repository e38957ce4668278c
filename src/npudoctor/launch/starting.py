"""Starts the job with the caller's signals, variables and descriptors; tells why when it cannot."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Mapping, Sequence
from typing import NoReturn

from npudoctor.core import forked
from npudoctor.launch.inherited import InheritedState
from npudoctor.launch.program import explain_start_error, find_program, is_script

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def start_job(command: Sequence[str], variables: Mapping[str, str], inherited: InheritedState) -> int:
    """Start the job; returns its pid. Signals must be blocked before, so that none is lost.

    Raises CannotStart.
    """
    path = find_program(command[0], variables)
    arguments = [os.fsencode(word) for word in command]
    environment = {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
    own_pid = os.getpid()
    pid, reading = forked.start(
        lambda writing: _become_job(os.fsencode(path), arguments, environment, inherited, own_pid, writing)
    )
    # A successful execve closes the child's end of the pipe (O_CLOEXEC), which ends this read.
    with open(reading, "rb") as pipe:
        message = pipe.read()
    if message:
        os.waitpid(pid, 0)
        raise explain_start_error(path, int(message))
    return pid


def _become_job(
    path: bytes,
    arguments: list[bytes],
    environment: dict[bytes, bytes],
    inherited: InheritedState,
    parent: int,
    writing: int,
) -> NoReturn:
    """In the child: become the job by execve, or write the errno into the pipe and exit."""
    number = errno.EINVAL
    try:
        # The job gets SIGTERM when npudoctor is killed: a job that nobody waits for would keep the devices.
        # Not SIGKILL, so that a launcher can end its workers.
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes  # here and not in the parent, which stays small

            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        # npudoctor died before prctl: no signal will come.
        if os.getppid() != parent:
            os._exit(128 + signal.SIGTERM)
        inherited.restore()
        try:
            os.execve(path, arguments, environment)  # noqa: S606  (what we are for)
        except OSError as error:
            if error.errno != errno.ENOEXEC or not is_script(path):
                raise
            # A script without #!: execvp and shells run it by /bin/sh.
            script = [b"/bin/sh", path, *arguments[1:]]
            os.execve(b"/bin/sh", script, environment)  # noqa: S606
    except OSError as error:
        number = error.errno or number
    finally:
        os.write(writing, b"%d" % number)
        os._exit(126)
