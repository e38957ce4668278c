"""System V segments and namespaces, by the system's own calls and without npudoctor's help."""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes longer to load than a server of ours takes to start
    from typing import Optional

CREATE, EXCLUSIVE, REMOVE = 0o1000, 0o2000, 0
NEW_NAMESPACE = {"ipc": 0x08000000, "pid": 0x20000000, "mnt": 0x00020000, "net": 0x40000000}
PRIVATE, RECURSIVE = 1 << 18, 1 << 14
GIB = 1 << 30

libc = ctypes.CDLL(None, use_errno=True)
libc.shmget.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
libc.shmat.restype = ctypes.c_void_p
libc.shmdt.argtypes = [ctypes.c_void_p]
libc.shmctl.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
libc.setns.argtypes = [ctypes.c_int, ctypes.c_int]


def checked(result: Optional[int], what: str) -> int:
    """The result of a call; OSError when it failed."""
    if result is None or result in (-1, ctypes.c_size_t(-1).value):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def ftok(path: str) -> int:
    """The C library's key of a file for 'a', unsigned."""
    return int(libc.ftok(os.fsencode(path), ord("a"))) & 0xFFFFFFFF


def make(key: int, size: int = GIB, mode: int = 0o600) -> int:
    """A new segment that nobody is attached to; its shmid, which may be 0."""
    return checked(libc.shmget(ctypes.c_int(key).value, size, CREATE | EXCLUSIVE | mode), "shmget")


def attach(shmid: int) -> int:
    """Map a segment into this process."""
    return checked(libc.shmat(shmid, None, 0), f"shmat {shmid}")


def detach(address: int) -> None:
    """Unmap it."""
    checked(libc.shmdt(address), "shmdt")


def remove(shmid: int) -> None:
    """Remove a segment; one that is gone already is none."""
    libc.shmctl(shmid, REMOVE, None)


def rows() -> dict[int, dict[str, int]]:
    """The segments of this IPC namespace by shmid, as the kernel's table shows them; perms is octal there."""
    with open("/proc/sysvipc/shm", encoding="ascii") as table:
        head, *lines = (line.split() for line in table)
    found = [
        {name: int(word, 8 if name == "perms" else 10) for name, word in zip(head, line)} for line in lines
    ]
    return {row["shmid"]: row for row in found}


def unshare(*kinds: str) -> None:
    """Leave these namespaces for new ones. Concerns this thread, and what it starts."""
    flags = sum(NEW_NAMESPACE[kind] for kind in kinds)
    checked(libc.unshare(flags), f"unshare {kinds}")


def mount_proc(options: str = "") -> None:
    """A /proc of our own namespaces over the old one; what is mounted from now on is seen by us alone."""
    checked(libc.mount(b"none", b"/", None, PRIVATE | RECURSIVE, None), "mount --make-rprivate")
    checked(libc.mount(b"proc", b"/proc", b"proc", 0, options.encode() or None), "mount /proc")


def give(shmid: int, uid: int) -> None:
    """Make another user the owner; who made it stays as it was."""
    status = ctypes.create_string_buffer(256)
    checked(libc.shmctl(shmid, 2, status), "IPC_STAT")
    ctypes.c_uint32.from_buffer(status, 4).value = uid
    checked(libc.shmctl(shmid, 1, status), "IPC_SET")


def bind(what: object, where: object) -> None:
    """mount --bind, seen by us alone."""
    checked(libc.mount(b"none", b"/", None, PRIVATE | RECURSIVE, None), "mount --make-rprivate")
    source, target = (os.fsencode(str(path)) for path in (what, where))
    checked(libc.mount(source, target, None, 1 << 12, None), "mount --bind")
