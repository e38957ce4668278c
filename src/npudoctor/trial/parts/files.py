"""Files as a job makes them in its first minute: devices, the temporary folder, the folders of caches.

Where the file system has files without a name (O_TMPFILE) no other is made. What needs a name (a rename, a
socket) has one that nobody else takes, and a child that removes it should this process be killed.
"""

import contextlib
import errno
import os
import stat
import struct
from typing import Any, Dict, List, Optional

from npudoctor.trial.parts.attempts import QUESTIONS, attempt, end
from npudoctor.trial.parts.names import NAME, REMOVER, removed_names, sweep

BLOCK = 4096  # the least that a file takes
LARGE = 1 << 30  # bytes of a checkpoint
TEMPORARY = ("/tmp", "/var/tmp", "/usr/tmp", ".")  # noqa: S108  (as tempfile has them)
# What follows TMPDIR in the names of sockets: of torch's manager of shared memory, of multiprocessing.
TORCH, PYTHON = len("/torch-shm-dir-XXXXXX/manager.sock"), len("/pymp-XXXXXXXX/listener-XXXXXXXX")
# Linux numbers the memory devices so since ever: major 1 (Documentation/admin-guide/devices.txt).
DEVICES = (
    ("/dev/null", os.O_RDWR, (1, 3)),
    ("/dev/zero", os.O_RDONLY, (1, 5)),
    ("/dev/urandom", os.O_RDONLY, (1, 9)),
)
# EOPNOTSUPP: the file system lacks O_TMPFILE; EISDIR and ENOENT: the kernel does (open(2)); EINVAL, ENOSYS:
# sandboxes.
WITHOUT_UNNAMED = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL, errno.ENOSYS)


# By folder: why it could not be written, None where it could; the file systems that wrote to the disk.
WRITTEN: Dict[str, Optional[Exception]] = {}
SYNCED: List[int] = []
LOCKED: List[str] = []
# FS_IOC_GETFLAGS, and the flag of `chattr +a`.
GET_FLAGS = 0x80006601 | struct.calcsize("l") << 16
APPEND_ONLY = 0x20
REFUSED: List[str] = []  # names of sockets


def nearest_folder(path: str, makes: bool) -> str:
    """The folder itself or, where `makes` and it is missing, the nearest one above it."""
    here = path
    while True:
        try:
            mode = os.stat(here).st_mode
        except FileNotFoundError:
            # A dangling link: makedirs() would fail at it, too.
            if not makes or os.path.islink(here):
                raise
            here = os.path.dirname(here)
            continue
        if not stat.S_ISDIR(mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return here


def require_removable(folder: str) -> None:
    """OSError where no name can be removed. No name is made to find out, since it would stay."""
    import fcntl

    flags = 0
    # A file system without such flags, or one of 32 bits where they are read otherwise.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            flags = struct.unpack("l", fcntl.ioctl(descriptor, GET_FLAGS, bytes(struct.calcsize("l"))))[0]
        finally:
            os.close(descriptor)
    if flags & APPEND_ONLY:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{folder.rstrip('/')}/{NAME}")


def open_unnamed(folder: str) -> int:
    """Open a new file in a folder that has no name, or has lost it at once; return the descriptor."""
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o700)
    except OSError as error:
        if error.errno not in WITHOUT_UNNAMED:
            raise
    require_removable(folder)
    path = f"{folder.rstrip('/')}/{NAME}"
    # Announced first: between the two calls this process could be killed.
    REMOVER.will_remove(path)
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o700)
    os.unlink(path)
    return descriptor


def write(descriptor: int) -> None:
    """Write a block of zeros, and once on each file system wait for the disk: a quota or a server answers
    only then.
    """
    remaining = BLOCK
    while remaining:
        remaining -= os.write(descriptor, bytes(remaining))
    device = os.fstat(descriptor).st_dev
    if device not in SYNCED:
        os.fsync(descriptor)
        SYNCED.append(device)


def try_lock(folder: str) -> None:
    import fcntl

    descriptor = open_unnamed(folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)


def try_device(path: str, flags: int, numbers: Any) -> None:
    with attempt(f"open {path}", step="device", path=path) as facts:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            facts["device"] = stat.S_ISCHR(status.st_mode) and numbers == (
                os.major(status.st_rdev),
                os.minor(status.st_rdev),
            )
            if not facts["device"]:  # nothing is written to a file that has its name
                raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
            if flags == os.O_RDWR:
                os.write(descriptor, b"x")
            os.read(descriptor, 16)
        finally:
            os.close(descriptor)


def try_proc(path: str) -> None:
    """Read a file that lxcfs, or the options of a mount, may have put out of reach."""
    with attempt(f"read {path}", step="proc", path=path):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if not os.read(descriptor, BLOCK):
                raise OSError(errno.ENODATA, os.strerror(errno.ENODATA))
        finally:
            os.close(descriptor)


def try_own_process() -> None:
    """Look for this process: in the /proc of an outer pid namespace, as in a chroot below it, it has another
    number.
    """
    with attempt("find this process", step="proc", path="/proc/self"):
        if os.readlink("/proc/self") != str(os.getpid()):
            raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))


def try_terminal() -> None:
    with attempt("open a pseudo-terminal", step="terminal", path="/dev/ptmx"):
        for descriptor in os.openpty():
            os.close(descriptor)


