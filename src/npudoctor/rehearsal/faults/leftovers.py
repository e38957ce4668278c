"""Faults that ended jobs leave behind: segments, sockets, files, locks."""

from __future__ import annotations

import ctypes
import os
import socket
import time

from npudoctor.core.messages import _
from npudoctor.rehearsal import kernel
from npudoctor.rehearsal.fault import FIX, register_fault
from npudoctor.rehearsal.stage import NAME, Stage

GIB = 1 << 30
PORT = 50052  # the default of MindSpore's cache_admin
HOUR = 3600.0


@register_fault(
    "dead-cache-server",
    "cache-server.orphan-segment",
    _("a MindSpore cache server was killed: its shared memory segment and socket remain"),
    remedy=FIX,
    # A younger socket may belong to a server that is starting: proof.snapshot.YOUNG, 10 seconds.
    seconds=11.0,
)
def _leave_cache_server(stage: Stage) -> None:
    folder = "/tmp/mindspore"
    os.makedirs(f"{folder}/cache/log", 0o700)
    os.chmod(folder, 0o700)
    stage.leave_behind(lambda: _start_cache_server(f"{folder}/cache_server_p{PORT}", f"{folder}/cache/log"))


def _start_cache_server(path: str, logs: str) -> None:
    """Do what the cache server does at its start: make the socket, the segment, and the log that names
    both."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"//{path}")
    os.chmod(path, 0o600)
    listener.listen(8)
    key = kernel.ftok_key(path)
    kernel.make_segment(key, 4 * GIB)
    pid, now = os.getpid(), time.strftime("%Y-%m-%d-%H:%M:%S")
    banner = (
        f"BuildServer] Cache server has started successfully and is listening on port {PORT}",
        f"Run] Server listening on 127.0.0.1:{PORT}",
        f"Init] Creation of shared memory successful. Shared memory key {ctypes.c_int32(key).value}",
    )
    head = f"[INFO] MD({pid},7f60820b8800,dataset-cache-server):{now}.486.312 [ccsrc/cache/server.cc:37] "
    first = f"Log file created at: {time.strftime('%Y/%m/%d %H:%M:%S')}\nRunning on machine: {NAME}\n"
    text = first + "Running duration (h:mm:ss): 0:00:00\n" + "".join(f"{head}{line}\n" for line in banner)
    name = f"mindspore.{NAME}.somebody.log.INFO.{time.strftime('%Y%m%d-%H%M%S')}.{pid}"
    with open(f"{logs}/{name}", "w", encoding="ascii") as file:
        file.write(text)
    os.chmod(file.name, 0o640)
    globals()["_kept"] = listener  # keeps it open until the process is killed


@register_fault(
    "dead-extension-build",
    "temp-files.stale-lock",
    _("a PyTorch extension build died and left its lock: every later process waits for it"),
    remedy=FIX,
)
def _leave_build_lock(stage: Stage) -> None:
    lock = f"{stage.home}/.cache/torch_extensions/py311_cu121/fused_adam/lock"
    stage.write(lock, "")
    stage.make_older(lock, 3 * HOUR)


@register_fault(
    "unattached-segment",
    "shared-memory.unattached",
    _("a program ended and left a System V shared memory segment"),
)
def _leave_segment(stage: Stage) -> None:
    stage.leave_behind(lambda: kernel.make_segment(0x51C4, 64 << 20))
