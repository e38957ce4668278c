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
# MAX_ARG_STRLEN of the kernel: 32 pages for each argument and each variable (execve(2)).
PAGES = 32  # of memory: more the kernel gives to no program in one variable


@dataclass(frozen=True)
class EnvironmentChanges:
    """What is to be changed: `changes` has each variable's whole new value, None to unset it; it may be
    empty.

    `notes`: what a person should know, for stderr. `whole`: the changes, and what of CANN is right already,
    for a caller that starts from other variables.
    """

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
        return _answer_without_cann(host)
    from npudoctor.environment.rounds import Rounds

    rounds = Rounds(host, installs[0])
    rounds.run()
    before, after = host.variables, rounds.variables
    # Exported functions have names such as BASH_FUNC_x%%.
    names = filter(NAME.match, sorted({*before, *after}))
    changes = {name: after.get(name) for name in names if before.get(name) != after.get(name)}
    # With a longer variable a shell could start no program any more.
    most = PAGES * os.sysconf("SC_PAGE_SIZE")
    for name, value in changes.items():
        if value is not None and len(os.fsencode(f"{name}={value}")) >= most:
            raise CannotTell(_("{name} would be too long: no program could be started with it", name=name))
    whole = dict(sorted({**rounds.cann_variables(), **changes}.items()))
    return EnvironmentChanges(changes, (*_describe_choice(host, installs), *rounds.notes), whole)


def _answer_without_cann(host: Host) -> EnvironmentChanges:
    """The answer without a CANN: nothing, on a machine that is for other things; else CannotTell."""
    variable = next((name for name in ENDINGS if host.variables.get(name)), None)
    if npu_here(host):
        raise CannotTell(_("CANN is not installed, or not in one of the usual places"))
    if variable and not gpu_here(host):
        raise CannotTell(
            _("{name} is {value}, but CANN is not installed", name=variable, value=host.variables[variable])
        )
    return EnvironmentChanges(notes=(_("this machine has neither an NPU nor CANN: nothing needs to be set"),))


def _describe_choice(host: Host, installs: list[Install]) -> tuple[str, ...]:
    """Notes on which installation was taken, where others exist and no variable says.

    Besides `latest`, or the link `cann`, the releases in the same folder are none to choose from.
    """
    in_use = installs[0]
    linked = in_use.path.endswith(LINKS)
    other_installs = [
        install for install in installs[1:] if not linked or _folder(install) != _folder(in_use)
    ]
    variable = next((name for name in ENDINGS if host.variables.get(name)), None)
    # The variable leads to no installation; a job would fail with it.
    if variable and not in_use.named_by:
        return (
            _(
                "{name} is {value}, which contains no CANN: {mine} is used",
                name=variable,
                value=host.variables[variable],
                mine=in_use.label,
            ),
        )
    # Somebody chose, or there is nothing to choose.
    if in_use.named_by or not other_installs:
        return ()
    return (
        _(
            "several CANN versions are installed: {mine} is used, not {others}; set "
            "ASCEND_HOME_PATH to choose another one",
            mine=in_use.label,
            others=", ".join(install.label for install in other_installs),
        ),
    )


def _folder(install: Install) -> str:
    return install.path.rpartition("/")[0]
