"""Memory that processes share, as multiprocessing, torch and MindSpore take it; none of it keeps a name."""

import contextlib
import errno
import os
import sys
import time
from typing import Any, Dict, Iterator, Optional

from npudoctor.trial.parts.attempts import QUESTIONS, attempt, end

# Where the C library keeps what shm_open and sem_open make: it reads no variable for that.
FOLDER = "/dev/shm"  # noqa: S108
PREFIX = ".npudoctor-trial-"
NAME = f"{FOLDER}/{PREFIX}{os.getpid()}-{os.urandom(4).hex()}"
# Bytes; large enough for several pages of 64 KiB, as aarch64 may have.
SMALL, SEGMENT, PART = 1 << 20, 1 << 20, 8 << 20
SEMAPHORE = 32  # bytes of one
# The key of our System V segment: this, and the pid of its maker. It has a name for two calls of the system.
KEY = 0x4E << 24
# From <sys/ipc.h>.
IPC_PRIVATE, IPC_CREAT, IPC_EXCL, IPC_RMID = 0, 0o1000, 0o2000, 0
SYSVIPC = "/proc/sysvipc/shm"
# A file system, or a kernel, that knows no files without a name.
NO_TMPFILE = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOSYS)


def load_libc() -> Any:
    """The C library; None where this Python has no ctypes."""
    try:
        import ctypes

        return ctypes.CDLL(None, use_errno=True)
    except (ImportError, OSError):
        return None


LIBC = load_libc()


def refuse() -> None:
    import ctypes

    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))


