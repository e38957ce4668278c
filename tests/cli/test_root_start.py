"""As root, npudoctor runs nothing that another user put where Python looks for modules."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import cache_from_source
from pathlib import Path

import psutil
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


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_functions_that_a_shell_takes_from_variables(machine: Machine, shell: str) -> None:
    program = shutil.which(shell, path="/usr/bin:/bin")
    if program is None:
        pytest.skip(f"no {shell} on this machine")
    sh, link = machine.site.parents[3] / "sh", machine.site.parents[3] / "link"
    sh.symlink_to(program)
    link.symlink_to(machine.command)
    trap = f"() {{ echo > {machine.mark}; }}"
    names = ("[", "read", "readlink", "unset", "exec", "exit")
    done = machine.run(str(sh), str(link), "--version", **{f"BASH_FUNC_{name}%%": trap for name in names})
    assert (done.returncode, done.stderr, machine.mark.exists()) == (0, "", False)
    assert done.stdout == f"npudoctor {npudoctor.__version__}\n"


@pytest.mark.parametrize(("owner", "status"), [(0, "plug-in"), (SOMEBODY, "")], ids=["root", "somebody"])
def test_a_pth_file_beside_npudoctor(machine: Machine, owner: int, status: str) -> None:
    """Its paths are searched where it is root's, as are they; its code is run for nobody."""
    more = machine.site.parents[3] / "more"
    more.mkdir()
    (more / "plugin.py").write_text("print('plug-in')\n")
    pth = machine.site / "vendor.pth"
    pth.write_text(f"import sys; open({str(machine.mark)!r}, 'w')\n{more}\n")
    os.chown(pth, owner, owner)
    start = machine.command.parent / ".npudoctor-start"
    text = start.read_text().replace("return main(", "return probe(")
    probe = (
        "def probe(folders):\n"
        "    from npudoctor.core.trust import guard\n"
        "    guard.secure(folders())\n"
        "    try:\n        import plugin\n    except ImportError:\n        pass\n"
        "    return 0\n\n\n"
    )
    start.write_text(text.replace("def start():", f"{probe}def start():"))
    done = machine.run(str(machine.command))
    assert (done.returncode, done.stderr, machine.mark.exists()) == (0, "", False)
    assert done.stdout.strip() == status
    os.chown(pth, 0, 0)
    os.chown(more, SOMEBODY, SOMEBODY)
    assert machine.run(str(machine.command)).stdout == ""


def test_byte_code_of_another_user_is_not_loaded(machine: Machine) -> None:
    """In a folder that is root's, where each module has only its files left to be judged."""
    more = machine.site / "more"
    (more / "__pycache__").mkdir(parents=True)
    (more / "__init__.py").write_text("")
    (more / "plain.py").write_text("print('loaded')\n")
    code = f"import sys; sys.path.append({str(machine.site)!r}); from npudoctor.core.trust import guard; "
    code += "guard.secure(()); guard.secure(()); import more, more.plain"
    assert machine.run(sys.executable, "-I", "-c", code).stdout == "loaded\n"
    cached = Path(cache_from_source(str(more / "plain.py")))
    if not cached.exists():
        cached.write_bytes(b"")
    os.chown(cached, SOMEBODY, SOMEBODY)
    done = machine.run(sys.executable, "-I", "-c", code)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{cached} belongs to another user" in done.stderr
    cached.unlink()
    os.chown(cached.parent, SOMEBODY, SOMEBODY)
    done = machine.run(sys.executable, "-I", "-c", code)
    assert f"{cached.parent} belongs to another user" in done.stderr


def test_a_library_of_another_user_is_not_loaded(machine: Machine) -> None:
    """psutil's, which is loaded long after the start: the rows that need it cannot tell."""
    shutil.copytree(Path(psutil.__file__).parent, machine.site / "psutil")
    (library,) = (machine.site / "psutil").glob("_psutil_linux*.so")
    code = f"""
import sys
sys.path.insert(0, {str(machine.site)!r})
from npudoctor.core.trust import guard
guard.secure(())
from npudoctor.core.errors import CannotTell
from npudoctor.host.resources import Resources
try: print(Resources().memory().total > 0, sys.modules['psutil'].__file__)
except CannotTell as error: print(error)
"""
    loaded = machine.run(sys.executable, "-I", "-c", code)
    assert loaded.stdout == f"True {machine.site}/psutil/__init__.py\n", loaded
    os.chown(library, SOMEBODY, SOMEBODY)
    refused = machine.run(sys.executable, "-I", "-c", code)
    assert refused.stdout == f"psutil cannot be loaded: {library} belongs to another user\n", refused
    os.chown(library, 0, 0)
    os.chown(library.parent, SOMEBODY, SOMEBODY)
    refused = machine.run(sys.executable, "-I", "-c", code)
    assert refused.stdout == f"psutil cannot be loaded: {library.parent} belongs to another user\n", refused
