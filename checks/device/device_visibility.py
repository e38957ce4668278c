"""Does the job see the NPUs that its variables name?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Facts,
    Finding,
    Fix,
    Host,
    Scope,
    Skip,
    _,
    change_variable,
    check,
)
from npudoctor.facts.leftovers.port_holders import abbreviate
from npudoctor.facts.npu.visible import (
    CONTAINER,
    LONGEST,
    RUNTIME,
    SLURM,
    listed_ids,
    node_numbers,
    runtime_ids,
    slurm_ids,
)

SHOWN = 4096  # of a value, for machines
SHOWN_CHARACTERS = 200  # characters of a value
# Nodes named in one message: Atlas servers have 8 or 16 NPUs.
SHOWN_NODES = 16


@check(
    "device-visibility",
    scope=Scope.JOB,
    tags={"ascend"},
    needs=("npu",),
    codes={
        "device-visibility.none-left": ERROR,
        "device-visibility.bad-value": WARNING,
        "device-visibility.cut": WARNING,
        "device-visibility.no-such-device": WARNING,
        "device-visibility.not-ascending": WARNING,
        "device-visibility.not-given": WARNING,
        "device-visibility.beyond-slurm": WARNING,
        "device-visibility.empty": INFO,
        "device-visibility.container-only": INFO,
    },
)
def device_visibility(host: Host) -> Iterator[Union[Finding, Facts]]:
    """NPU selection variables match each other and the devices.

    ## What it does

    Compares ASCEND_RT_VISIBLE_DEVICES, which a job's runtime reads, ASCEND_VISIBLE_DEVICES, by which the
    container runtime chooses device nodes, and the devices that Slurm gave the job, with `/dev/davinciN`. No
    tool is run.

    The runtime counts from 0 among the devices that are present (logic ids), even in a container that was
    given NPU 4 and 5. It stops at the first id that is not one of these, or at the first character that is
    neither a digit nor a comma: `1, 2,3` is read as 1, and `1,3,8` on a machine with eight devices as 1,3.

    - `device-visibility.none-left`: no part of the value can be used, so the job has no device.
    - `device-visibility.bad-value`: the value is longer than 4096 characters and is not a device list.
    - `device-visibility.cut`, `device-visibility.no-such-device`: the job gets fewer devices than the value
      lists.
    - `device-visibility.not-ascending`: the ids must be ascending and unique.
    - `device-visibility.empty`: the variable is set but empty; how the runtime treats that is unknown.
    - `device-visibility.not-given`: in a container: the value names a device whose node does not exist here.
    - `device-visibility.container-only`: on a host ASCEND_VISIBLE_DEVICES does not limit a job.
    - `device-visibility.beyond-slurm`: the job sees devices that Slurm did not allocate to it. Slurm sets
      none of Ascend's variables; if it blocks the other devices by control groups, this is harmless.

    ## Why it matters

    A list that is cut leaves ranks without a device, or all of them on the first one. Two jobs that both
    see all devices both start on device 0.

    ## Fix safety

    The lines are for the shell that starts the job; nothing is written.

    ## References

    - CANN, "Environment variables": ASCEND_RT_VISIBLE_DEVICES.
    - Ascend Docker Runtime: ASCEND_VISIBLE_DEVICES, ASCEND_RUNTIME_OPTIONS.
    - Slurm, "Prolog and Epilog Guide": SLURM_JOB_GPUS.
    """

    variables = host.variables
    if not host.npus.is_usable:
        raise Skip(_("this machine has no NPU device node"))
    if not any(name in variables for name in (RUNTIME, CONTAINER, *SLURM)):
        raise Skip(_("no variable that chooses NPUs is set"))

    values = {name: variables[name][:SHOWN] for name in (RUNTIME, CONTAINER, *SLURM) if name in variables}
    yield Facts({"nodes": list(host.npus.nodes), "variables": values})
    yield from _judge_runtime(host)
    yield from _judge_container(host)
    yield from _judge_slurm(host)


def _judge_runtime(host: Host) -> Iterator[Finding]:
    """Judge ASCEND_RT_VISIBLE_DEVICES as CANN's runtime reads it."""
    value = host.variables.get(RUNTIME)
    if value is None:
        return
    # No document says how the runtime treats an empty value.
    if not value.strip():
        yield _finding("device-visibility.empty", _("{name} is set but empty"), value, _unset_fix(value))
        return
    if len(value) > LONGEST:
        yield _report_too_long(RUNTIME, value, _unset_fix(value))
        return
    count = len(host.npus.nodes)
    visible = runtime_ids(value, count)
    better = sorted({number for number in listed_ids(value) or () if number < count})
    fix = _export_fix(better, value) if better else _unset_fix(value)
    if not visible.ids:
        text = _("{name}={value} leaves the job no device: there are {count}, counted from 0")
        yield _finding("device-visibility.none-left", text, value, fix, count=count)
    elif visible.stopped and visible.strange:
        text = _("{name}={value} is read as {ids}: the rest is not a list of ids ({rest})")
        rest = _shorten(visible.stopped, repr(visible.stopped))
        yield _finding("device-visibility.cut", text, value, fix, ids=_join_ids(visible.ids), rest=rest)
    elif visible.stopped:
        text = _("{name}={value} is read as {ids}: there are {count} devices, counted from 0")
        ids = _join_ids(visible.ids)
        yield _finding("device-visibility.no-such-device", text, value, fix, ids=ids, count=count)
    # The ids must be ascending and unique (CANN, ASCEND_RT_VISIBLE_DEVICES).
    if any(first >= second for first, second in zip(visible.ids, visible.ids[1:])):
        text = _("{name}={value}: the ids must be ascending and unique")
        ascending = _export_fix(sorted(set(visible.ids)), value)
        yield _finding("device-visibility.not-ascending", text, value, ascending)


