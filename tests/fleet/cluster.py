"""Starts the cluster of cluster.sh, and runs commands on what is its login node."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Optional

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAM = Path(sys.executable).with_name("npudoctor")
_SSHD = """\
HostKey {folder}/host
AuthorizedKeysFile {folder}/key.pub
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
UsePAM no
PidFile none
MaxStartups 2000
SetEnv {variables}
"""
_SSH = """\
Host *
    IdentityFile {folder}/key
    UserKnownHostsFile {folder}/known
    StrictHostKeyChecking yes
    KexAlgorithms curve25519-sha256
    LogLevel ERROR
"""


class Cluster:
    """Nodes node1, node2, ... A context: with it all of them end."""

    def __init__(self, folder: Path, count: int, variables: Mapping[str, str]) -> None:
        self.folder, self._count, self._variables = folder, count, dict(variables)
        self._stage: Optional[subprocess.Popen[str]] = None

    def prepare(self) -> None:
        """Write the keys and what all have in common."""
        for name in ("host", "key"):
            key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(self.folder / name)]
            subprocess.run(key, check=True)
        (self.folder / "known").write_text(f"* {(self.folder / 'host.pub').read_text()}")
        (self.folder / "ssh_config").write_text(_SSH.format(folder=self.folder))
        (self.folder / "sshd.conf").write_text(self.configuration())

    def configuration(self, more: str = "") -> str:
        """What an sshd is told."""
        variables = " ".join(f'"{name}={value}"' for name, value in self._variables.items())
        return _SSHD.format(folder=self.folder, variables=variables or "NONE=") + more

    def on(self, node: int, script: str) -> None:
        """Before it starts, this node runs these lines."""
        (self.folder / f"node{node}.sh").write_text(script)

    def on_login(self, script: str) -> None:
        """Before the nodes are made, the login node runs these lines."""
        (self.folder / "login.sh").write_text(script)

    def __enter__(self) -> Cluster:
        namespaces = ("--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc")
        kept = (str(self.folder), str(ROOT), sys.prefix)
        command = ["unshare", *namespaces, "bash", str(HERE / "cluster.sh"), str(self._count), *kept]
        self._stage = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._stage.stdout is not None
        assert self._stage.stdout.readline() == "up\n", "the cluster did not come up"
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._stage is not None
        self._stage.kill()
        self._stage.communicate()

    @property
    def pid(self) -> int:
        """The first process of the stage, as this machine numbers it."""
        assert self._stage is not None
        children = Path(f"/proc/{self._stage.pid}/task/{self._stage.pid}/children").read_text()
        return int(children.split()[0])

    def enter(self, *words: str) -> list[str]:
        """The command that runs these words on the login node."""
        return ["nsenter", "-t", str(self.pid), "-m", "-n", "-p", "-i", "-u", "--", *words]

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """npudoctor on the login node."""
        environment = {**os.environ, **variables}
        environment.pop("PYTHONUNBUFFERED", None)
        return subprocess.run(
            self.enter(str(PROGRAM), *words), capture_output=True, text=True, env=environment, check=False
        )

    def shell(self, node: str, line: str) -> str:
        """What a line of sh prints on a node, over ssh."""
        done = subprocess.run(self.enter("ssh", node, line), capture_output=True, text=True, check=False)
        return done.stdout
