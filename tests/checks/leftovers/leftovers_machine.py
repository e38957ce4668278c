"""What dead cache servers leave, made without one: real files below a folder, a fake table of segments."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Optional

from npudoctor.facts.leftovers.cache_server import ftok
from npudoctor.host import Host, Options
from npudoctor.host.network.sockets import Listener
from npudoctor.host.records import Record
from npudoctor.testing import Content, fake_host, folder, process_files

GIB = 1 << 30
DEAD = 4_000_000  # a pid that nobody has
AGE = 3600  # all was made an hour ago
HEAD = (
    "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid"
    "      atime      dtime      ctime                   rss                  swap\n"
)


class Leftovers:
    """A folder in place of /tmp, the segments, and the processes of a machine."""

    def __init__(self, tmp: Path) -> None:
        self.tmp = tmp
        self.made = int(time.time()) - AGE
        self.files: dict[str, Content] = process_files(1, "systemd", parent=0)
        self.records: list[Record] = []
        self.alive: set[str] = set()
        self._rows: list[str] = []
        self._mapped: dict[int, list[str]] = {}
        self._folder(tmp / "mindspore" / "cache" / "log")

    def socket(self, port: int, name: str = "") -> Path:
        """A socket file at which nobody listens."""
        path = self.tmp / "mindspore" / (name or f"cache_server_p{port}")
        with socket.socket(socket.AF_UNIX) as server:
            # Relative, as a path of a temporary folder may be too long for the address.
            here = os.open(path.parent, os.O_RDONLY)
            server.bind(f"/proc/self/fd/{here}/{path.name}")
            os.close(here)
        os.chmod(path, 0o600)
        os.utime(path, (self.made, self.made))
        return path

    def segment(self, shmid: int, key: int, *, nattch: int = 0, mode: str = "600", cpid: int = DEAD) -> int:
        """A segment of this key; returns the key."""
        uid, signed = os.geteuid(), key - (1 << 32) if key >> 31 else key
        fields = (
            signed,
            shmid,
            mode,
            GIB,
            cpid,
            cpid,
            nattch,
            uid,
            uid,
            uid,
            uid,
            0,
            self.made + 9,
            self.made,
        )
        self._rows.append(" ".join(map(str, fields)) + " 0 0\n")
        return key

    def log(self, *lines: str, pid: int = DEAD, machine: str = "") -> Path:
        """The log of a server; the lines are what it said."""
        name = f"mindspore.node.user.log.INFO.20260101-000000.{pid}"
        when = time.strftime("%Y-%m-%d-%H:%M:%S", time.localtime(self.made))
        head = f"[INFO] MD({pid},7f00,dataset-cache-server):{when}.000.000 [server.cc:1] Start] "
        path = self.tmp / "mindspore" / "cache" / "log" / name
        first = f"Running on machine: {machine or os.uname().nodename}\n"
        path.write_text(first + "".join(f"{head}{line}\n" for line in lines))
        path.chmod(0o640)
        return path

    def spill(self, letter: str, below: str = "spilled") -> Path:
        """Spilled data, in a folder with a name of this letter."""
        path = self._folder(self.tmp / below) / (letter * 36)
        path.mkdir(mode=0o700)
        self.files[str(path)] = folder(0o700, os.geteuid())
        (path / "IMG00000.LB").write_bytes(b"x")
        (path / "IMG00000.LB").chmod(0o600)
        os.utime(path / "IMG00000.LB", (self.made, self.made))
        return path

    def client(self, pid: int, shmid: int, key: int) -> None:
        """A living process that maps a segment."""
        maps = f"7f00-7f10 rw-s 00000000 00:01 {shmid}   /SYSV{key:08x} (deleted)\n"
        self.files.update(process_files(pid, "python3", uid=os.geteuid(), maps=maps))

    def parked(self, path: Path) -> None:
        """Our journal says that we renamed this file."""
        found = path.stat()
        step = {
            "kind": "RemoveSocket",
            "path": str(path),
            "device": found.st_dev,
            "inode": found.st_ino,
            "mtime_ns": found.st_mtime_ns,
        }
        self.records.append(Record("run", "before", {"step": step}))

    def given(self) -> dict[str, Content]:
        """What the kernel says of the segments, of the sockets and of the processes."""
        return {
            "/proc/sysvipc/shm": HEAD + "".join(self._rows),
            "/proc/net/unix": "Num RefCount Protocol Flags Type St Inode Path\n",
            **self.files,
        }

    def host(self) -> Host:
        """The machine with all that was left on it."""
        made = fake_host(
            self.given(),
            euid=os.geteuid(),
            user="somebody",
            records=self.records,
            now=time.time(),
            probe=self._probe,
        )
        made.options = Options(tmp=str(self.tmp))
        return made

    def _probe(self, path: str, directory: Optional[int] = None) -> Listener:
        return Listener.ALIVE if os.path.basename(path) in self.alive else Listener.REFUSED

    def _folder(self, path: Path) -> Path:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path


def key_of(path: Path) -> int:
    """The key that a server makes from its socket file."""
    found = path.stat()
    return ftok(found.st_dev, found.st_ino)


def logged(key: int) -> str:
    """The line by which a server says that it made the segment of this key."""
    signed = key - (1 << 32) if key >> 31 else key
    return f"Creation of shared memory successful. Shared memory key {signed}"


def spilling(folder: Path) -> str:
    """The line by which a server says where it spills to."""
    return f"CachePool will use disk folder: {folder}"
