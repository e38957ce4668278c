"""run starts nothing that check forbids: the same Python, the same line, whatever starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .command import Npudoctor
from .running import quiet_machine

CONTENTS = ("package-files", "framework-modules", "loaded-libraries", "package-requirements")
LINE = "not ready: 1 problem (package-files.missing)"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with a framework, made once."""
    folder = tmp_path_factory.mktemp("made") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


@pytest.fixture
def broken(made: Path, trusted: Path) -> str:
    """The Python of an environment of whose torch a library was moved away."""
    subprocess.run(["cp", "-a", str(made), str(trusted / "env")], check=True)
    (site,) = (trusted / "env").glob("lib/python*/site-packages")
    info = site / "torch-2.7.1.dist-info"
    for folder in (site / "torch/lib", info):
        folder.mkdir(parents=True)
    (site / "torch/__init__.py").write_text("__version__ = '2.7.1'\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.7.1\n")
    size = (site / "torch/__init__.py").stat().st_size
    record = f"torch/__init__.py,,{size}\ntorch/lib/libtorch.so,,5000\ntorch-2.7.1.dist-info/METADATA,,\n"
    (info / "RECORD").write_text(record)
    return str(trusted / "env/bin/python")


@pytest.fixture
def run(npudoctor: Npudoctor) -> Npudoctor:
    return quiet_machine(npudoctor)


def test_run_and_check_say_the_same_of_one_job(run: Npudoctor, broken: str) -> None:
    path = f"{os.path.dirname(broken)}:/usr/bin:/bin"
    for profile in ((), ("--profile", "quick")):
        done = run("check", "--scope", "job", "-q", "--python", broken, *profile)
        assert (done.status, done.out) == (1, f"{LINE}\n")
        done = run("run", "-q", *profile, broken, "-c", "open('started', 'w')")
        assert done.status == 125 and LINE in done.err
    for command in (
        ["env", "A=1", "python", "-c", "open('started', 'w')"],
        ["nice", "python", "-c", "open('started', 'w')"],
        ["timeout", "60", "python", "-c", "open('started', 'w')"],
        ["sh", "-c", "touch started; python -V"],
        ["touch", "started"],  # python3 of PATH is what it may start
    ):
        done = run("run", "-q", *command, PATH=path)
        assert done.status == 125 and LINE in done.err, command
    assert not (run.folder / "started").exists()


def test_the_python_that_starts_decides_and_not_that_of_path(run: Npudoctor, broken: str) -> None:
    for command in (["env", "A=1", broken, "-V"], ["sh", "-c", f"{broken} -V"]):
        done = run("run", "-q", *command, PATH="/usr/bin:/bin")
        assert done.status == 125 and LINE in done.err, command
    done = run("run", "-q", "env", "PATH=/usr/bin:/bin", "true", PATH=f"{os.path.dirname(broken)}:/usr/bin")
    assert done.status == 0  # the PATH that it is given has no broken one


def test_a_script_that_goes_elsewhere_is_not_judged_by_where_it_begins(run: Npudoctor, broken: str) -> None:
    (site,) = Path(broken).parent.parent.glob("lib/python*/site-packages")
    (site / "torch/lib/libtorch.so").write_bytes(b"\x7fELF")
    (run.folder / "torch").mkdir()
    (run.folder / "torch/__init__.py").write_text("")
    (run.folder / "job.sh").write_text(f"cd /\n{broken} -c pass\n")
    ignore = [word for check in CONTENTS for word in ("--ignore", check)]
    assert run("run", "-q", *ignore, "sh", "job.sh").status == 0
    done = run("run", "-q", *ignore, broken, "-c", "pass")
    assert done.status == 125 and "source-shadowing.package" in done.err
    assert run("run", "-q", *ignore, broken, "-I", "-c", "pass").status == 0
    (run.folder / "jobs").mkdir()
    (run.folder / "jobs/train.py").write_text("")
    assert run("run", "-q", *ignore, broken, "jobs/train.py").status == 0
