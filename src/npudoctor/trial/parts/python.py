"""The job's Python: what every framework imports of the standard library, and starting another Python."""

import contextlib
import os
import signal
import sys
from typing import Any, List, Optional, Tuple

from npudoctor.trial.parts.attempts import QUESTIONS, attempt, end
from npudoctor.trial.parts.names import NAME, REMOVER, removed_names, sweep

# Those first that the others take: what fails is told by the most basic name.
BASIC = ("zlib", "ctypes", "socket", "subprocess", "hashlib", "uuid", "multiprocessing.synchronize")
# With all that they take: what people call their own files is found first in a folder of PYTHONPATH.
QUEUES = ("multiprocessing.queues",)
# Modules that a Python built without its libraries lacks; none of them is needed by every framework.
OTHERS = ("ssl", "lzma", "bz2", "sqlite3", "decimal", *(("zoneinfo",) if sys.version_info >= (3, 9) else ()))
# As long as the name that multiprocessing would take: `/pymp-XXXXXXXX/listener-XXXXXXXX`.
LENGTH = 31
ABSTRACT = sys.version_info >= (3, 9)  # from here on the name need not lie in a folder
TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108  (as tempfile has them)


def try_search_path() -> None:
    """Report where this Python looks for modules, and by which finders, once all code that it runs at its
    start has run.
    """
    with attempt("search path", step="path") as facts:
        facts["search_path"] = [os.path.realpath(folder) for folder in sys.path]
        finders = (finder if isinstance(finder, type) else type(finder) for finder in sys.meta_path)
        facts["finders"] = [finder.__module__ for finder in finders]


def try_modules(names: Tuple[str, ...]) -> None:
    for name in names:
        with attempt(f"import {name}", step="import", module=name) as facts:
            try:
                __import__(name)
            except Exception:
                facts["others"] = find_foreign_modules()
                raise


def try_log_level(name: str) -> None:
    """Set a log level as torchrun does: Python's logging knows DEBUG and not debug."""
    if name not in os.environ:
        return
    with attempt("set the log level", step="log level", variable=name):
        import logging

        logging.getLogger("npudoctor-trial").setLevel(os.environ[name])


def find_foreign_modules() -> List[str]:
    """The files of loaded modules that are not the standard library's: one may have the name of a standard
    module.
    """
    own = tuple(os.path.dirname(os.path.realpath(str(module.__file__))) for module in (os, signal))
    files = (getattr(sys.modules[name], "__file__", None) for name in sorted(sys.modules))
    return [file for file in files if file and not os.path.realpath(file).startswith(own)]


def disable_tracker() -> None:
    """Pretend that the process which multiprocessing starts beside every other runs: nothing that is tried
    needs it.
    """
    reading, writing = os.pipe()
    os.set_inheritable(reading, False)
    try:
        from multiprocessing import resource_tracker as module
    except ImportError:  # before Python 3.8
        from multiprocessing import semaphore_tracker as module  # type: ignore[attr-defined, no-redef]
    tracker: Any = getattr(module, "_resource_tracker", None) or module._semaphore_tracker  # type: ignore[attr-defined]
    # ensure_running() takes a valid descriptor for a running tracker.
    tracker._fd = writing


def start_child(method: str) -> None:
    """Start a child that ends at once, and wait for it."""
    import multiprocessing

    context: Any = multiprocessing.get_context(method)
    process = context.Process(target=signal.alarm, args=(QUESTIONS["seconds"],))
    process.start()
    process.join()
    if process.exitcode:
        raise ChildProcessError(None, f"it ended with {process.exitcode}")


def find_temporary() -> Optional[str]:
    """A folder in which the socket of the server has room; None where there is none."""
    for value in (*(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")), *TEMPORARY):
        if value and os.path.isabs(value) and os.access(value, os.W_OK | os.X_OK):
            # sun_path has 108 bytes with its end (unix(7)).
            return value.rstrip("/") if len(os.fsencode(value.rstrip("/"))) + LENGTH + 1 < 108 else None
    return None


def try_server(path: str) -> bool:
    """Start the fork server; return whether that worked. Its socket has a name of ours; else there would be a
    folder that a killed trial leaves.
    """
    started = []
    with attempt("start forkserver", step="start", method="forkserver"):
        from multiprocessing import connection, forkserver

        server: Any = getattr(forkserver, "_forkserver")  # noqa: B009
        # The server takes the address of its socket from here.
        setattr(connection, "arbitrary_address", lambda family: path)  # noqa: B010
        os.umask(0o077)
        with contextlib.ExitStack() if path[0] == "\0" else removed_names(path):
            try:
                start_child("forkserver")
                started.append(path)
            finally:
                alive, pid = server._forkserver_alive_fd, server._forkserver_pid
                if pid:
                    os.close(alive)
                    with contextlib.suppress(ChildProcessError):
                        os.waitpid(pid, 0)
    return bool(started)


def try_starts() -> None:
    """Start processes as multiprocessing does.

    The server is started as spawn starts a child, and forks one that reads what to do as that child does:
    spawn by itself is tried only where there is no such server.
    """
    # As a child of spawn does, before it runs a line of the job.
    with contextlib.suppress(FileNotFoundError):  # it is gone
        here = os.getcwd()
        with attempt("enter the working directory", step="directory", path=here):
            os.chdir(here)
    # What multiprocessing starts looks into the working directory first, which may be anybody's.
    os.chdir("/")
    with attempt("multiprocessing", step="start", method="spawn"):
        disable_tracker()
    if ABSTRACT:
        if try_server("\0" + NAME):
            return
    else:
        folder = find_temporary()
        if folder is not None:
            with attempt("start a process", step="remover"):
                REMOVER.start()
            if REMOVER.names is not None:
                sweep(folder)
                if try_server(f"{folder}/{NAME[:LENGTH]}"):
                    return
    with attempt("start spawn", step="start", method="spawn"):
        start_child("spawn")


try_search_path()
try_modules(BASIC)
if all(name in sys.modules for name in BASIC):
    try_starts()
try_modules(QUEUES)
for needed in QUESTIONS["needed"]:
    with attempt(f"import {needed}", step="needed", module=needed):
        __import__(needed)
try_modules(OTHERS)
for variable in QUESTIONS["levels"]:
    try_log_level(variable)
REMOVER.stop()
end()
