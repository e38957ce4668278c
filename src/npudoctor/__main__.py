"""The entry point: answers `--version` before anything heavy is imported, then runs the commands."""

import os
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    import signal
    from typing import Callable, NoReturn, Optional
else:
    import _signal as signal  # the public module loads enum, which costs more than all of `--version`


_LEAST = 96 << 20  # bytes of address space: with less, Python itself fails at random or hangs
# Where less address space than this is left, threads take little of it (`_save_addresses`).
_AMPLE = 2 << 30
# Bytes of each thread's stack then: the usual 8 MiB of five threads are more than all the rest.
_STACK = 2 << 20
_M_ARENA_MAX = -8  # <malloc.h>
_RESERVE = (
    2 << 20
)  # bytes, freed to print the last line when memory is exhausted: Python takes 1 MiB at a time

# With -I Python ignores its own variables, while they stay in the environment for the checks to examine. The
# directories of npudoctor and its dependencies may come from PYTHONPATH, so that they are passed as argument.
_ISOLATED_START = """
import sys
folders = sys.argv.pop(1).split(chr(10))
sys.path += [folder for folder in folders if folder and folder not in sys.path]
from npudoctor.__main__ import main
sys.exit(main())
"""


def main(folders: "Optional[Callable[[], list[str]]]" = None) -> int:
    """Run the command line in sys.argv; returns the exit code.

    `folders`: returns further directories on the module search path, whose owners are then verified too.
    """
    # Loading the commands takes a while: until they install their own handlers, a signal must end us with the
    # usual status and without Python's traceback. A signal that the caller ignores stays ignored.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _exit_on_signal)
    # PYTHONPATH, or the working directory with `python -m`, may hold copies of standard modules (enum34,
    # typing, random.py). A check reports them; npudoctor itself must import the real ones, so they come
    # first.
    library = os.path.dirname(os.__file__)
    own = [folder for folder in sys.path if folder == library or folder.startswith(f"{library}/lib-")]
    sys.path[:] = own + [folder for folder in sys.path if folder not in own]
    reserve = []
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if 0 <= limit < _LEAST:
            text = f"ulimit -v leaves {limit >> 20} MiB of address space, and {_LEAST >> 20} MiB are needed"
            raise MemoryError(text)
        reserve.append(bytes(_RESERVE))  # calloc: its pages are not touched and cost no memory
        status = _run_commands(folders, is_narrow=0 <= limit < _AMPLE)
    except (ImportError, OSError, MemoryError) as error:
        reserve.clear()
        status = _report_no_room(error)
    if os.environ.get("PYTHONINSPECT"):
        # Else the interpreter would become interactive now, and exit with another status.
        end_at_once(status)
    return status


def end_at_once(status: int) -> "NoReturn":
    """Flush the streams and exit without waiting for threads.

    The interpreter's own shutdown destroys object by object what the kernel frees at once; it takes 7 % of
    the instructions of `check`.
    """
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105  (contextlib costs more than all of this file)
            stream.flush()
        except (AttributeError, OSError, ValueError):  # closed at the start (None), a full disk, closed since
            pass
    os._exit(status)


def _save_addresses() -> None:
    """Let threads use the memory of the first one.

    glibc gives each 64 MiB of addresses, and where these are not to be had, 4 KiB for every small object:
    with `ulimit -v 70000` Python 3.11 then asked without end.
    """
    import _thread

    _thread.stack_size(_STACK)
    try:
        import ctypes

        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
    # A Python without ctypes, a C library without arenas, a kernel that forbids memory to write and execute.
    except (ImportError, OSError, AttributeError, MemoryError):
        pass


def _run_commands(folders: "Optional[Callable[[], list[str]]]" = None, is_narrow: bool = False) -> int:
    if sys.argv[1:] == ["--version"] and _print_version():
        return 0
    from npudoctor.core.trust import guard

    try:
        guard.secure(folders() if folders else ())
        if is_narrow:
            _save_addresses()
        from npudoctor.cli.main import run
    except guard.Untrusted as error:
        return _refuse_start(str(error))
    except Exception:  # any error of a module that PYTHONPATH or PYTHONHOME put in place of a real one
        if sys.flags.isolated or not any(name.startswith("PYTHON") for name in os.environ):
            raise
        _restart_isolated()
    return run(sys.argv[1:])


def _report_no_room(error: BaseException) -> int:
    """Report that `ulimit -n` or `-v` is too low; returns 70. Python's own status 1 would mean "not
    ready"."""
    _fail_evaluation()
    # Libraries that these variables make the loader load are in this process, too, and may be what fails.
    names = [name for name in ("LD_PRELOAD", "LD_LIBRARY_PATH") if os.environ.get(name)]
    names = names if isinstance(error, ImportError) else []
    set_too = f" (set: {', '.join(names)})" if names else ""
    try:
        text = f"npudoctor: {type(error).__name__}: {error}{set_too}\n"
        os.write(2, text.encode("utf-8", "backslashreplace"))
    except (OSError, MemoryError):
        pass
    return 70


def _refuse_start(why: str) -> int:
    """Report a usage error in one line, before the commands are loaded; returns 64 (EX_USAGE)."""
    _fail_evaluation()
    os.write(2, f"npudoctor: {why}\n".encode("utf-8", "backslashreplace"))
    return 64


def _restart_isolated() -> None:
    """Replace this process by a new start of npudoctor that ignores Python's variables."""
    words = [sys.executable, "-I", "-c", _ISOLATED_START, "\n".join(sys.path), *sys.argv[1:]]
    os.execv(sys.executable, words)  # noqa: S606


def _exit_on_signal(number: int, frame: object) -> None:
    _fail_evaluation()
    os._exit(128 + number)


def _fail_evaluation() -> None:
    """Print `false` for `eval "$(npudoctor env)"`: the shell must notice that there is no answer."""
    if sys.argv[1:2] == ["env"]:
        try:  # noqa: SIM105  (contextlib costs more than all of this file)
            os.write(1, b"false\n")
        except OSError:
            pass


def _print_version() -> bool:
    """Print the version; returns whether that worked. If not, the commands report why."""
    from npudoctor import __version__

    try:
        return os.write(1, f"npudoctor {__version__}\n".encode()) > 0
    except OSError:
        return False


if __name__ == "__main__":
    end_at_once(main())
