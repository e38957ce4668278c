"""te-topi: an old te in a real environment, mended by `npudoctor fix` with real wheels, and put back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

import pytest
from tests.support import pips

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]

NOBODY = 65534
OLD, NEW = "7.5.0.1.129", "7.7.0.1.238"
FIX = ("fix", "te-topi", "--yes", "--risk", "caution")
# The packages of the Python by which the environment was made; Debian's has another folder for its own.
OF_THE_BASE = sysconfig.get_path("purelib", vars={"base": sys.base_prefix})
IN_THE_WAY = sys.prefix != sys.base_prefix and os.path.isdir(OF_THE_BASE)
AROUND = f" && mount -t tmpfs -o mode=755 none {OF_THE_BASE}" if IN_THE_WAY else ""


def wheel(folder: Path, version: str) -> Path:
    """A real wheel; te's own version never changes, whatever CANN it is of."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "te-0.4.0-py3-none-any.whl"
    files = {
        "te/__init__.py": "",
        "te/version.py": f'version = "{version}"\n',
        "te-0.4.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: te\nVersion: 0.4.0\n",
        "te-0.4.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        record = "".join(f"{name},,\n" for name in files)
        archive.writestr("te-0.4.0.dist-info/RECORD", f"{record}te-0.4.0.dist-info/RECORD,,\n")
    return path


def cann(root: Path, product: str, component: str) -> Path:
    """A CANN with its compiler and the wheel of te; the folder's name is the one that is searched."""
    top = root / "ascend-toolkit" / product
    (top / "opp").mkdir(parents=True)
    (top / "compiler").mkdir()
    (top / "compiler" / "version.info").write_text(f"Version={component}\nversion_dir={product}\n")
    wheel(top / "compiler" / "lib64", component)
    return top


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with pip, a framework and the old te."""
    folder = tmp_path_factory.mktemp("te") / "env"
    site = pips.environment(folder)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--no-index", "-q"]
    subprocess.run([*pip, str(wheel(folder.parent, OLD))], check=True)
    info = site / "torch_npu-2.5.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-npu\nVersion: 2.5.1\n")
    return folder


class Machine:
    """The environment, two CANN, and the command with a journal of its own."""

    def __init__(self, folder: Path, first: Path) -> None:
        self.env, self.folder = folder / "env", folder
        self.python = str(self.env / "bin" / "python")
        subprocess.run(["cp", "-a", first, self.env], check=True)
        self.top = cann(folder, "8.1.RC1", NEW)
        self.home = folder / "home"
        self.home.mkdir()
        self.state = folder / "state"
        self.state.mkdir()
        for path in (folder, *folder.parents[:-1]):
            if path.stat().st_uid == 0 and path != Path("/tmp"):
                path.chmod(path.stat().st_mode | 0o055)

    @property
    def te(self) -> str:
        """The version of the te that is installed."""
        (path,) = (self.env / "lib").glob("python3*/site-packages/te/version.py")
        return path.read_text().split('"')[1]

    def __call__(
        self, *words: str, uid: int = 0, variables: Mapping[str, str] = {}, options: Sequence[str] = ()
    ) -> Any:
        """What it prints as JSON."""
        asked = ["--python", self.python] if words[0] in ("check", "fix") else []
        argv = [sys.executable, "-m", "npudoctor", *words, "--format", "json", *asked, *options]
        known = {
            "PATH": os.environ["PATH"], "HOME": str(self.home), "NPUDOCTOR_CHECKS_DIR": "",
            "ASCEND_HOME_PATH": str(self.top), **variables,
        }  # fmt: skip
        # The Python of these tests may lie in a home that others may not enter.
        reading = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
        away = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *reading] if uid else []
        # They are not searched, and judged all the same, as many as a developer has.
        around = "" if self.env not in Path(self.python).parents else AROUND
        script = (
            "mount -t tmpfs none /var/lib && mkdir /var/lib/npudoctor && "
            f'mount --bind "$0" /var/lib/npudoctor{around} && exec "$@"'
        )
        bound = ["unshare", "--mount", "sh", "-ec", script, str(self.state), *away, *argv]
        done = subprocess.run(bound, env=known, capture_output=True, text=True, check=False, timeout=90)
        assert done.stdout, done.stderr[-1000:]
        return json.loads(done.stdout)

    def codes(self, **more: Any) -> list[str]:
        (row,) = self("check", "te-topi", **more)["results"]
        return [finding["code"] for finding in row["findings"]]


@pytest.fixture
def machine(tmp_path: Path, first: Path, need: Callable[..., None]) -> Iterator[Machine]:
    need("unshare", "setpriv")
    yield Machine(tmp_path, first)


def test_the_wheels_of_this_cann_and_back(machine: Machine) -> None:
    cann(machine.env / "Ascend", "8.0.0", OLD)  # as it is installed too, its wheel is known
    assert machine.codes() == ["te-topi.other-version"]
    answer = machine(*FIX)
    (action,) = answer["actions"]
    assert (answer["exit_code"], answer["changed"], action["status"]) == (0, True, "applied"), action
    assert (machine.codes(), machine.te) == ([], NEW)
    assert machine(*FIX)["actions"] == []
    (back,) = action["undo"]
    subprocess.run(["bash", "-ec", back], check=True, capture_output=True)
    assert (machine.codes(), machine.te) == (["te-topi.other-version"], OLD)
    assert machine(*FIX)["changed"] is True
    undone = machine("undo", "--yes")
    assert (undone["exit_code"], undone["changed"]) == (0, True)
    assert (machine.codes(), machine.te) == (["te-topi.other-version"], OLD)


def test_without_the_old_cann_it_cannot_be_taken_back(machine: Machine) -> None:
    (action,) = machine(*FIX)["actions"]
    assert (action["status"], action["undo"], machine.te) == ("applied", [], NEW)
    (run,) = machine("history")["runs"]
    (action,) = machine("undo", run["run"], "--yes")["actions"]
    assert (action["status"], machine.te) == ("refused", NEW)
    assert "cannot be undone" in action["reason"]


def test_root_puts_back_no_wheel_that_others_may_write(machine: Machine) -> None:
    """Else `undo` as root would install what its owner makes of it until then."""
    old = cann(machine.env / "Ascend", "8.0.0", OLD) / "compiler" / "lib64"
    os.chown(old, NOBODY, NOBODY)
    (action,) = machine(*FIX)["actions"]
    assert (action["status"], action["undo"], action["undoable"]) == ("applied", [], False)
    (action,) = machine("undo", machine("history")["runs"][0]["run"], "--yes")["actions"]
    assert (action["status"], machine.te) == ("refused", NEW)


def test_only_the_wheel_that_was_looked_at_is_put_back(machine: Machine) -> None:
    old = cann(machine.env / "Ascend", "8.0.0", OLD) / "compiler" / "lib64"
    (action,) = machine(*FIX)["actions"]
    assert (action["status"], len(action["undo"])) == ("applied", 1)
    wheel(old, "6.6.6")
    (action,) = machine("undo", "--yes")["actions"]
    assert (action["status"], machine.te) == ("refused", NEW)
    assert "has changed since" in action["reason"]


def test_no_variable_and_no_file_of_the_user_leads_it_elsewhere(machine: Machine) -> None:
    evil = machine.folder / "evil"
    evil.mkdir()
    (evil / "sitecustomize.py").write_text(f"open({str(evil / 'ran')!r}, 'w')")
    (machine.home / ".config" / "pip").mkdir(parents=True)
    (machine.home / ".config" / "pip" / "pip.conf").write_text(f"[install]\ntarget = {evil}\n")
    site = machine.home / ".local" / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"
    site.mkdir(parents=True)
    (site / "usercustomize.py").write_text(f"open({str(evil / 'ran')!r}, 'w')")
    hostile = {
        "PIP_TARGET": str(evil), "PIP_INDEX_URL": "http://127.0.0.1:1", "PIP_REQUIRE_HASHES": "1",
        "PYTHONSTARTUP": str(evil / "x"), "PYTHONUSERBASE": str(evil), "VIRTUAL_ENV": str(evil),
        "https_proxy": "http://127.0.0.1:1",
    }  # fmt: skip
    (action,) = machine(*FIX, variables=hostile)["actions"]
    assert (action["status"], machine.te) == ("applied", NEW), action
    assert [path.name for path in evil.iterdir()] == ["sitecustomize.py"]


def test_root_runs_nobodys_python_and_its_owner_may(machine: Machine) -> None:
    for path in (machine.env, *machine.env.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    os.chown(machine.home, NOBODY, NOBODY)
    (action,) = machine(*FIX)["actions"]
    assert (action["status"], machine.te) == ("refused", OLD)
    (line,) = action["commands"]
    assert " pip " in line
    (action,) = machine(*FIX, uid=NOBODY)["actions"]
    assert (action["status"], machine.te) == ("applied", NEW), action


@pytest.mark.parametrize(
    "where", ["lib/python3*/site-packages", "lib/python3*/site-packages/pip/__main__.py"]
)
def test_root_runs_no_pip_that_others_may_write(machine: Machine, where: str) -> None:
    (path,) = machine.env.glob(where)
    os.chmod(path, 0o777)  # noqa: S103
    (action,) = machine(*FIX)["actions"]
    assert (action["status"], machine.te) == ("refused", OLD)


def test_an_old_te_in_the_users_own_folder(machine: Machine, lack: Callable[[str], None]) -> None:
    """Where older installers put it; a Python that is root's, and pip falls back to that folder."""
    machine.python = os.path.realpath(sys.executable)
    where = "import sys, sysconfig as s; print(s.get_path('stdlib'), '%d.%d' % sys.version_info[:2])"
    told = subprocess.run([machine.python, "-c", where], capture_output=True, text=True, check=True)
    library, version = told.stdout.split()
    if os.path.exists(f"{library}/EXTERNALLY-MANAGED"):
        lack("this Python refuses pip")
    site = machine.home / ".local" / "lib" / f"python{version}" / "site-packages"
    (first,) = (machine.env / "lib").glob("python3*/site-packages")
    for name in ("te", "te-0.4.0.dist-info", "torch_npu-2.5.1.dist-info"):
        shutil.copytree(first / name, site / name)
    for path in (machine.home, *machine.home.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    assert machine.codes(uid=NOBODY) == ["te-topi.other-version"]
    assert machine(*FIX)["changed"] is False, "root looks into no folder that a foreign HOME names"
    answer = machine(*FIX, uid=NOBODY)
    assert (answer["exit_code"], answer["changed"]) == (0, True), answer
    assert NEW in (site / "te" / "version.py").read_text()
    assert (site / "te").stat().st_uid == NOBODY


def test_others_are_told_that_only_root_can(machine: Machine) -> None:
    (action,) = machine(*FIX, uid=NOBODY)["actions"]
    assert (action["status"], action["reason"], machine.te) == ("refused", "only root can do this", OLD)


def test_a_wheel_of_others_is_nothing_for_root(machine: Machine) -> None:
    (path,) = machine.top.rglob("*.whl")
    os.chown(path, NOBODY, NOBODY)
    (action,) = machine(*FIX)["actions"]
    assert (action["status"], machine.te) == ("refused", OLD)


def test_a_wheel_that_fails_changes_nothing(machine: Machine) -> None:
    (path,) = machine.top.rglob("*.whl")
    path.write_bytes(b"no wheel")
    answer = machine(*FIX)
    (action,) = answer["actions"]
    assert (answer["exit_code"], answer["changed"], action["status"]) == (1, True, "failed")  # who knows
    assert "te-0.4.0-py3-none-any.whl" in action["reason"] or "pip" in action["reason"], action
    assert machine.te == OLD
