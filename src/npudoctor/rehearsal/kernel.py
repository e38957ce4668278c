"""System calls that Python 3.9 has no binding for: namespaces, mounts, System V segments."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct

from npudoctor.core.lazy import pattern

# CLONE_NEW* of linux/sched.h. Python has os.unshare only since 3.12.
NAMESPACE_FLAGS = {
    "user": 0x10000000, "mnt": 0x00020000, "pid": 0x20000000, "ipc": 0x08000000,
    "net": 0x40000000, "uts": 0x04000000, "cgroup": 0x02000000,
}  # fmt: skip
# MS_* of linux/mount.h.
READ_ONLY, NO_SUID, NO_DEVICES, NO_EXEC = 1, 2, 4, 8
REMOUNT, BIND, RECURSIVE, PRIVATE = 1 << 5, 1 << 12, 1 << 14, 1 << 18
# The flags that statvfs and mount number alike, and MS_RELATIME, which statvfs reports as 4096 (ST_RELATIME).
_SAME_FLAGS, _RELATIVE_TIMES = 1 | 2 | 4 | 8 | 1024 | 2048, 1 << 21
_OCTAL = pattern(r"\\([0-7]{3})")
CREATE, EXCLUSIVE = 0o1000, 0o2000  # IPC_CREAT, IPC_EXCL
# mount_setattr(2), with the same number on all architectures; AT_RECURSIVE, AT_FDCWD.
_SET_ATTRIBUTES, _AT_RECURSIVE, _WORKING_DIRECTORY = 442, 0x8000, -100
_PARENT_DEATH, _NAME, _NO_NEW_PRIVILEGES, _AMBIENT, _RAISE = 1, 15, 38, 47, 2  # prctl(2)
_CAPABILITIES, _NET_ADMIN = 0x20080522, 12  # _LINUX_CAPABILITY_VERSION_3 and CAP_NET_ADMIN (capabilities(7))
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1  # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP (netdevice(7))

_libc = ctypes.CDLL(None, use_errno=True)
# Without these, ctypes passes and returns 32-bit integers, which truncate addresses and sizes.
_libc.shmat.restype = ctypes.c_void_p
_libc.shmget.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
_libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
_libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]


def _check_result(result: object, call: str) -> int:
    """Return the result of a call; raise OSError when it failed. `what`: the call, for the error."""
    if result is None or result in (-1, ctypes.c_size_t(-1).value):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), call)
    return result  # type: ignore[return-value]


def unshare(*kinds: str) -> None:
    """Move this process into new namespaces of these kinds; only its next child enters a new pid
    namespace."""
    flags = 0
    for kind in kinds:
        flags |= NAMESPACE_FLAGS[kind]
    _check_result(_libc.unshare(flags), f"unshare {' '.join(kinds)}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Call mount(2); "" stands for a null pointer."""
    words = [word.encode() or None for word in (source, target, kind)]
    _check_result(_libc.mount(*words, flags, options.encode() or None), f"mount {target}")


def unmount(target: str) -> None:
    """Call umount2(2)."""
    _check_result(_libc.umount2(target.encode(), 0), f"umount {target}")


def bind_read_only(source: str, target: str) -> None:
    """Bind-mount a tree or a device with all mounts below it, read-only.

    A device can still be written to: a read-only mount protects the node, not the device.
    """
    mount(source, target, flags=BIND | RECURSIVE)
    make_read_only(target)


def make_read_only(target: str) -> None:
    """Make a mount and all mounts below it read-only."""
    _set_attributes(target, READ_ONLY, 0)


def make_writable(folder: str) -> None:
    """Make one directory of a read-only mount writable, by a mount of its own."""
    mount(folder, folder, flags=BIND)
    _set_attributes(folder, 0, READ_ONLY)


def _set_attributes(target: str, set_flags: int, clear_flags: int) -> None:
    """Set and clear flags of a mount and all below it; before Linux 5.12 one mount after the other."""
    packed = struct.pack("QQQQ", set_flags, clear_flags, 0, 0)
    attributes = ctypes.create_string_buffer(packed, len(packed))
    size = ctypes.c_size_t(len(packed))
    try:
        _check_result(
            _libc.syscall(
                _SET_ATTRIBUTES, _WORKING_DIRECTORY, target.encode(), _AT_RECURSIVE, attributes, size
            ),
            f"mount_setattr {target}",
        )
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            # Mount points with their octal escapes decoded: the kernel writes a blank as \\040.
            mounted = [_OCTAL.sub(lambda octal: chr(int(octal[1], 8)), line.split()[4]) for line in file]
        for path in dict.fromkeys(mounted):
            if path != target and not path.startswith(f"{target}/"):
                continue
            # A remount must repeat the present flags: in a user namespace they are locked, and leaving one
            # out fails with EPERM (mount_namespaces(7)).
            flags = os.statvfs(path).f_flag
            mount(
                "none",
                path,
                flags=REMOUNT
                | BIND
                | (flags & _SAME_FLAGS | (_RELATIVE_TIMES if flags & os.ST_RELATIME else 0)) & ~clear_flags
                | set_flags,
            )


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends, however it ends."""
    _libc.prctl(_PARENT_DEATH, signal.SIGKILL, 0, 0, 0)


def set_process_name(name: str) -> None:
    """Set the name that ps shows for this process; the kernel keeps 15 bytes."""
    _libc.prctl(_NAME, name.encode(), 0, 0, 0)


def keep_network_rights() -> None:
    """Let the next executed program configure the network.

    A user other than root loses capabilities at execve unless they are ambient (since Linux 4.3).
    """
    head = struct.pack("Ii", _CAPABILITIES, 0)
    sets = ctypes.create_string_buffer(24)  # two sets (64 bits) of effective, permitted, inheritable
    _check_result(_libc.capget(head, sets), "capget")
    words = list(struct.unpack("6I", sets.raw))
    # inheritable = permitted: a capability can become ambient only when it is both.
    words[2], words[5] = words[1], words[4]
    _check_result(_libc.capset(head, struct.pack("6I", *words)), "capset")
    _check_result(_libc.prctl(_AMBIENT, _RAISE, _NET_ADMIN, 0, 0), "prctl PR_CAP_AMBIENT")


def forbid_new_privileges() -> None:
    """Keep this process and its children from gaining rights by sudo or setuid programs."""
    _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def set_host_name(name: str) -> None:
    """Set the host name of this UTS namespace."""
    _check_result(_libc.sethostname(name.encode(), len(name)), "sethostname")


def switch_interface_on(interface: str) -> None:
    """Set a network interface up, as `ip link set dev INTERFACE up` does."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as request_socket:
        request = struct.pack("16sH14x", interface.encode(), 0)
        flags = struct.unpack_from("16sH", fcntl.ioctl(request_socket, _GET_FLAGS, request))[1]
        fcntl.ioctl(request_socket, _SET_FLAGS, struct.pack("16sH14x", interface.encode(), flags | _UP))


def ftok_key(path: str) -> int:
    """ftok(path, 'a') as an unsigned number: the key that MindSpore's cache server derives from its
    socket."""
    return int(_libc.ftok(path.encode(), ord("a"))) & 0xFFFFFFFF


def make_segment(key: int, size: int) -> int:
    """Make a System V segment of `size` bytes and attach it; returns its shmid, which may be 0."""
    shmid = _check_result(_libc.shmget(ctypes.c_int(key).value, size, CREATE | EXCLUSIVE | 0o600), "shmget")
    _check_result(_libc.shmat(shmid, None, 0), "shmat")
    return shmid
