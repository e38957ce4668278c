"""`eval "$(npudoctor env)"` in real shells, on machines of every era: then the checks find nothing."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Callable

import pytest
from tests.scenarios.faults.cann import unsource

from npudoctor.environment import variable_checks

from ..scenarios.machines import Machine, healthy  # noqa: TID252
from . import set_env, staged

# Slow: a stage for each era. It takes our libraries to the system's Python, for which only recent ones are
# built.
pytestmark = [pytest.mark.needs_root, pytest.mark.slow]

CHECK = "npudoctor check cann python --format json --scope job"
SHOW = (
    r"""python3 -I -S -c 'import json, os, sys; print(json.dumps([{**os.environ}, json.load(sys.stdin)]))'"""
)
# What is evaluated, whether anything is left to evaluate then, and what the checks say.
SHELLS = {
    "bash": f'eval "$(npudoctor env)" && test -z "$(npudoctor env)" && {CHECK} | {SHOW}',
    "zsh": f'eval "$(npudoctor env)" && test -z "$(npudoctor env)" && {CHECK} | {SHOW}',
    "fish": f"npudoctor env | source; and test (npudoctor env | count) = 0; and {CHECK} | {SHOW}",
    "tcsh": f'eval "`npudoctor env`" && test -z "`npudoctor env`" && {CHECK} | {SHOW}',
}
LISTS = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
# The variables, and the report.
Seen = tuple[Any, Any]


@pytest.fixture
def evaluated(
    tmp_path: Path, library: Path, need: Callable[..., None], lack: Callable[[str], None]
) -> Callable[..., list[Seen]]:
    """What shells of a machine come to: all, or those that are named. Each era is tried in all; what hangs on
    the script, not on the syntax of the lines, in some."""
    need("unshare", "mount", "ip", *SHELLS)
    if not staged.system_python():
        lack("the system has no Python")

    def shells(machine: Machine, names: Iterable[str] = SHELLS, root: bool = False) -> list[Seen]:
        machine.variables["NPUDOCTOR_EXPECT"] = "npu"
        lines = [[name, "-c", SHELLS[name]] for name in names]
        answers = staged.through_shells(machine, tmp_path, library, lines, root=root)
        return [(variables, report) for variables, report in answers]

    return shells


def _bare(version: str, framework: str = "torch") -> Machine:
    """A machine in whose shell nothing was sourced, with the system's Python."""
    machine = healthy(version, platform.machine(), framework, python=f"{staged.system_python()}.0")
    unsource(machine)
    return machine


def _is_well(variables: dict[str, str], report: dict[str, Any]) -> None:
    rows = [row for row in report["results"] if row["check"] in variable_checks.CHECKS]
    bad = [finding["code"] for row in rows for finding in row["findings"]]
    assert (bad, report["verdict"]) == ([], "ready")
    for name in LISTS:
        entries = variables[name].split(":")
        assert all(entries) and len(entries) == len(set(entries)), (name, variables[name])


@pytest.mark.parametrize("version", ["5.0.2", "6.0.1", "8.1.RC1", "8.5.0", "9.1.0"])
def test_in_every_shell_on_every_era(version: str, evaluated: Callable[..., list[Seen]]) -> None:
    """The user's shell runs the script of root: it shows in the variables."""
    machine = _bare(version)
    set_env.give(machine)
    for variables, report in evaluated(machine):
        _is_well(variables, report)
        assert variables.get(set_env.MARK) == (None if machine.era.layout == "old" else "1")


def test_root_too(evaluated: Callable[..., list[Seen]]) -> None:
    machine = _bare("9.0.0", "mindspore")
    set_env.give(machine)
    for variables, report in evaluated(machine, ("bash", "fish"), root=True):
        _is_well(variables, report)
        assert variables[set_env.MARK] == "1"


def test_with_the_script_of_atb_where_it_is_needed(evaluated: Callable[..., list[Seen]]) -> None:
    machine = _bare("8.5.0", "vllm")
    machine.unset("ATB_HOME_PATH")
    machine.variables["LCCL_DETERMINISTIC"] = "1"  # what the user chose is kept
    set_env.give(machine)
    set_env.give_atb(machine)
    for variables, report in evaluated(machine, ("zsh", "tcsh")):
        _is_well(variables, report)
        assert variables["ATB_HOME_PATH"].endswith("/cxx_abi_1")
        assert (variables["ASDOPS_LOG_LEVEL"], variables["LCCL_DETERMINISTIC"]) == ("ERROR", "1")


@pytest.mark.parametrize(("permissions", "uid"), [(0o666, 0), (0o644, 4711)], ids=["open", "of another"])
def test_a_script_that_others_could_write_is_not_run(
    permissions: int, uid: int, evaluated: Callable[..., list[Seen]]
) -> None:
    machine = _bare("8.1.RC1")
    set_env.give(machine, permissions, uid)
    for variables, report in evaluated(machine, ("bash", "fish") if uid else ("zsh", "tcsh")):
        _is_well(variables, report)
        assert set_env.MARK not in variables
