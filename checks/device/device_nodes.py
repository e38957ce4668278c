"""Are the NPUs' device nodes all here, and may this user open them?"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from typing import Union

from npudoctor import ERROR, Action, Facts, Finding, Host, Scope, Skip, Unknown, _, check
from npudoctor.checks.device._container_options import to_add
from npudoctor.host.fs.files import PathStatus

# Each line: one of these must be here. The 950 has asdrv_svm in place of devmm_svm.
NEEDED = (("davinci_manager",), ("devmm_svm", "asdrv_svm"), ("hisi_hdc",))
NOBODY = 65534  # whose things are nobody's in a user namespace: not even its root may open them by right


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
        if name.startswith(("davinci", "vdavinci")) and name.partition("davinci")[2].isdecimal()
    ]
    if not names:
        raise Skip(_("this machine has no NPU device node"))
    shared = [name for kinds in NEEDED for name in kinds]
    entries = {name: host.running_files.lstat(f"/dev/{name}") for name in (*names, *shared)}
    there = {f"/dev/{name}": entry for name, entry in entries.items() if entry is not None}
    nodes = {path: entry for path, entry in there.items() if stat.S_ISCHR(entry.mode)}
    yield Facts(
        {path: f"{stat.filemode(entry.mode)} {entry.uid}:{entry.gid}" for path, entry in there.items()}
    )
    yield from _unusable(host, there)
    closed = {path: entry for path, entry in nodes.items() if not may_use(host, entry)}
    if host.identity.is_root:
        if any(entry.uid == NOBODY for entry in closed.values()):
            raise Unknown(
                _("the device nodes belong to an unmapped user in this user namespace"), advisory=True
            )
        return
    from npudoctor.checks.device._node_access import find_denied, no_access

    yield from no_access(host, find_denied(host, closed), "device-nodes.no-access")


def _unusable(host: Host, there: dict[str, PathStatus]) -> Iterator[Finding]:
    """What is missing of the nodes, and what lies in the place of one."""
    missing = [kinds[0] for kinds in NEEDED if not any(f"/dev/{kind}" in there for kind in kinds)]
    if missing:
        paths = [f"/dev/{name}" for name in missing]
        inside = host.system.is_container()
        text = _("this machine has NPUs but not {paths}: the driver is not loaded completely")
        if inside:
            text = _("{paths} was not passed to this container")
        yield Finding(
            "device-nodes.missing",
            text.format(paths=", ".join(paths)),
            action=Action.CONFIG,
            fix=to_add(paths) if inside else None,
        )
    for path, entry in there.items():
        if not stat.S_ISCHR(entry.mode):
            what = (
                _("a folder") if entry.is_dir else _("a plain file") if entry.is_file else _("something else")
            )
            yield Finding(
                "device-nodes.not-a-device",
                _("{path} is not a device node but {what}: no job can use it", path=path, what=what),
                evidence=(f"{stat.filemode(entry.mode)} {path}",),
                device=path,
                action=Action.CONFIG,
            )


def may_use(host: Host, entry: PathStatus) -> bool:
    """Whether the mode lets this user read and write it."""
    identity = host.identity
    if identity.is_root and entry.uid != NOBODY:
        return True
    shift = 6 if entry.uid == identity.euid else 3 if entry.gid in identity.groups else 0
    return entry.mode >> shift & 0o6 == 0o6
