"""The start of the one file: unpacks it into a folder that only we can enter, runs it, takes the folder away.

Python's own library alone. The process that waits only passes signals on and cleans up, so the folder goes
whatever becomes of npudoctor; SIGKILL alone leaves it, under the name npudoctor-* in TMPDIR.
"""

import os
import platform
import shutil
import signal
import sys
import tempfile
import zipfile
from collections.abc import Iterable

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT)
child = 0  # its pid, once there is one


def main() -> int:
    """The exit status is npudoctor's; a signal that ended it ends us."""
    heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, pass_on)
    folder = tempfile.mkdtemp(prefix="npudoctor-")
    try:
        unpack(folder)
        start(folder, heard)
        ended = os.waitpid(child, 0)[1]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if os.WIFSIGNALED(ended):
        signal.signal(os.WTERMSIG(ended), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(ended))
    return os.WEXITSTATUS(ended)


def unpack(folder: str) -> None:
    """What all machines share, and what is compiled for this one."""
    with zipfile.ZipFile(os.path.abspath(sys.argv[0])) as archive:
        wanted = ("all/", platform.machine() + "/")
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(wanted)])


def pass_on(number: int, _frame: object) -> None:
    """Signals that are meant for us are meant for npudoctor; before there is one they end us."""
    if not child:
        sys.exit(128 + number)
    if number != signal.SIGINT:  # a terminal sends that one to both
        os.kill(child, number)


def start(folder: str, heard: Iterable[int]) -> None:
    """npudoctor in a child, which has the signals and streams that we were given."""
    global child
    child = os.fork()
    if child:
        return
    for number in heard:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    # In front of the site's packages, behind Python's own.
    own = [path for path in sys.path[1:] if "site-packages" not in path and "dist-packages" not in path]
    sys.path[:] = [*own, os.path.join(folder, "all"), os.path.join(folder, platform.machine())]
    sys.dont_write_bytecode = True
    from npudoctor.__main__ import main as run

    sys.exit(run())
