"""Machines with odd namespaces, amounts of a namespace, and network file systems that are dead or silent."""

from __future__ import annotations

from .machine import Machine

# A FUSE whose daemon has ended (as sshfs when the network was lost), or lives and never answers.
_MOUNT = (
    "import ctypes, os; f = os.open('/dev/fuse', os.O_RDWR); "
    "ctypes.CDLL(None).mount(b'far', b'{place}', b'fuse', 6, "
    "b'fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other' % f) and 1 / 0"
)


def _fuse(place: str, dead: bool) -> tuple[str, ...]:
    """The lines that mount it."""
    program = _MOUNT.format(place=place)
    run = f'/usr/bin/python3 -I -c "{program}'
    waiting = "; open('/run/ready', 'w').write('x'); import time; time.sleep(600)\" &"
    start = (run + '"',) if dead else (run + waiting, "timeout 10 cat /run/ready >/dev/null")
    return ("[ -e /dev/fuse ] || mknod -m 666 /dev/fuse c 10 229", f"mkdir -p {place}", *start)


def _on(job: str, name: str, why: str, *setup: str, near: str = "", **variables: str) -> Machine:
    """One where a job starts if there is a broken one near."""
    return Machine(f"{job}-{name}", job, not near, why, setup, variables, near=near)


def _under(job: str, name: str, why: str, near: str, *wrapper: str) -> Machine:
    """One where another program starts the job."""
    return Machine(f"{job}-{name}", job, not near, why, wrapper=wrapper, near=near)


def _root(job: str, name: str, why: str, near: str, *privileges: str, setup: tuple[str, ...] = ()) -> Machine:
    """One where root has not all that root has."""
    return Machine(f"{job}-{name}", job, not near, why, setup, user="root", privileges=privileges, near=near)


_NO_OVERRIDE = ("--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all")
_SYSV = "sysctl -qw kernel.shmmax=0 kernel.shmall=0 kernel.msgmni=0 kernel.sem='0 0 0 0'"

MACHINES = (
    _on("torchrun", "home-dead", "HOME is a network folder whose daemon has ended", *_fuse("/home/far", True),
        HOME="/home/far", near="multiprocessing-home-silent"),
    _on("torchrun", "home-silent", "HOME is a network folder that never answers",
        *_fuse("/home/far", False), HOME="/home/far", near="multiprocessing-home-silent"),
    _on("multiprocessing", "home-silent", "HOME is a network folder that never answers",
        *_fuse("/home/far", False), HOME="/home/far"),
    _on("multiprocessing", "tmpdir-dead", "TMPDIR is a network folder whose daemon has ended",
        *_fuse("/home/far", True), TMPDIR="/home/far", near="multiprocessing-tmpdir-silent"),
    _on("multiprocessing", "tmpdir-silent", "TMPDIR is a network folder that never answers",
        *_fuse("/home/far", False), TMPDIR="/home/far"),
    _on("torchrun", "libraries-dead", "the environment is a network folder whose daemon has ended",
        *_fuse('/srv/far', True)[:1], *_fuse("/mnt/far", True)[1:], 'mount --bind /mnt/far "$CACHE/torch"'),
    _on("multiprocessing", "data-silent", "a network folder that no job uses never answers",
        *_fuse("/mnt/far", False), near="multiprocessing-tmpdir-silent"),
    _on("msrun", "sysv-none", "no System V memory, queues, semaphores", _SYSV,
        near="msrun-shm-tiny"),
    _on("multiprocessing", "sysv-none", "no System V memory, queues, semaphores", _SYSV,
        near="multiprocessing-shm-missing"),
    _under("multiprocessing", "user-namespace", "root of a user namespace", "multiprocessing-nproc",
           "unshare", "--user", "--map-root-user"),
    _under("torchrun", "user-unmapped", "a user namespace that knows no user", "torchrun-libraries-closed",
           "unshare", "--user"),
    _on("torchrun", "user-unknown", "the user is in no file of users", "sed -i /trainer/d /etc/passwd",
        near="torchrun-libraries-closed"),
    _under("multiprocessing", "network-apart", "a network namespace that nobody has set up", "",
           "unshare", "--user", "--map-root-user", "--net"),
    _root("multiprocessing", "root-squashed", "root owns nothing here and may not override it", "",
          *_NO_OVERRIDE, setup=("chmod 755 /dev/shm", "chown other:other /dev/shm", "chmod 1755 /dev/shm")),
    _root("multiprocessing", "root-few", "root without capabilities, in folders of its own",
          "multiprocessing-root-squashed", *_NO_OVERRIDE),
)  # fmt: skip
