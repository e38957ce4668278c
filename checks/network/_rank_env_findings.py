"""The words of the check rank-env."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Optional

from npudoctor import Action, Command, Finding, Fix, Risk, Severity, _
from npudoctor.facts.job.launchers import LauncherRank, LauncherVariables

SHOWN = 80  # of a value


def bad_value(names: LauncherVariables, wrong: Sequence[str], variables: Mapping[str, str]) -> Finding:
    """Numbers that cannot be read."""
    given = ", ".join(f"{name}={variables[name][:SHOWN]}" for name in wrong)
    text = _("{given}: a rank is a whole number from 0 on, a count one from 1 on")
    return _finding(
        "bad-value", text.format(given=given), names.all, variables, names if names.ours else None
    )


def beyond(
    names: LauncherVariables,
    index: str,
    count: str,
    variables: Mapping[str, str],
    severity: Optional[Severity],
) -> Finding:
    """A rank that the job does not have."""
    text = _("{index} is {value}, and {count} is {most}: the ranks are 0 to {last}")
    most = int(variables[count])
    message = text.format(index=index, value=variables[index], count=count, most=most, last=most - 1)
    return _finding("out-of-range", message, names.all, variables, names, severity)


def ranks_disagree(one: LauncherRank, other: LauncherRank, variables: Mapping[str, str]) -> Finding:
    """Two launchers with two numbers for this process."""
    text = _("{one}={rank} ({launcher}), but {other}={other_rank} ({other_launcher}), both of {size}")
    message = text.format(
        one=one.names.rank, rank=one.rank, launcher=one.names.launcher, other=other.names.rank,
        other_rank=other.rank, other_launcher=other.names.launcher, size=one.size,
    )  # fmt: skip
    return _finding("disagree", message, (*one.names.all, *other.names.all), variables)


def sizes_disagree(one: LauncherRank, other: LauncherRank, variables: Mapping[str, str]) -> Finding:
    """Two launchers with two numbers of ranks, of which none can be inside of the other."""
    text = _("{one}={size} ({launcher}), but {other}={other_size} ({other_launcher}): neither is a part")
    message = text.format(
        one=one.names.size, size=one.size, launcher=one.names.launcher, other=other.names.size,
        other_size=other.size, other_launcher=other.names.launcher,
    )  # fmt: skip
    names = (*one.names.all, *other.names.all)
    return _finding("disagree", message, names, variables, severity=Severity.INFO)


def disagree(message: str, names: Iterable[str], variables: Mapping[str, str]) -> Finding:
    """Variables of one launcher that cannot all be right."""
    return _finding("disagree", message, names, variables)


def no_device(name: str, value: int, devices: int, variables: Mapping[str, str]) -> Finding:
    """More ranks here than devices."""
    if name == "LOCAL_RANK":
        text = _("LOCAL_RANK is {value}, and there are {devices} devices here, 0 to {last}")
    else:
        text = _("{name} is {value}, and there are only {devices} devices here")
    message = text.format(name=name, value=value, devices=devices, last=devices - 1)
    names = (name, "ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
    return _finding("no-device", message, names, variables)


def bad_role(role: str, variables: Mapping[str, str]) -> Finding:
    """A role that MindSpore does not know."""
    text = _("MS_ROLE is {role}, and a process is MS_SCHED or MS_WORKER")
    return _finding("bad-value", text.format(role=role[:SHOWN]), ("MS_ROLE",), variables)


def half_set(
    launcher: str,
    missing: Sequence[str],
    names: Iterable[str],
    variables: Mapping[str, str],
    severity: Severity,
) -> Finding:
    """A launcher's variables of which some are missing."""
    text = _("the variables of {launcher} are set in part: {missing} missing")
    message = text.format(launcher=launcher, missing=", ".join(missing))
    return _finding("half-set", message, names, variables, severity=severity)


def _finding(
    code: str,
    message: str,
    names: Iterable[str],
    variables: Mapping[str, str],
    unset: Optional[LauncherVariables] = None,
    severity: Optional[Severity] = None,
) -> Finding:
    given = [name for name in dict.fromkeys(names) if name in variables]
    fix = None
    if unset is not None:
        title = _("let {launcher} set them")
        steps = tuple(Command(("unset", name)) for name in unset.all if name in variables)
        fix = Fix(title.format(launcher=unset.launcher), steps, risk=Risk.MANUAL, needs_root=False)
    return Finding(
        f"rank-env.{code}",
        message,
        severity=severity,
        evidence=tuple(f"{name}={variables[name][:SHOWN]}" for name in given),
        action=Action.CONFIG,
        fix=fix,
    )
