"""Names that a part cannot avoid: nobody else takes them, and whoever is killed, they are removed."""

import contextlib
import errno
import os
import signal
import stat
import time
from typing import Iterator, Optional

from npudoctor.trial.parts.attempts import QUESTIONS

PREFIX = ".npudoctor-trial-"
LONGEST = 33  # of these names, in bytes
LEFT = 20  # seconds: no trial lives as long, also one of a pid namespace that shares the folder
MANY = 10000  # names of a folder in which those of earlier trials are looked for
# The pid tells a later trial whether its maker lives.
START = f"{PREFIX}{os.getpid()}-"
NAME = START + os.urandom(16).hex()[: LONGEST - len(START)]


def remove(path: str) -> None:
    """Remove a name, whatever it is of; a folder must be empty."""
    try:
        os.unlink(path)
    except IsADirectoryError:
        # unlink(2) answers EISDIR for a folder on Linux.
        os.rmdir(path)


class Remover:
    """A child that removes names when the last writer of its pipe is gone, whatever ended this process."""

    def __init__(self) -> None:
        self.names: Optional[int] = None
        self.pid = 0

    def start(self) -> None:
        """Start the child. OSError where no process may be started: then no name may be made."""
        reading, writing = os.pipe()
        waiting, ready = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(reading)
            os.close(ready)
            # Until then the two could be killed at once.
            if os.read(waiting, 1):
                self.names = writing
            return
        try:
            # Not in the process group that is killed as a whole.
            try:
                os.setsid()
            except OSError:  # a sandbox that refuses it
                os.setpgid(0, 0)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            signal.alarm(QUESTIONS["seconds"] + 2)
            # With stdout open the reader of the trial would wait for this child, too.
            for descriptor in (0, 1, 2, writing, waiting):
                os.close(descriptor)
            os.write(ready, b"x")
            text = b""
            while True:
                # Returns at the end of the pipe: when every writer is gone.
                more = os.read(reading, 65536)
                if not more:
                    break
                text += more
            for name in reversed(text.split(b"\0")):  # what lies in a folder goes before it
                with contextlib.suppress(OSError):
                    remove(os.fsdecode(name))
        finally:
            os._exit(0)

    def will_remove(self, *paths: str) -> None:
        """Announce names before they are made."""
        if self.names is None:
            raise OSError(errno.ECHILD, os.strerror(errno.ECHILD))
        os.write(self.names, b"".join(os.fsencode(path) + b"\0" for path in paths))

    def stop(self) -> None:
        if self.names is not None:
            os.close(self.names)
            os.waitpid(self.pid, 0)


REMOVER = Remover()


def sweep(folder: str) -> None:
    """Remove what a killed trial of this user left in a folder where its remover was killed, too."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for _number, entry in zip(range(MANY), entries):
            if entry.name.startswith(PREFIX):
                with contextlib.suppress(OSError):  # one that cannot be removed keeps no other
                    sweep_one(entry)


def sweep_one(entry: "os.DirEntry[str]") -> None:
    pid, status = entry.name[len(PREFIX) :].split("-")[0], entry.stat(follow_symlinks=False)
    if status.st_uid != os.geteuid() or not pid.isdigit() or time.time() - status.st_mtime < LEFT:
        return
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        if stat.S_ISDIR(status.st_mode):
            with contextlib.suppress(OSError):
                os.unlink(f"{entry.path}/{entry.name}")
        remove(entry.path)


@contextlib.contextmanager
def removed_names(*paths: str) -> Iterator[None]:
    """Announce names that the block may make; at its end they are removed."""
    REMOVER.will_remove(*paths)
    try:
        yield
    finally:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                remove(path)
