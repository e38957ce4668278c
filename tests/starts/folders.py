"""Machines whose folders are odd: full, read-only, closed, away; and what others have left there."""

from __future__ import annotations

from .machine import Machine

_JOB = "/home/trainer/job"


def _on(job: str, name: str, why: str, *setup: str, near: str = "", **variables: str) -> Machine:
    """One where a job starts if there is a broken one near."""
    return Machine(f"{job}-{name}", job, not near, why, setup, variables, near=near)


def _root(job: str, name: str, why: str, *setup: str, near: str = "", **variables: str) -> Machine:
    """The same, for a job of root."""
    return Machine(f"{job}-{name}", job, not near, why, setup, variables, user="root", near=near)


_FULL_TMP = "mount -t tmpfs -o mode=1777,size=16k tmp /tmp && head -c 1m /dev/zero >/tmp/full || true"
_NO_INODES = "mount -t tmpfs -o mode=1777,nr_inodes=1 tmp /tmp"
_DATA = "mount -t tmpfs -o mode=755 data /srv"
_LONG = "/srv/" + "/".join(["a-folder-with-a-long-name"] * 5)
_OTHER = "setpriv --reuid=$OTHER_ID --regid=$OTHER_ID --clear-groups"

SPACES = (
    _on("multiprocessing", "all-tmp-full", "no byte is left in any folder for temporary files", _FULL_TMP,
        "mount -o remount,ro /var/tmp", "mkdir small", "mount -t tmpfs -o mode=1777,size=4k small small",
        "cd small", "echo full >full"),
    _on("multiprocessing", "tmp-full", "no byte is left in /tmp", _FULL_TMP,
        near="multiprocessing-all-tmp-full"),
    _on("multiprocessing", "all-tmp-readonly", "no folder for temporary files can be written",
        "mount -o remount,ro /tmp", "mount -o remount,ro /var/tmp", "mount -o remount,ro,bind /home"),
    _on("torchrun", "all-tmp-readonly", "no folder for temporary files can be written",
        "mount -o remount,ro /tmp", "mount -o remount,ro /var/tmp", "mount -o remount,ro,bind /home"),
    _on("multiprocessing", "tmp-inodes", "no inode is left in /tmp, others are read-only",
        _NO_INODES,
        "mount -o remount,ro /var/tmp", "mount -o remount,ro,bind /home"),
    _on("multiprocessing", "tmpdir-long", "a socket below TMPDIR has a name that is too long", _DATA,
        f"mkdir -p {_LONG}", f"chmod 1777 {_LONG}", TMPDIR=_LONG),
    _on("torchrun", "shm-missing", "there is no /dev/shm", "umount /dev/shm", "rmdir /dev/shm"),
    _on("multiprocessing", "shm-missing", "there is no /dev/shm", "umount /dev/shm", "rmdir /dev/shm"),
    _on("torchrun", "shm-tiny", "/dev/shm has 64 KiB", "mount -o remount,size=64k /dev/shm"),
    _on("msrun", "shm-tiny", "/dev/shm has 64 KiB", "mount -o remount,size=64k /dev/shm"),
    _on("multiprocessing", "shm-full", "/dev/shm is full", "mount -o remount,size=1m /dev/shm",
        "head -c 2m /dev/zero >/dev/shm/full 2>/dev/null || true"),
    _on("multiprocessing", "shm-closed", "/dev/shm is for root alone", "chmod 755 /dev/shm"),
    _on("multiprocessing", "shm-inodes", "/dev/shm has no inode left",
        "mount -o remount,nr_inodes=1 /dev/shm"),
    _on("torchrun", "shm-readonly", "/dev/shm is read-only", "mount -o remount,ro /dev/shm"),
    _on("multiprocessing", "proc-missing", "there is no /proc", "mount -t tmpfs -o ro none /proc",
        near="msrun-proc-missing"),
    _on("torchrun", "proc-missing", "there is no /proc", "mount -t tmpfs -o ro none /proc",
        near="msrun-proc-missing"),
    _on("msrun", "proc-missing", "there is no /proc", "mount -t tmpfs -o ro none /proc"),
    _on("msrun", "job-readonly", "the folder of the job cannot be written", "chown root: .", "chmod 755 ."),
    _on("torchrun", "cwd-gone", "the folder of the job was taken away",
        "mkdir gone", "cd gone", "rmdir ../gone"),
    _on("msrun", "cwd-gone", "the folder of the job was taken away",
        "mkdir gone", "cd gone", "rmdir ../gone"),
    _on("msrun", "job-full", "no byte is left in the folder of the job", "mkdir small",
        "mount -t tmpfs -o mode=1777,size=4k small small", "cd small", "echo full >full"),
    _on("torchrun", "libraries-noexec", "what the job's Python loads lies on a noexec mount",
        'mount --bind "$CACHE/torch" "$CACHE/torch"',
        'mount -o remount,bind,ro,noexec "$CACHE/torch"'),
    _on("torchrun", "libraries-closed", "the job's folder of packages is for root alone", _DATA,
        'mkdir /srv/closed', 'chmod 700 /srv/closed',
        'mount --bind /srv/closed "$CACHE/torch/lib"'),
    _on("torchrun", "program-gone", "the folder of the environment is not mounted",
        'mount -t tmpfs -o ro empty "$CACHE/torch"'),
    _on("msrun", "home-missing", "HOME is a folder that is not there and cannot be made", HOME="/nonexistent",
        near="msrun-job-readonly"),
    _on("torchrun", "home-readonly", "HOME is read-only, and caches are elsewhere",
        "mount --bind /home/trainer /home/trainer", "mount -o remount,bind,ro /home/trainer",
        XDG_CACHE_HOME="/tmp/cache", near="torchrun-all-tmp-readonly"),
    _on("multiprocessing", "tmpdir-symlink", "TMPDIR is a symbolic link", "mkdir -m 1777 /tmp/real",
        "ln -s /tmp/real /tmp/link", TMPDIR="/tmp/link", near="multiprocessing-tmpdir-long"),
    _on("multiprocessing", "tmpdir-gone", "TMPDIR is not there, and /tmp is", TMPDIR="/tmp/gone",
        near="multiprocessing-all-tmp-readonly"),
    _on("torchrun", "shm-256", "/dev/shm has 256 MiB", "mount -o remount,size=256m /dev/shm",
        near="torchrun-shm-tiny"),
    _on("multiprocessing", "tmp-readonly", "/tmp is read-only, and /var/tmp is not",
        "mount -o remount,ro /tmp", near="multiprocessing-all-tmp-readonly"),
    _on("torchrun", "job-readonly", "the folder of the job cannot be written", "chown root: .", "chmod 755 .",
        near="torchrun-cwd-gone"),
    _on("torchrun", "tmp-noexec", "/tmp and /dev/shm are noexec", "mount -o remount,noexec /tmp",
        "mount -o remount,noexec /dev/shm", near="torchrun-libraries-noexec"),
    _on("torchrun", "proc-hidden", "/proc hides the processes of others",
        "mount -o remount,hidepid=2 /proc", near="msrun-proc-missing"),
)  # fmt: skip

