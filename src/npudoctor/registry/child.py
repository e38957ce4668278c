"""A forked child that does some work and answers over a pipe; all that it starts ends with it.

Between us and the work stands a guardian. It adopts whatever the work leaves behind, daemons too, and kills
it all when the work has ended, when we close our end of a pipe, or when we die.
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

ANSWER_LIMIT = 4 << 20
MEMORY_LIMIT = 2 << 30  # of the work, and of each program that it starts
END_SECONDS = 1.0  # how long killed processes may take to be gone before they are left behind

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


@dataclass
class GuardedChild:
    """The guardian's pid, the pipe with the answer, and the pipe whose end is the guardian's sign."""

    pid: int
    pipe: int
    leash: int

    def answer(self, until: float) -> Optional[dict[str, Any]]:
        """Its answer; None when it ended without one. Ended when the steady clock passes `until`.

        Whatever comes first, it and all that it started are killed afterwards.
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
            with contextlib.suppress(ChildProcessError):
                if not forked.has_ended(self.pid, 1.2 * END_SECONDS):
                    os.kill(self.pid, signal.SIGKILL)
        return answer if isinstance(answer, dict) else None


def start_child(work: Callable[[], dict[str, Any]]) -> GuardedChild:
    """Start the work; call it before any thread is started. OSError when no process can be started."""
    import ctypes

    # Python has no binding of it. Loaded before the fork, so that no child pays for it.
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
    """The guardian: waits for the end of the work, or of us, then ends everything."""
    os.setsid()
    forked.restore_default_signals()
    _keep_only(writing, holding)
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    worker = forked.fork(lambda: _work(work, writing, holding, prctl))
    os.close(writing)
    ended = 0
    while not ended and not wait_until_ready(holding, 0.02):
        ended = os.waitpid(worker, os.WNOHANG)[0]
    _end_all()


def _keep_only(*kept: int) -> None:
    """No terminal to write to, no pipe of a sibling to keep open, no result to spoil."""
    nothing = open_null()
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    for number in inherited_descriptors():
        if number not in kept:
            with contextlib.suppress(OSError):
                os.close(number)


def _work(work: Callable[[], dict[str, Any]], writing: int, holding: int, prctl: Callable[..., int]) -> None:
    me = os.getpid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.close(holding)
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Not RLIMIT_AS: much is only reserved, by runtimes that the work may start.
    _lower_limit(resource.RLIMIT_DATA, MEMORY_LIMIT)
    answer = json.dumps(work()).encode() + b"\n"
    if os.getpid() == me:  # a fork made by the work says nothing
        forked.write(writing, answer)


def _lower_limit(resource_: int, most: int) -> None:
    """Lower a limit; one that is lower already stays. Apart, as a test asks it about limits of its own."""
    soft, hard = resource.getrlimit(resource_)
    infinity = resource.RLIM_INFINITY
    lowest = min(limit for limit in (soft, hard, most) if limit != infinity)
    resource.setrlimit(resource_, (lowest, hard))


def _end_all() -> None:
    """Kill our children until there are none: what they leave behind becomes ours in turn."""
    until = time.monotonic() + END_SECONDS
    with contextlib.suppress(ChildProcessError, OSError):
        while time.monotonic() < until:
            with open("/proc/thread-self/children", encoding="ascii") as file:
                children = [int(pid) for pid in file.read().split()]
            for pid in children:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.001)
