"""Processes, threads and descriptors as the ranks of a node have them: all at once, held until counted.

They are forked here, as `core.forked` is not in the job's interpreter, and that they live is the answer.
"""

import errno
import json
import os
import signal
from typing import Any, Callable, Dict, List, Tuple

from npudoctor.trial.parts.attempts import QUESTIONS, attempt, end, one_at_a_time

RANKS, THREADS, DESCRIPTORS = QUESTIONS["ranks"], QUESTIONS["threads"], QUESTIONS["descriptors"]
# Python 3.8 has no pidfd_open. The number is the same on all machines of this century.
PIDFD_OPEN = 434
# prctl(2): the kernel sends this signal when the parent ends.
PR_SET_PDEATHSIG = 1


def refuse(number: int) -> None:
    raise OSError(number, os.strerror(number))


def first_line(path: str) -> str:
    try:
        with open(path) as file:
            return file.readline().strip()
    except OSError:
        return ""


def count_usage() -> Dict[str, Any]:
    """The limits that may have refused, each with what is used of it, while all that was granted is still
    held.
    """
    facts: Dict[str, Any] = {"groups": []}
    for folder in QUESTIONS["groups"]:
        current, most = (first_line(folder + "/pids." + name) for name in ("current", "max"))
        if current.isdigit() and most.isdigit():
            facts["groups"].append([folder, int(current), int(most)])
    # RLIMIT_NPROC counts the threads of all processes of a user (getrlimit(2)).
    own = thread_count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            tasks = len(os.listdir("/proc/" + name + "/task"))
            own += tasks * (os.stat("/proc/" + name).st_uid == os.getuid())
            thread_count += tasks
        except OSError:
            continue  # it ended
    facts.update(own=own, seen=thread_count)
    everybody = first_line("/proc/loadavg").split()
    if len(everybody) > 3:
        facts["all"] = int(everybody[3].partition("/")[2])
    for name in ("threads-max", "pid_max"):
        most = first_line("/proc/sys/kernel/" + name)
        if most.isdigit():
            facts[name] = int(most)
    return facts


def read_limits() -> Dict[str, List[int]]:
    """The soft and the hard limits of this process, by the option of ulimit; -1 for none."""
    import resource

    kinds = {"-t": "CPU", "-u": "NPROC", "-n": "NOFILE", "-v": "AS", "-s": "STACK"}
    return {
        flag: list(resource.getrlimit(getattr(resource, "RLIMIT_" + kind))) for flag, kind in kinds.items()
    }


def load_libc() -> Any:
    """The C library; None where this Python has no ctypes."""
    try:
        import ctypes

        return ctypes.CDLL(None, use_errno=True)
    except (ImportError, OSError):
        return None


LIBC = load_libc()


def thread_starter() -> Callable[[], int]:
    """A function that starts a thread as a framework's own code does, and returns an errno; the thread
    sleeps, and never runs any Python.

    Made before the ranks are: each would copy the pages that it takes.
    """
    if LIBC is None:
        import _thread

        # Not given back before this process ends.
        gate = _thread.allocate_lock()
        gate.acquire()
        return lambda: 0 * _thread.start_new_thread(gate.acquire, ())
    import ctypes

    thread = ctypes.c_void_p()
    start = LIBC.pthread_create
    start.argtypes = [ctypes.c_void_p] * 4
    arguments = ctypes.byref(thread), None, ctypes.cast(LIBC.pause, ctypes.c_void_p), None
    return lambda: int(start(*arguments))


start_thread = thread_starter()


