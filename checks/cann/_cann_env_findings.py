"""The words and remedies of cann-env."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Optional

from npudoctor import Action, Command, Export, Finding, Fix, Host, Risk, Severity, Step, _
from npudoctor.facts.cann import set_env as cann_env
from npudoctor.facts.cann import tree as cann_tree
from npudoctor.facts.cann.installations import Install, named_root, set_env_script
from npudoctor.facts.job.working_directory import job_user


def not_sourced(host: Host, install: Install, severity: Severity) -> Finding:
    script = set_env_script(host.files, install)
    text = _("no variable of the CANN at {install} is set in this shell")
    if script:
        text = _("{script} was not sourced in this shell, and CANN is at {install}")
    return Finding(
        "cann-env.not-sourced",
        text.format(install=install.label, script=script),
        severity=severity,
        action=Action.CONFIG,
        fix=remedy(host, install, cann_env.variables_of(host.files, install), atb=True),
    )


def unset(host: Host, install: Install, values: Mapping[str, str], severity: Severity) -> Finding:
    text = _("{names} not set: the variables of the CANN at {install} are set only in part")
    steps = tuple(Export(name, value) for name, value in values.items())
    return Finding(
        "cann-env.unset",
        text.format(names=", ".join(values), install=install.label),
        severity=severity,
        action=Action.CONFIG,
        fix=_shown(_("set what is missing"), steps, tuple(f"unset {name}" for name in values)),
    )


def no_such_path(
    host: Host, wrong: Mapping[str, str], usable: Optional[Install], severity: Severity
) -> Finding:
    name, value = next(iter(wrong.items()))
    text = _('{name} is "{value}", where there is no CANN')
    if cann_env.latest_below(host.files, value):
        text = _('{name} is "{value}", where there is no CANN: it is in the subfolder latest')
    return Finding(
        "cann-env.no-such-path",
        text.format(name=name, value=value),
        severity=severity,
        evidence=_lines(wrong),
        action=Action.CONFIG,
        fix=remedy(host, usable, _only(host, usable, wrong)) if usable else None,
        echo_of=_cause(host, wrong, usable),
    )


def _cause(host: Host, wrong: Mapping[str, str], usable: Optional[Install]) -> tuple[str, ...]:
    """What cann-install says of the same: the place is a link to nowhere, or nothing is installed."""
    places = [named_root(name, value) for name, value in wrong.items() if value.startswith("/")]
    if any(cann_tree.dangling_links(host.files, place) for place in places):
        return ("cann-install.dangling-latest",)
    if usable:
        return ()
    beside = (f"{place.rpartition('/')[0]}/cann" for place in places)  # from 8.5 on the link to a release
    links = any(cann_tree.dangling_links(host.files, link) for link in beside)
    return ("cann-install.dangling-latest",) if links else ("cann-install.missing",)


def mixed(
    host: Host, active: Install, others: Mapping[str, Install], values: Mapping[str, str], severity: Severity
) -> Finding:
    text = _("{name} names the CANN at {other}, and {mine_name} the one at {mine}")
    name, other = next(iter(others.items()))
    return Finding(
        "cann-env.mixed-installs",
        text.format(name=name, other=other.label, mine=active.label, mine_name=active.named_by or "latest"),
        severity=severity,
        evidence=_lines(values),
        action=Action.CONFIG,
        fix=remedy(host, active, _only(host, active, others)),
    )


def shadowed(
    host: Host, active: Install, name: str, entry: str, other: Install, severity: Severity
) -> Finding:
    text = _("{name} finds the CANN at {other} before the one at {mine}")
    return Finding(
        "cann-env.other-install-first",
        text.format(name=name, other=other.label, mine=active.label),
        severity=severity,
        evidence=(f"{name}: {entry}",),
        action=Action.CONFIG,
        fix=in_front(host, name, folders_for(host, active, name)),
        # A variable that names the wrong one makes all others look wrong.
        echo_of=("cann-env.mixed-installs",),
    )


def missing_entry(
    host: Host, install: Install, name: str, folders: Sequence[str], severity: Severity
) -> Finding:
    text = _("{name} lacks {folders} of the CANN at {install}")
    return Finding(
        "cann-env.missing-entry",
        text.format(name=name, folders=", ".join(folders), install=install.label),
        severity=severity,
        action=Action.CONFIG,
        fix=in_front(host, name, folders),
    )


def atb(script: str) -> Finding:
    text = _("{script} was not sourced in this shell: vllm-ascend needs the libraries of ATB")
    return Finding(
        "cann-env.atb-not-sourced",
        text.format(script=script),
        action=Action.CONFIG,
        fix=_shown(_("source the script of ATB"), (Command(("source", script)),)),
    )


def folders_for(host: Host, install: Install, name: str) -> list[str]:
    """What this list variable should begin with."""
    if name == "PATH":
        return cann_env.compilers(host.files, install)[:1]
    return cann_env.python_folders(host.files, install)


def remedy(host: Host, install: Install, values: Mapping[str, str], atb: bool = False) -> Fix:
    """The script where there is one, and ATB's after it; else the single lines."""
    script = set_env_script(host.files, install)
    if script is None:
        lists = [(name, folders_for(host, install, name)) for name in ("PYTHONPATH", "PATH")] if atb else []
        exports = [Export(name, value) for name, value in values.items()]
        exports += [_front(host, name, folders) for name, folders in lists if folders]
        return _shown(_("set the variables of {path}").format(path=install.path), tuple(exports))
    more = cann_env.atb_script(host.files, host.variables, job_user(host).home) if atb else None
    scripts = [script, *([more] if more else [])]
    return _shown(
        _("source {script}").format(script=script), tuple(Command(("source", path)) for path in scripts)
    )


def in_front(host: Host, name: str, folders: Sequence[str]) -> Fix:
    """The variable with these folders put in front."""
    title = _("put CANN's own folders in front of {name}").format(name=name)
    before = host.variables.get(name)
    undo = Export(name, before).lines() if before else (f"unset {name}",)
    return _shown(title, (_front(host, name, folders),), undo)


def _front(host: Host, name: str, folders: Sequence[str]) -> Export:
    # An empty entry would be the working directory: CANN's own scripts leave one, we do not.
    entries = (*folders, *host.variables.path_list(name))
    return Export(name, ":".join(dict.fromkeys(entry for entry in entries if entry)))


def _only(host: Host, install: Optional[Install], wrong: Mapping[str, object]) -> dict[str, str]:
    if install is None:
        return {}
    return {
        name: value for name, value in cann_env.variables_of(host.files, install).items() if name in wrong
    }


def _shown(title: str, steps: Sequence[Step], undo: tuple[str, ...] = ()) -> Fix:
    return Fix(title, steps=tuple(steps), undo=undo, risk=Risk.MANUAL, needs_root=False)


def _lines(values: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{name}={shlex.quote(value)}" for name, value in values.items())  # blanks must be seen
