"""The file tree of a sick machine: our own, in memory, in which the programs of this one are read-only."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module

from npudoctor.core.messages import _, strerror
from npudoctor.rehearsal import kernel
from npudoctor.rehearsal.namespaces import Lacking

# Where it is built: every machine has this folder, and what lies in it does not matter in there.
PLACE = "/sys"
# Folders of which we need to change a part: made anew, with what this machine has in them shown one by one.
MIRRORED = ("/usr", "/usr/local", "/usr/local/bin", "/usr/local/sbin")
# What tells of the real machine's accelerators and has no place in a made-up one.
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


def build(shared_memory: str = "64g") -> None:
    """Build it and make it this process's root; raises Lacking where the kernel does not let us."""
    try:
        kernel.mount("none", "/", flags=kernel.RECURSIVE | kernel.PRIVATE)
        own = list(own_places())
        kernel.mount("rehearsal", PLACE, "tmpfs", kernel.NO_SUID, "mode=755,size=2g")
        _show_system()
        for path in own:
            # It may lie in something that is shown already.
            there = PLACE + path
            if not os.path.exists(there) or not (os.path.isfile(there) or os.listdir(there)):
                show(path, there)
        _make_rest(shared_memory)
        os.chroot(PLACE)
        # The user root in here is root to much of /proc, whatever namespace it is in: only the settings of
        # our network may be changed.
        kernel.mount("proc", "/proc", "proc", kernel.NO_SUID | kernel.NO_DEVICES | kernel.NO_EXEC)
        kernel.close("/proc")
        kernel.open_again("/proc/sys/net")
    except OSError as error:
        raise Lacking(
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
    """A folder as it is; one of those that we change, part by part."""
    if path not in MIRRORED:
        show(path, PLACE + path)
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


def show(source: str, target: str) -> None:
    """Show one folder or file of this machine there, read-only."""
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


def own_places() -> Iterator[str]:
    """Where our Python, its packages and npudoctor itself lie, the outermost first."""
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
    # What the C library reads of /etc, and nobody's secret.
    for name in COPIED:
        with (
            suppress(OSError),
            open(f"/etc/{name}", "rb") as source,
            open(f"{PLACE}/etc/{name}", "wb") as target,
        ):
            target.write(source.read(1 << 22))
    with suppress(OSError):
        show("/etc/alternatives", f"{PLACE}/etc/alternatives")


def bind_device(source: str, target: str) -> None:
    """A device node: no namespace may make one, so one of this machine's is shown."""
    with open(target, "x"):
        pass
    kernel.bind_read_only(source, target)
