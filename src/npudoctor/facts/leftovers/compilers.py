"""Processes that compile operators for somebody, and have nobody left to compile for."""

from __future__ import annotations

from npudoctor.host.host import Host
from npudoctor.host.process.processes import Process

# First processes, of a machine or a container, that take in orphans. A launcher
# may run as the first process too, and is not among these.
INIT = ("systemd", "init", "tini", "dumb-init", "docker-init", "catatonit", "s6-svscan", "runit", "pause")
# MindSpore's, which it starts by path; CANN's are Python's multiprocessing, with CANN's libraries.
SERVER = "kernel_build_server"
# The module on the command line of the two kinds of worker pools.
POOLS = ("multiprocessing.forkserver", "multiprocessing.spawn")
# A part of the path of a mapped library.
CANN = (b"/Ascend/", b"/ascend-toolkit/", b"/cann/")
_WORDS = 4  # of a command line, in which the script or the module is


def is_orphaned_compiler(host: Host, process: Process) -> bool:
    """Return whether a process compiles operators, and its parent is gone."""
    parent = host.processes.by_pid().get(process.parent)
    # A parent that is no init is alive and may still wait for the result.
    if process.has_exited or (parent is not None and parent.name not in INIT) or not process.parent:
        return False
    words = (host.processes.arguments(process.pid) or ())[:_WORDS]
    if any(SERVER in word for word in words):
        return True
    if not any(pool in word for word in words for pool in POOLS):
        return False
    maps = host.processes.read_maps(process.pid) or b""
    return any(mark in maps for mark in CANN)
