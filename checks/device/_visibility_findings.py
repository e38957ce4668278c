"""What is wrong with a choice of NPUs, and the line that sets it right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor import Action, Command, Export, Finding, Fix, Host, Risk, _
from npudoctor.facts.leftovers.port_holders import abbreviate
from npudoctor.facts.npu.visible import (
    CONTAINER,
    LONGEST,
    RUNTIME,
    VisibleNpus,
    listed_ids,
    numbers,
    runtime_ids,
    slurm_ids,
)

SHOWN = 200  # characters of a value
SHOWN_NODES = 16


def of_runtime(host: Host) -> Iterator[Finding]:
    """What the runtime makes of its own variable."""
    value = host.variables.get(RUNTIME)
    if value is None:
        return
    if not value.strip():
        yield _finding("device-visibility.empty", _("{name} is set but empty"), value, _unset(value))
        return
    if len(value) > LONGEST:
        yield _too_long(RUNTIME, value, _unset(value))
        return
    count = len(host.npus.nodes)
    seen = runtime_ids(value, count)
    better = sorted({number for number in listed_ids(value) or () if number < count})
    fix = _export(better, value) if better else _unset(value)
    if not seen.ids:
        text = _("{name}={value} leaves the job no device: there are {count}, counted from 0")
        yield _finding("device-visibility.none-left", text, value, fix, count=count)
    elif seen.stopped:
        yield _cut(value, seen, count, fix)
    if any(first >= second for first, second in zip(seen.ids, seen.ids[1:])):
        text = _("{name}={value}: the ids must be ascending and unique")
        yield _finding("device-visibility.not-ascending", text, value, _export(sorted(set(seen.ids)), value))


def _too_long(name: str, value: str, fix: Optional[Fix]) -> Finding:
    text = _("{name} has {count} characters and begins with {value}: it is not a device list")
    return _finding("device-visibility.bad-value", text, value, fix, name=name, count=len(value))


def _cut(value: str, seen: VisibleNpus, count: int, fix: Fix) -> Finding:
    ids = _joined(seen.ids)
    if seen.strange:
        text = _("{name}={value} is read as {ids}: the rest is not a list of ids ({rest})")
        return _finding(
            "device-visibility.cut", text, value, fix, ids=ids, rest=_shown(seen.stopped, repr(seen.stopped))
        )
    text = _("{name}={value} is read as {ids}: there are {count} devices, counted from 0")
    return _finding("device-visibility.no-such-device", text, value, fix, ids=ids, count=count)


def of_container(host: Host) -> Iterator[Finding]:
    """The container runtime's variable: whether it was obeyed, or has no meaning here."""
    value = host.variables.get(CONTAINER)
    if not value:
        return
    if not host.system.container():
        if RUNTIME not in host.variables:
            text = _("{name}={value} is for the container runtime: a job on this host sees all NPUs")
            yield _finding("device-visibility.container-only", text, value, None, name=CONTAINER)
        return
    if len(value) > LONGEST:
        yield _too_long(CONTAINER, value, None)
        return
    wanted = listed_ids(value)
    kind = "vdavinci" if "VIRTUAL" in host.variables.get("ASCEND_RUNTIME_OPTIONS", "") else "davinci"
    here = numbers([node for node in host.npus.nodes if node.startswith(f"/dev/{kind}")])
    missing = [number for number in wanted or () if number not in here]
    if missing:
        text = _("{name}={value}, but this container has no {nodes}")
        nodes = abbreviate((f"/dev/{kind}{number}" for number in missing), SHOWN_NODES)
        yield _finding("device-visibility.not-given", text, value, None, name=CONTAINER, nodes=nodes)


def of_slurm(host: Host) -> Iterator[Finding]:
    """Whether the job sees devices that Slurm did not give to it."""
    name, given = slurm_ids(host)
    count = len(host.npus.nodes)
    if given is None or host.system.container() or not all(number < count for number in given):
        return  # in a container other numbers count
    value = host.variables.get(RUNTIME)
    seen = set(runtime_ids(value, count).ids) if value else set(range(count))
    beyond = sorted(seen - set(given))
    if beyond:
        text = _("Slurm gave this job the NPUs {given} ({variable}), and it also sees {beyond}")
        yield _finding(
            "device-visibility.beyond-slurm",
            text,
            value,
            _export(sorted(given), value),
            given=_joined(sorted(given)),
            variable=name,
            beyond=_joined(beyond),
        )


def _joined(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


def _shown(value: str, spelled: str) -> str:
    return spelled if len(value) <= SHOWN else f"{spelled[:SHOWN]}..."


def _export(ids: Sequence[int], before: Optional[str]) -> Fix:
    undo = Export(RUNTIME, before).lines() if before is not None else (f"unset {RUNTIME}",)
    return Fix(
        _("choose the NPUs {ids}").format(ids=_joined(ids)),
        steps=(Export(RUNTIME, _joined(ids)),),
        undo=undo,
        risk=Risk.MANUAL,
        needs_root=False,
    )


def _unset(before: str) -> Fix:
    return Fix(
        _("let the job see all NPUs"),
        steps=(Command(("unset", RUNTIME)),),
        undo=Export(RUNTIME, before).lines(),
        risk=Risk.MANUAL,
        needs_root=False,
    )


def _finding(
    code: str, text: str, value: Optional[str], fix: Optional[Fix], name: str = RUNTIME, **words: object
) -> Finding:
    return Finding(
        code,
        text.format(name=name, value=_shown(value or "", repr(value or "")[1:-1]), **words),
        evidence=() if value is None else (f"{name}={_shown(value, repr(value))}",),
        action=Action.CONFIG,
        fix=fix,
    )
