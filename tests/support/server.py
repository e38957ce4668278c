"""A stand-in for a dataset cache server: the same socket, key, segment, log and spilled data.

    PORT --tmp DIRECTORY [OPTION...]      serve until killed; SIGTERM ends it cleanly
    --attach SHMID                        a client: map a segment and stay

Prints one line of JSON about what it made. `machine.py` starts it, under the real one's program name.
"""

from __future__ import annotations

# Hundreds of them are started: what Python has of C alone, as the modules around it take six times as long
# to load as all else here.
import ctypes
import os
import sys
import time
from _json import encode_basestring_ascii as quoted

from tests.support import ipc

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import socket
    from pathlib import Path
    from types import FrameType
    from typing import Any, Optional, Union
else:
    import _signal as signal
    import _socket as socket

DUMPABLE = 4
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


class Options:
    """What is asked for."""

    port: int
    attach: Optional[int] = None
    tmp: str
    folder = "mindspore"  # where the socket lies, below tmp
    log_folder = "mindspore/cache/log"  # where the log lies, below tmp
    size = ipc.GIB
    mode = 0o600
    uid: Optional[int] = None
    deaf = False  # bind, and never listen
    spill = ""
    containers = 2
    log_level = 1
    machine = ""

    def __init__(self, words: list[str]) -> None:
        left = iter(words)
        for word in left:
            name = word[2:].replace("-", "_")
            if not word.startswith("--"):
                self.port = int(word)
            elif name == "deaf":
                self.deaf = True
            elif name == "mode":
                self.mode = int(next(left), 8)
            elif name in ("attach", "size", "uid", "containers", "log_level"):
                setattr(self, name, int(next(left)))
            elif name in ("tmp", "folder", "log_folder", "spill", "machine"):
                setattr(self, name, next(left))
            else:
                sys.exit(f"unknown option: {word}")
        self.machine = self.machine or socket.gethostname()


def become(uid: int) -> None:
    """Another user; who changes its user is not to be looked into, unless it says so."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    ctypes.CDLL(None).prctl(DUMPABLE, 1, 0, 0, 0)


def below(tmp: Union[str, Path], folder: str) -> str:
    """A directory below tmp, every part of it for its owner alone."""
    path = str(tmp)
    for part in folder.split("/"):
        path = f"{path}/{part}"
        if not os.path.isdir(path):
            os.mkdir(path, 0o700)
    return path


def bind(path: str, deaf: bool) -> socket.socket:
    """A socket at this path, named with three slashes as gRPC does."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"//{path}")
    os.chmod(path, 0o600)
    if not deaf:
        listener.listen(64)
    return listener


def write(path: str, content: bytes, mode: int) -> None:
    """A new file with these permissions."""
    # Not a text file, which would look for a codec: --uid cannot read it.
    with open(path, "wb") as file:
        file.write(content)
    os.chmod(path, mode)


def spill(root: str, containers: int) -> str:
    """The folder of one cache with its containers."""
    folder = f"{root}/" + "".join(LETTERS[byte % len(LETTERS)] for byte in os.urandom(36))
    os.mkdir(folder, 0o700)
    for number in range(containers):
        container = f"{folder}/IMG{number:05}.LB"
        write(container, b"x" * 4096, 0o600)
        # The kernel's second of a death may be a tick behind its time of a write.
        os.utime(container, ns=(written := time.time_ns() - 50_000_000, written))
    return folder


def write_log(asked: Options, key: int, folder: str) -> str:
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
    path = f"{where}/mindspore.{asked.machine}.somebody.log.INFO.{started}.{os.getpid()}"
    head = f"[INFO] MD({os.getpid()},7f60820b8800,dataset-cache-server):{time.strftime('%Y-%m-%d-%H:%M:%S')}"
    told = [f"{head}.486.312 [ccsrc/cache/{n}.cc:37] {line}" for n, line in enumerate(lines)]
    text = [
        time.strftime("Log file created at: %Y/%m/%d %H:%M:%S"),
        f"Running on machine: {asked.machine}",
        "Running duration (h:mm:ss): 0:00:00",
        *(told if asked.log_level < 2 else ()),
        "",
    ]
    write(path, "\n".join(text).encode(), 0o640)
    return path


def serve(asked: Options) -> tuple[socket.socket, dict[str, Any]]:
    """Make everything, in the order of the real one."""
    path = f"{below(asked.tmp, asked.folder)}/cache_server_p{asked.port}"
    listener = bind(path, asked.deaf)
    key = ipc.ftok(path)
    shmid = ipc.make(key, asked.size, asked.mode)
    ipc.attach(shmid)
    try:
        folder = spill(asked.spill, asked.containers) if asked.spill else ""
        log = write_log(asked, key, folder)
    except OSError:
        ipc.remove(shmid)
        raise

    def stop(_signal: int, _frame: Optional[FrameType]) -> None:
        ipc.remove(shmid)
        os.unlink(path)
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    made = {"socket": path, "key": key, "shmid": shmid, "log": log, "spill": folder}
    return listener, made


def main(words: list[str]) -> None:
    """Serve, or attach, and say what was made."""
    os.umask(0)
    asked = Options(words)
    if asked.uid is not None:
        become(asked.uid)
    if asked.attach is not None:
        ipc.attach(asked.attach)
        listener, made = None, {"shmid": asked.attach}
    else:
        listener, made = serve(asked)
    said: dict[str, Any] = {"pid": os.getpid(), **made}
    told = (f"{quoted(name)}: {quoted(it) if isinstance(it, str) else it}" for name, it in said.items())
    os.write(1, f"{{{', '.join(told)}}}\n".encode())
    while listener and not asked.deaf:
        os.close(listener._accept()[0])  # type: ignore[attr-defined]
    while True:
        signal.pause()
