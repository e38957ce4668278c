"""The machine and the limits of its shell."""

from __future__ import annotations

import os
import resource
from contextlib import suppress

from npudoctor.core.messages import _
from npudoctor.rehearsal.fault import FIX, TYPED, fault
from npudoctor.rehearsal.stage import Stage

MIB, GIB = 1 << 20, 1 << 30


@fault("small-shm", "shm-size.small", _("/dev/shm has 64 MiB, the docker default"), remedy=FIX, by_root=True)
def _small_shm(stage: Stage) -> None:
    stage.npus()
    stage.small_file_system("/dev/shm", "64m")


@fault("full-shm", "shm-size.nearly-full", _("/dev/shm is nearly full"), remedy=FIX, by_root=True)
def _full_shm(stage: Stage) -> None:
    stage.npus()
    stage.small_file_system("/dev/shm", "160m")
    stage.fill("/dev/shm/data", 155 * MIB)


@fault("no-shm", "shm-size.missing", _("there is no /dev/shm, as in a chroot"))
def _no_shm(stage: Stage) -> None:
    stage.npus()
    stage.unmount("/dev/shm")


@fault("full-tmp", "disk-space.full", _("/tmp is full"))
def _full_tmp(stage: Stage) -> None:
    stage.small_file_system("/tmp", "20m")
    stage.fill("/tmp/data", 20 * MIB)


@fault("no-inodes", "disk-space.no-inodes", _("/tmp has no free inodes"))
def _no_inodes(stage: Stage) -> None:
    stage.small_file_system("/tmp", "1g,nr_inodes=64")
    with suppress(OSError):
        for number in range(64):
            stage.write(f"/tmp/{number}", "")


@fault(
    "few-open-files", "file-limits.low", _("processes of this shell can open only 1024 files"), remedy=TYPED
)
def _few_files(stage: Stage) -> None:
    stage.limits.append((resource.RLIMIT_NOFILE, 1024))


@fault(
    "little-address-space",
    "memory.address-space",
    _("ulimit -v limits each process to 900 MiB"),
    remedy=TYPED,
)
def _address_space(stage: Stage) -> None:
    stage.limits.append((resource.RLIMIT_AS, 900 * MIB))


@fault(
    "little-cpu-time",
    "trial-processes.cpu-time",
    _("ulimit -t ends each process after five minutes of CPU time"),
    remedy=TYPED,
    options=("--as-user", "root") if os.geteuid() == 0 else (),
)
def _cpu_time(stage: Stage) -> None:
    stage.limits.append((resource.RLIMIT_CPU, 300))


@fault("working-directory-gone", "working-directory.gone", _("the job's working directory was removed"))
def _leave_folder(stage: Stage) -> None:
    stage.folder = f"{stage.home}/gone"
    os.makedirs(stage.folder)
    stage.gone = True


@fault(
    "tmp-read-only",
    "temporary-folders.not-writable",
    _("/tmp is mounted read-only"),
    remedy=TYPED,
    by_root=True,
)
def _read_only_tmp(stage: Stage) -> None:
    stage.small_file_system("/tmp", "20m", read_only=True)


@fault("home-missing", "identity.home-missing", _("HOME names a folder that does not exist"), remedy=TYPED)
def _home(stage: Stage) -> None:
    stage.npus()
    stage.package("torch", "2.5.1")
    stage.variables["HOME"] = "/home/nobody"
