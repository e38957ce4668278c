"""Real wheels in throw-away environments, judged by the real command (`pytest -m real_wheels`)."""

from __future__ import annotations

import functools
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

import pytest

from . import cann_tree, mindspore_env, wheel_envs
from .conftest import lacking
from .wheel_sets import FIT, ILL, Set

pytestmark = [
    pytest.mark.real_wheels,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the sets are of wheels for x86-64"),
]
PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13")
LOUD = ("warning", "error")


# What an installation lacks: a set is the metadata of some wheels, without libraries and what they require.
OF_THE_WHOLE = ("package-requirements", "package-files", "loaded-libraries")
OF_LIBRARIES = ("torch-family.other-build", "torch-npu.cann-missing")


@functools.cache
def asked_of_a_set() -> tuple[str, ...]:
    """The checks of the groups python and cann that metadata alone answers."""
    listed = subprocess.run(
        [sys.executable, "-m", "npudoctor", "list", "--format", "json"], capture_output=True, check=True
    )
    rows = json.loads(listed.stdout)["checks"]
    groups = [row["id"] for row in rows if row["group"] in ("python", "cann")]
    return tuple(name for name in groups if name not in OF_THE_WHOLE)


def judge(
    python: Path, home: Path, variables: Mapping[str, str], checks: Sequence[str] = ("python", "cann")
) -> dict[str, Any]:
    """What `npudoctor check` says of an interpreter, as JSON."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "NPUDOCTOR_CHECKS_DIR": "",
        **variables,
    }
    command = [sys.executable, "-m", "npudoctor", "check", *checks, "--expect", "none"]
    command += ["--python", str(python), "--format", "json"]
    done = subprocess.run(
        command, cwd=home, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.fixture(scope="session")
def provided(request: pytest.FixtureRequest) -> dict[str, Optional[mindspore_env.Unavailable]]:
    """The environments of the tests that were chosen; by name, why one cannot be had."""
    calls = [getattr(item, "callspec", None) for item in request.session.items]
    sets = [call.params["one"] for call in calls if call is not None and "one" in call.params]
    return wheel_envs.provide(one.environment for one in sets if isinstance(one, Set))


@pytest.fixture
def report(
    one: Set, provided: dict[str, Optional[mindspore_env.Unavailable]], tmp_path: Path
) -> dict[str, Any]:
    """What is said of a set; skips where it cannot be installed."""
    lacks = provided[one.environment.name]
    if lacks is not None:
        lacking(str(lacks))
    variables = {}
    if one.cann:
        variables = cann_tree.write(tmp_path / "root", one.cann, one.environment.python, "x86_64")
    return judge(one.environment.program, tmp_path, variables, asked_of_a_set())


def findings(report: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """All of them, folded ones too."""
    for row in report["results"]:
        yield from row["findings"]


def loud(report: Mapping[str, Any]) -> dict[str, str]:
    """What a user would have to act on: code and severity of what is no echo of another finding."""
    causes = (one for one in findings(report) if one["caused_by"] is None)
    return {one["code"]: one["severity"] for one in causes if one["severity"] in LOUD}


def of_metadata(said: Mapping[str, str]) -> dict[str, str]:
    """Without what is said of libraries: those of a set are not there."""
    return {code: severity for code, severity in said.items() if code not in OF_LIBRARIES}


def not_known(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The rows without an answer."""
    known = ("ok", "skipped", "problem")
    return [(row["check"], row["reason"]) for row in report["results"] if row["status"] not in known]


@pytest.mark.parametrize("one", FIT, ids=lambda one: one.name)
def test_wheels_that_fit_are_not_complained_of(one: Set, report: dict[str, Any]) -> None:
    assert of_metadata(loud(report)) == {}, json.dumps(list(findings(report)), indent=1)
    assert not_known(report) == []
    status = {row["check"]: row["status"] for row in report["results"]}
    judged = [name for name in one.judged if name not in {code.partition(".")[0] for code in loud(report)}]
    assert {name: status[name] for name in judged} == dict.fromkeys(judged, "ok")
    assert report["target"]["python"]["version"].startswith(f"{one.environment.python}.")


@pytest.mark.parametrize("one", ILL, ids=lambda one: one.name)
def test_wheels_that_do_not_fit_are_named(one: Set, report: dict[str, Any]) -> None:
    assert of_metadata(loud(report)) == one.codes, json.dumps(list(findings(report)), indent=1)
    assert not_known(report) == []


@pytest.mark.parametrize("code", sorted({code for one in ILL for code in one.codes}))
def test_the_manual_promises_the_code(code: str) -> None:
    command = [sys.executable, "-m", "npudoctor", "show", code.partition(".")[0]]
    assert code in subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_real_mindspore_is_not_complained_of(tmp_path: Path) -> None:
    try:
        mindspore = mindspore_env.provide()
    except mindspore_env.Unavailable as error:
        lacking(str(error))
    report = judge(mindspore.python, tmp_path, {})
    assert loud(report) == {}, json.dumps(list(findings(report)), indent=1)
    assert not_known(report) == []
    status = {row["check"]: row["status"] for row in report["results"]}
    judged = ("scipy-version", "numpy-version", "conflicting-packages", "libpython", "libstdcxx")
    assert {name: status[name] for name in judged} == dict.fromkeys(judged, "ok")


@pytest.mark.parametrize("version", PYTHONS)
def test_a_python_of_this_machine_is_not_complained_of(version: str, tmp_path: Path) -> None:
    try:
        python = mindspore_env.interpreter(version)
    except mindspore_env.Unavailable as error:
        lacking(str(error))
    report = judge(Path(python), tmp_path, {})
    assert loud(report) == {}, json.dumps(list(findings(report)), indent=1)
    assert not_known(report) == []
    assert report["target"]["python"]["version"].startswith(f"{version}.")