def has_room_for_stack() -> bool:
    """Return whether the address space has room for another stack: pthread_create says EAGAIN for
    that too.
    """
    import mmap
    import resource

    size = resource.getrlimit(resource.RLIMIT_STACK)[0]
    try:
        # Without a limit glibc takes 2 MiB on most machines.
        mmap.mmap(-1, size if 0 < size < 1 << 40 else 2 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (OSError, ValueError):
        return False
    return True


def run_rank(parent: int, start: int, gate: int, answers: int, first: bool) -> None:
    """Be one rank: take what a rank takes, report how far it came, and end when the gate is closed, also
    because its holder was killed. Only the `first` opens files: their limit holds for each process.

    `start`: read before anything is taken, as a rank that begins at once takes with its threads what the next
    rank needs: under a tight pids.max, sometimes a process was refused, and sometimes a thread.
    """
    signal.alarm(QUESTIONS["seconds"])  # a fork has none of its parent's
    if LIBC is not None:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent ended before prctl was called.
    if os.getppid() != parent:
        return
    is_complete = os.read(start, 1)
    os.close(start)
    if not is_complete:
        return
    report: Dict[str, Any] = {"descriptors": 0, "threads": 0, "session": 0}
    if first:  # as launchers start each
        try:
            os.setsid()
        except OSError as error:
            report["session"] = error.errno
    step = "descriptors"
    try:
        held = []
        # O_PATH: it opens nothing on any device, and still takes a descriptor.
        while first and report["descriptors"] < DESCRIPTORS:
            held.append(os.open("/", os.O_PATH | os.O_CLOEXEC))
            report["descriptors"] += 1
        step = "threads"
        for descriptor in held:
            os.close(descriptor)
        while report["threads"] < THREADS:
            number = start_thread()
            if number:
                refuse(errno.ENOMEM if number == errno.EAGAIN and not has_room_for_stack() else number)
            report["threads"] += 1
    except Exception as error:
        number = getattr(error, "errno", None) or errno.EAGAIN
        report.update(refused=step, number=number, why=getattr(error, "strerror", None) or str(error))
    # Shorter than PIPE_BUF: lines of several ranks do not mix (pipe(7)).
    os.write(answers, json.dumps(report).encode() + b"\n")
    os.close(answers)  # when nobody has it open, each has answered or is gone
    os.read(gate, 1)


def become_rank(unused: Tuple[int, ...], *ends: Any) -> None:
    """Be a rank until its end, and never return. `unused`: the parent's ends of the pipes."""
    try:
        for descriptor in unused:
            os.close(descriptor)
        run_rank(*ends)
    finally:
        os._exit(0)


def try_ranks() -> None:
    start_read, start_write = os.pipe()
    gate_read, gate_write = os.pipe()
    answers_read, answers_write = os.pipe()
    ranks: List[int] = []
    reports: List[Dict[str, Any]] = []
    parent = os.getpid()

    def release() -> None:
        os.close(gate_write)
        for pid in ranks:
            os.waitpid(pid, 0)

    with attempt("processes", ranks=RANKS) as facts:
        try:
            while len(ranks) < RANKS:
                pid = os.fork()
                if not pid:
                    ends = start_read, gate_read, answers_write
                    become_rank((start_write, gate_write, answers_read), parent, *ends, not ranks)
                ranks.append(pid)
            os.write(start_write, b"x" * RANKS)  # one for each
        except OSError:
            facts.update(count_usage())
            raise
        finally:
            facts["started"] = len(ranks)
            os.close(start_write)
            if len(ranks) < RANKS:
                release()
    # Else the reader would never see the end.
    os.close(answers_write)
    if len(ranks) < RANKS:
        return
    with attempt("pidfd"):
        try_pidfd(ranks[0])
    with attempt("ranks"):
        lines = b""
        while True:
            more = os.read(answers_read, 1 << 16)
            if not more:
                break
            lines += more
        reports += [json.loads(line.decode()) for line in lines.splitlines()]
        refused = {report.get("refused") for report in reports}
        usage = count_usage() if refused != {None} else {}
        release()
        # Killed for memory, say, before they could answer.
        if len(reports) < RANKS:
            raise RuntimeError(f"{RANKS - len(reports)} of {RANKS} processes ended early")
    with attempt("setsid"):
        for report in reports:
            if report["session"]:
                refuse(report["session"])
    for step, of_ranks in (("descriptors", max), ("threads", min)):
        with attempt(step, least=of_ranks([report[step] for report in reports] or [0])) as facts:
            first = next((report for report in reports if report.get("refused") == step), None)
            if first is not None:
                facts.update(usage)
                facts["all_ranks"] = sum(report[step] for report in reports)
                raise OSError(first["number"], first["why"])


def try_pidfd(pid: int) -> None:
    if hasattr(os, "pidfd_open"):
        os.close(os.pidfd_open(pid))
    elif LIBC is not None:
        import ctypes

        descriptor = LIBC.syscall(PIDFD_OPEN, pid, 0)
        if descriptor < 0:
            refuse(ctypes.get_errno())
        os.close(descriptor)


def try_epoll() -> None:
    import select

    read, write = os.pipe()
    watch = select.epoll()
    watch.register(read, select.EPOLLIN)
    os.write(write, b"x")
    if not watch.poll(1):
        raise RuntimeError("epoll does not tell what can be read")
    watch.close()
    os.close(read)
    os.close(write)


def try_eventfd() -> None:
    # By which the loops of libuv, and so torch's store, are woken.
    if LIBC is not None:
        import ctypes

        descriptor = LIBC.eventfd(0, os.O_CLOEXEC)
        if descriptor < 0:
            refuse(ctypes.get_errno())
        os.close(descriptor)


with attempt("limits") as limit_facts:
    limit_facts["limits"] = read_limits()
with attempt("sched_getaffinity"):
    os.sched_getaffinity(0)
with attempt("eventfd2"):
    try_eventfd()
with attempt("pipe2") as opened:
    ends = os.pipe()
    opened["ends"] = len(ends)
    for descriptor_of_pipe in ends:
        os.close(descriptor_of_pipe)
if opened:
    with attempt("epoll_create1"):
        try_epoll()
    with one_at_a_time("processes"):
        try_ranks()
end()
