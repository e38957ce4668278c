"""How the trial's child is started: whose variables, folder, limits and keys it has."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from npudoctor.host import Host, Options
from npudoctor.host.fs.files import LocalDisk
from npudoctor.host.process.job_start import is_mapped_root, job_variables, why_not_tried
from npudoctor.host.process.rights import limit_process
from npudoctor.host.users.identity import Account
from npudoctor.testing import fake_host
from npudoctor.testing.disk import MemoryDisk

NOBODY = Account("nobody", 65534, 65534, "/nonexistent", (65534,))
KEYCTL, GET_KEYRING_ID, ADD_KEY = 250, 0, 248
SPY = """#!/bin/sh
{{ id -u; pwd; cat secret; env | grep -c ROOT_ ; grep -c mine /proc/keys; ulimit -Hn; }} >{said} 2>/dev/null
exec {python} "$@"
"""


def test_what_root_has_in_its_shell_is_not_for_everybody() -> None:
    shell = {
        "MASTER_ADDR": "10.0.0.5", "HCCL_IF_IP": "10.0.0.5", "PATH": "/bin", "LD_LIBRARY_PATH": "/opt/lib",
        "AWS_SECRET_ACCESS_KEY": "x", "MS_TOKEN": "x", "EDITOR": "vi", "HOME": "/root", "USER": "root",
        "SLURM_JWT": "x",
    }  # fmt: skip
    own = job_variables(shell, Options(as_user=NOBODY))
    assert own == {
        "MASTER_ADDR": "10.0.0.5", "HCCL_IF_IP": "10.0.0.5", "PATH": "/bin", "LD_LIBRARY_PATH": "/opt/lib",
        "HOME": "/nonexistent", "USER": "nobody", "LOGNAME": "nobody",
    }  # fmt: skip
    for options in (
        Options(),
        Options(as_user=Account("root", 0, 0, "/root")),
        Options(as_user=NOBODY, env_of=7),
    ):
        assert job_variables(shell, options) == shell


@pytest.mark.parametrize(
    ("rows", "mapped", "alone"),
    [
        ("0 0 4294967295\n", False, False),
        ("0 1000 1\n", True, True),
        ("0 1000 1\n1 100000 65536\n", True, False),
        ("1000 1000 1\n", False, False),
        ("", False, False),
    ],
)
def test_root_of_a_user_namespace(rows: str, mapped: bool, alone: bool) -> None:
    disk = MemoryDisk({"/proc/self/uid_map": rows}, 0)
    assert (is_mapped_root(disk), is_mapped_root(disk, is_only_user=True)) == (mapped, alone)
    assert (why_not_tried(Options(), True, disk) is None) is mapped


@pytest.mark.needs_root
@pytest.mark.whole
def test_a_process_in_namespaces_of_its_own_is_not_tried_from_outside() -> None:
    for words, same in ((["sleep", "60"], True), (["unshare", "--net", "sleep", "60"], False)):
        with subprocess.Popen(words) as job:
            try:
                while b"sleep" not in Path(f"/proc/{job.pid}/cmdline").read_bytes()[:6]:
                    pass
                why = why_not_tried(Options(as_user=NOBODY, env_of=job.pid), True, LocalDisk())
            finally:
                job.kill()
        assert (why is None) is same


@pytest.mark.needs_root
@pytest.mark.whole
def test_another_users_python_gets_nothing_of_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sees neither the folder in which root stands, nor its variables, nor the keys of its session."""
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        subprocess.run(["chmod", "a+x", folder], check=True)
    subprocess.run(["chmod", "a+w", tmp_path], check=True)
    spy, said = tmp_path / "python3", tmp_path / "said"
    spy.write_text(SPY.format(said=said, python="/usr/bin/python3"))
    spy.chmod(0o755)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "secret").write_text("secret\n")
    monkeypatch.chdir(closed)
    monkeypatch.setenv("ROOT_PASSWORD", "x")
    libc = ctypes.CDLL(None)
    libc.syscall(KEYCTL, 1, None)
    libc.syscall(ADD_KEY, b"user", b"mine", b"x", 1, -3)  # the session's keyring
    host = Host(Options(python=str(spy), as_user=NOBODY), variables=dict(os.environ))
    host.trials.try_part("memory", reserve=1 << 20, touch=False)
    assert said.read_text().splitlines()[:4] == ["65534", "/", "0", "0"]


def test_a_process_gets_limits() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        limit_process(
            child.pid, {"Max open files": (33, 44), "Max core file size": (0, None), "Max odd": (1, 1)}
        )
        assert resource.prlimit(child.pid, resource.RLIMIT_NOFILE) == (33, 44)
        child.kill()


def test_a_fake_host_is_tried_as_its_user() -> None:
    assert fake_host(euid=1000).trials.why_not() is None
    assert fake_host().trials.why_not() is not None
