"""Gives the witness the job's name: a signal by name must not reach it without reaching the job.

`pkill npudoctor` means us alone, and we pass it on; `pkill -f train.py` finds us, the witness and the job.
"""

from __future__ import annotations

from collections.abc import Sequence

MARK = b"witness:"  # for people who look at ps
_ARGUMENTS = slice(45, 47)  # where the command line begins and ends, after the name in /proc/PID/stat


def take_name(command: Sequence[bytes]) -> None:
    """Give this process the job's name, and its command line behind a mark. OSError, ValueError: no."""
    with open("/proc/self/comm", "wb") as file:
        file.write(command[0].rpartition(b"/")[2][:15])
    with open("/proc/self/stat", "rb") as file:
        start, end = (int(field) for field in file.read().rpartition(b")")[2].split()[_ARGUMENTS])
    words = b"\0".join([MARK, *command])[: end - start - 1]
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        memory.write(words.ljust(end - start, b"\0"))
