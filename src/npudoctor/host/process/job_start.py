"""How a launcher would start the job: the trial starts its children in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _
from npudoctor.core.redact.names import Weight, weight
from npudoctor.host.fs.files import Disk
from npudoctor.host.options import Options

NAMESPACES = ("net", "mnt", "ipc", "pid", "user")
# Root's variables that another user's Python is given: those that jobs read, unless the name says "secret".
JOB_VARIABLES = pattern(
    "(ASCEND|HCCL|GLOO|NCCL|TP_|MASTER_|MS_|RANK|LOCAL_|WORLD_|NODE_|GROUP_|ROLE_|PET_|TORCH|TRITON|OMP|KMP|MKL"
    "|GOTO|OPENBLAS|OMPI_COMM|MPI_|PMI|SLURM_|LD_|PATH$|PYTHON|TMP|TEMP|LANG|LC_|TZ|XDG_CACHE|ACL_|CUDA|NVIDIA"
    "|PADDLE|CONDA_PREFIX|VIRTUAL_ENV|DEVICE_ID|NPU|ATB_|VLLM|MALLOC_|GLIBC_|FLAGS_|CANN|TOOLCHAIN|OPP|AICPU)"
)


def job_variables(variables: Mapping[str, str], options: Options) -> dict[str, str]:
    """The variables for a child of the trial.

    Those of the process of --env-of belong to the job's user already. From root's own shell the user of
    --as-user is given only what jobs read: the rest may hold secrets.
    """
    user = options.as_user
    if user is None or not user.uid or options.env_of:
        return dict(variables)
    inherited = {
        name: value
        for name, value in variables.items()
        if JOB_VARIABLES.match(name) and weight(name) is Weight.NONE
    }
    return {**inherited, "HOME": user.home, "USER": user.name, "LOGNAME": user.name}


def why_not_tried(options: Options, as_root: bool, disk: Disk) -> Optional[str]:
    """Why a trial would not show what the job meets, as a sentence; None if it would.

    Limits, rights and namespaces belong to the job's user and process. Root of a user namespace, as in a
    rootless container, is an ordinary user outside and may be the job's user.
    """
    if options.foreign_variables and options.as_user is None:
        return _("the examined variables belong to another user: run this check as that user")
    if as_root and options.as_user is None and not is_mapped_root(disk):
        return _("root's limits are not the job's: name the job's user with --as-user")
    pid = options.env_of
    for kind in NAMESPACES if pid else ():
        try:
            is_same = disk.readlink(f"/proc/{pid}/ns/{kind}") == disk.readlink(f"/proc/self/ns/{kind}")
        except OSError as error:
            raise CannotTell(_("the namespaces of process {pid} cannot be read", pid=pid)) from error
        if not is_same:
            return _("process {pid} is in its own namespaces: run this check inside them", pid=pid)
    return None


def is_mapped_root(disk: Disk, is_only_user: bool = False) -> bool:
    """Whether root of this user namespace is another uid outside; with `is_only_user`, and no other uid is
    mapped. Rows of uid_map are: first uid inside, first uid outside, length (user_namespaces(7))."""
    try:
        rows = [line.split() for line in disk.read("/proc/self/uid_map", 1 << 16).splitlines()]
    except OSError:
        return False
    maps_root = any(row[:1] == [b"0"] and row[1:2] != [b"0"] for row in rows)
    return maps_root and (not is_only_user or [row[2:] for row in rows] == [[b"1"]])
