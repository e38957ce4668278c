"""Files as a job makes them in its first minute: devices, the temporary folder, the folders of caches.

Where the file system has files without a name (O_TMPFILE) no other is made. What needs a name (a rename, a
socket) has one that nobody else takes, and a child that removes it should this process be killed.
"""

import contextlib
import errno
import os
import signal
import stat
import time
from typing import Any, Dict, Iterator, List, Optional

from npudoctor.trial.parts.attempts import QUESTIONS, attempt, end

BLOCK = 4096  # the least that a file takes
LARGE = 1 << 30  # bytes of a checkpoint
TEMPORARY = ("/tmp", "/var/tmp", "/usr/tmp", ".")  # noqa: S108  (as tempfile has them)
PREFIX = ".npudoctor-trial-"
# What follows TMPDIR in the names of sockets: of torch's manager of shared memory, of multiprocessing.
TORCH, PYTHON = len("/torch-shm-dir-XXXXXX/manager.sock"), len("/pymp-XXXXXXXX/listener-XXXXXXXX")
DEVICES = (
    ("/dev/null", os.O_RDWR, (1, 3)),
    ("/dev/zero", os.O_RDONLY, (1, 5)),
    ("/dev/urandom", os.O_RDONLY, (1, 9)),
)
WITHOUT_UNNAMED = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL, errno.ENOSYS)
LEFT = 20  # seconds: no trial lives as long, also one of a pid namespace that shares the folder
MANY = 10000  # names of a folder in which those of earlier trials are looked for
START = f"{PREFIX}{os.getpid()}-"
NAME = START + os.urandom(16).hex()[: TORCH - 1 - len(START)]


class Remover:
    """A child that removes names when the last writer of its pipe is gone, whatever ended this process."""

    def __init__(self) -> None:
        self.names: Optional[int] = None
        self.pid = 0

    def start(self) -> None:
        """OSError where no process may be started: then no name may be made."""
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
            os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            signal.alarm(QUESTIONS["seconds"] + 2)
            for descriptor in (0, 1, 2, writing, waiting):
                os.close(descriptor)
            os.write(ready, b"x")
            text = b""
            while True:
                more = os.read(reading, 65536)
                if not more:
                    break
                text += more
            for name in text.split(b"\0"):
                with contextlib.suppress(OSError):
                    os.unlink(name)
        finally:
            os._exit(0)

    def will_remove(self, *paths: str) -> None:
        """To be said before they are made."""
        if self.names is None:
            raise OSError(errno.ECHILD, os.strerror(errno.ECHILD))
        os.write(self.names, b"".join(os.fsencode(path) + b"\0" for path in paths))

    def stop(self) -> None:
        if self.names is not None:
            os.close(self.names)
            os.waitpid(self.pid, 0)


REMOVER = Remover()
# By folder: why it could not be written, None where it could; the file systems that wrote to the disk.
WRITTEN: Dict[str, Optional[Exception]] = {}
SYNCED: List[int] = []
REFUSED: List[str] = []  # names of sockets


