"""Two kernel calls that Python has no binding of: renameat2 and shmctl(IPC_RMID)."""

from __future__ import annotations

import ctypes
import os

IPC_RMID = 0
RENAME_NOREPLACE = 1

# For C libraries older than 2.28, which have no renameat2.
_NUMBERS = {"x86_64": 316, "aarch64": 276}


def remove_segment(shmid: int) -> None:
    """shmctl(shmid, IPC_RMID): mark a segment for destruction. OSError as the kernel gives it."""
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
            raise OSError(38, "renameat2 is not known for this machine", old)
        result = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise _error(old)


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), what)
