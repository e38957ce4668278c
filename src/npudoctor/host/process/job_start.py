"""How the job would be started: for the trial, which starts a child as its launcher would."""

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
# What of root's own variables another user's Python gets: what jobs read, unless its name announces a secret.
JOB_VARIABLES = pattern(
    "(ASCEND|HCCL|GLOO|NCCL|TP_|MASTER_|MS_|RANK|LOCAL_|WORLD_|NODE_|GROUP_|ROLE_|PET_|TORCH|TRITON|OMP|KMP|MKL"
    "|GOTO|OPENBLAS|OMPI_COMM|MPI_|PMI|SLURM_|LD_|PATH$|PYTHON|TMP|TEMP|LANG|LC_|TZ|XDG_CACHE|ACL_|CUDA|NVIDIA"
    "|PADDLE|CONDA_PREFIX|VIRTUAL_ENV|DEVICE_ID|NPU|ATB_|VLLM|MALLOC_|GLIBC_|FLAGS_|CANN|TOOLCHAIN|OPP|AICPU)"
)


def job_variables(variables: Mapping[str, str], options: Options) -> dict[str, str]:
    """Those with which the child is started. Those of the process of --env-of are its own; what root has in
    its shell is not for everybody whom --as-user names."""
    user = options.as_user
    if user is None or not user.uid or options.env_of:
        return dict(variables)
    own = {
        name: value
        for name, value in variables.items()
        if JOB_VARIABLES.match(name) and weight(name) is Weight.NONE
    }
    return {**own, "HOME": user.home, "USER": user.name, "LOGNAME": user.name}


def why_not_tried(options: Options, as_root: bool, disk: Disk) -> Optional[str]:
    """Why the trial would not be the job's: its limits, rights and namespaces are those of its user and its
    process. Root of a user namespace is an ordinary user outside, as in a container without root."""
    if options.foreign_variables and options.as_user is None:
        return _("the examined variables belong to another user: run this check as that user")
    if as_root and options.as_user is None and not is_mapped(disk):
        return _("root's limits are not the job's: name the job's user with --as-user")
    pid = options.env_of
    for kind in NAMESPACES if pid else ():
        try:
            same = disk.readlink(f"/proc/{pid}/ns/{kind}") == disk.readlink(f"/proc/self/ns/{kind}")
        except OSError as error:
            raise CannotTell(_("the namespaces of process {pid} cannot be read", pid=pid)) from error
        if not same:
            return _("process {pid} is in its own namespaces: run this check inside them", pid=pid)
    return None


def is_mapped(disk: Disk, alone: bool = False) -> bool:
    """Whether root of this user namespace is somebody else outside; `alone`: and nobody else is here."""
    try:
        rows = [line.split() for line in disk.read("/proc/self/uid_map", 1 << 16).splitlines()]
    except OSError:
        return False
    mapped = any(row[:1] == [b"0"] and row[1:2] != [b"0"] for row in rows)
    return mapped and (not alone or [row[2:] for row in rows] == [[b"1"]])
