"""The entry point: answers `--version` before anything heavy loads, then hands over to the commands."""

import os
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    import signal
    from typing import Callable, NoReturn, Optional
else:
    import _signal as signal  # the public module loads enum, which costs more than all of `--version`


_LEAST = 64 << 20  # bytes of address space: with less, Python itself ends at random, or waits for ever
_RESERVE = 2 << 20  # bytes, for the last line where memory is gone: Python takes 1 MiB at a time

# With -I no variable of Python counts for us, while all stay there to be judged; where we and what we need
# were found may have been told by one of them.
_ALONE = """
import sys
folders = sys.argv.pop(1).split(chr(10))
sys.path += [folder for folder in folders if folder and folder not in sys.path]
from npudoctor.__main__ import main
sys.exit(main())
"""


def main(folders: "Optional[Callable[[], list[str]]]" = None) -> int:
    """Run the program on sys.argv; returns the exit status, which is the verdict. `folders`: where else
    modules are looked for."""
    # Until the commands listen for themselves, which takes as long as loading them: no traceback of Python's
    # for a signal, and the status that tells it. What the caller ignores stays ignored.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)
    # What PYTHONPATH, or the working directory with `python -m`, has of old copies of Python's own modules
    # (enum34, typing, random.py) is for the check to name, not for us to import.
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
        reserve.append(bytes(_RESERVE))  # its pages are not touched, as those of a bytearray are
        status = _main(folders)
    except (ImportError, OSError, MemoryError) as error:
        reserve.clear()
        status = _no_room(error)
    if os.environ.get("PYTHONINSPECT"):
        # Else the interpreter would become interactive now, and end with a status of its own.
        end_at_once(status)
    return status


def end_at_once(status: int) -> "NoReturn":
    """All is written, and no thread is waited for. The interpreter's own end would take apart object by
    object what the kernel frees at once: 7 % of the instructions of `check`."""
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105  (contextlib costs more than all of this file)
            stream.flush()
        except (AttributeError, OSError, ValueError):  # closed
            pass
    os._exit(status)


def _main(folders: "Optional[Callable[[], list[str]]]" = None) -> int:
    if sys.argv[1:] == ["--version"] and _told_version():
        return 0
    from npudoctor.core.trust import guard

    try:
        guard.secure(folders() if folders else ())
        from npudoctor.cli.main import run
    except guard.Untrusted as error:
        return _refuse(str(error))
    except Exception:  # of whatever PYTHONPATH or PYTHONHOME put in the place of a module
        if sys.flags.isolated or not any(name.startswith("PYTHON") for name in os.environ):
            raise
        _start_alone()
    return run(sys.argv[1:])


def _no_room(error: BaseException) -> int:
    """Where `ulimit -n` or `-v` leaves us none: Python's own status 1 would mean "not ready"."""
    _fail_evaluation()
    # What they have the loader load is in our process, too, and may be what fails.
    names = [name for name in ("LD_PRELOAD", "LD_LIBRARY_PATH") if os.environ.get(name)]
    names = names if isinstance(error, ImportError) else []
    set_too = f" (set: {', '.join(names)})" if names else ""
    try:
        text = f"npudoctor: {type(error).__name__}: {error}{set_too}\n"
        os.write(2, text.encode("utf-8", "backslashreplace"))
    except (OSError, MemoryError):
        pass
    return 70


def _refuse(why: str) -> int:
    """A usage error, said in one line before the commands are loaded."""
    _fail_evaluation()
    os.write(2, f"npudoctor: {why}\n".encode("utf-8", "backslashreplace"))
    return 64


def _start_alone() -> None:
    """Start once more in this process's place, without Python's variables."""
    words = [sys.executable, "-I", "-c", _ALONE, "\n".join(sys.path), *sys.argv[1:]]
    os.execv(sys.executable, words)  # noqa: S606


def _end(number: int, frame: object) -> None:
    _fail_evaluation()
    os._exit(128 + number)


def _fail_evaluation() -> None:
    """What a shell evaluates must fail where no answer came."""
    if sys.argv[1:2] == ["env"]:
        try:  # noqa: SIM105  (contextlib costs more than all of this file)
            os.write(1, b"false\n")
        except OSError:
            pass


def _told_version() -> bool:
    """Whether the version could be written; if not, the commands say why."""
    from npudoctor import __version__

    try:
        return os.write(1, f"npudoctor {__version__}\n".encode()) > 0
    except OSError:
        return False


if __name__ == "__main__":
    end_at_once(main())
