"""Are the variables of the CANN in use set as its own set_env.sh would set them?"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Optional, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Command,
    Export,
    Facts,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    Severity,
    Skip,
    Step,
    _,
    change_variable,
    check,
)
from npudoctor.core.frozen import replace
from npudoctor.facts.cann import set_env
from npudoctor.facts.cann import tree as cann_tree
from npudoctor.facts.cann.installations import ENDINGS, Install, installs_of, named_root, set_env_script
from npudoctor.facts.job.expected_accelerator import frameworks_on_cann, npu_expected
from npudoctor.facts.job.working_directory import job_user
from npudoctor.host import CannotTell

# Without ASCEND_OPP_PATH a job ends at once: "ASCEND_OPP_PATH environment variable is not set". A variable
# that is not listed here is only information.
WEIGHTS = {"ASCEND_OPP_PATH": ERROR, "ASCEND_HOME_PATH": WARNING}
# Judged by the check aicpu-path; here it only shows that some environment was set up.
AICPU = "ASCEND_AICPU_PATH"


@check(
    "cann-env",
    scope=Scope.JOB,
    tags={"ascend"},
    needs=("cann",),
    codes={
        "cann-env.not-sourced": ERROR,
        "cann-env.unset": ERROR,
        "cann-env.no-such-path": ERROR,
        "cann-env.mixed-installs": ERROR,
        "cann-env.other-install-first": ERROR,
        "cann-env.missing-entry": WARNING,
        "cann-env.atb-not-sourced": WARNING,
    },
)
def cann_env(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The variables of the CANN in use are set.

    ## What it does

    Compares ASCEND_HOME_PATH, ASCEND_TOOLKIT_HOME, ASCEND_OPP_PATH, TOOLCHAIN_HOME, PATH and PYTHONPATH with
    what the script of the installed release would set; up to 5.0 they were set by hand. Two paths to one tree
    are the same. Only folders that exist in the tree are required. Where no NPU is to be used, every finding
    is information. ASCEND_AICPU_PATH and LD_LIBRARY_PATH have checks of their own.

    - `not-sourced`: no variable names CANN; up to 5.0 PYTHONPATH does not either. An error where a framework
      that runs on CANN is installed.
    - `unset`: some variables are set and others are not; an error when ASCEND_OPP_PATH is missing.
    - `no-such-path`: a variable names a folder that has no CANN.
    - `mixed-installs`: variables name two installations; an error when their versions differ.
    - `other-install-first`: PYTHONPATH finds another installation first, an error when their versions differ;
      or PATH does, a warning.
    - `missing-entry`: PYTHONPATH lacks CANN's folder for te and its operators, or PATH lacks its compiler.
    - `atb-not-sourced`: vllm-ascend is installed, and the script of nnal's ATB was not sourced.

    ## Why it matters

    Without these variables a job fails at its first line:
    `ImportError: libhccl.so: cannot open shared object file`,
    `ASCEND_OPP_PATH environment variable is not set`. With variables of two releases it fails later.

    ## Fix safety

    The lines are for the shell that starts the job. Nothing is written, nothing is run.

    ## References

    - set_env.sh of CANN 8.1 and of 9.x; the closing text of the 6.0 installer; hand-made scripts for 5.0.
    - MindSpore, run_check/_check_version.py: what it asks of PATH, PYTHONPATH and ASCEND_OPP_PATH.
    """
    variables = host.variables
    cann_variables = {name: variables[name] for name in ENDINGS if variables.get(name)}
    installs = installs_of(host)
    active = installs[0] if installs else None
    if active is None and not cann_variables:
        raise Skip(_("CANN is not installed on this machine, and no variable points to one"))
    yield Facts({"install": active.path if active else None, "variables": cann_variables})
    expected = npu_expected(host)
    for finding in _judge(host, cann_variables, active):
        # Where no NPU is to be used, nothing of it makes a job fail.
        yield finding if expected else replace(finding, severity=INFO)


def _judge(host: Host, cann_variables: Mapping[str, str], active: Optional[Install]) -> Iterator[Finding]:
    # Up to CANN 5.0 the environment was written by hand, and PYTHONPATH alone could name it: no script can be
    # missing then.
    entries = host.variables.path_list("PYTHONPATH") if active and active.before_6 else []
    by_hand = active is not None and any(entry.startswith(f"{active.path}/") for entry in entries)
    if active is not None and not cann_variables and not host.variables.get(AICPU) and not by_hand:
        yield _report_not_sourced(host, active, ERROR if _frameworks(host) else WARNING)
        return
    wrong = _find_wrong(host, cann_variables)
    if wrong:
        yield _report_no_such_path(host, active, wrong)
    if active is None:
        return
    unset = {
        name: value
        for name, value in set_env.variables_of(host.files, active).items()
        if not host.variables.get(name)
    }
    if unset:
        yield _report_unset(host, active, unset, max(WEIGHTS.get(name, INFO) for name in unset))
    installs = set_env.named_installs(host.files, host.variables)
    other_installs = {name: install for name, install in installs.items() if install.real != active.real}
    if other_installs:
        values = {name: host.variables[name] for name in installs}
        differ = any(active.differs_from(other) for other in other_installs.values())
        yield _report_mixed_installs(host, active, other_installs, values, ERROR if differ else WARNING)
    if not wrong:  # else the entries are wrong for the same reason
        yield from _judge_lists(host, active)
    # set_env.sh of nnal/atb sets ATB_HOME_PATH. torch_npu runs without ATB, so only vllm-ascend is judged.
    if host.variables.get("ATB_HOME_PATH") or "vllm-ascend" not in " ".join(_frameworks(host)):
        return
    script = set_env.atb_script(host.files, host.variables, job_user(host).home)
    if script:
        yield _report_atb_not_sourced(script)