def sweep(folder: str) -> None:
    """Remove what a killed trial of this user left in a folder where its remover was killed, too."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for _number, entry in zip(range(MANY), entries):
            if not entry.name.startswith(PREFIX):
                continue
            pid, known = entry.name[len(PREFIX) :].split("-")[0], entry.stat(follow_symlinks=False)
            if known.st_uid != os.geteuid() or not pid.isdigit() or time.time() - known.st_mtime < LEFT:
                continue
            try:
                os.kill(int(pid), 0)
            except ProcessLookupError:
                if not stat.S_ISDIR(known.st_mode):
                    os.unlink(entry.path)


def nearest(path: str, makes: bool) -> str:
    """The folder itself, or where it is made when it is missing, the nearest one above it."""
    here = path
    while True:
        try:
            mode = os.stat(here).st_mode
        except FileNotFoundError:
            if not makes or os.path.islink(here):
                raise
            here = os.path.dirname(here)
            continue
        if not stat.S_ISDIR(mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return here


def unnamed(folder: str) -> int:
    """An open file in a folder that has no name, or has it no longer."""
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o700)
    except OSError as error:
        if error.errno not in WITHOUT_UNNAMED:
            raise
    path = f"{folder.rstrip('/')}/{NAME}"
    REMOVER.will_remove(path)
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o700)
    os.unlink(path)
    return descriptor


def write(descriptor: int) -> None:
    """A block of zeros, and once on each file system to the disk: a quota or a server answers only then."""
    left = BLOCK
    while left:
        left -= os.write(descriptor, bytes(left))
    device = os.fstat(descriptor).st_dev
    if device not in SYNCED:
        os.fsync(descriptor)
        SYNCED.append(device)


def lock(descriptor: int) -> None:
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def try_device(path: str, flags: int, numbers: Any) -> None:
    with attempt(f"open {path}", step="device", path=path) as facts:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            known = os.fstat(descriptor)
            facts["device"] = stat.S_ISCHR(known.st_mode) and numbers == (
                os.major(known.st_rdev),
                os.minor(known.st_rdev),
            )
            if not facts["device"]:  # nothing is written to a file that has its name
                raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
            if flags == os.O_RDWR:
                os.write(descriptor, b"x")
            os.read(descriptor, 16)
        finally:
            os.close(descriptor)


def try_terminal() -> None:
    with attempt("open a pseudo-terminal", step="terminal", path="/dev/ptmx"):
        for descriptor in os.openpty():
            os.close(descriptor)


def temporary() -> Optional[str]:
    """The first folder in which a file can be made, as tempfile looks for one."""
    variables = [(name, os.environ[name]) for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)]
    for name, value in (*variables, *(("", folder) for folder in TEMPORARY)):
        try:
            path = os.path.abspath(value)
        except FileNotFoundError:  # the working directory is gone
            path = value
        try_folder(path, "temporary", name=name, makes=False, locks=True)
        if path in WRITTEN and WRITTEN[path] is None:
            return path
    return None


def try_folder(path: str, step: str, **entry: Any) -> None:
    """A file in a folder, and a lock of it. Each place is asked once."""
    descriptor = -1
    with attempt(f"write {path}", step=step, path=path, **entry) as facts:
        try:
            place = facts["at"] = nearest(path, entry["makes"])
            if place in WRITTEN:
                error = WRITTEN[place]
                if error is not None:
                    raise error
                return
            descriptor = unnamed(place)
            write(descriptor)
            WRITTEN[place] = None
        except Exception as error:
            WRITTEN[facts.get("at", path)] = error
            raise
    try:
        if descriptor >= 0 and path in WRITTEN and WRITTEN[path] is None and entry["locks"]:
            with attempt(f"lock {path}", step="lock", path=path, **entry):
                lock(descriptor)
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def try_execute(folder: str) -> None:
    """As the loader maps a library that was compiled there."""
    with attempt(f"execute from {folder}", step="execute", path=folder):
        import mmap

        descriptor = unnamed(folder)
        try:
            os.write(descriptor, bytes(BLOCK))
            mmap.mmap(descriptor, BLOCK, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC).close()
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def named(*paths: str) -> Iterator[None]:
    """These names may be made; after that there are none."""
    REMOVER.will_remove(*paths)
    try:
        yield
    finally:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def try_rename(folder: str) -> None:
    before, after = (f"{folder.rstrip('/')}/{NAME[:-1]}{letter}" for letter in "xy")
    with attempt(f"rename in {folder}", step="rename", path=folder), named(before, after):
        os.close(os.open(before, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        os.rename(before, after)


def try_socket(folder: str, length: int) -> None:
    """A Unix socket whose name adds so many bytes to the folder."""
    path = f"{folder.rstrip('/')}/{NAME[: length - 1]}"
    size = len(os.fsencode(path))
    with attempt(f"bind a socket in {folder}", step="socket", path=folder, length=size, added=length):
        import _socket

        with named(path), contextlib.closing(_socket.socket(_socket.AF_UNIX)) as listener:
            try:
                listener.bind(path)
            except OSError as error:
                REFUSED.append(path)
                if error.errno is None:  # Python's own word for it
                    raise OSError(errno.ENAMETOOLONG, str(error)) from None
                raise
            listener.listen(1)
            with contextlib.closing(_socket.socket(_socket.AF_UNIX)) as caller:
                caller.connect(path)


def try_sockets(folder: str) -> None:
    """By the longest name; where that one is refused by Python's own, and where else there would be room."""
    try_socket(folder, TORCH)
    if not REFUSED:
        return
    try_socket(folder, PYTHON)
    with attempt("multiprocessing", step="multiprocessing") as facts:
        from multiprocessing import util

        facts["falls_back"] = hasattr(util, "_SUN_PATH_MAX")  # to /tmp, where TMPDIR is too long
    for other in TEMPORARY[:2]:
        if other != folder:
            try_folder(other, "instead", makes=False, locks=False)


def try_large() -> None:
    create = getattr(os, "memfd_create", None)  # of Python 3.8
    if create is None:
        return
    with attempt("let a file grow", step="large", bytes=LARGE):
        descriptor = create("npudoctor-trial")
        try:
            os.ftruncate(descriptor, LARGE)
        finally:
            os.close(descriptor)


for device in DEVICES:
    try_device(*device)
try_terminal()
with attempt("start a process", step="remover"):
    REMOVER.start()
try_large()
chosen = temporary()
if chosen is not None:
    sweep(chosen)
    try_execute(chosen)
    if REMOVER.names is not None:
        try_rename(chosen)
        try_sockets(chosen)
for folder in QUESTIONS["folders"]:
    path = folder["path"]
    if path.startswith("/") or chosen is not None:
        entry = {name: value for name, value in folder.items() if name != "path"}
        try_folder(os.path.join(chosen or "", path), "folder", **entry)
REMOVER.stop()
end()