def is_pid_gone(pid: int) -> bool:
    """Return whether no process has this pid."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False


def remove_left_behind() -> None:
    """Remove what a trial that was killed between two calls has left: its name contains its pid."""
    with contextlib.suppress(OSError):
        for name in os.listdir(FOLDER):
            pid = name[len(PREFIX) :].partition("-")[0]
            if name.startswith(PREFIX) and pid.isdigit() and is_pid_gone(int(pid)):
                with contextlib.suppress(OSError):
                    os.unlink(FOLDER + "/" + name)
    if LIBC is None:
        return
    with contextlib.suppress(OSError, ValueError), open(SYSVIPC) as file:
        columns = file.readline().split()
        for line in file:
            row = dict(zip(columns, map(int, line.split())))
            # The lower bits of the key are the pid of its maker.
            maker = row["key"] ^ KEY
            # A maker whom this namespace of pids does not see has the pid 0: no trial lives for a minute.
            age = 2 if row["cpid"] == maker else 60
            ours = 0 < maker < 1 << 24 and row["uid"] == os.getuid() and row["size"] == SEGMENT
            ours = ours and row["cpid"] in (maker, 0)
            if ours and not row["nattch"] and is_pid_gone(maker) and abs(time.time() - row["ctime"]) > age:
                LIBC.shmctl(row["shmid"], IPC_RMID, None)


@contextlib.contextmanager
def open_nameless() -> Iterator[int]:
    """Make a new file in /dev/shm that has no name, or only for a moment; yield its descriptor."""
    try:
        descriptor = os.open(FOLDER, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in NO_TMPFILE:
            raise
        descriptor = os.open(NAME, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        os.unlink(NAME)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_space() -> Dict[str, Any]:
    """What the file system says of itself, for the sentence about a refusal. Sizes in bytes."""
    facts: Dict[str, Any] = {}
    with contextlib.suppress(OSError):
        entry = os.stat(FOLDER)
        facts.update(mode=entry.st_mode & 0o7777, owner=entry.st_uid)
        space = os.statvfs(FOLDER)
        facts.update(total=space.f_blocks * space.f_frsize, free=space.f_bavail * space.f_frsize)
        facts.update(inodes=space.f_files, inodes_free=space.f_favail)
    return facts


def read_limits() -> Dict[str, Any]:
    """The soft and the hard limits that may have refused; -1 for none."""
    with contextlib.suppress(ImportError):
        import resource

        kinds = {"-f": resource.RLIMIT_FSIZE, "-v": resource.RLIMIT_AS}
        return {flag: list(resource.getrlimit(kind)) for flag, kind in kinds.items()}
    return {}


def try_segment(size: int, free: int = 0, sent: Optional[Any] = None) -> None:
    """Take a segment of this size in bytes, and write at both of its ends.

    `sent` sends its descriptor, and what comes back must be the same memory. `free`: bytes that are left, as
    far as is known.
    """
    import mmap

    with open_nameless() as descriptor:
        os.ftruncate(descriptor, size)
        # Else who touches a page for which there is no room is ended by SIGBUS. Where much more is free, a
        # part says the same: all of it takes 20 ms.
        part = min(size, PART) if free > 4 * size else size
        # tmpfs gives the pages now, or refuses with ENOSPC.
        os.posix_fallocate(descriptor, size - part, part)
        memory = mmap.mmap(descriptor, size)
        memory[0] = memory[size - 1] = 1
        if sent is not None:
            other = sent(descriptor)
            again = mmap.mmap(other, size)
            os.close(other)
            if again[size - 1] != 1:
                raise RuntimeError("what was sent is not the same memory")
            again.close()
        memory.close()


def try_again() -> None:
    """Open a segment as another process does by its name: with the rights of the new file, from which a
    default ACL of the folder may have taken the owner's own.
    """
    with open_nameless() as descriptor, contextlib.suppress(FileNotFoundError):  # there is no /proc
        os.close(os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC))


def read_umask() -> int:
    mask = os.umask(0o077)
    # There is no call that only reads it.
    os.umask(mask)
    return mask


def try_semaphore() -> None:
    """Make a named semaphore as sem_open does: a file that gets a name, and loses it at once."""
    with open_nameless() as descriptor:
        os.write(descriptor, bytes(SEMAPHORE))
        with contextlib.suppress(FileNotFoundError):  # there is no /proc
            # With a descriptor it is linkat(2), which follows the link of /proc; the path has no need of it.
            os.link(f"/proc/self/fd/{descriptor}", NAME, src_dir_fd=descriptor, follow_symlinks=True)
            os.unlink(NAME)
        import mmap

        memory = mmap.mmap(descriptor, SEMAPHORE)
        if LIBC is None:
            return
        import ctypes

        place = ctypes.byref((ctypes.c_char * SEMAPHORE).from_buffer(memory))
        if LIBC.sem_init(place, 1, 1) or LIBC.sem_wait(place) or LIBC.sem_post(place):
            refuse()


def send_descriptor(sender: Any, receiver: Any, descriptor: int) -> int:
    """Send a descriptor over a socket; return it as it arrives."""
    # Without `socket`, which has names for all of it and takes 8 ms to load.
    import _socket
    import struct

    size = struct.calcsize("i")
    sender.sendmsg([b"x"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", descriptor))])
    _data, ancillary, _flags, _address = receiver.recvmsg(1, _socket.CMSG_SPACE(size))
    if not ancillary:
        raise RuntimeError("the descriptor did not arrive")
    return int(struct.unpack("i", ancillary[0][2][:size])[0])


def send_over_pair(descriptor: int) -> int:
    import _socket

    first, second = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        return send_descriptor(first, second, descriptor)
    finally:
        first.close()
        second.close()


def send_over_listener(descriptor: int) -> int:
    """Send a descriptor as multiprocessing does to a process that asks for it; the name lies in no folder."""
    import _socket

    listener, client = (_socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM) for _ in range(2))
    served = None
    try:
        listener.bind("\0" + os.path.basename(NAME))
        listener.listen(1)
        client.connect(listener.getsockname())
        served = _socket.socket(fileno=listener._accept()[0])  # type: ignore[attr-defined]
        return send_descriptor(served, client, descriptor)
    finally:
        for endpoint in (listener, client, served):
            if endpoint is not None:
                endpoint.close()


def try_sysv() -> None:
    import ctypes

    LIBC.shmat.restype = ctypes.c_void_p
    LIBC.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
    LIBC.shmdt.argtypes = [ctypes.c_void_p]
    LIBC.shmget.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
    # Not IPC_PRIVATE, whose segment a later trial could not recognise as ours.
    segment = LIBC.shmget(KEY | os.getpid(), SEGMENT, IPC_CREAT | IPC_EXCL | 0o600)
    if segment < 0 and ctypes.get_errno() == errno.EEXIST:  # of a trial in another namespace of pids
        segment = LIBC.shmget(IPC_PRIVATE, SEGMENT, IPC_CREAT | 0o600)
    if segment < 0:
        refuse()
    place = LIBC.shmat(segment, None, 0)
    number = ctypes.get_errno()
    # From here on it goes with the last process that has it attached.
    LIBC.shmctl(segment, IPC_RMID, None)
    if place == ctypes.c_void_p(-1).value:
        raise OSError(number, os.strerror(number))
    ctypes.memset(place, 1, 1)
    LIBC.shmdt(place)


remove_left_behind()
with attempt("limits") as limit_facts:
    limit_facts["limits"] = read_limits()
modules = ["mmap", "_multiprocessing", *(["_posixshmem"] if sys.version_info >= (3, 8) else [])]
missing = []
for module in modules:
    with attempt("module", module=module):
        missing.append(module)
        __import__(module)
        missing.pop()
if "mmap" not in missing:
    done = False
    if QUESTIONS["large"]:
        with attempt("segment", bytes=QUESTIONS["large"]) as segment_facts:
            segment_facts.update(read_space())
            try_segment(QUESTIONS["large"], segment_facts.get("free", 0))
            done = True
    if not done:
        with attempt("small", bytes=SMALL) as segment_facts:
            segment_facts.update(read_space())
            try_segment(SMALL)
            done = True
    with attempt("semaphore", **read_space()):
        try_semaphore()
    if done:
        with attempt("again", umask=read_umask(), **read_space()):
            try_again()
        with attempt("socketpair"):
            try_segment(4096, sent=send_over_pair)
        with attempt("listener"):
            try_segment(4096, sent=send_over_listener)
if LIBC is not None:
    with attempt("sysv", bytes=SEGMENT):
        try_sysv()
end()