LEFTOVERS = (
    _on("multiprocessing", "semaphore-of-another", "another user's semaphore has the name of the job's",
        "head -c 32 /dev/zero >/dev/shm/sem.train-ranks", "chown other:other /dev/shm/sem.train-ranks",
        "chmod 600 /dev/shm/sem.train-ranks"),
    _on("multiprocessing", "lock-of-another", "another user's lock has the name of the job's",
        f"{_OTHER} touch /tmp/train.lock"),
    _on("multiprocessing", "lock-held", "a lock is held by a process of another user that does not end",
        "touch /tmp/train.lock", "chmod 666 /tmp/train.lock",
        "held \"f = open('/tmp/train.lock'); fcntl.flock(f, fcntl.LOCK_EX)\""),
    _on("multiprocessing", "tmpdir-of-another", "the folder of TMPDIR is another user's, and so are the rest",
        *(f"chown other:other {folder}; chmod 755 {folder}" for folder in ("/tmp", "/var/tmp", _JOB))),
    _on("msrun", "logs-of-another", "the logs of another user's job lie where this one's go",
        "touch worker_0.log worker_1.log scheduler.log", "chmod 1777 .", "chown other:other *.log"),
    _on("multiprocessing", "lock-own", "the job's own lock from last time, held by nobody",
        "touch /tmp/train.lock", "chown trainer:trainer /tmp/train.lock",
        near="multiprocessing-lock-of-another"),
    _on("multiprocessing", "lock-shared", "a lock of another user that all may write, held by nobody",
        "touch /tmp/train.lock", "chmod 666 /tmp/train.lock", near="multiprocessing-lock-held"),
    _on("multiprocessing", "semaphores-of-another", "another user's semaphores have other names",
        "for n in 1 2 3; do head -c 32 /dev/zero >/dev/shm/sem.mp-$n; done", "chown other:other /dev/shm/*",
        near="multiprocessing-semaphore-of-another"),
    _root("multiprocessing", "root-lock-of-another", "another user's lock has the name of root's job's",
          f"{_OTHER} touch /tmp/train.lock", near="multiprocessing-lock-of-another"),
)  # fmt: skip

MACHINES = (*SPACES, *LEFTOVERS)