def _report_too_long(name: str, value: str, fix: Optional[Fix]) -> Finding:
    text = _("{name} has {count} characters and begins with {value}: it is not a device list")
    return _finding("device-visibility.bad-value", text, value, fix, name=name, count=len(value))


def _judge_container(host: Host) -> Iterator[Finding]:
    """Judge ASCEND_VISIBLE_DEVICES: in a container its devices must exist; on a host it limits nothing."""
    value = host.variables.get(CONTAINER)
    if not value:
        return
    if not host.system.is_container():
        # Only Ascend Docker Runtime reads this variable, when it starts a container.
        if RUNTIME not in host.variables:
            text = _("{name}={value} is for the container runtime: a job on this host sees all NPUs")
            yield _finding("device-visibility.container-only", text, value, None, name=CONTAINER)
        return
    if len(value) > LONGEST:
        yield _report_too_long(CONTAINER, value, None)
        return
    ids = listed_ids(value)
    # With ASCEND_RUNTIME_OPTIONS=VIRTUAL, Ascend Docker Runtime passes /dev/vdavinciN for the same numbers.
    kind = "vdavinci" if "VIRTUAL" in host.variables.get("ASCEND_RUNTIME_OPTIONS", "") else "davinci"
    present_ids = node_numbers([node for node in host.npus.nodes if node.startswith(f"/dev/{kind}")])
    missing = [number for number in ids or () if number not in present_ids]
    if missing:
        text = _("{name}={value}, but this container has no {nodes}")
        nodes = abbreviate((f"/dev/{kind}{number}" for number in missing), SHOWN_NODES)
        yield _finding("device-visibility.not-given", text, value, None, name=CONTAINER, nodes=nodes)


def _judge_slurm(host: Host) -> Iterator[Finding]:
    """Yield a finding if the job sees devices that Slurm did not allocate to it."""
    name, allocated = slurm_ids(host)
    count = len(host.npus.nodes)
    if allocated is None or host.system.is_container() or not all(number < count for number in allocated):
        return  # in a container other numbers count
    value = host.variables.get(RUNTIME)
    visible = set(runtime_ids(value, count).ids) if value else set(range(count))
    extra_ids = sorted(visible - set(allocated))
    # Slurm sets none of Ascend's variables. If it restricts devices by control groups, the other ones cannot
    # be opened and the finding does no harm, so it is a warning.
    if extra_ids:
        text = _("Slurm gave this job the NPUs {given} ({variable}), but the job also sees {beyond}")
        yield _finding(
            "device-visibility.beyond-slurm",
            text,
            value,
            _export_fix(sorted(allocated), value),
            given=_join_ids(sorted(allocated)),
            variable=name,
            beyond=_join_ids(extra_ids),
        )


def _join_ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


def _shorten(value: str, spelled: str) -> str:
    return spelled if len(value) <= SHOWN_CHARACTERS else f"{spelled[:SHOWN_CHARACTERS]}..."


def _export_fix(ids: Sequence[int], before: Optional[str]) -> Fix:
    title = _("choose the NPUs {ids}", ids=_join_ids(ids))
    return change_variable(title, RUNTIME, _join_ids(ids), before)


def _unset_fix(before: str) -> Fix:
    return change_variable(_("let the job see all NPUs"), RUNTIME, None, before)


def _finding(
    code: str, text: str, value: Optional[str], fix: Optional[Fix], name: str = RUNTIME, **words: object
) -> Finding:
    return Finding(
        code,
        text.format(name=name, value=_shorten(value or "", repr(value or "")[1:-1]), **words),
        evidence=() if value is None else (f"{name}={_shorten(value, repr(value))}",),
        action=Action.CONFIG,
        fix=fix,
    )