def _frameworks(host: Host) -> list[str]:
    try:
        return frameworks_on_cann(host)
    except CannotTell:
        # The frameworks only decide between an error and a warning here; the check interpreter reports a
        # Python that cannot be examined.
        return []


def _find_wrong(host: Host, cann_variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables whose value names no CANN. ASCEND_OPP_PATH may name any folder of operators."""
    install_by_variable = set_env.named_installs(host.files, cann_variables)
    wrong = {name: value for name, value in cann_variables.items() if name not in install_by_variable}
    operators = wrong.get("ASCEND_OPP_PATH", "")
    if operators.startswith("/") and set_env.exists(host.files, operators):
        del wrong["ASCEND_OPP_PATH"]
    return wrong


def _judge_lists(host: Host, active: Install) -> Iterator[Finding]:
    files, variables = host.files, host.variables
    # A .pth file in site-packages serves as well as PYTHONPATH, so the whole search path counts.
    try:
        more = host.interpreter.layout().search_path
    except CannotTell:
        # PYTHONPATH alone is judged if the interpreter cannot be asked.
        more = ()
    entries = [*host.variables.path_list("PYTHONPATH"), *more]
    site = set_env.find_first_site(files, entries)
    lacking = set_env.missing_folders(files, set_env.python_folders(files, active), entries)
    if site is not None and site[1].real != active.real:
        weight = ERROR if active.differs_from(site[1]) else WARNING
        yield _report_other_install_first(host, active, "PYTHONPATH", *site, weight)
    elif lacking:
        yield _report_missing_entry(host, active, "PYTHONPATH", lacking, WARNING)
    programs = variables.path_list("PATH")
    compiler = set_env.find_first_compiler(files, programs)
    compilers = set_env.compilers(files, active)
    if compiler is not None and compiler[1].real != active.real:
        yield _report_other_install_first(host, active, "PATH", *compiler, WARNING)
    # 8.1 has compilers in compiler/ccec_compiler/bin and in tools/ccec_compiler/bin; one of them on PATH is
    # enough.
    elif compilers and len(set_env.missing_folders(files, compilers, programs)) == len(compilers):
        yield _report_missing_entry(host, active, "PATH", compilers[:1], WARNING)


def _report_not_sourced(host: Host, install: Install, severity: Severity) -> Finding:
    script = set_env_script(host.files, install)
    text = _("no variable of the CANN at {install} is set in this shell")
    if script:
        text = _("{script} was not sourced in this shell, but CANN is installed at {install}")
    return Finding(
        "cann-env.not-sourced",
        text.format(install=install.label, script=script),
        severity=severity,
        action=Action.CONFIG,
        fix=_remedy(host, install, set_env.variables_of(host.files, install), atb=True),
    )


def _report_no_such_path(host: Host, active: Optional[Install], wrong: Mapping[str, str]) -> Finding:
    vital = active is None or any(name in WEIGHTS for name in wrong)
    name, value = next(iter(wrong.items()))
    text = _('{name} is "{value}", which contains no CANN')
    if set_env.has_latest_below(host.files, value):
        text = _('{name} is "{value}", which contains no CANN: it is in the subfolder latest')
    return Finding(
        "cann-env.no-such-path",
        text.format(name=name, value=value),
        severity=ERROR if vital else WARNING,
        evidence=_assignments(wrong),
        action=Action.CONFIG,
        fix=_remedy(host, active, _script_values(host, active, wrong)) if active else None,
        echo_of=_causes(host, wrong, active),
    )


def _report_unset(host: Host, install: Install, values: Mapping[str, str], severity: Severity) -> Finding:
    steps = tuple(Export(name, value) for name, value in values.items())
    return Finding(
        "cann-env.unset",
        _(
            "{names} not set: only some variables of the CANN at {install} are set",
            names=", ".join(values),
            install=install.label,
        ),
        severity=severity,
        action=Action.CONFIG,
        fix=_manual_fix(_("set the missing variables"), steps, tuple(f"unset {name}" for name in values)),
    )


def _causes(host: Host, wrong: Mapping[str, str], usable: Optional[Install]) -> tuple[str, ...]:
    """Return the codes of cann-install that explain a wrong path: a dangling link, or no CANN at all."""
    places = [named_root(name, value) for name, value in wrong.items() if value.startswith("/")]
    if any(cann_tree.dangling_links(host.files, place) for place in places):
        return ("cann-install.dangling-latest",)
    if usable:
        return ()
    cann_links = (f"{place.rpartition('/')[0]}/cann" for place in places)  # from 8.5 on the link to a release
    is_dangling = any(cann_tree.dangling_links(host.files, link) for link in cann_links)
    return ("cann-install.dangling-latest",) if is_dangling else ("cann-install.missing",)


def _report_mixed_installs(
    host: Host,
    active: Install,
    other_installs: Mapping[str, Install],
    values: Mapping[str, str],
    severity: Severity,
) -> Finding:
    name, other = next(iter(other_installs.items()))
    return Finding(
        "cann-env.mixed-installs",
        _(
            "{name} points to the CANN at {other}, but {mine_name} points to the one at {mine}",
            name=name,
            other=other.label,
            mine=active.label,
            mine_name=active.named_by or "latest",
        ),
        severity=severity,
        evidence=_assignments(values),
        action=Action.CONFIG,
        fix=_remedy(host, active, _script_values(host, active, other_installs)),
    )


def _report_other_install_first(
    host: Host, active: Install, name: str, entry: str, other: Install, severity: Severity
) -> Finding:
    return Finding(
        "cann-env.other-install-first",
        _(
            "{name} finds the CANN at {other} before the one at {mine}",
            name=name,
            other=other.label,
            mine=active.label,
        ),
        severity=severity,
        evidence=(f"{name}: {entry}",),
        action=Action.CONFIG,
        fix=_prepend_fix(host, name, _folders_for(host, active, name)),
        # A variable that names the wrong one makes all others look wrong.
        echo_of=("cann-env.mixed-installs",),
    )


def _report_missing_entry(
    host: Host, install: Install, name: str, folders: Sequence[str], severity: Severity
) -> Finding:
    return Finding(
        "cann-env.missing-entry",
        _(
            "{name} lacks {folders} of the CANN at {install}",
            name=name,
            folders=", ".join(folders),
            install=install.label,
        ),
        severity=severity,
        action=Action.CONFIG,
        fix=_prepend_fix(host, name, folders),
    )


def _report_atb_not_sourced(script: str) -> Finding:
    return Finding(
        "cann-env.atb-not-sourced",
        _(
            "{script} was not sourced in this shell, but vllm-ascend needs the libraries of ATB",
            script=script,
        ),
        action=Action.CONFIG,
        fix=_manual_fix(_("source the script of ATB"), (Command(("source", script)),)),
    )


def _folders_for(host: Host, install: Install, name: str) -> list[str]:
    """Return the folders with which the list variable `name` (PATH or PYTHONPATH) should begin."""
    if name == "PATH":
        return set_env.compilers(host.files, install)[:1]
    return set_env.python_folders(host.files, install)


def _remedy(host: Host, install: Install, values: Mapping[str, str], atb: bool = False) -> Fix:
    """Return a fix that sources set_env.sh, then ATB's script if `atb`; without a script, single exports."""
    script = set_env_script(host.files, install)
    if script is None:
        lists = [(name, _folders_for(host, install, name)) for name in ("PYTHONPATH", "PATH")] if atb else []
        exports = [Export(name, value) for name, value in values.items()]
        exports += [Export(name, _prepend(host, name, folders)) for name, folders in lists if folders]
        return _manual_fix(_("set the variables of {path}", path=install.path), tuple(exports))
    more = set_env.atb_script(host.files, host.variables, job_user(host).home) if atb else None
    scripts = [script, *([more] if more else [])]
    return _manual_fix(
        _("source {script}", script=script), tuple(Command(("source", path)) for path in scripts)
    )


def _prepend_fix(host: Host, name: str, folders: Sequence[str]) -> Fix:
    """Return a fix that prepends these folders to the variable."""
    title = _("prepend CANN's own folders to {name}", name=name)
    value = _prepend(host, name, folders)
    return change_variable(title, name, value, host.variables.get(name) or None)


def _prepend(host: Host, name: str, folders: Sequence[str]) -> str:
    # An empty entry would be the working directory: CANN's own scripts leave one, we do not.
    entries = (*folders, *host.variables.path_list(name))
    return ":".join(dict.fromkeys(entry for entry in entries if entry))


def _script_values(host: Host, install: Install, wrong: Mapping[str, object]) -> dict[str, str]:
    return {name: value for name, value in set_env.variables_of(host.files, install).items() if name in wrong}


def _manual_fix(title: str, steps: Sequence[Step], undo: tuple[str, ...] = ()) -> Fix:
    return Fix(title, steps=tuple(steps), undo=undo, risk=Risk.MANUAL, needs_root=False)


def _assignments(values: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{name}={shlex.quote(value)}" for name, value in values.items())  # blanks must be seen
