"""Faults of the machine's file systems, and of the limits of the job's shell."""

from __future__ import annotations

import os
import resource
from contextlib import suppress

from npudoctor.core.messages import _
from npudoctor.rehearsal.fault import FIX, TYPED, register_fault
from npudoctor.rehearsal.stage import Stage

MIB, GIB = 1 << 20, 1 << 30


@register_fault(
    "small-shm", "shm-size.small", _("/dev/shm has 64 MiB, the docker default"), remedy=FIX, by_root=True
)
def _mount_small_shm(stage: Stage) -> None:
    stage.add_npus()
    stage.mount_small_file_system("/dev/shm", "64m")


@register_fault("full-shm", "shm-size.nearly-full", _("/dev/shm is nearly full"), remedy=FIX, by_root=True)
def _fill_shm(stage: Stage) -> None:
    stage.add_npus()
    stage.mount_small_file_system("/dev/shm", "160m")
    stage.fill("/dev/shm/data", 155 * MIB)


@register_fault("no-shm", "shm-size.missing", _("there is no /dev/shm, as in a chroot"))
def _unmount_shm(stage: Stage) -> None:
    stage.add_npus()
    stage.unmount("/dev/shm")


@register_fault("full-tmp", "disk-space.full", _("/tmp is full"))
def _fill_tmp(stage: Stage) -> None:
    stage.mount_small_file_system("/tmp", "20m")
    stage.fill("/tmp/data", 20 * MIB)


@register_fault("no-inodes", "disk-space.no-inodes", _("/tmp has no free inodes"))
def _use_up_inodes(stage: Stage) -> None:
    stage.mount_small_file_system("/tmp", "1g,nr_inodes=64")
    # The write that fails is the fault.
    with suppress(OSError):
        for number in range(64):
            stage.write(f"/tmp/{number}", "")


@register_fault(
    "few-open-files", "file-limits.low", _("processes of this shell can open only 1024 files"), remedy=TYPED
)
def _limit_open_files(stage: Stage) -> None:
    stage.limits.append((resource.RLIMIT_NOFILE, 1024))


@register_fault(
    "little-address-space",
    "memory.address-space",
    _("ulimit -v limits each process to 900 MiB"),
    remedy=TYPED,
)
def _limit_address_space(stage: Stage) -> None:
    stage.limits.append((resource.RLIMIT_AS, 900 * MIB))


@register_fault(
    "little-cpu-time",
    "trial-processes.cpu-time",
    _("ulimit -t ends each process after five minutes of CPU time"),
    remedy=TYPED,
    # Root's jobs are judged only when the user of the job is named.
    options=("--as-user", "root") if os.geteuid() == 0 else (),
)
def _limit_cpu_time(stage: Stage) -> None:
    stage.limits.append((resource.RLIMIT_CPU, 300))


@register_fault(
    "working-directory-gone", "working-directory.gone", _("the job's working directory was removed")
)
def _remove_working_directory(stage: Stage) -> None:
    stage.folder = f"{stage.home}/gone"
    os.makedirs(stage.folder)
    stage.is_folder_removed = True


@register_fault(
    "tmp-read-only",
    "temporary-folders.not-writable",
    _("/tmp is mounted read-only"),
    remedy=TYPED,
    by_root=True,
)
def _mount_tmp_read_only(stage: Stage) -> None:
    stage.mount_small_file_system("/tmp", "20m", read_only=True)


@register_fault(
    "home-missing", "identity.home-missing", _("HOME names a folder that does not exist"), remedy=TYPED
)
def _set_missing_home(stage: Stage) -> None:
    stage.add_npus()
    stage.add_package("torch", "2.5.1")
    stage.variables["HOME"] = "/home/nobody"
