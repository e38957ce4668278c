"""npudoctor.pyz: every command, by the oldest and newest Python, on a bare machine; nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest

ROOT = Path(__file__).parents[2]
Run = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.slow


def pythons() -> Iterator[str]:
    """The oldest and the newest that this machine has."""
    for which in ("oldest", "newest"):
        found = subprocess.run(
            [sys.executable, ROOT / "tools/pythons.py", which], capture_output=True, text=True, check=True
        )
        yield found.stdout.strip()


@pytest.fixture(params=list(pythons()), ids=["oldest", "newest"])
def run(request: pytest.FixtureRequest, one_file: Path, tmp_path: Path) -> Run:
    """Runs the file without anything of this environment."""
    (tmp_path / "room").mkdir()
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path / "room")}

    def call(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [str(request.param), "-I", str(one_file), *words]
        return subprocess.run(
            command, env=variables, cwd=tmp_path, capture_output=True, text=True, check=False, **options
        )

    return call


def test_every_command_answers(run: Run, tmp_path: Path) -> None:
    report = run("check", "--expect", "none", "--format", "json", "--output", "report.json")
    assert (report.returncode in (0, 1), report.stdout) == (True, ""), report
    assert json.loads((tmp_path / "report.json").read_text())["schema"] == "npudoctor.report/1"
    (tmp_path / "log").write_text(
        "Traceback (most recent call last):\nModuleNotFoundError: No module named 'te'\n"
    )
    assert run("fleet", "report", "report.json").returncode in (0, 1)
    assert run("explain", "log", "--lang", "zh").returncode == 0
    assert "cache-server" in run("list").stdout
    assert run("show", "cache-server").stdout.startswith("cache-server: ")
    assert json.loads(run("schema").stdout)["$schema"]
    assert run("fix", "--cache-server", "--dry-run").returncode in (0, 1)
    assert run("run", "--", "sh", "-c", "echo job; exit 7").returncode in (7, 125)
    assert run("check", "--nothing").returncode == 64
    assert list((tmp_path / "room").iterdir()) == []


def test_it_ends_with_its_signal_and_cleans_up(one_file: Path, tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path / "room")}
    command = [sys.executable, str(one_file), "explain", "-"]
    with subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        until = time.monotonic() + 20
        while not list((tmp_path / "room").glob("*/all/npudoctor/explain")) and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(0.5)
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=20)
    assert running.returncode in (143, -signal.SIGTERM)
    assert list((tmp_path / "room").iterdir()) == []


def test_an_old_python_is_told_in_a_line(one_file: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.py"
    old.write_text(
        "import sys, zipfile\nsys.version_info = (3, 6, 8)\n"
        f"exec(zipfile.ZipFile({str(one_file)!r}).read('__main__.py'))\n"
    )
    done = subprocess.run([sys.executable, old], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (70, "")
    assert done.stderr.startswith("npudoctor: Python 3.9 or newer is needed") and done.stderr.count("\n") == 1


def test_nobody_else_can_enter_where_it_is_unpacked(one_file: Path, tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    variables = {**os.environ, "TMPDIR": str(tmp_path / "room")}
    look = ("run", "--", "sh", "-c", f"stat -c %a {tmp_path}/room/npudoctor-*")
    done = subprocess.run(
        [sys.executable, one_file, *look], env=variables, capture_output=True, text=True, check=False
    )
    assert done.stdout == "700\n" or done.returncode == 125, done


@pytest.mark.needs_root
def test_it_runs_on_a_machine_that_has_only_python(
    one_file: Path, tmp_path: Path, need: Callable[..., None]
) -> None:
    """Debian's own Python and its library, an empty /tmp, no network, no site-packages, an ordinary user."""
    need("unshare", "/usr/bin/python3", "setpriv")
    (tmp_path / "root").mkdir()
    (tmp_path / "npudoctor.pyz").write_bytes(one_file.read_bytes())
    stage = f"""
        set -e
        cd {tmp_path}/root
        mount -t tmpfs tmpfs .
        mkdir usr lib lib64 bin sbin etc proc sys dev tmp
        for name in usr lib lib64 bin sbin; do mount --rbind -o ro /$name $name; done
        for name in usr/lib/python3/dist-packages usr/local root; do
            [ ! -d $name ] || mount -t tmpfs tmpfs $name
        done
        mount -t proc proc proc
        mount --rbind /sys sys
        mount --rbind /dev dev
        chmod 1777 tmp
        cp {tmp_path}/npudoctor.pyz npudoctor.pyz
        chmod 755 . npudoctor.pyz
        for user in "" "setpriv --reuid 4711 --regid 4711 --clear-groups"; do
            env -i PATH=/usr/bin:/bin /usr/sbin/chroot . $user \\
                /usr/bin/python3 /npudoctor.pyz check --expect none -q --lang en
        done
        ls -A tmp
    """
    done = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--fork", "--propagation", "private", "sh", "-c", stage],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.splitlines()) == (0, ["ready", "ready"]), done
