"""Lets the kernel refuse system calls to a program: `refusing.py SPEC... -- PROGRAM...`.

A SPEC is NUMBER:ERRNO, or NUMBER:ERRNO:ARGUMENT:BITS for calls whose argument has one of these bits.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, MODE_FILTER = 38, 22, 2
LOAD, EQUAL, SET, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
NUMBERS = {
    "x86_64": {"flock": 73, "clone": 56, "vfork": 58, "openat": 257, "bind": 49, "unlink": 87, "setsid": 112},
    "aarch64": {
        "flock": 32,
        "clone": 220,
        "vfork": 220,
        "openat": 56,
        "bind": 200,
        "unlink": 35,
        "setsid": 157,
    },
}[os.uname().machine]
O_TMPFILE_BIT = 0o20000000 & 0xFFFFFFFF


def refusing(call: str, error: int, argument: int = 0, bits: int = 0) -> str:
    """A SPEC."""
    return f"{NUMBERS[call]}:{error}" + (f":{argument}:{bits}" if bits else "")


def refused_calls(*specs: str) -> tuple[str, ...]:
    """Starts the program behind it with these calls refused."""
    return (sys.executable, "-S", os.path.abspath(__file__), *specs, "--")


def program(spec: str) -> list[bytes]:
    number, error, *rest = map(int, spec.split(":"))
    refuse = struct.pack("HBBI", RETURN, 0, 0, REFUSE | error)
    if not rest:
        return [struct.pack("HBBI", EQUAL, 0, 1, number), refuse]
    return [
        struct.pack("HBBI", EQUAL, 0, 4, number),
        struct.pack("HBBI", LOAD, 0, 0, 16 + 8 * rest[0]),
        struct.pack("HBBI", SET, 0, 1, rest[1]),
        refuse,
        struct.pack("HBBI", LOAD, 0, 0, 0),
    ]


if __name__ == "__main__":
    end = sys.argv.index("--")
    lines = [struct.pack("HBBI", LOAD, 0, 0, 0)]
    for one in sys.argv[1:end]:
        lines += program(one)
    lines.append(struct.pack("HBBI", RETURN, 0, 0, ALLOW))
    code = ctypes.create_string_buffer(b"".join(lines))
    filters = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(lines), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, MODE_FILTER, filters, 0, 0)):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), "prctl")
    os.execvp(sys.argv[end + 1], sys.argv[end + 1 :])  # noqa: S606
