"""What runs something of the job is asked by its profile, by its name or by `run --deep`, and never else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import pytest
from tests.checks.deep.probe_machine import package

from .command import Npudoctor, heed_signals
from .running import wait_for

IMPORTED = "open(__import__('os').environ['WITNESS'], 'a').write('x')"


@pytest.fixture
def npudoctor(tmp_path: Path) -> Npudoctor:
    return Npudoctor(tmp_path)


@pytest.fixture
def without_pip(trusted: Path) -> str:
    """A Python of its own folder that has no pip: what is missing has pip tried, dearer than all else."""
    library = trusted / f"lib/python{sysconfig.get_python_version()}"
    (library / "site-packages").mkdir(parents=True)
    settings = f"home = {sys.base_prefix}/bin\ninclude-system-site-packages = false\n"
    (trusted / "pyvenv.cfg").write_text(settings)
    (trusted / "bin").mkdir()
    (trusted / "bin/python3").symlink_to(os.path.realpath(sys.executable))
    return str(trusted / "bin/python3")


def deep(
    npudoctor: Npudoctor, *arguments: str, source: str = IMPORTED, python: str = sys.executable
) -> tuple[Any, bool]:
    """How it ended where this is torch, and whether that was imported."""
    site, witness = npudoctor.folder / "site", npudoctor.folder / "witness"
    package(site, "torch", source)
    options = ("--expect", "none", "--python", python)
    at = arguments.index("--") if "--" in arguments else len(arguments)
    told = (*arguments[:at], *options, *arguments[at:])
    done = npudoctor(*told, PYTHONPATH=str(site), WITNESS=str(witness))
    return done, witness.exists()


@pytest.mark.parametrize("names", [("deep",), ("framework-imports",), ("framework-imports.failed",)])
def test_by_name(npudoctor: Npudoctor, names: tuple[str, ...]) -> None:
    done, imported = deep(npudoctor, "check", *names, "--format", "json")
    assert imported
    assert done.row("framework-imports")["status"] == "ok"
    assert done.row("framework-imports")["facts"]["versions"] == {"torch": "2.13.0"}


@pytest.mark.parametrize("profile", ["full", "quick"])
def test_never_unasked(npudoctor: Npudoctor, profile: str) -> None:
    done, imported = deep(npudoctor, "check", "--profile", profile, "--format", "json")
    assert not imported
    row = done.row("framework-imports")
    assert (row["status"], row["reason"]) == ("skipped", f"not in the profile {profile}")


def test_the_profile_asks_all_and_a_cause_is_one_error(npudoctor: Npudoctor) -> None:
    source = "import filelock_that_is_gone"
    done, _imported = deep(
        npudoctor, "check", "--profile", "deep", "--scope", "job", "--format", "json", source=source
    )
    assert (done.status, done.json["profile"]) == (1, "deep")
    findings = [finding for row in done.json["results"] for finding in row["findings"]]
    said = {finding["code"]: finding for finding in findings}
    assert said["framework-selftest.failed"]["caused_by"] == "framework-imports.failed"
    assert said["framework-imports.failed"]["caused_by"] is None
    assert "No module named" in said["framework-imports.failed"]["evidence"][0]


def test_a_named_cause_has_the_import_as_its_echo(npudoctor: Npudoctor) -> None:
    site = npudoctor.folder / "site"
    package(site, "torch", "import typing_extensions_gone as t", version="2.5.1")
    metadata = site / "torch-2.5.1.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text() + "Requires-Dist: typing-extensions-gone\n")
    arguments = ("check", "deep", "package-requirements", "--expect", "none", "--format", "json")
    done = npudoctor(*arguments, "--python", sys.executable, PYTHONPATH=str(site))
    said = {finding["code"]: finding for row in done.json["results"] for finding in row["findings"]}
    assert said["package-requirements.missing"]["caused_by"] is None
    assert said["framework-imports.failed"]["caused_by"] == "package-requirements.missing"


def findings_where_two_are_missing(
    npudoctor: Npudoctor, python: str, imported: str, *options: str
) -> dict[str, Any]:
    """By their codes, where torch requires first-gone and second-gone, and imports one of these."""
    site = npudoctor.folder / "site"
    package(site, "torch", f"import {imported}", version="2.5.1")
    metadata = site / "torch-2.5.1.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text() + "Requires-Dist: first-gone\n")
    arguments = ("check", "deep", "package-requirements", "--expect", "none", "--format", "json", *options)
    done = npudoctor(*arguments, "--python", python, PYTHONPATH=str(site))
    assert done.status == 1
    findings = [finding for row in done.json["results"] for finding in row["findings"]]
    return {finding["code"]: finding for finding in findings if finding["severity"] == "error"}


def test_what_is_ignored_is_no_cause(npudoctor: Npudoctor, without_pip: str) -> None:
    ignored = ("--ignore", "package-requirements")
    said = findings_where_two_are_missing(npudoctor, without_pip, "first_gone", *ignored)
    assert said["package-requirements.missing"]["ignored"] == {"reason": None}
    assert said["framework-imports.failed"]["caused_by"] is None
    assert said["framework-selftest.failed"]["caused_by"] == "framework-imports.failed"


def test_an_error_about_something_else_is_no_cause(npudoctor: Npudoctor, without_pip: str) -> None:
    said = findings_where_two_are_missing(npudoctor, without_pip, "second_gone")
    assert said["package-requirements.missing"]["severity"] == "error"
    assert said["framework-imports.failed"]["caused_by"] is None


def test_the_self_test_stands_where_the_import_is_ignored(npudoctor: Npudoctor, without_pip: str) -> None:
    ignored = ("--ignore", "package-requirements", "--ignore", "framework-imports")
    said = findings_where_two_are_missing(npudoctor, without_pip, "first_gone", *ignored)
    assert said["framework-selftest.failed"]["caused_by"] is None


def test_the_causes_are_facts(npudoctor: Npudoctor) -> None:
    done, _imported = deep(npudoctor, "check", "framework-imports", "--format", "json", source="import gone")
    (cause,) = done.row("framework-imports")["facts"]["causes"].values()
    assert (cause["type"], cause["message"]) == ("ModuleNotFoundError", "No module named 'gone'")
    assert cause["about"] == ["gone"]
    assert cause["file"].endswith("/torch/__init__.py") and cause["line"] == 2


def test_before_a_job(npudoctor: Npudoctor) -> None:
    # A torch of one line imports, and computes nothing.
    options = ("--deep", "--ignore", "framework-selftest")
    done, imported = deep(npudoctor, "run", *options, "--", sys.executable, "-c", "print('trained')")
    assert (done.status, done.out, imported) == (0, "trained\n", True), done.err


def test_a_job_is_not_started_where_the_import_fails(npudoctor: Npudoctor) -> None:
    arguments = ("run", "--deep", "--", sys.executable, "-c", "print('trained')")
    done, _imported = deep(npudoctor, *arguments, source="raise ImportError('libx.so')")
    assert (done.status, done.out) == (125, "")
    assert "import torch fails" in done.err


def test_what_fails_is_never_the_echo_of_a_warning(npudoctor: Npudoctor, without_pip: str) -> None:
    """NumPy is missing, which is a warning; and the import fails for another reason."""
    arguments = ("check", "deep", "package-requirements", "--format", "json")
    done, _imported = deep(npudoctor, *arguments, source="import gone", python=without_pip)
    said = {finding["code"]: finding for row in done.json["results"] for finding in row["findings"]}
    assert said["package-requirements.missing"]["severity"] == "warning"
    assert said["framework-imports.failed"]["caused_by"] is None
    assert done.status == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_where_the_run_is_broken_off(npudoctor: Npudoctor, number: int) -> None:
    witness = npudoctor.folder / "witness"
    source = (
        "import os, subprocess, sys, time\n"
        "line = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
        "child = subprocess.Popen(line, start_new_session=True)\n"
        f"open({str(witness)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}} {{os.getcwd()}}\\n')\n"
        "time.sleep(60)"
    )
    package(npudoctor.folder / "site", "torch", source)
    arguments = ("check", "framework-imports", "--expect", "none", "--python", sys.executable)
    variables = npudoctor.environment({"PYTHONPATH": str(npudoctor.folder / "site")})
    argv = npudoctor.argv(*arguments)
    with subprocess.Popen(
        argv, env=variables, cwd=npudoctor.folder, preexec_fn=heed_signals, stdout=subprocess.DEVNULL
    ) as run:
        own, child, private = wait_for(witness, "\n").split()
        run.send_signal(number)
        assert run.wait(20) == 128 + number
    until = time.monotonic() + 5
    while time.monotonic() < until and any(map(os.path.exists, (f"/proc/{own}", f"/proc/{child}"))):
        time.sleep(0.01)
    assert [path for path in (f"/proc/{own}", f"/proc/{child}", private) if os.path.exists(path)] == []


def test_a_short_deadline_is_said(npudoctor: Npudoctor) -> None:
    arguments = ("check", "framework-imports", "--deadline", "6", "--format", "json")
    done, _imported = deep(npudoctor, *arguments, source="__import__('time').sleep(60)")
    row = done.row("framework-imports")
    assert (done.status, row["status"]) == (2, "unknown")
    assert row["reason"] == "no result before the deadline of the run: torch"
