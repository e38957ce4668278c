"""Runs a program for which the kernel refuses some system calls, as a container's profile does.

    python3 -I refuse.py memfd_create:ENOSYS socket=10:EAFNOSUPPORT -- PROGRAM ARGUMENT ...

`name=number` refuses the call only where its first argument is that number. It needs nothing but the standard
library, as it runs inside the machine.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

# Their numbers on x86_64 and aarch64; None: aarch64 has no such call.
CALLS: dict[str, tuple[int, int | None]] = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "close_range": (436, 436),
    "connect": (42, 203),
    "epoll_create1": (291, 20),
    "eventfd2": (290, 19),
    "fallocate": (285, 47),
    "flock": (73, 32),
    "fork": (57, None),
    "ftruncate": (77, 46),
    "futex": (202, 98),
    "get_mempolicy": (239, 236),
    "getrandom": (318, 278),
    "io_uring_setup": (425, 425),
    "listen": (50, 201),
    "madvise": (28, 233),
    "mbind": (237, 235),
    "memfd_create": (319, 279),
    "mlock": (149, 228),
    "mremap": (25, 216),
    "pidfd_open": (434, 434),
    "pipe2": (293, 59),
    "process_vm_readv": (310, 270),
    "ptrace": (101, 117),
    "rseq": (334, 293),
    "sched_getaffinity": (204, 123),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sendfile": (40, 71),
    "set_robust_list": (99, 99),
    "setsockopt": (54, 208),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "statx": (332, 291),
    "symlink": (88, None),
    "timerfd_create": (283, 85),
    "userfaultfd": (323, 282),
    "vfork": (58, None),
}
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2


def instruction(code: int, if_true: int, if_false: int, value: int) -> bytes:
    """One step of the kernel's filter language."""
    return struct.pack("HBBI", code, if_true, if_false, value)


def refusal(word: str, column: int) -> bytes:
    """The steps for one `name[=first argument]:ERROR`."""
    call, _colon, error = word.partition(":")
    name, _equals, argument = call.partition("=")
    number = CALLS[name][column]
    if number is None:
        return b""
    end = instruction(RETURN, 0, 0, ERRNO | getattr(errno, error))
    if argument:
        low_half = instruction(LOAD, 0, 0, 16)
        end = low_half + instruction(EQUAL, 0, 1, int(argument)) + end
    load_number = instruction(LOAD, 0, 0, 0)
    return load_number + instruction(EQUAL, 0, len(end) // 8, number) + end


def refuse(words: list[str]) -> None:
    """From here on, for this process and all that it starts."""
    column, architecture = ARCHITECTURES[platform.machine()]
    allow = instruction(RETURN, 0, 0, ALLOW)
    program = instruction(LOAD, 0, 0, 4) + instruction(EQUAL, 1, 0, architecture) + allow
    program += b"".join(refusal(word, column) for word in words) + allow
    steps = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(steps))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(SECCOMP, FILTER, described, 0, 0):
        sys.exit(f"seccomp: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    end_of_words = sys.argv.index("--")
    refuse(sys.argv[1:end_of_words])
    os.execvp(sys.argv[end_of_words + 1], sys.argv[end_of_words + 1 :])  # noqa: S606
