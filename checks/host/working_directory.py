"""Can a job work in the folder in which it is started?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import ERROR, WARNING, Action, Facts, Finding, Host, Scope, _, check
from npudoctor.facts.job.working_directory import job_user, working_directory
from npudoctor.host.users.access import may_create_in, nearest_folder


@check(
    "working-directory",
    scope=Scope.JOB,
    codes={"working-directory.gone": ERROR, "working-directory.not-writable": WARNING},
)
def working_directory_check(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The job's working directory exists and is writable.

    ## What it does

    Reads the owner, mode and mount of the working directory of this shell; with `--env-of PID`, of that
    process. Nothing is written.

    - `working-directory.gone`: it was removed, or another folder was put in its place.
    - `working-directory.not-writable`: this user may make no files in it, or it lies on a read-only mount.

    ## Why it matters

    In a removed folder every program fails at once ("getcwd: cannot access parent directories"). CANN,
    MindSpore and torch_npu write `kernel_meta`, `fusion_result.json`, `rank_0` and similar files to the
    folder in which the job was started. If they cannot write there, compilation of operators fails.

    ## References

    getcwd(3); MindSpore and CANN documents on `kernel_meta` and on the files that a run leaves.
    """
    path = working_directory(host)
    yield Facts({"path": path})
    if path is None:
        text = _("the working directory was removed: change to one that exists")
        yield Finding("working-directory.gone", text, action=Action.RESTART_JOB)
        return
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.facts.system.mounts import mount_at

    place = nearest_folder(host.files, path)
    user, mount = job_user(host), mount_at(host, place)
    if may_create_in(place.entry, user, mount) is False:
        text = _("{user} cannot write to the working directory {path}")
        yield Finding(
            "working-directory.not-writable",
            text.format(user=user.user, path=path),
            evidence=(
                place.label,
                *((f"{mount.point} {mount.kind} ro",) if mount and mount.read_only else ()),
            ),
            action=Action.CONFIG,
            echo_of=("trial-files.cannot-write",),
        )
