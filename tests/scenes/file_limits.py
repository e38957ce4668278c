"""Shells in which file-limits says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.host.file_limits import file_limits
from npudoctor.testing import Asked, ask, fake_host

from ..checks.host.test_file_limits import CONF, told  # noqa: TID252


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield told("6", "1048576")
    yield told("1024", "1048576")
    yield told("5000", "6000")
    yield told("1024", "4096", 0, "/.dockerenv")
    yield told("1024", "4096", variables={"SLURM_JOB_ID": "7"})
    yield told("1024", "4096", files={"/proc/self/cgroup": "0::/system.slice/a.service\n"})
    yield told("1024", "4096", files={"/etc/pam.d/sshd": ""})
    yield told("1024", "4096", files={"/proc/sys/fs/nr_open": "1024\n"})
    yield told("1024", "4096", files={CONF: "root - nofile 1024\n"})
    yield told("1024", "4096", files={CONF: "root - nofile 65536\n"})
    yield ask(file_limits, fake_host({"/proc/self/limits": "x\n"}))
