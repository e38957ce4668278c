"""The kernel's tables of System V segments, queues and semaphores, as /proc/sysvipc shows them."""

from __future__ import annotations

from npudoctor.testing import Content

SHM = (
    "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid"
    "      atime      dtime      ctime                   rss                  swap\n"
)
MSG = (
    "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid"
    "      stime      rtime      ctime\n"
)
SEM = "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n"
NOW = 1_800_000_000


def segment(
    shmid: int = 1,
    *,
    key: int = 0x5A17,
    size: int = 1048612,
    cpid: int = 700,
    nattch: int = 0,
    mode: str = "600",
    uid: int = 0,
    ctime: int = NOW,
) -> str:
    signed = key - (1 << 32) if key >> 31 else key
    return f"{signed} {shmid} {mode} {size} {cpid} {cpid} {nattch} {uid} {uid} {uid} {uid} 0 0 {ctime} 0 0\n"


def tables(shm: str = "", msg: str = "", sem: str = "") -> dict[str, Content]:
    """/proc/sysvipc of these rows."""
    return {
        "/proc/sysvipc/shm": SHM + shm,
        "/proc/sysvipc/msg": MSG + msg,
        "/proc/sysvipc/sem": SEM + sem,
        "/etc/passwd": "root:x:0:0:root:/root:/bin/bash\nanna:x:1001:1001::/home/anna:/bin/bash\n",
    }
