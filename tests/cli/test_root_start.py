"""As root, npudoctor runs nothing that another user put where Python looks for modules."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import npudoctor

ROOT = Path(npudoctor.__file__).parents[2]
COMMAND = ROOT / "start" / "npudoctor"
SOMEBODY = 4711
NAMES = ["typer", "click", "packaging", "json", "enum", "typing", "gettext", "sitecustomize", "usercustomize"]

pytestmark = pytest.mark.needs_root


class Machine:
    """npudoctor as pip installs it, and another user's folder full of modules that leave a mark."""

    def __init__(self, folder: Path) -> None:
        self.mark, self.traps = folder / "ran", folder / "user"
        version = "python{}.{}".format(*sys.version_info)
        self.site = folder / "prefix" / "lib" / version / "site-packages"
        package = self.site / "npudoctor"
        package.mkdir(parents=True)
        for path in (*(ROOT / "src" / "npudoctor").iterdir(), ROOT / "checks"):
            (package / path.name).symlink_to(path)
        self.command = folder / "prefix" / "bin" / "npudoctor"
        self.command.parent.mkdir()
        self.command.write_bytes(COMMAND.read_bytes())
        self.command.chmod(0o755)
        start = (COMMAND.parent / ".npudoctor-start").read_text().partition("\n")[2]
        (self.command.parent / ".npudoctor-start").write_text(f"#!{sys.executable}\n{start}")
        self.traps.mkdir()
        for name in NAMES:
            (self.traps / f"{name}.py").write_text(
                f"open({str(self.mark)!r}, 'w')\nraise ImportError('trap')\n"
            )
        self.give()

    def give(self) -> None:
        """All of the other user's folder to that user."""
        for path in (self.traps, *self.traps.rglob("*")):
            os.chown(path, SOMEBODY, SOMEBODY)

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """A command in that user's folder."""
        return subprocess.run(
            words, cwd=self.traps, env={"PATH": "/usr/bin:/bin", "NPUDOCTOR_CHECKS_DIR": "", **variables},
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip


@pytest.fixture
def machine(trusted: Path) -> Iterator[Machine]:
    yield Machine(trusted)


@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONPATH": "/opt/x:"},
        {"PYTHONPATH": "{traps}"},
        {"PYTHONHOME": "{traps}"},
        {"PYTHONHOME": "/nonexistent"},
        {"HOME": "{traps}", "PYTHONUSERBASE": "{traps}", "PYTHONWARNINGS": "error::typer.Warned"},
    ],
    ids=["empty entry", "folder", "home", "home that is missing", "user"],
)
def test_the_command_runs_nothing_of_another_user(machine: Machine, variables: dict[str, str]) -> None:
    told = {name: value.format(traps=machine.traps) for name, value in variables.items()}
    done = machine.run(str(machine.command), "show", "python-variables", **told)
    assert (done.returncode, done.stderr, machine.mark.exists()) == (0, "", False)
    assert "PYTHONHOME" in done.stdout


def test_a_link_to_the_command_starts_it(machine: Machine) -> None:
    link = machine.site.parents[3] / "link"
    link.symlink_to(machine.command)
    done = machine.run(str(link), "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"npudoctor {npudoctor.__version__}\n"


@pytest.mark.parametrize(
    "line", ["#!/bin/sh\n'''exec' '{python}' \"$0\" \"$@\"\n' '''", "#!/nonexistent/python"]
)
def test_what_installers_write_into_the_first_line(machine: Machine, line: str) -> None:
    start = machine.command.parent / ".npudoctor-start"
    start.write_text(line.format(python=sys.executable) + "\n" + start.read_text().partition("\n")[2])
    (machine.command.parent / "python3").symlink_to(sys.executable)
    done = machine.run(str(machine.command), "--version")
    assert (done.returncode, done.stderr) == (0, "")


def by_module(machine: Machine, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """By a Python that was not told to be alone."""
    code = f"import sys; sys.path.append({str(machine.site)!r}); from npudoctor.__main__ import main; "
    return machine.run(sys.executable, "-c", f"{code}sys.exit(main())", *words, **variables)


def test_what_python_ran_before_us_is_said(machine: Machine) -> None:
    for name in NAMES:
        (machine.traps / f"{name}.py").unlink()
    (machine.traps / "sitecustomize.py").write_text("import sys; sys.modules['sitecustomize'] = sys\n")
    machine.give()
    done = by_module(machine, "list", PYTHONPATH=str(machine.traps))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (64, "", 1)
    assert f"{machine.traps}/sitecustomize.py as root" in done.stderr


def test_a_search_path_of_another_user_does_not_count(machine: Machine) -> None:
    for name in ("typing", "enum", "sitecustomize", "usercustomize"):
        (machine.traps / f"{name}.py").unlink()
    done = by_module(machine, "show", "python-variables", PYTHONPATH=f"{machine.traps}:")
    assert (done.returncode, done.stderr, machine.mark.exists()) == (0, "", False)


def test_an_npudoctor_of_another_user_is_not_run(machine: Machine) -> None:
    os.chown(machine.site, SOMEBODY, SOMEBODY)
    done = machine.run(str(machine.command), "list")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (64, "", 1)
    assert f"{machine.site} belongs to another user" in done.stderr
    failed = machine.run(str(machine.command), "env")
    assert (failed.returncode, failed.stdout) == (64, "false\n")


def test_a_single_file_of_another_user_is_not_loaded(machine: Machine) -> None:
    package = machine.site / "npudoctor"
    (package / "__main__.py").unlink()
    (package / "__main__.py").write_bytes((ROOT / "src/npudoctor/__main__.py").read_bytes())
    os.chown(package / "__main__.py", SOMEBODY, SOMEBODY)
    done = machine.run(str(machine.command), "list")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (64, "", 1)
