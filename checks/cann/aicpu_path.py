"""Does ASCEND_AICPU_PATH lead to the AICPU kernels of the CANN in use?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from npudoctor.core.frozen import replace
from npudoctor.facts.cann.installations import (
    ASCEND,
    ENDINGS,
    Install,
    install_at,
    installs_of,
    named_root,
    operators,
    set_env_script,
)
from npudoctor.facts.job.expected_accelerator import npu_expected
from npudoctor.host import CannotTell

# The runtime loads the AICPU kernels from $ASCEND_AICPU_PATH/opp. set_env.sh of every toolkit from 6.0 on
# sets it; the hand-made scripts of 5.0 did not.
AICPU = "ASCEND_AICPU_PATH"


@check(
    "aicpu-path",
    scope=Scope.JOB,
    tags={"ascend"},
    needs=("cann", "$ASCEND_AICPU_PATH"),
    codes={"aicpu-path.unset": ERROR, "aicpu-path.missing": ERROR, "aicpu-path.other-install": ERROR},
)
def aicpu_path(host: Host) -> Iterator[Union[Finding, Facts]]:
    """ASCEND_AICPU_PATH points to the CANN in use.

    ## What it does

    Compares ASCEND_AICPU_PATH with ASCEND_HOME_PATH, ASCEND_TOOLKIT_HOME and ASCEND_OPP_PATH. All must name
    one installation. Two paths are the same when their `opp` resolves to the same folder, so `latest` and
    `8.1.RC1` of one tree agree. The check applies where such a variable is set or CANN is installed.

    - `aicpu-path.unset`: a warning, because only operators that run on the AICPU need the variable. An error
      with PyTorch 1.x on CANN before 6.0: every such job runs some of them, and its environment was written
      by hand. Information with other frameworks on such a CANN, whose scripts never set it. No finding where
      CANN is in /usr/local/Ascend itself: the runtime falls back to that folder.
    - `aicpu-path.missing`: the variable names no folder, or a folder without `opp`.
    - `aicpu-path.other-install`: the variable names another installation; an error when their versions
      differ.

    Where no NPU is to be used, as on a node that only builds, every finding is information.

    ## Why it matters

    The runtime loads the AICPU kernels from `$ASCEND_AICPU_PATH/opp`. Without them a job starts, and fails
    at the first operator that needs one: `aicpu_kernels/libpt_kernels.so does not exist`. Kernels of
    another version fail later and less clearly.

    ## Fix safety

    The line is an `export` for the shell that starts the job. Nothing is written. `npudoctor fix` never
    applies the line, because no program can change the shell that called it.

    ## References

    - CANN, "Environment variables": ASCEND_AICPU_PATH, and set_env.sh of the toolkit.
    - CANN runtime, TSD client: the fallback to /usr/local/Ascend/.
    """
    value = host.variables.get(AICPU, "")
    cann_variables = {name: host.variables[name] for name in ENDINGS if host.variables.get(name)}
    installs = installs_of(host)
    usable = next((install for install in installs if operators(host.files, install.path)), None)
    if not (value or cann_variables or usable):
        raise Skip(_("CANN is not installed on this machine, and no variable points to one"))
    yield Facts(
        {
            "value": value or None,
            "install": usable.path if usable else None,
            "version": usable.version if usable else None,
        }
    )
    if not value:
        finding = _report_unset(host, cann_variables, usable)
    else:
        finding = _judge_path(host, value, cann_variables, usable) or _find_other_install(
            host, value, cann_variables, usable
        )
    if finding is not None:
        # As cann-env: where no NPU is to be used, nothing of it makes a job fail.
        yield finding if npu_expected(host) else replace(finding, severity=INFO)


def _report_unset(
    host: Host, cann_variables: Mapping[str, str], usable: Optional[Install]
) -> Optional[Finding]:
    # The TSD client of CANN's runtime falls back to /usr/local/Ascend/ where the variable is not set.
    if usable is not None and _is_same_install(host, usable.path, ASCEND):
        return None
    text = _("ASCEND_AICPU_PATH is not set, but {names} is")
    echo_of: tuple[str, ...] = ()
    script = set_env_script(host.files, usable) if usable else None
    if not cann_variables:
        echo_of = ("cann-env.not-sourced",)
        text = _("ASCEND_AICPU_PATH is not set: no variable of the CANN at {install} is set in this shell")
        if script:
            text = _("ASCEND_AICPU_PATH is not set: {script} was not sourced in this shell")
    words = {"names": ", ".join(cann_variables), "install": usable.path if usable else "", "script": script}
    # Before 6.0 the scripts for MindSpore never set the variable, and its jobs ran without it.
    is_old_cann = usable is not None and usable.before_6
    return Finding(
        "aicpu-path.unset",
        text.format(**words),
        # Only operators that run on the AICPU need the variable; every job of PyTorch 1.x used some of them.
        severity=WARNING if not is_old_cann else ERROR if _uses_pytorch_1(host) else INFO,
        evidence=_evidence(cann_variables, usable),
        action=Action.CONFIG,
        fix=_export(usable, ""),
        echo_of=echo_of,
    )


def _uses_pytorch_1(host: Host) -> bool:
    """Whether the job would use the PyTorch adapter of the 1.x series."""
    try:
        versions = [host.interpreter.version_of(name) for name in ("torch-npu", "torch")]
    except CannotTell:
        # Without the versions the milder severity holds.
        return False
    return any(version is not None and version.startswith("1.") for version in versions)


def _judge_path(
    host: Host, value: str, cann_variables: Mapping[str, str], usable: Optional[Install]
) -> Optional[Finding]:
    if operators(host.files, value):
        return None
    text = _("ASCEND_AICPU_PATH is {value}, which does not exist")
    if not value.startswith("/"):
        text = _("ASCEND_AICPU_PATH is {value}, which is not an absolute path")
    elif host.files.stat(value):
        text = _("ASCEND_AICPU_PATH is {value}, which has no folder opp: it is not a CANN installation")
    # cann-env reports a wrong value of these two as an error; if they name the same path, that is the cause.
    vital = (name for name in ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH") if name in cann_variables)
    is_named_elsewhere = any(named_root(name, cann_variables[name]) == value.rstrip("/") for name in vital)
    return Finding(
        "aicpu-path.missing",
        text.format(value=value),
        evidence=_evidence({AICPU: value}, usable),
        action=Action.CONFIG,
        fix=_export(usable, value),
        echo_of=("cann-env.no-such-path",) if is_named_elsewhere else (),
    )


def _find_other_install(
    host: Host, value: str, cann_variables: Mapping[str, str], usable: Optional[Install]
) -> Optional[Finding]:
    named_install = install_at(host.files, value)
    install_by_variable = {
        name: install_at(host.files, named_root(name, path), name) for name, path in cann_variables.items()
    }
    foreign = [
        other
        for other in install_by_variable.values()
        if other is not None
        and operators(host.files, other.path)
        and not _is_same_install(host, other.path, value)
    ]
    if not foreign or named_install is None:
        return None
    differ = any(named_install.differs_from(other) for other in foreign)
    # If the CANN in use is the one that this variable names, another variable is wrong and stays as it is.
    better = None if usable is None or _is_same_install(host, usable.path, value) else usable
    return Finding(
        "aicpu-path.other-install",
        _(
            "ASCEND_AICPU_PATH points to {mine}, but {name} points to {other}",
            mine=named_install.label,
            name=foreign[0].named_by,
            other=foreign[0].label,
        ),
        severity=ERROR if differ else WARNING,
        evidence=_evidence({AICPU: value, **cann_variables}, None),
        action=Action.CONFIG,
        fix=_export(better, value),
        echo_of=("cann-env.mixed-installs",),
    )


def _is_same_install(host: Host, first: str, second: str) -> bool:
    """Whether two paths name one installation: their operators are the same folder."""
    return operators(host.files, first) == operators(host.files, second)


def _evidence(variables: Mapping[str, str], usable: Optional[Install]) -> tuple[str, ...]:
    lines = [f"{name}={value}" for name, value in variables.items()]
    if usable is not None:
        lines.append(_("installed: {install}", install=usable.label))
    return tuple(lines)


def _export(install: Optional[Install], before: str) -> Optional[Fix]:
    if install is None:
        return None
    title = _("point ASCEND_AICPU_PATH to {path}", path=install.path)
    return change_variable(title, AICPU, install.path, before or None)
