"""Are the NPUs' device nodes all here, and may this user open them?"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from typing import Union

from npudoctor import ERROR, Action, Facts, Finding, Host, Scope, Skip, Unknown, _, check
from npudoctor.checks.device._container_options import ask_for_paths
from npudoctor.host.fs.files import PathStatus

# Each line: one of these must be here. The 950 has asdrv_svm in place of devmm_svm.
NEEDED = (("davinci_manager",), ("devmm_svm", "asdrv_svm"), ("hisi_hdc",))
# The kernel's overflowuid: in a user namespace the owner of everything whose real owner is not mapped into
# it. Root of that namespace has no rights on such files.
NOBODY = 65534


@check(
    "device-nodes",
    scope=Scope.NODE,
    tags={"ascend"},
    needs=("npu", "driver"),
    codes={
        "device-nodes.missing": ERROR,
        "device-nodes.not-a-device": ERROR,
        "device-nodes.no-access": ERROR,
    },
    always=True,
)
def device_nodes(host: Host) -> Iterator[Union[Finding, Facts]]:
    """This user can access all NPU device nodes.

    ## What it does

    Checks the device nodes that a job opens in addition to `/dev/davinciN`: `/dev/davinci_manager`,
    `/dev/hisi_hdc` and `/dev/devmm_svm` (on a 950 `/dev/asdrv_svm`). They must exist and be character
    devices, and their owner, group and mode must let this user read and write them. Groups are compared by
    number, because the same name may have another number in a container. If the mode denies access, the
    kernel is asked as well, because it also evaluates access control lists. No node is opened. The check runs
    in every scope and profile, because it concerns the node and the user.

    - `device-nodes.missing`: this machine has NPUs, but a device node that all NPUs share does not exist.
    - `device-nodes.not-a-device`: a file or folder has the name of a device node.
      `docker run -v /dev/hisi_hdc:...` creates a folder if the host has no such node.
    - `device-nodes.no-access`: this user is not in the nodes' group, or has not logged in since being added
      to it.

    ## Why it matters

    If a user is not in the group, a job ends at its first line (`drvErr=87`,
    `Can't get ascend_hal device count`), and npu-smi says `ret is -8005`.

    ## Fix safety

    The line is shown only. `usermod -aG` gives the user everything that the group may open, and takes effect
    at the next login. `npudoctor fix` could not verify the result, and root, who alone could run it, does not
    have the problem. A user who is already in the group only has to log in again.

    ## References

    - Ascend driver installation guide: device nodes, the group HwHiAiUser.
    - vllm-ascend, installation with Docker: the devices that a container must be given.
    """
    names = [
        name
        for name in host.running_files.names("/dev")
        # vdavinciN are virtual NPUs (ASCEND_RUNTIME_OPTIONS=VIRTUAL of Ascend Docker Runtime).
        if name.startswith(("davinci", "vdavinci")) and name.partition("davinci")[2].isdecimal()
    ]
    if not names:
        raise Skip(_("this machine has no NPU device node"))
    shared = [name for kinds in NEEDED for name in kinds]
    entries = {name: host.running_files.lstat(f"/dev/{name}") for name in (*names, *shared)}
    present = {f"/dev/{name}": entry for name, entry in entries.items() if entry is not None}
    nodes = {path: entry for path, entry in present.items() if stat.S_ISCHR(entry.mode)}
    yield Facts(
        {path: f"{stat.filemode(entry.mode)} {entry.uid}:{entry.gid}" for path, entry in present.items()}
    )
    yield from _report_unusable(host, present)
    denied = {path: entry for path, entry in nodes.items() if not may_use(host, entry)}
    if host.identity.is_root:
        if any(entry.uid == NOBODY for entry in denied.values()):
            raise Unknown(
                _("the device nodes belong to an unmapped user in this user namespace"), advisory=True
            )
        return
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.checks.device._node_access import find_denied, report_no_access

    yield from report_no_access(host, find_denied(host, denied), "device-nodes.no-access")


def _report_unusable(host: Host, present: dict[str, PathStatus]) -> Iterator[Finding]:
    """Yield the findings about shared nodes that do not exist, and about files in the place of a node."""
    missing = [kinds[0] for kinds in NEEDED if not any(f"/dev/{kind}" in present for kind in kinds)]
    if missing:
        paths = [f"/dev/{name}" for name in missing]
        in_container = host.system.is_container()
        text = _("this machine has NPUs but not {paths}: the driver is not loaded completely")
        if in_container:
            text = _("{paths} was not passed to this container")
        yield Finding(
            "device-nodes.missing",
            text.format(paths=", ".join(paths)),
            action=Action.CONFIG,
            fix=ask_for_paths(paths) if in_container else None,
        )
    for path, entry in present.items():
        # `docker run -v` of a node that the host lacks creates a folder of that name.
        if not stat.S_ISCHR(entry.mode):
            kind_text = (
                _("a folder") if entry.is_dir else _("a plain file") if entry.is_file else _("something else")
            )
            yield Finding(
                "device-nodes.not-a-device",
                _("{path} is not a device node but {what}: no job can use it", path=path, what=kind_text),
                evidence=(f"{stat.filemode(entry.mode)} {path}",),
                device=path,
                action=Action.CONFIG,
            )


def may_use(host: Host, entry: PathStatus) -> bool:
    """Whether the mode lets this user read and write it."""
    identity = host.identity
    if identity.is_root and entry.uid != NOBODY:
        return True
    # The kernel applies one class only: the owner's bits, else the group's, else the others'
    # (path_resolution(7)).
    shift = 6 if entry.uid == identity.euid else 3 if entry.gid in identity.groups else 0
    return entry.mode >> shift & 0o6 == 0o6
