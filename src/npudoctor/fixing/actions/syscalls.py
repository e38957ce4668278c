"""Kernel calls that Python has no binding of, or not everywhere: renameat2, shmctl, fstatfs, pidfds."""

from __future__ import annotations

import ctypes
import os
import signal

# From <sys/ipc.h> and <linux/fs.h>.
IPC_RMID = 0
RENAME_NOREPLACE = 1

# For C libraries older than 2.28, which have no renameat2.
_NUMBERS = {"x86_64": 316, "aarch64": 276}
_PIDFD_SEND_SIGNAL = 424  # the same number on all machines


def remove_segment(shmid: int) -> None:
    """shmctl(shmid, IPC_RMID): mark a segment for destruction. OSError with the kernel's errno."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.shmctl(ctypes.c_int(shmid), ctypes.c_int(IPC_RMID), None) < 0:
        raise _error(f"shmid {shmid}")


def rename_without_replacing(old: str, new: str, directory: int) -> None:
    """Rename inside one directory, given by descriptor, unless the new name exists.

    OSError: EEXIST when it does, ENOSYS or EINVAL where kernel or file system do not know the call.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (
        ctypes.c_int(directory),
        os.fsencode(old),
        ctypes.c_int(directory),
        os.fsencode(new),
        ctypes.c_uint(RENAME_NOREPLACE),
    )
    if hasattr(libc, "renameat2"):
        result = libc.renameat2(*arguments)
    else:
        number = _NUMBERS.get(os.uname().machine)
        if number is None:
            # ENOSYS.
            raise OSError(38, "renameat2 is not known for this machine", old)
        result = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise _error(old)


def file_system(descriptor: int) -> int:
    """The magic number of the file system on which an open file lies (f_type of fstatfs)."""
    libc = ctypes.CDLL(None, use_errno=True)
    answer = (ctypes.c_long * 64)()  # of which struct statfs fills the beginning; f_type is the first
    if libc.fstatfs(ctypes.c_int(descriptor), answer) < 0:
        raise _error(f"descriptor {descriptor}")
    # f_type is signed on some machines; btrfs' number has its highest bit set.
    return answer[0] & 0xFFFFFFFF


def signal_process(descriptor: int, number: int) -> None:
    """Send a signal to the very process that a pidfd holds. OSError with the kernel's errno."""
    if hasattr(signal, "pidfd_send_signal"):
        signal.pidfd_send_signal(descriptor, number)
        return
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (ctypes.c_int(descriptor), ctypes.c_int(number), None, ctypes.c_uint(0))
    if libc.syscall(ctypes.c_long(_PIDFD_SEND_SIGNAL), *arguments) < 0:
        raise _error(f"signal {number}")


def _error(subject: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), subject)
