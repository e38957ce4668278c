"""Our own Python is judged where it has a framework and python3 of PATH has none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Optional

import pytest

from npudoctor.host import Host, Options

DIST_INFO = "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+cpu\n"


def environment(folder: Path, name: str, *, torch: bool) -> str:
    """A virtual environment without pip, with a stand-in of torch or without; its interpreter."""
    made = folder / name
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made)], check=True)
    (site,) = made.glob("lib/python*/site-packages")
    if torch:
        (site / "torch").mkdir()
        (site / "torch/__init__.py").write_text("__version__ = '2.13.0+cpu'\n")
        (site / "torch-2.13.0+cpu.dist-info").mkdir()
        (site / "torch-2.13.0+cpu.dist-info/METADATA").write_text(DIST_INFO)
    return str(made / "bin/python3")


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, str]:
    """An interpreter with a framework, and one without."""
    folder = tmp_path_factory.mktemp("pythons")
    return {torch: environment(folder, f"torch-{torch}", torch=torch) for torch in (True, False)}


def chosen(
    monkeypatch: pytest.MonkeyPatch, ours: str, of_path: str, options: Optional[Options] = None
) -> tuple[str, str, Optional[str]]:
    """Which interpreter is judged where npudoctor runs in `ours`: its path, why, and instead of which."""
    monkeypatch.setattr(sys, "executable", ours)
    sites = [str(path) for path in Path(ours).parent.parent.glob("lib/python*/site-packages")]
    monkeypatch.setattr(sys, "path", ["", *sites])
    host = Host(options, variables={"PATH": f"{os.path.dirname(of_path)}:/usr/bin:/bin"})
    try:
        return host.interpreter.path, host.interpreter.chosen_by, host.interpreter.instead_of
    finally:
        host.close()


def test_the_one_with_a_framework_is_judged(
    monkeypatch: pytest.MonkeyPatch, pythons: dict[bool, str]
) -> None:
    assert chosen(monkeypatch, pythons[True], pythons[False]) == (pythons[True], "own", pythons[False])


@pytest.mark.parametrize("ours", [True, False])
def test_python3_of_path_is_judged_where_it_has_one_or_nobody_has(
    monkeypatch: pytest.MonkeyPatch, pythons: dict[bool, str], ours: bool
) -> None:
    other = pythons[not ours] if not ours else pythons[True]
    assert chosen(monkeypatch, pythons[ours], other) == (other, "path", None)
    assert chosen(monkeypatch, pythons[False], pythons[False]) == (pythons[False], "path", None)


def test_who_names_one_or_starts_a_job_means_that(
    monkeypatch: pytest.MonkeyPatch, pythons: dict[bool, str]
) -> None:
    named = Options(python=pythons[False])
    assert chosen(monkeypatch, pythons[True], pythons[False], named)[:2] == (pythons[False], "option")
    job = Options(own_python=False)
    assert chosen(monkeypatch, pythons[True], pythons[False], job)[:2] == (pythons[False], "path")


def test_a_python_that_does_not_answer_stays_the_one_that_is_judged(
    monkeypatch: pytest.MonkeyPatch, pythons: dict[bool, str], tmp_path: Path
) -> None:
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "python3").chmod(0o755)
    broken = str(tmp_path / "python3")
    assert chosen(monkeypatch, pythons[True], broken) == (broken, "path", None)
