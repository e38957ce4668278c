"""Builds the file tree of a faulty machine: a tmpfs in which this machine's programs are mounted
read-only."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module

from npudoctor.core.messages import _, strerror
from npudoctor.rehearsal import kernel
from npudoctor.rehearsal.namespaces import CannotRehearse

# The mount point of the new tree: it exists on every machine, and nothing in it is needed while building.
PLACE = "/sys"
# Directories of which a part must change: they are created, and the real entries are mounted one by one.
MIRRORED = ("/usr", "/usr/local", "/usr/local/bin", "/usr/local/sbin")
# Traces of the real machine's accelerators, which would contradict the simulated ones.
HIDDEN = frozenset(("/usr/local/Ascend", "/usr/local/sbin/npu-smi", "/usr/local/bin/npu-smi"))
SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "nix", "gnu")
COPIED = ("ld.so.cache", "ld.so.conf", "localtime", "os-release", "protocols", "services")
DEVICES = ("null", "zero", "full", "random", "urandom")
EMPTY = (
    "/dev/shm",
    "/home",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sys",
    "/tmp",
    "/var/lib",
    "/var/tmp",
    "/mnt",
)


def build_tree(shared_memory: str = "64g") -> None:
    """Build the tree and make it the root of this process; raises CannotRehearse when the kernel does not
    allow it.

    `shared_memory`: the size of /dev/shm in the syntax of tmpfs.
    """
    try:
        # Else systemd's shared mounts would propagate every mount below to the real machine.
        kernel.mount("none", "/", flags=kernel.RECURSIVE | kernel.PRIVATE)
        own_paths = list(find_own_places())
        # The size is a limit, not a reservation: a tmpfs takes memory only for what is written.
        kernel.mount("rehearsal", PLACE, "tmpfs", kernel.NO_SUID, "mode=755,size=2g")
        _show_system()
        for path in own_paths:
            # It may be visible already, below one of the system directories.
            target = PLACE + path
            if not os.path.exists(target) or not (os.path.isfile(target) or os.listdir(target)):
                show_read_only(path, target)
        _make_rest(shared_memory)
        os.chroot(PLACE)
        # Many files of /proc/sys are not namespaced, and writable for this root when it is the real one: only
        # the settings of the new network namespace stay writable.
        kernel.mount("proc", "/proc", "proc", kernel.NO_SUID | kernel.NO_DEVICES | kernel.NO_EXEC)
        kernel.make_read_only("/proc")
        kernel.make_writable("/proc/sys/net")
    except OSError as error:
        raise CannotRehearse(
            _(
                "cannot build the sandbox on this machine: {why} ({what})",
                why=strerror(error.errno or 0),
                what=error.filename,
            )
        ) from error


def _show_system() -> None:
    for name in SYSTEM:
        path = f"/{name}"
        if os.path.islink(path):
            os.symlink(os.readlink(path), PLACE + path)
        elif os.path.isdir(path):
            _mirror(path)


def _mirror(path: str) -> None:
    """Mount a directory as it is; one of MIRRORED is created, and filled entry by entry."""
    if path not in MIRRORED:
        show_read_only(path, PLACE + path)
        return
    os.makedirs(PLACE + path, exist_ok=True)
    for name in sorted(os.listdir(path)):
        part = f"{path}/{name}"
        if part in HIDDEN:
            continue
        if os.path.islink(part):
            os.symlink(os.readlink(part), PLACE + part)
        else:
            _mirror(part)


def show_read_only(source: str, target: str) -> None:
    """Mount a directory or file of this machine at `target`, read-only; nothing for any other kind of
    file."""
    kind = os.stat(source).st_mode
    if stat.S_ISDIR(kind):
        os.makedirs(target, exist_ok=True)
    elif stat.S_ISREG(kind):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "x"):
            pass
    else:
        return
    kernel.bind_read_only(source, target)


def find_own_places() -> Iterator[str]:
    """Yield the directories of Python, its packages and npudoctor itself, the shortest path first."""
    import npudoctor

    program = os.path.realpath(sys.executable)
    prefixes = (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
    places = {*prefixes, os.path.dirname(program), os.path.dirname(sys.executable), *sys.path}
    places |= {*npudoctor.__path__, *import_module("npudoctor.checks").__path__}
    real = {os.path.abspath(path) for path in places if path.startswith("/")}
    yield from sorted((path for path in real if os.path.exists(path) and path != "/"), key=len)


def _make_rest(shared_memory: str) -> None:
    for path in ("/dev", "/etc", *EMPTY):
        os.makedirs(PLACE + path, exist_ok=True)
    for path in ("/tmp", "/var/tmp"):
        os.chmod(PLACE + path, 0o1777)
    for name in DEVICES:
        bind_device(f"/dev/{name}", f"{PLACE}/dev/{name}")
    os.symlink("/proc/self/fd", f"{PLACE}/dev/fd")
    kernel.mount("shm", f"{PLACE}/dev/shm", "tmpfs", kernel.NO_SUID | kernel.NO_DEVICES,
                 f"mode=1777,size={shared_memory}")  # fmt: skip
    # The files of /etc that the C library reads; none of them holds a secret.
    for name in COPIED:
        with (
            suppress(OSError),
            open(f"/etc/{name}", "rb") as source,
            open(f"{PLACE}/etc/{name}", "wb") as target,
        ):
            target.write(source.read(1 << 22))
    # Not all distributions have this directory.
    with suppress(OSError):
        show_read_only("/etc/alternatives", f"{PLACE}/etc/alternatives")


def bind_device(source: str, target: str) -> None:
    """Bind-mount a device node of this machine: mknod is not allowed in a user namespace."""
    with open(target, "x"):
        pass
    kernel.bind_read_only(source, target)
