"""A machine of its own for what root changes: namespaces, an own /etc in parts, an own state directory.

Its "/" is a tmpfs into which all folders of ours are bound, so that no mark of a container is in it.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

OWN = ("/run", "/var/lib", "/etc/security/limits.d", "/etc/sysctl.d", "/etc/pam.d")

# $1 is the new "/", then come the folders that are its own, then "--" and the program.
BUILD = r"""
set -e
root=$1; shift
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$root"
for entry in /*; do
    if [ -L "$entry" ]; then cp -P "$entry" "$root"
    elif [ -d "$entry" ]; then
        mkdir "$root$entry"
        [ "$entry" = /proc ] || mount --rbind "$entry" "$root$entry"
    fi
done
mount -t proc proc "$root/proc"
while [ "$1" != -- ]; do
    if [ -d "$root$1" ]; then mount -t tmpfs -o mode=755 tmpfs "$root$1"; fi
    shift
done
shift
exec chroot "$root" "$@"
"""

# Runs each line of the JSON in the last argument in a shell, and tells how it ended.
DRIVE = """
import json, subprocess, sys
told = []
for line in json.loads(sys.argv[1]):
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    told.append([done.returncode, done.stdout, done.stderr])
print(json.dumps(told))
"""


class Line(NamedTuple):
    """How a line ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)

    @property
    def codes(self) -> list[str]:
        """The codes of all findings of a report."""
        return [finding["code"] for row in self.json["results"] for finding in row["findings"]]


def run(folder: Path, lines: Sequence[str], variables: Mapping[str, str] = {}) -> list[Line]:
    """Run shell lines one after the other on one machine; `npudoctor` in them is the one under test."""
    root = folder / "root"
    root.mkdir()
    names = ("unshare", "-m", "-n", "-i", "-p", "-C", "-f", "sh", "-c", BUILD, "sh", str(root), *OWN, "--")
    program = f'npudoctor() {{ {shlex.quote(sys.executable)} -m npudoctor "$@"; }}\n'
    argv = [*names, sys.executable, "-c", DRIVE, json.dumps([program + line for line in lines])]
    environment = {"PATH": os.environ["PATH"], "HOME": "/root", "NPUDOCTOR_CHECKS_DIR": "", **variables}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode and "unshare failed" in done.stderr:
        pytest.skip("no namespaces here: " + done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return [Line(*told) for told in json.loads(done.stdout)]