def find_temporary() -> Optional[str]:
    """The first folder in which a file can be made, in the order of tempfile; None where there is none."""
    variables = [(name, os.environ[name]) for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)]
    for name, value in (*variables, *(("", folder) for folder in TEMPORARY)):
        try:
            path = os.path.abspath(value)
        except FileNotFoundError:  # the working directory is gone
            path = value
        if try_folder(path, "temporary", name=name, makes=False, locks=True):
            return path
    return None


def try_folder(path: str, step: str, **entry: Any) -> bool:
    """Make a file in a folder, and lock one; return whether the file could be made.

    Each place is asked once; what is there twice is reported twice.
    """
    place, made = "", False
    with attempt(f"write {path}", step=step, path=path, **entry) as facts:
        place = facts["at"] = nearest_folder(path, entry["makes"])
        if place not in WRITTEN:
            WRITTEN[place] = write_in(place)
        error = WRITTEN[place]
        if error is not None:
            raise error
        if step == "temporary":
            require_removable(place)  # tempfile takes the next one where its first file stays
        made = True
    if entry["locks"] and place not in LOCKED and made:
        LOCKED.append(place)
        with attempt(f"lock {path}", step="lock", path=path, **entry):
            try_lock(place)
    return made


def write_in(folder: str) -> Optional[Exception]:
    """Why no file can be written there; None where one can."""
    try:
        descriptor = open_unnamed(folder)
        try:
            write(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        return error
    return None


def try_existing(path: str) -> None:
    """Open a file that will be written again, and leave it as it is.

    Only a regular file: to open some devices is an order to them, and a pipe waits for its reader.
    """
    with attempt(f"open {path}", step="existing", path=path), contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC))


def try_execute(folder: str) -> None:
    """Map a file as the loader maps a library that was compiled there."""
    with attempt(f"execute from {folder}", step="execute", path=folder):
        import mmap

        descriptor = open_unnamed(folder)
        try:
            os.write(descriptor, bytes(BLOCK))
            mmap.mmap(descriptor, BLOCK, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC).close()
        finally:
            os.close(descriptor)


def try_many(folder: str) -> None:
    """Make as many files at once as the job makes folders, files and sockets there before its first step."""
    count = QUESTIONS["names"]
    with attempt(f"make {count} files in {folder}", step="many", path=folder, count=count) as facts:
        held: List[int] = []
        try:
            while len(held) < count:
                held.append(open_unnamed(folder))
        finally:
            facts["made"] = len(held)
            for descriptor in held:
                os.close(descriptor)


def try_again(folder: str) -> None:
    """Open a file as another process opens it by name: with the rights of the new file, from which a default
    ACL of the folder may have taken the owner's own.
    """
    with attempt(f"open a file of {folder} again", step="again", path=folder):
        descriptor = open_unnamed(folder)
        try:
            with contextlib.suppress(FileNotFoundError):  # there is no /proc
                os.close(os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC))
        finally:
            os.close(descriptor)


def try_own_folder(folder: str) -> None:
    """Make a folder as `tempfile.mkdtemp` does for multiprocessing, and a file in it: a umask that was meant
    for files, or a default ACL, shuts its owner out.

    Both have one name: where somebody else puts a link in the folder's place, no file that the link leads to
    is called so.
    """
    # One character differs from the names of try_rename, x and y.
    name = f"{NAME[:-1]}z"
    path = f"{folder.rstrip('/')}/{name}"
    inside = f"{path}/{name}"
    with attempt(f"make a folder in {folder}", step="own-folder", path=folder) as facts, removed_names(path):
        os.mkdir(path, 0o700)
        # There is no call that only reads it.
        facts["umask"] = os.umask(0)
        os.umask(facts["umask"])
        with removed_names(inside):
            os.close(os.open(inside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def try_rename(folder: str) -> None:
    before, after = (f"{folder.rstrip('/')}/{NAME[:-1]}{letter}" for letter in "xy")
    with attempt(f"rename in {folder}", step="rename", path=folder), removed_names(before, after):
        os.close(os.open(before, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        os.rename(before, after)


def try_socket(folder: str, length: int) -> None:
    """Bind a Unix socket whose name adds this many bytes to the folder's path."""
    path = f"{folder.rstrip('/')}/{NAME[: length - 1]}"
    size = len(os.fsencode(path))
    with attempt(f"bind a socket in {folder}", step="socket", path=folder, length=size, added=length):
        import _socket

        with removed_names(path), contextlib.closing(_socket.socket(_socket.AF_UNIX)) as listener:
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
    """Try the longest name; where Python itself refuses it, try a shorter one, and other folders that would
    have room.
    """
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
            # RLIMIT_FSIZE refuses it with EFBIG; a file in memory takes no disk.
            os.ftruncate(descriptor, LARGE)
        finally:
            os.close(descriptor)


for device in DEVICES:
    try_device(*device)
try_proc("/proc/meminfo")
try_own_process()
try_terminal()
with attempt("start a process", step="remover"):
    REMOVER.start()
try_large()
chosen = find_temporary()
if chosen is not None:
    sweep(chosen)
    try_execute(chosen)
    try_many(chosen)
    try_again(chosen)
    if REMOVER.names is not None:
        try_own_folder(chosen)
        try_rename(chosen)
        try_sockets(chosen)
for folder in QUESTIONS["folders"]:
    path = folder["path"]
    if path.startswith("/") or chosen is not None:
        entry = {name: value for name, value in folder.items() if name != "path"}
        try_folder(os.path.join(chosen or "", path), "folder", **entry)
for path in QUESTIONS["existing"]:
    try_existing(path)
REMOVER.stop()
end()
