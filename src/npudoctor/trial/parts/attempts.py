"""Asks one thing after the other, and says what came of it, a line of JSON each."""

import sys

# Before anything else is imported: with -c the working directory comes first, which may be anybody's.
sys.path[:] = [folder for folder in sys.path if folder]

import contextlib  # noqa: E402
import errno  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import time  # noqa: E402
from typing import Any, Dict, Iterator  # noqa: E402

QUESTIONS = json.loads(sys.argv[1])
# Whatever becomes of the process that started this, nobody stays: SIGALRM ends who does not heed it.
signal.signal(signal.SIGALRM, signal.SIG_DFL)
signal.alarm(QUESTIONS["seconds"])
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
# Where root started this, it is entered with the rights of the job's user alone, or not at all.
if QUESTIONS.get("folder"):
    with contextlib.suppress(OSError):
        os.chdir(QUESTIONS["folder"])
# Who is killed for memory is this child, before everybody else.
with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
    score.write("1000")


# Those of the job, where another process has them; what is above ours stays out of reach.
for kind, soft, hard in QUESTIONS["limits"]:
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (soft, resource.getrlimit(kind)[1]))
        resource.setrlimit(kind, (soft, hard))


def say(words: Dict[str, Any]) -> None:
    """Write one line at once.

    It begins with a prefix that nothing else in this process knows: the job's variables may have started what
    prints lines of its own.
    """
    os.write(1, (QUESTIONS["prefix"] + json.dumps(words) + "\n").encode())


def refusal(error: Exception) -> Dict[str, Any]:
    """An exception as data: its errno, and what the system or the library says."""
    number = getattr(error, "errno", None)
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    # Python raises it without an errno, also for a refusal of the kernel.
    if isinstance(error, MemoryError):
        number, text = number or errno.ENOMEM, text if str(error) else os.strerror(errno.ENOMEM)
    return {"number": number if isinstance(number, int) else 0, "why": str(text)}


@contextlib.contextmanager
def attempt(action: str, **facts: Any) -> Iterator[Dict[str, Any]]:
    """Try something within the block: an exception is reported, and the next attempt is made. Facts go into
    the dict that it yields.
    """
    say({"try": action})
    since = time.monotonic()
    answer: Dict[str, Any] = {"what": action, "facts": facts}
    try:
        yield facts
    except Exception as error:
        answer.update(refusal(error))
    answer["seconds"] = round(time.monotonic() - since, 6)
    say(answer)


def end() -> None:
    """Report that all was tried, and exit without Python's own clean-up."""
    say({"end": True})
    os._exit(0)


# An abstract name: it needs no file system, and disappears with the socket.
LOCK = "\0npudoctor-trial-{part}-{user}"
LONGEST_LOCK = 3.0  # seconds: eight ranks on a busy machine; whoever holds the name longer is no trial


@contextlib.contextmanager
def one_at_a_time(part: str) -> Iterator[bool]:
    """Hold a lock of this user within the block; yield whether nobody else has it.

    The trials of a user's ranks must not refuse each other what one job gets. The lock is an abstract socket
    name: it goes with its holder, and belongs to the network namespace.
    """
    import socket

    try:
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    except OSError:  # a sandbox that has no such sockets: then without
        yield True
        return
    with lock:
        since, alone = time.monotonic(), False
        while not alone and time.monotonic() - since < LONGEST_LOCK:
            try:
                lock.bind(LOCK.format(part=part, user=os.getuid()))
                alone = True
            except OSError as error:
                # A sandbox refuses it: then without a lock.
                if error.errno != errno.EADDRINUSE:
                    alone = True
                else:
                    time.sleep(0.005)
        yield alone
