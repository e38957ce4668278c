"""The calls of the system that Python lacks: namespaces, mounts, System V segments."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct

from npudoctor.core.lazy import pattern

KINDS = {
    "user": 0x10000000, "mnt": 0x00020000, "pid": 0x20000000, "ipc": 0x08000000,
    "net": 0x40000000, "uts": 0x04000000, "cgroup": 0x02000000,
}  # fmt: skip
READ_ONLY, NO_SUID, NO_DEVICES, NO_EXEC = 1, 2, 4, 8
REMOUNT, BIND, RECURSIVE, PRIVATE = 1 << 5, 1 << 12, 1 << 14, 1 << 18
_SAME_FLAGS, _RELATIVE_TIMES = 1 | 2 | 4 | 8 | 1024 | 2048, 1 << 21  # as statvfs and mount number them
_OCTAL = pattern(r"\\([0-7]{3})")
CREATE, EXCLUSIVE = 0o1000, 0o2000
_SET_ATTRIBUTES, _AT_RECURSIVE, _HERE = 442, 0x8000, -100  # mount_setattr(2) has one number on all machines
_PARENT_DEATH, _NAME, _NO_NEW_PRIVILEGES, _AMBIENT, _RAISE = 1, 15, 38, 47, 2  # prctl(2)
_CAPABILITIES, _NET_ADMIN = 0x20080522, 12  # capabilities(7): the version of the calls
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1  # of an interface

_libc = ctypes.CDLL(None, use_errno=True)
_libc.shmat.restype = ctypes.c_void_p
_libc.shmget.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
_libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
_libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]


def _check_result(result: object, what: str) -> int:
    """The result of a call; OSError when it failed."""
    if result is None or result in (-1, ctypes.c_size_t(-1).value):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result  # type: ignore[return-value]


def unshare(*kinds: str) -> None:
    """Leave these namespaces for new ones; a new pid namespace is entered by the next child."""
    flags = 0
    for kind in kinds:
        flags |= KINDS[kind]
    _check_result(_libc.unshare(flags), f"unshare {' '.join(kinds)}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """mount(2)."""
    words = [word.encode() or None for word in (source, target, kind)]
    _check_result(_libc.mount(*words, flags, options.encode() or None), f"mount {target}")


def unmount(target: str) -> None:
    """umount(2)."""
    _check_result(_libc.umount2(target.encode(), 0), f"umount {target}")


def bind_read_only(source: str, target: str) -> None:
    """Show a tree or a device at another place, with what is mounted below it; nobody can change it there.

    A device itself can still be written to: /dev/null goes on swallowing.
    """
    mount(source, target, flags=BIND | RECURSIVE)
    close(target)


def close(target: str) -> None:
    """Make what is mounted there, and below it, read-only."""
    _set_attributes(target, READ_ONLY, 0)


def open_again(folder: str) -> None:
    """Make one folder of what was closed writable."""
    mount(folder, folder, flags=BIND)
    _set_attributes(folder, 0, READ_ONLY)


def _set_attributes(target: str, wanted: int, unwanted: int) -> None:
    """For a mount and all below it; before Linux 5.12 one after the other."""
    packed = struct.pack("QQQQ", wanted, unwanted, 0, 0)
    attributes = ctypes.create_string_buffer(packed, len(packed))
    size = ctypes.c_size_t(len(packed))
    try:
        _check_result(
            _libc.syscall(_SET_ATTRIBUTES, _HERE, target.encode(), _AT_RECURSIVE, attributes, size),
            f"mount_setattr {target}",
        )
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            # The names as they are: the kernel writes blanks in octal.
            mounted = [_OCTAL.sub(lambda octal: chr(int(octal[1], 8)), line.split()[4]) for line in file]
        for path in dict.fromkeys(mounted):
            if path != target and not path.startswith(f"{target}/"):
                continue
            # The flags of a mount, which must stay: in a user namespace they are locked.
            flags = os.statvfs(path).f_flag
            mount(
                "none",
                path,
                flags=REMOUNT
                | BIND
                | (flags & _SAME_FLAGS | (_RELATIVE_TIMES if flags & os.ST_RELATIME else 0)) & ~unwanted
                | wanted,
            )


def die_with_parent() -> None:
    """Be killed when the parent ends, however it ends."""
    _libc.prctl(_PARENT_DEATH, signal.SIGKILL, 0, 0, 0)


def name_process(name: str) -> None:
    """What ps shows of us; at most 15 letters."""
    _libc.prctl(_NAME, name.encode(), 0, 0, 0)


def keep_network_rights() -> None:
    """Let the program that is executed next change our network: who is not root loses that right else."""
    head = struct.pack("Ii", _CAPABILITIES, 0)
    sets = ctypes.create_string_buffer(24)  # twice: effective, permitted, inheritable
    _check_result(_libc.capget(head, sets), "capget")
    words = list(struct.unpack("6I", sets.raw))
    words[2], words[5] = words[1], words[4]
    _check_result(_libc.capset(head, struct.pack("6I", *words)), "capset")
    _check_result(_libc.prctl(_AMBIENT, _RAISE, _NET_ADMIN, 0, 0), "prctl PR_CAP_AMBIENT")


def no_new_privileges() -> None:
    """No program that is started from now on gains rights: no sudo, no setuid."""
    _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def name_machine(name: str) -> None:
    """The host name of our UTS namespace."""
    _check_result(_libc.sethostname(name.encode(), len(name)), "sethostname")


def switch_on(interface: str) -> None:
    """As `ip link set dev INTERFACE up`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        request = struct.pack("16sH14x", interface.encode(), 0)
        flags = struct.unpack_from("16sH", fcntl.ioctl(asking, _GET_FLAGS, request))[1]
        fcntl.ioctl(asking, _SET_FLAGS, struct.pack("16sH14x", interface.encode(), flags | _UP))


def key_of(path: str) -> int:
    """The C library's key of a file for 'a', as the cache server takes it; unsigned."""
    return int(_libc.ftok(path.encode(), ord("a"))) & 0xFFFFFFFF


def make_segment(key: int, size: int) -> int:
    """A new System V segment that this process has attached; its shmid, which may be 0."""
    shmid = _check_result(_libc.shmget(ctypes.c_int(key).value, size, CREATE | EXCLUSIVE | 0o600), "shmget")
    _check_result(_libc.shmat(shmid, None, 0), "shmat")
    return shmid
