"""The start of the one file: unpacks it into a folder that only we can enter, and runs it from there.

Python's own library alone. npudoctor is this very process, so that signals, job control and what waits for it
mean what they mean for an installed one. A second process, which no signal but SIGKILL reaches, takes the
folder away when this one has ended, however it did.
"""

import contextlib
import os
import select
import signal
import stat
import sys
import tempfile
import time
import zipfile
from typing import Optional

PACKED = "lib/"
FAILED = 70  # as where memory or descriptors are too few


def main() -> int:
    """The exit status is npudoctor's."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
    folder, us = unpack(os.path.abspath(sys.argv[0])), os.getpid()
    if folder is None:
        return FAILED
    # Beside the standard library, all that __main__ left: PYTHONPATH and the site's packages are not ours.
    sys.path[0] = os.path.join(folder, PACKED.rstrip("/"))
    sys.dont_write_bytecode = True
    try:
        from npudoctor.__main__ import main as run

        return run()
    finally:
        if os.getpid() == us:
            remove(folder)


def unpack(archive: str) -> Optional[str]:
    """The folder; None, said in a line, where there is none with room that nobody else could exchange."""
    why = []
    for place in places():
        folder = None
        try:
            if not trusted(place):
                why.append(f"{place}: others may write there")
                continue
            folder = watched_folder(place)
            write(archive, folder)
            return folder
        except OSError as error:
            why.append(f"{place}: {error.strerror}")
            if folder:
                remove(folder)
    if sys.argv[1:2] == ["env"]:
        os.write(1, b"false\n")  # what a shell evaluates fails too
    text = f"npudoctor: no folder to unpack into ({'; '.join(why)}); name one with TMPDIR\n"
    os.write(2, text.encode("utf-8", "backslashreplace"))
    return None


def places() -> list[str]:
    """Where temporary things go: a disk that is full is no reason to say nothing about it. Mounts with noexec
    come last: psutil's library cannot be loaded there, and some rows cannot tell without it."""
    told = [os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP")]
    usual = ["/tmp", "/var/tmp", f"/run/user/{os.geteuid()}", "/dev/shm", "/run"]
    found = dict.fromkeys(os.path.realpath(place) for place in (*told, *usual) if place)
    usable = [place for place in found if os.path.isdir(place) and os.access(place, os.W_OK)]
    return sorted(usable, key=lambda place: os.statvfs(place).f_flag & os.ST_NOEXEC)


def trusted(place: str) -> bool:
    """Whether nobody else can put another folder in the place of ours: all on the way belongs to root, to us,
    or to whom "/" does (in a user namespace that may be nobody), and is writable by others only where sticky.
    """
    owners = {0, os.geteuid(), os.stat("/").st_uid}
    while True:
        entry = os.lstat(place)
        closed = not entry.st_mode & 0o022 or entry.st_mode & stat.S_ISVTX
        if entry.st_uid not in owners or not closed or stat.S_ISLNK(entry.st_mode):
            return False
        if place == "/":
            return True
        place = os.path.dirname(place)


def watched_folder(place: str) -> str:
    """A new folder that goes when we have ended. No signal is heard before that is so."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        folder = tempfile.mkdtemp(prefix="npudoctor-", dir=place)
        us = os.getpid()
        try:
            watch: Optional[int] = os.pidfd_open(us)
        except (AttributeError, OSError):  # Linux before 5.3
            watch = None
        with contextlib.suppress(OSError):  # no process is left for this user: our own end will have to do
            child = os.fork()
            if not child:
                leave_behind(folder, us, watch)
            os.waitpid(child, 0)
        if watch is not None:
            os.close(watch)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return folder


def leave_behind(folder: str, process: int, watch: Optional[int]) -> None:
    """A process of nobody's, with nothing of ours but its watch; never returns."""
    try:
        os.setsid()
        if not os.fork():
            os.chdir("/")
            for number in descriptors():
                if number != watch:
                    with contextlib.suppress(OSError):  # the list itself was read by one
                        os.close(number)
            wait_for(process, watch)
            remove(folder)
    finally:
        os._exit(0)


def descriptors() -> list[int]:
    """Those that are open; where none is left to list them by, all that can be."""
    try:
        return [int(number) for number in os.listdir("/proc/self/fd")]
    except OSError:
        return list(range(256))


def wait_for(process: int, watch: Optional[int]) -> None:
    """Until it has ended."""
    if watch is not None:
        waiting = select.poll()
        waiting.register(watch, select.POLLIN)
        waiting.poll()
        return
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.kill(process, 0)
            time.sleep(1)


def remove(folder: str) -> None:
    """With one descriptor, however few `ulimit -n` allows; nobody else can enter what is removed."""
    for place, folders, files in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):
            for name in files:
                os.unlink(os.path.join(place, name))
            for name in folders:
                os.rmdir(os.path.join(place, name))
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def write(archive: str, folder: str) -> None:
    """Faster than extractall: the names are ours. A library for this machine goes beside what suits all."""
    made = set()
    compiled = f"machine/{os.uname().machine}/"
    with zipfile.ZipFile(archive) as packed:
        for name in packed.namelist():
            start = PACKED if name.startswith(PACKED) else compiled
            if name.startswith(start):
                path = os.path.join(folder, PACKED, name[len(start) :])
                parent = os.path.dirname(path)
                if parent not in made:
                    os.makedirs(parent, exist_ok=True)
                    made.add(parent)
                with open(path, "wb") as file:
                    file.write(packed.read(name))


def stop(number: int, _frame: object) -> None:
    """Until npudoctor listens for itself."""
    if sys.argv[1:2] == ["env"]:
        os.write(1, b"false\n")
    os._exit(128 + number)
