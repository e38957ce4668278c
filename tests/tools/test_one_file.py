"""npudoctor.pyz: every command, by the oldest and newest Python, on a bare machine; nothing is left."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

import pytest
from tests.support.pythons import python

ROOT = Path(__file__).parents[2]
Run = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.slow


@pytest.fixture(params=["oldest", "newest"])
def run(request: pytest.FixtureRequest, one_file: Path, tmp_path: Path) -> Run:
    """Runs the file without anything of this environment."""
    (tmp_path / "room").mkdir()
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path / "room")}

    def call(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [python(request.param), "-I", str(one_file), *words]
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
    assert_left_nothing(tmp_path / "room")


def assert_left_nothing(room: Path) -> None:
    """What takes the folder away may be a moment behind."""
    until = time.monotonic() + 10
    while list(room.iterdir()) and time.monotonic() < until:
        time.sleep(0.02)
    assert list(room.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
@pytest.mark.parametrize("early", [True, False], ids=["while it unpacks", "while it works"])
def test_a_signal_ends_it_and_nothing_is_left(
    one_file: Path, tmp_path: Path, number: signal.Signals, early: bool
) -> None:
    room = tmp_path / "room"
    room.mkdir()
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(room)}
    command = [sys.executable, str(one_file), "explain", "-"]
    with subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        awaited = "*/lib" if early else "*/lib/yaml/tokens.py"  # the last to be unpacked
        until = time.monotonic() + 20
        while not list(room.glob(awaited)) and time.monotonic() < until:
            time.sleep(0.001)
        time.sleep(0 if early else 0.5)
        running.send_signal(number)
        _stdout, stderr = running.communicate(timeout=20)
    assert running.returncode in (128 + number, -number)
    assert b"Traceback" not in stderr
    assert_left_nothing(room)


def test_without_pidfd_it_is_cleaned_up_too(one_file: Path, tmp_path: Path) -> None:
    """Linux before 5.3."""
    (tmp_path / "room").mkdir()
    code = (
        "import os, runpy, sys; del os.pidfd_open; sys.argv[:] = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-c", code, str(one_file), "explain", "-"]
    variables = {**os.environ, "TMPDIR": str(tmp_path / "room")}
    with subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        until = time.monotonic() + 20
        while not list((tmp_path / "room").glob("*/lib/yaml/tokens.py")) and time.monotonic() < until:
            time.sleep(0.01)
        running.kill()
        running.communicate(timeout=20)
    assert_left_nothing(tmp_path / "room")


def _ended(status: Path) -> bool:
    """By /proc/<pid>/status; nobody may wait for it in a container without an init."""
    try:
        return "(zombie)" in status.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_job_does_not_outlive_a_killed_npudoctor(one_file: Path, tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    variables = {**os.environ, "TMPDIR": str(tmp_path / "room")}
    job = ("sh", "-c", f"echo $$ >{tmp_path}/pid; exec sleep 60")
    command = [sys.executable, str(one_file), "run", "--", *job]
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        until = time.monotonic() + 30
        while not (tmp_path / "pid").exists() and time.monotonic() < until and running.poll() is None:
            time.sleep(0.02)
        time.sleep(0.2)
        running.kill()
        running.communicate(timeout=20)  # the job had these pipes too
    status = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/status")
    until = time.monotonic() + 20  # its pipes are closed a moment before it has ended
    while not _ended(status) and time.monotonic() < until:
        time.sleep(0.02)
    assert _ended(status)
    assert_left_nothing(tmp_path / "room")


@pytest.mark.parametrize("limit", ["-n 5", "-n 6", "-f 1", "-v 66000", "-v 100000"])
def test_limits_that_leave_little_room_are_said_in_a_line(one_file: Path, tmp_path: Path, limit: str) -> None:
    """Status 1 without the line of the verdict would be taken for one."""
    (tmp_path / "room").mkdir()
    command = f"ulimit {limit}; exec /usr/bin/python3 -I {one_file} check --expect none -q --lang en"
    done = subprocess.run(
        ["bash", "-c", command], env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path / "room")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 70 or done.stdout.count("\n") == 1, done
    assert "Traceback" not in done.stderr
    assert_left_nothing(tmp_path / "room")


def test_a_module_of_the_job_does_not_take_the_place_of_ours(one_file: Path, tmp_path: Path) -> None:
    for name in ("click", "yaml", "packaging", "npudoctor"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not ours')\n")
    variables = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, one_file, "list", "--lang", "en"],
        env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.needs_root
@pytest.mark.parametrize("owner, mode", [(0, 0o777), (4711, 0o755), (4711, 0o1777)])
def test_it_is_not_unpacked_where_another_user_could_exchange_it(
    one_file: Path, trusted: Path, owner: int, mode: int
) -> None:
    place = trusted / "place"
    place.mkdir()
    os.chown(place, owner, owner)
    place.chmod(mode)
    os.utime(place, (1, 1))  # whatever is made in it, if only for a moment, changes that
    done = subprocess.run(
        [sys.executable, one_file, "list"], env={**os.environ, "TMPDIR": str(place)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done
    assert place.stat().st_mtime == 1


@pytest.mark.needs_root
@pytest.mark.parametrize(
    "mounts, statuses, said",
    [
        ("/tmp:size=64k", (0, 1), ""),
        ("/tmp:ro /var/tmp:ro", (1,), ""),  # that /tmp cannot be written is a finding
        ("/tmp:noexec /var/tmp:noexec", (0, 1), ""),
        ("/tmp:noexec /var/tmp:noexec /dev/shm:noexec /run:noexec", (1, 2), "psutil cannot be loaded"),
        ("/tmp:size=64k /var/tmp:size=64k /dev/shm:size=64k /run:size=64k", (70,), "No space left on device"),
    ],
    ids=["full", "read-only", "noexec", "all noexec", "all full"],
)
def test_where_it_is_unpacked_when_tmp_cannot_be_used(
    one_file: Path, need: Callable[..., None], mounts: str, statuses: tuple[int, ...], said: str
) -> None:
    need("unshare")
    stage = "\n".join(
        f"mount -t tmpfs -o {options} tmpfs {place}"
        for place, options in (pair.split(":") for pair in mounts.split())
    )
    script = f"""
        set -e
        mount -t tmpfs tmpfs /mnt
        cp {one_file} /mnt/npudoctor.pyz
        {stage}
        exec /usr/bin/python3 /mnt/npudoctor.pyz check --expect none -v --lang en
    """
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"},
        cwd="/", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (
        done.returncode in statuses and said in done.stderr + done.stdout and "Traceback" not in done.stderr
    ), done
    assert done.stderr.count("\n") <= 1


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
    room = tmp_path / "room"
    room.mkdir()
    command = [sys.executable, str(one_file), "explain", "-"]
    variables = {**os.environ, "TMPDIR": str(room)}
    with subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        until = time.monotonic() + 20
        while not list(room.glob("*/lib/yaml/tokens.py")) and time.monotonic() < until:
            time.sleep(0.01)
        modes = [stat.S_IMODE(path.stat().st_mode) for path in room.glob("npudoctor-*")]
        running.communicate(timeout=20)
    assert modes == [0o700]


@pytest.mark.needs_root
def test_it_runs_on_a_machine_that_has_only_python(
    one_file: Path, tmp_path: Path, need: Callable[..., None]
) -> None:
    """Debian's own Python and its library, an empty /tmp, no network, no site-packages, an ordinary user."""
    need("unshare", "/usr/bin/python3", "setpriv", "ip")
    (tmp_path / "root").mkdir()
    (tmp_path / "npudoctor.pyz").write_bytes(one_file.read_bytes())
    stage = f"""
        set -e
        ip link set lo up
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
