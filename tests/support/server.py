"""A stand-in for a dataset cache server: the same socket, key, segment, log and spilled data.

    PORT --tmp DIRECTORY [OPTION...]      serve until killed; SIGTERM ends it cleanly
    --attach SHMID                        a client: map a segment and stay

Prints one line of JSON about what it made. `machine.py` starts it, under the real one's program name.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import socket
import string
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any, Optional

from tests.support import ipc

DUMPABLE = 4
LETTERS = string.ascii_lowercase + string.digits


def options(words: list[str]) -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int, nargs="?")
    parser.add_argument("--attach", type=int)
    parser.add_argument("--tmp", type=Path)
    parser.add_argument("--folder", help="where the socket lies, below tmp", default="mindspore")
    parser.add_argument("--log-folder", help="where the log lies, below tmp", default="mindspore/cache/log")
    parser.add_argument("--size", type=int, default=ipc.GIB)
    parser.add_argument("--mode", type=lambda text: int(text, 8), default=0o600)
    parser.add_argument("--uid", type=int)
    parser.add_argument("--deaf", action="store_true", help="bind, and never listen")
    parser.add_argument("--spill", type=Path)
    parser.add_argument("--containers", type=int, default=2)
    parser.add_argument("--log-level", type=int, default=1)
    parser.add_argument("--machine", default=socket.gethostname())
    return parser.parse_args(words)


def become(uid: int) -> None:
    """Another user; who changes its user is not to be looked into, unless it says so."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    ctypes.CDLL(None).prctl(DUMPABLE, 1, 0, 0, 0)


def below(tmp: Path, folder: str) -> Path:
    """A directory below tmp, every part of it for its owner alone."""
    path = tmp
    for part in Path(folder).parts:
        path = path / part
        path.mkdir(mode=0o700, exist_ok=True)
    return path


def bind(path: Path, deaf: bool) -> socket.socket:
    """A socket at this path, named with three slashes as gRPC does."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"//{path}")
    path.chmod(0o600)
    if not deaf:
        listener.listen(64)
    return listener


def spill(root: Path, containers: int) -> Path:
    """The folder of one cache with its containers."""
    folder = root / "".join(LETTERS[byte % len(LETTERS)] for byte in os.urandom(36))
    folder.mkdir(mode=0o700)
    for number in range(containers):
        container = folder / f"IMG{number:05}.LB"
        container.write_bytes(b"x" * 4096)
        container.chmod(0o600)
        # The kernel's second of a death may be a tick behind its time of a write.
        os.utime(container, ns=(written := time.time_ns() - 50_000_000, written))
    return folder


def write_log(asked: argparse.Namespace, key: int, folder: Optional[Path]) -> Path:
    """The log with the lines that prove; above level 1 there are none of them."""
    lines = [
        f"BuildServer] Cache server has started successfully and is listening on port {asked.port}\n",
        f"Run] Server listening on 127.0.0.1:{asked.port}",
        f"Init] Creation of shared memory successful. Shared memory key {ctypes.c_int32(key).value}",
    ]
    if folder:
        lines += [
            f"Create] Container {folder}/IMG00000.LB created",
            f"DoServiceStart] CachePool will use disk folder: {folder}",
        ]
    where = below(asked.tmp, asked.log_folder)
    started = time.strftime("%Y%m%d-%H%M%S")
    path: Path = where / f"mindspore.{asked.machine}.somebody.log.INFO.{started}.{os.getpid()}"
    head = f"[INFO] MD({os.getpid()},7f60820b8800,dataset-cache-server):{time.strftime('%Y-%m-%d-%H:%M:%S')}"
    told = [f"{head}.486.312 [ccsrc/cache/{n}.cc:37] {line}" for n, line in enumerate(lines)]
    text = [
        time.strftime("Log file created at: %Y/%m/%d %H:%M:%S"),
        f"Running on machine: {asked.machine}",
        "Running duration (h:mm:ss): 0:00:00",
        *(told if asked.log_level < 2 else ()),
        "",
    ]
    path.write_bytes("\n".join(text).encode())  # a text file would look for a codec, which --uid cannot read
    path.chmod(0o640)
    return path


def serve(asked: argparse.Namespace) -> tuple[socket.socket, dict[str, Any]]:
    """Make everything, in the order of the real one."""
    path = below(asked.tmp, asked.folder) / f"cache_server_p{asked.port}"
    listener = bind(path, asked.deaf)
    key = ipc.ftok(str(path))
    shmid = ipc.make(key, asked.size, asked.mode)
    ipc.attach(shmid)
    try:
        folder = spill(asked.spill, asked.containers) if asked.spill else None
        log = write_log(asked, key, folder)
    except OSError:
        ipc.remove(shmid)
        raise

    def stop(_signal: int, _frame: Optional[FrameType]) -> None:
        ipc.remove(shmid)
        path.unlink()
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    made = {"socket": str(path), "key": key, "shmid": shmid, "log": str(log), "spill": str(folder or "")}
    return listener, made


def main(words: list[str]) -> None:
    """Serve, or attach, and say what was made."""
    os.umask(0)
    asked = options(words)
    if asked.uid is not None:
        become(asked.uid)
    if asked.attach is not None:
        ipc.attach(asked.attach)
        listener, made = None, {"shmid": asked.attach}
    else:
        listener, made = serve(asked)
    print(json.dumps({"pid": os.getpid(), **made}), flush=True)
    while listener and not asked.deaf:
        listener.accept()[0].close()
    while True:
        signal.pause()
