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


def main() -> int:
    """The exit status is npudoctor's; a signal that ended it ends us."""
    file = os.path.abspath(sys.argv[0])
    folder = tempfile.mkdtemp(prefix="npudoctor-")
    try:
        with zipfile.ZipFile(file) as archive:
            wanted = ("all/", platform.machine() + "/")
            archive.extractall(folder, [name for name in archive.namelist() if name.startswith(wanted)])
        ended = wait_for(start(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if os.WIFSIGNALED(ended):
        signal.signal(os.WTERMSIG(ended), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(ended))
    return os.WEXITSTATUS(ended)


def start(folder: str) -> int:
    """npudoctor in a child, which has the signals and streams that we were given."""
    pid = os.fork()
    if pid:
        return pid
    # In front of the site's packages, behind Python's own.
    own = [path for path in sys.path[1:] if "site-packages" not in path and "dist-packages" not in path]
    sys.path[:] = [*own, os.path.join(folder, "all"), os.path.join(folder, platform.machine())]
    sys.dont_write_bytecode = True
    from npudoctor.__main__ import main as run

    sys.exit(run())


def wait_for(pid: int) -> int:
    """What the child ended with; signals that are meant for us are meant for it."""

    def pass_on(number: int, _frame: object) -> None:
        if number != signal.SIGINT:  # a terminal sends that one to both
            os.kill(pid, number)

    for number in (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGQUIT,
    ):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, pass_on)
    while True:
        try:
            return os.waitpid(pid, 0)[1]
        except InterruptedError:
            continue
