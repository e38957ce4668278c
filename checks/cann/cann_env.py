"""Are the variables of the CANN in use set as its own set_env.sh would set them?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Optional, Union

from npudoctor import ERROR, INFO, WARNING, Facts, Finding, Host, Scope, Skip, _, check
from npudoctor.checks.cann import _cann_env_findings as findings
from npudoctor.facts.cann import set_env as environment
from npudoctor.facts.cann.installations import ENDINGS, Install, installs_of
from npudoctor.facts.job.expected_accelerator import frameworks_on_cann, npu_expected
from npudoctor.facts.job.working_directory import job_user
from npudoctor.host import CannotTell

WEIGHTS = {"ASCEND_OPP_PATH": ERROR, "ASCEND_HOME_PATH": WARNING}
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
    what the installation's own script would set, by release: up to 5.0 they were set by hand. Two paths
    of one tree are the same. Only folders that the tree has are asked for. Where no NPU is to be used, all
    that is found is only noted. ASCEND_AICPU_PATH and LD_LIBRARY_PATH have checks of their own.

    - `not-sourced`: no variable names CANN; up to 5.0 PYTHONPATH does not either. An error where a framework
      that runs on it is installed.
    - `unset`: some are set and others not; an error when ASCEND_OPP_PATH is missing.
    - `no-such-path`: one names a folder in which no CANN is.
    - `mixed-installs`: variables name two installations; an error when their versions differ.
    - `other-install-first`: PYTHONPATH finds another installation first, an error when their versions
      differ; or PATH does, a warning.
    - `missing-entry`: PYTHONPATH or PATH lacks CANN's folder for te and its operators, or its compiler.
    - `atb-not-sourced`: vllm-ascend is installed, and the script of nnal's ATB was not sourced.

    ## Why it matters

    Without them a job ends at its first line: `ImportError: libhccl.so: cannot open shared object file`,
    `ASCEND_OPP_PATH environment variable is not set`. With those of two releases it ends later.

    ## Fix safety

    The lines are for the shell that starts the job. Nothing is written, nothing is run.

    ## References

    - set_env.sh of CANN 8.1 and of 9.x; the closing text of the 6.0 installer; hand-made scripts for 5.0.
    - MindSpore, run_check/_check_version.py: what it asks of PATH, PYTHONPATH and ASCEND_OPP_PATH.
    """
    variables = host.variables
    named = {name: variables[name] for name in ENDINGS if variables.get(name)}
    installs = installs_of(host)
    active = installs[0] if installs else None
    if active is None and not named:
        raise Skip(_("CANN is not installed on this machine, and no variable points to one"))
    yield Facts({"install": active.path if active else None, "variables": named})
    wanted = npu_expected(host)
    for finding in _judge(host, named, active):
        # Where no NPU is to be used, nothing of it makes a job fail.
        yield finding if wanted else _noted(finding)


def _noted(finding: Finding) -> Finding:
    from npudoctor.core.frozen import replace

    return replace(finding, severity=INFO)


def _judge(host: Host, named: Mapping[str, str], active: Optional[Install]) -> Iterator[Finding]:
    if active is not None and not named and not host.variables.get(AICPU) and not _by_hand(host, active):
        yield findings.not_sourced(host, active, ERROR if _frameworks(host) else WARNING)
        return
    wrong = _wrong(host, named)
    if wrong:
        vital = active is None or any(name in WEIGHTS for name in wrong)
        yield findings.no_such_path(host, wrong, active, ERROR if vital else WARNING)
    if active is None:
        return
    unset = {
        name: value
        for name, value in environment.variables_of(host.files, active).items()
        if not host.variables.get(name)
    }
    if unset:
        yield findings.unset(host, active, unset, max(WEIGHTS.get(name, INFO) for name in unset))
    yield from _mixed(host, active)
    if not wrong:  # else the entries are wrong for the same reason
        yield from _lists(host, active)
    yield from _atb(host)


def _by_hand(host: Host, active: Install) -> bool:
    """Whether an environment that was written by hand names it in PYTHONPATH: no script can be missing."""
    entries = host.variables.path_list("PYTHONPATH") if active.before_6 else []
    return any(entry.startswith(f"{active.path}/") for entry in entries)


def _frameworks(host: Host) -> list[str]:
    try:
        return frameworks_on_cann(host)
    except CannotTell:
        return []


def _wrong(host: Host, named: Mapping[str, str]) -> dict[str, str]:
    """The variables that name no CANN; operators alone may lie anywhere."""
    good = environment.named_installs(host.files, named)
    wrong = {name: value for name, value in named.items() if name not in good}
    operators = wrong.get("ASCEND_OPP_PATH", "")
    if operators.startswith("/") and environment.there(host.files, operators):
        del wrong["ASCEND_OPP_PATH"]
    return wrong


def _mixed(host: Host, active: Install) -> Iterator[Finding]:
    installs = environment.named_installs(host.files, host.variables)
    others = {name: install for name, install in installs.items() if install.real != active.real}
    if others:
        values = {name: host.variables[name] for name in installs}
        differ = any(_differ(active, other) for other in others.values())
        yield findings.mixed(host, active, others, values, ERROR if differ else WARNING)


def _differ(one: Install, other: Install) -> bool:
    for mine, theirs in ((one.version, other.version), (one.component, other.component)):
        if mine and theirs:
            return mine != theirs
    return False


def _lists(host: Host, active: Install) -> Iterator[Finding]:
    files, variables = host.files, host.variables
    entries = _python_entries(host)
    site = environment.first_site(files, entries)
    lacking = environment.missing_folders(files, environment.python_folders(files, active), entries)
    if site is not None and site[1].real != active.real:
        weight = ERROR if _differ(active, site[1]) else WARNING
        yield findings.shadowed(host, active, "PYTHONPATH", *site, weight)
    elif lacking:
        yield findings.missing_entry(host, active, "PYTHONPATH", lacking, WARNING)
    programs = variables.path_list("PATH")
    compiler = environment.first_compiler(files, programs)
    wanted = environment.compilers(files, active)
    if compiler is not None and compiler[1].real != active.real:
        yield findings.shadowed(host, active, "PATH", *compiler, WARNING)
    elif wanted and len(environment.missing_folders(files, wanted, programs)) == len(wanted):
        yield findings.missing_entry(host, active, "PATH", wanted[:1], WARNING)


def _python_entries(host: Host) -> list[str]:
    """PYTHONPATH, and what else the interpreter searches: a .pth file does as well."""
    try:
        more = host.interpreter.layout().search_path
    except CannotTell:
        more = ()
    return [*host.variables.path_list("PYTHONPATH"), *more]


def _atb(host: Host) -> Iterator[Finding]:
    if host.variables.get("ATB_HOME_PATH") or "vllm-ascend" not in " ".join(_frameworks(host)):
        return
    script = environment.atb_script(host.files, host.variables, job_user(host).home)
    if script:
        yield findings.atb(script)
