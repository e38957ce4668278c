"""npudoctor starts where PYTHONPATH or PYTHONHOME hide modules of Python from it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import npudoctor
from npudoctor import __main__ as start

ROOT = Path(npudoctor.__file__).parents[2]
ENTRY = "from npudoctor.__main__ import main; sys.exit(main())"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """As a wheel installs it: an editable install imports much of Python before our first line."""
    package = tmp_path / "site" / "npudoctor"
    package.mkdir(parents=True)
    for path in (*(ROOT / "src" / "npudoctor").iterdir(), ROOT / "checks"):
        (package / path.name).symlink_to(path)
    return package.parent


def started(
    installed: Path, *words: str, before: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """As its console script, elsewhere than in the folder with what hides modules of Python."""
    folders = [str(installed), *(folder for folder in sys.path if folder.endswith("-packages"))]
    return subprocess.run(
        [sys.executable, "-S", "-c", f"{before}\nimport sys; sys.path += {folders}; {ENTRY}", *words],
        cwd=installed,
        env={"PATH": "/usr/bin:/bin", "HOME": "/", "NPUDOCTOR_CHECKS_DIR": "", **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("name", ["enum", "typing", "dataclasses", "random", "json", "pathlib", "uuid"])
def test_old_copies_in_pythonpath(installed: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text("raise AttributeError('an old copy')\n")
    done = started(installed, "show", "python-variables", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "PYTHONHOME" in done.stdout


def test_what_was_imported_before_we_start(installed: Path, tmp_path: Path) -> None:
    """By a line of a .pth file, say: only another start without the variable helps."""
    (tmp_path / "enum.py").write_text("")
    done = started(installed, "env", "--help", before="import enum", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: npudoctor env" in done.stdout


def test_the_variables_are_still_there_for_the_job(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "typing.py").write_text("raise AttributeError('an old copy')\n")
    words = ("run", "--", "/bin/sh", "-c", 'echo "$PYTHONPATH"')
    done = started(installed, *words, before="import enum", PYTHONPATH=str(tmp_path))
    assert done.stdout == f"{tmp_path}\n", done.stderr


def test_an_error_of_our_own_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a variable of Python there is nothing to leave out."""
    monkeypatch.setitem(sys.modules, "npudoctor.cli.main", None)
    for name in [name for name in os.environ if name.startswith("PYTHON")]:
        monkeypatch.delenv(name)
    with pytest.raises(ImportError):
        start._run_commands()
