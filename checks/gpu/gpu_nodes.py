"""May this user open the GPUs' device nodes, and are those here that all of them share?"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from typing import Union

from npudoctor import ERROR, Action, Facts, Finding, Host, Scope, Skip, Unknown, _, check
from npudoctor.host.fs.files import PathStatus

# Without nvidiactl CUDA finds no device; without nvidia-uvm it ends in "CUDA unknown error" while nvidia-smi
# shows no fault. Measured with driver 580.159 on an H100.
SHARED = ("nvidiactl", "nvidia-uvm")


@check(
    "gpu-nodes",
    scope=Scope.NODE,
    tags={"nvidia"},
    needs=("gpu",),
    codes={
        "gpu-nodes.missing": ERROR,
        "gpu-nodes.not-a-device": ERROR,
        "gpu-nodes.no-access": ERROR,
    },
    always=True,
)
def gpu_nodes(host: Host) -> Iterator[Union[Finding, Facts]]:
    """This user can access all GPU device nodes.

    ## What it does

    Checks the device nodes that a job opens in addition to `/dev/nvidiaN`: `/dev/nvidiactl` and
    `/dev/nvidia-uvm`. They must be character devices, and their owner, group and mode must let this user read
    and write them. If the mode denies access, the kernel is asked as well, because it also evaluates access
    control lists. No node is opened. The check runs in every scope and profile, because it concerns the node
    and the user.

    - `gpu-nodes.no-access`: this user cannot open any of the GPUs, or a node that all of them share.
    - `gpu-nodes.not-a-device`: a file or folder has the name of a device node.
    - `gpu-nodes.missing`: in a container: a shared node was not passed to it. On a host CUDA uses
      nvidia-modprobe to create the node when the first job starts, so it is not looked for there.

    If one GPU of several cannot be opened, nothing is reported: some sites share GPUs that way.

    ## Why it matters

    If `/dev/nvidiactl` is missing or cannot be opened, a job finds no GPU, and the only sign may be that it
    is slow. Without `/dev/nvidia-uvm` it ends in `CUDA unknown error` while nvidia-smi shows no fault.

    ## Fix safety

    The line is shown only: the administrator decides who may open a GPU.

    ## References

    - NVIDIA driver README: device files, NVreg_DeviceFileMode, nvidia-modprobe.
    - What happens without each was measured with driver 580.159 on an H100.
    """
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.checks.device._node_access import find_denied, report_no_access
    from npudoctor.checks.device.device_nodes import NOBODY, may_use

    paths = list(host.gpus.nodes)
    if not paths:
        raise Skip(_("this machine has no GPU device node"))
    entries = {
        path: host.running_files.lstat(path) for path in (*paths, *(f"/dev/{name}" for name in SHARED))
    }
    present = {path: entry for path, entry in entries.items() if entry is not None}
    yield Facts(
        {path: f"{stat.filemode(entry.mode)} {entry.uid}:{entry.gid}" for path, entry in present.items()}
    )
    for path, entry in present.items():
        if not _is_node(entry):
            yield Finding(
                "gpu-nodes.not-a-device",
                _("{path} is not a device node: no job can use it", path=path),
                evidence=(f"{stat.filemode(entry.mode)} {path}",),
                device=path,
                action=Action.CONFIG,
            )
    # On a host nvidia-modprobe creates /dev/nvidia-uvm when the first job starts, so it may be missing
    # before.
    if host.system.is_container():
        yield from _report_missing([path for path in entries if path not in present])
    mode_denied = {
        path: entry for path, entry in present.items() if _is_node(entry) and not may_use(host, entry)
    }
    if host.identity.is_root:
        if any(entry.uid == NOBODY for entry in mode_denied.values()):
            raise Unknown(
                _("the device nodes belong to an unmapped user in this user namespace"), advisory=True
            )
        return
    denied = find_denied(host, mode_denied)
    # Some sites share GPUs by the modes of their nodes: if one can be opened, the others are closed on
    # purpose.
    if not all(path in denied for path in paths):
        denied = {path: entry for path, entry in denied.items() if path not in paths}
    yield from report_no_access(host, denied, "gpu-nodes.no-access")


def _is_node(entry: PathStatus) -> bool:
    return stat.S_ISCHR(entry.mode)


def _report_missing(paths: list[str]) -> Iterator[Finding]:
    from npudoctor.checks.device._container_options import ask_for_paths

    if paths:
        yield Finding(
            "gpu-nodes.missing",
            _("{paths} was not passed to this container", paths=", ".join(paths)),
            action=Action.CONFIG,
            fix=ask_for_paths(paths),
        )
