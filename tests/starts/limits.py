"""Machines that allow too little: limits of processes, control groups, amounts of a namespace."""

from __future__ import annotations

from .machine import Machine


def _limit(job: str, name: str, why: str, *limits: str, near: str = "", user: str = "trainer") -> Machine:
    """One with these limits of prlimit."""
    return Machine(f"{job}-{name}", job, not near, why, limits=limits, near=near, user=user)


def _group(job: str, name: str, why: str, near: str = "", **settings: str) -> Machine:
    """One in a control group of its own: pids_max stands for pids/pids.max."""
    group = {key.replace("_", f"/{key.split('_')[0]}.", 1): value for key, value in settings.items()}
    return Machine(f"{job}-{name}", job, not near, why, group=group, near=near)


LIMITS = (
    _limit("multiprocessing", "nproc", "six processes of the user", "--nproc=6"),
    _limit("torchrun", "nproc", "twenty processes and threads of the user", "--nproc=20"),
    _limit("msrun", "nproc", "forty processes and threads of the user", "--nproc=40"),
    _limit("multiprocessing", "nofile", "ten open files", "--nofile=10"),
    _limit("torchrun", "nofile", "sixteen open files", "--nofile=16"),
    _limit("msrun", "nofile", "thirty-two open files", "--nofile=32"),
    _limit("torchrun", "cpu", "a second of processor time", "--cpu=1"),
    _limit("torchrun", "as", "half a gigabyte of addresses", "--as=500000000"),
    _limit("multiprocessing", "as", "thirty megabytes of addresses", "--as=30000000"),
    _limit("multiprocessing", "data", "six megabytes of data", "--data=6000000"),
    _limit("torchrun", "stack", "threads with a stack of sixteen gigabytes", "--stack=17179869184",
           near="multiprocessing-stack"),
    _limit("multiprocessing", "stack", "a stack of 64 KiB", "--stack=65536"),
    _limit("multiprocessing", "fsize", "files of at most 4096 bytes", "--fsize=4096"),
    _limit("torchrun", "memlock", "nothing may be locked in memory", "--memlock=0", near="torchrun-as"),
    _limit("multiprocessing", "queues", "no bytes for queues of messages, no signals that wait",
           "--msgqueue=0", "--sigpending=0", near="multiprocessing-nproc"),
    _limit("torchrun", "nofile-1024", "1024 open files", "--nofile=1024", near="torchrun-nofile"),
    _limit("multiprocessing", "nproc-of-root", "root counts no processes", "--nproc=6", user="root",
           near="multiprocessing-nproc"),
    _limit("multiprocessing", "as-enough", "four gigabytes of addresses", "--as=4000000000",
           near="multiprocessing-as"),
    _limit("torchrun", "stack-small", "threads with a stack of one megabyte", "--stack=1048576",
           near="multiprocessing-stack"),
    _limit("multiprocessing", "core", "no core files", "--core=0", "--locks=0", "--nice=0",
           near="multiprocessing-fsize"),
)  # fmt: skip

GROUPS = (
    _group("multiprocessing", "pids-max", "six processes in the control group", pids_max="6"),
    _group("torchrun", "pids-max", "ten processes and threads in the control group", pids_max="10"),
    _group("msrun", "pids-max", "thirty processes and threads in the control group", pids_max="30"),
    _group("torchrun", "memory", "200 MiB of memory in the control group", memory_limit_in_bytes="200M"),
    _group("multiprocessing", "memory", "8 MiB of memory in the control group", memory_limit_in_bytes="8M"),
    _group("torchrun", "device-refused", "a control group that refuses /dev/urandom and /dev/null",
           devices_deny="c 1:* rwm"),
    _group("multiprocessing", "device-refused", "a control group that refuses /dev/urandom and /dev/null",
           devices_deny="c 1:* rwm", near="torchrun-device-refused"),
    _group("multiprocessing", "pids-enough", "two hundred processes in the control group", pids_max="200",
           near="multiprocessing-pids-max"),
    _group("torchrun", "memory-enough", "4 GiB of memory in the control group", memory_limit_in_bytes="4G",
           near="torchrun-memory"),
    _group("multiprocessing", "device-tty", "a control group that refuses /dev/tty", devices_deny="c 5:0 rwm",
           near="torchrun-device-refused"),
)  # fmt: skip

MACHINES = (*LIMITS, *GROUPS)
