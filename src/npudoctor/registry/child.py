"""A forked child that does some work and answers over a pipe; all processes that it starts end with it.

A guardian process stands between npudoctor and the work. It adopts every process that the work leaves behind,
daemons too, and kills them all when the work has ended, when npudoctor closes its end of a pipe, or dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import time
from dataclasses import dataclass
from typing import Any, Callable, Optional

from npudoctor.checking.check import CheckFailure
from npudoctor.core import forked
from npudoctor.core.descriptors import inherited_descriptors, open_null, wait_until_ready
from npudoctor.core.messages import _
from npudoctor.core.model import Status
from npudoctor.core.parsing import json_of

ANSWER_LIMIT = 4 << 20  # bytes of JSON
MEMORY_LIMIT = 2 << 30  # bytes, for the work and for each program that it starts
END_SECONDS = 1.0  # how long killed processes may take to disappear before they are abandoned

# linux/prctl.h; a subreaper exists since Linux 3.4.
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


@dataclass
class GuardedChild:
    """`pid`: the guardian; `pipe`: gives the answer; `leash`: closing it tells the guardian to end
    everything."""

    pid: int
    pipe: int
    leash: int

    def read_answer(self, until: float) -> Optional[dict[str, Any]]:
        """The answer; None when the child ended without one. Raises Ended at `until` on the monotonic clock.

        Afterwards the child and all that it started are killed, whichever came first.
        """
        try:
            answer = json_of(forked.read_line(self.pipe, until, ANSWER_LIMIT) or b"")
        except forked.Late:
            raise CheckFailure(Status.TIMEOUT, _("no answer in time; its process was killed")) from None
        except ValueError:
            return None
        finally:
            os.close(self.pipe)
            os.close(self.leash)
            # It was reaped already.
            with contextlib.suppress(ChildProcessError):
                # A little longer than the guardian itself waits for its children to disappear.
                if not forked.has_ended(self.pid, 1.2 * END_SECONDS):
                    os.kill(self.pid, signal.SIGKILL)
        return answer if isinstance(answer, dict) else None


def start_child(work: Callable[[], dict[str, Any]]) -> GuardedChild:
    """Start the work in a guarded child. Call it before any thread is started, as it forks.

    Raises OSError when no process can be started.
    """
    import ctypes

    # Python has no binding of prctl. Loaded before the fork, so that not every child has to load ctypes.
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    holding, leash = os.pipe()
    try:
        started = forked.start(lambda writing: _guard(work, writing, holding, prctl))
    except OSError:
        os.close(leash)
        raise
    finally:
        os.close(holding)
    return GuardedChild(started.pid, started.reading, leash)


def _guard(work: Callable[[], dict[str, Any]], writing: int, holding: int, prctl: Callable[..., int]) -> None:
    """The guardian: wait until the work has ended or the leash is closed, then kill everything."""
    # Ctrl-C at the terminal must not end the guardian before the processes that it guards.
    os.setsid()
    forked.restore_default_signals()
    _close_other_descriptors(writing, holding)
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    worker = forked.fork(lambda: _run_work(work, writing, holding, prctl))
    os.close(writing)
    ended_pid = 0
    while not ended_pid and not wait_until_ready(holding, 0.02):
        ended_pid = os.waitpid(worker, os.WNOHANG)[0]
    _end_all()


def _close_other_descriptors(*descriptors: int) -> None:
    """Close all descriptors but these, and point the standard streams to /dev/null.

    The work must not write to the terminal or into our result, nor keep the pipe of a sibling open.
    """
    null = open_null()
    for standard_stream in (0, 1, 2):
        os.dup2(null, standard_stream)
    for number in inherited_descriptors():
        if number not in descriptors:
            # The number may be closed by now.
            with contextlib.suppress(OSError):
                os.close(number)


def _run_work(
    work: Callable[[], dict[str, Any]], writing: int, holding: int, prctl: Callable[..., int]
) -> None:
    own_pid = os.getpid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.close(holding)
    # A kill of its own process group by the work must not reach the guardian.
    os.setsid()
    # A crash of the work is caught and reported; it must not leave core files in the working directory.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Not RLIMIT_AS: Java and Go reserve far more address space than they use. RLIMIT_DATA counts private
    # writable mappings since Linux 4.7.
    _lower_limit(resource.RLIMIT_DATA, MEMORY_LIMIT)
    answer = json.dumps(work()).encode() + b"\n"
    if os.getpid() == own_pid:  # not in a process that the work forked and that returns here, too
        forked.write(writing, answer)


def _lower_limit(resource_: int, most: int) -> None:
    """Lower a soft limit to `most`; a lower one stays. A function of its own for its test."""
    soft, hard = resource.getrlimit(resource_)
    infinity = resource.RLIM_INFINITY
    lowest = min(limit for limit in (soft, hard, most) if limit != infinity)
    resource.setrlimit(resource_, (lowest, hard))


def _end_all() -> None:
    """Kill all children until there are none; their orphans become children of this subreaper in turn.

    waitpid(2) ends the loop: without a child it raises ChildProcessError.
    """
    until = time.monotonic() + END_SECONDS
    with contextlib.suppress(OSError):
        while time.monotonic() < until:
            # This file needs CONFIG_PROC_CHILDREN. On a kernel without it open() fails, and the loop ends:
            # then only the work itself is killed, by PR_SET_PDEATHSIG, and its children may outlive it.
            with open("/proc/thread-self/children", encoding="ascii") as file:
                children = [int(pid) for pid in file.read().split()]
            for pid in children:
                # ESRCH: it has ended by itself.
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.001)
