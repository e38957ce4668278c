"""The variables with which the environment checks pass, as differences to those of the caller."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Optional

from npudoctor.core.frozen import dataclass, field
from npudoctor.core.messages import _
from npudoctor.environment.diff import NAME
from npudoctor.facts.cann.installations import ENDINGS, Install, installs_of
from npudoctor.facts.job.expected_accelerator import gpu_here, npu_here
from npudoctor.host import CannotTell, Host

LINKS = ("/latest", "/cann")  # what an installer points to the release in use
PAGES = 32  # of memory: more the kernel gives to no program in one variable


@dataclass(frozen=True)
class EnvironmentChanges:
    """What is to be changed: each variable's whole new value, None to unset it. `notes`: what a person
    should know, for standard error. Nothing to change is an answer, too. `whole`: the changes, and what
    of CANN is right already: for who starts from other variables than these."""

    changes: Mapping[str, Optional[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    whole: Mapping[str, Optional[str]] = field(default_factory=dict)


def required_changes(host: Host) -> EnvironmentChanges:
    """What this host's variables lack; CannotTell (npudoctor.host) where that cannot be computed."""
    try:
        installs = installs_of(host)
    except CannotTell as error:
        if npu_here(host) or not gpu_here(host):
            raise
        return EnvironmentChanges(
            notes=(error.reason,)
        )  # a closed folder of Ascend is nothing to a job on GPUs
    if not installs:
        return _without_cann(host)
    from npudoctor.environment.rounds import Rounds

    rounds = Rounds(host, installs[0])
    rounds.run()
    before, after = host.variables, rounds.variables
    names = filter(NAME.match, sorted({*before, *after}))
    changes = {name: after.get(name) for name in names if before.get(name) != after.get(name)}
    # With a longer variable a shell could start no program any more.
    most = PAGES * os.sysconf("SC_PAGE_SIZE")
    for name, value in changes.items():
        if value is not None and len(os.fsencode(f"{name}={value}")) >= most:
            raise CannotTell(_("{name} would be too long: no program could be started with it", name=name))
    whole = dict(sorted({**rounds.cann_variables(), **changes}.items()))
    return EnvironmentChanges(changes, (*_describe_choice(host, installs), *rounds.notes), whole)


def _without_cann(host: Host) -> EnvironmentChanges:
    """Without a CANN: that is an answer on a machine that is for other things."""
    named = next((name for name in ENDINGS if host.variables.get(name)), None)
    if npu_here(host):
        raise CannotTell(_("CANN is not installed, or not in one of the usual places"))
    if named and not gpu_here(host):
        raise CannotTell(
            _("{name} is {value}, but CANN is not installed", name=named, value=host.variables[named])
        )
    return EnvironmentChanges(notes=(_("this machine has neither an NPU nor CANN: nothing needs to be set"),))


def _describe_choice(host: Host, installs: list[Install]) -> tuple[str, ...]:
    """Which one was taken, where others are there and no variable says. Beside `latest`, or the link `cann`,
    the releases that it does not name are none to choose from."""
    in_use = installs[0]
    linked = in_use.path.endswith(LINKS)
    others = [install for install in installs[1:] if not linked or _folder(install) != _folder(in_use)]
    named = next((name for name in ENDINGS if host.variables.get(name)), None)
    if named and not in_use.named_by:
        return (
            _(
                "{name} is {value}, which contains no CANN: {mine} is used",
                name=named,
                value=host.variables[named],
                mine=in_use.label,
            ),
        )
    if in_use.named_by or not others:
        return ()
    return (
        _(
            "several CANN versions are installed: {mine} is used, not {others}; set "
            "ASCEND_HOME_PATH to choose another one",
            mine=in_use.label,
            others=", ".join(install.label for install in others),
        ),
    )


def _folder(install: Install) -> str:
    return install.path.rpartition("/")[0]
