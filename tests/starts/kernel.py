"""Machines whose kernel, devices or Python refuse something: system calls, device files, modules."""

from __future__ import annotations

from .machine import Machine


def _on(job: str, name: str, why: str, *setup: str, near: str = "", **variables: str) -> Machine:
    """One where a job starts if there is a broken one near."""
    return Machine(f"{job}-{name}", job, not near, why, setup, variables, near=near)


def _refusing(job: str, name: str, why: str, *refused: str, near: str = "") -> Machine:
    """One with a profile of seccomp."""
    return Machine(f"{job}-{name}", job, not near, why, refused=refused, near=near)


DEVICES = (
    _on("multiprocessing", "null-missing", "there is no /dev/null", "rm /dev/null",
        near="multiprocessing-no-unix-sockets"),
    _on("torchrun", "null-missing", "there is no /dev/null", "rm /dev/null",
        near="torchrun-urandom-missing"),
    _on("msrun", "null-closed", "/dev/null is for root alone", "chmod 600 /dev/null"),
    _on("multiprocessing", "null-closed", "/dev/null is for root alone", "chmod 600 /dev/null",
        near="multiprocessing-no-unix-sockets"),
    _on("multiprocessing", "dev-nodev", "/dev is mounted nodev", "mount -o remount,nodev /dev",
        near="torchrun-device-refused"),
    _on("torchrun", "urandom-missing", "there is no /dev/urandom and no /dev/random",
        "rm /dev/urandom /dev/random"),
    _on("multiprocessing", "devices-few", "there is no terminal, no /dev/zero, no /dev/full",
        "umount /dev/pts", "rm /dev/ptmx /dev/tty /dev/zero /dev/full", near="torchrun-urandom-missing"),
    _on("multiprocessing", "null-node", "/dev/null is a device of its own, not udev's",
        "rm /dev/null", "mknod -m 666 /dev/null c 1 3", near="msrun-null-closed"),
    _on("multiprocessing", "mqueue-missing", "there is no /dev/mqueue", "umount /dev/mqueue",
        "rmdir /dev/mqueue", near="multiprocessing-shm-missing"),
)  # fmt: skip

CALLS = (
    _refusing("multiprocessing", "no-unix-sockets", "no sockets of the machine itself", "socket=1:EPERM"),
    _refusing("torchrun", "no-unix-sockets", "no sockets of the machine itself", "socket=1:EPERM"),
    _refusing("torchrun", "no-tcp-sockets", "no sockets of IPv4", "socket=2:EPERM"),
    _refusing("multiprocessing", "no-ftruncate", "no file gets a size", "ftruncate:EPERM"),
    _refusing("torchrun", "no-ftruncate", "no file gets a size", "ftruncate:EPERM"),
    _refusing("torchrun", "no-epoll", "no epoll", "epoll_create1:ENOSYS"),
    _refusing("torchrun", "no-eventfd", "no eventfd", "eventfd2:ENOSYS"),
    _refusing("torchrun", "clone3-refused", "clone3 is not permitted, where it should be unknown",
              "clone3:EPERM"),
    _refusing("multiprocessing", "no-flock", "a file system without locks", "flock:ENOLCK"),
    _refusing("multiprocessing", "no-listen", "nobody may listen", "listen:EACCES"),
    _refusing("torchrun", "no-socketpair", "no pairs of sockets", "socketpair:EPERM",
              near="torchrun-no-unix-sockets"),
    _refusing("torchrun", "no-setsockopt", "no options of sockets", "setsockopt:EPERM"),
    _refusing("torchrun", "no-affinity", "nobody may ask for its processors", "sched_getaffinity:EPERM",
              "sched_setaffinity:EPERM"),
    _refusing("multiprocessing", "no-pipes", "no pipes", "pipe2:EPERM"),
    _refusing("torchrun", "clone3-unknown", "clone3 is unknown, as before Linux 5.3", "clone3:ENOSYS",
              near="torchrun-clone3-refused"),
    _refusing("torchrun", "profile-of-containers", "a container's profile: no NUMA, no ptrace, no io_uring",
              "get_mempolicy:EPERM", "mbind:EPERM", "ptrace:EPERM", "process_vm_readv:EPERM",
              "io_uring_setup:EPERM", "userfaultfd:EPERM", near="torchrun-no-affinity"),
    _refusing("multiprocessing", "no-memfd", "no files of memory, no System V segments, no pidfd",
              "memfd_create:ENOSYS", "shmget:ENOSYS", "pidfd_open:ENOSYS",
              near="multiprocessing-no-ftruncate"),
    _refusing("torchrun", "no-ipv6-sockets", "no sockets of IPv6", "socket=10:EAFNOSUPPORT",
              near="torchrun-no-tcp-sockets"),
    _refusing("msrun", "old-kernel", "system calls of later kernels are unknown", "clone3:ENOSYS",
              "close_range:ENOSYS", "rseq:ENOSYS", "statx:ENOSYS", near="torchrun-clone3-refused"),
)  # fmt: skip


def _without(name: str, why: str, *modules: str, near: str = "") -> Machine:
    """One whose own Python was built without modules: a copy of their folder covers it."""
    setup = (
        'cp -r "$CACHE"/python/lib/python3*/lib-dynload /mnt/modules',
        *(f"rm /mnt/modules/{module}.*" for module in modules),
        'mount --bind /mnt/modules "$CACHE"/python/lib/python3*/lib-dynload',
    )
    variables = {"PATH": "$CACHE/python/bin:$CACHE/bin:/usr/bin:/bin"}
    return Machine(f"multiprocessing-{name}", "multiprocessing", not near, why, setup, variables, near=near)


PYTHONS = (
    _without("no-ctypes", "a Python built without libffi: no _ctypes", "_ctypes"),
    _without("no-posixshmem", "a Python built without shared memory", "_posixshmem"),
    _without("no-semaphores", "a Python built where there was no /dev/shm: no semaphores",
             "_multiprocessing"),
    _without("no-mmap", "a Python built without mmap", "mmap"),
    _without("no-sqlite", "a Python built without what this job does not need", "_sqlite3",
             "_curses", "readline",
             near="multiprocessing-no-ctypes"),
)  # fmt: skip

MACHINES = (*DEVICES, *CALLS, *PYTHONS)
