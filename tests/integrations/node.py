"""A node with a dead cache server, in namespaces of its own, and playbooks that are played on it.

    unshare -m -i -p -n -f --mount-proc -- python -m tests.integrations.node SCENE ANSIBLE FRESH [KEEP...]

Prints one line of JSON: how each play ended, and what was there after it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

from tests.real.isolation import cover
from tests.support import ipc
from tests.support.machine import Machine, Server

ROOT = Path(__file__).parents[2]
PLAYBOOK = ROOT / "integrations" / "ansible" / "npudoctor.yml"
AGE = 10.5  # seconds after which a socket is not that of a server that is starting
PORT = 50052


class Node:
    """This machine as Ansible's localhost."""

    def __init__(self, ansible: str) -> None:
        self.ansible = ansible
        self.machine = Machine()
        self.machine.tmp = Path("/tmp")
        self.plays: list[dict[str, Any]] = []

    def dead_server(self) -> Server:
        """It was killed; nothing of it is gone."""
        return self.machine.dead_server(PORT)

    def play(self, *options: str) -> None:
        """Play the playbook; remember its recap, what it printed, and what is left of the server."""
        settings = {
            "npudoctor_command": [sys.executable, "-m", "npudoctor"],
            "npudoctor_become": False,  # root already
            "npudoctor_check": ["cache-server"],
            "npudoctor_owners": ["root"],
        }
        command = [self.ansible, "-i", "localhost,", "-c", "local", str(PLAYBOOK), "-e", json.dumps(settings)]
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": "/tmp/home",
            "ANSIBLE_NOCOLOR": "1",
            "LANG": "C.UTF-8",
        }
        variables["ANSIBLE_PYTHON_INTERPRETER"] = sys.executable
        began = time.monotonic()
        done = subprocess.run(
            [*command, *options], env=variables, cwd="/", capture_output=True, text=True, check=False
        )
        recap = re.search(r"^localhost +: (.*)$", done.stdout, re.MULTILINE)
        self.plays.append(
            {
                "status": done.returncode,
                "recap": dict(word.split("=") for word in recap[1].split()) if recap else {},
                "said": done.stdout + done.stderr,
                "segments": sorted(ipc.rows()),
                "sockets": [str(path) for path in Path("/tmp/mindspore").glob("cache_server_p*")],
                "seconds": time.monotonic() - began,
            }
        )


def mended(node: Node) -> None:
    """Sick, check mode, mended, and once more."""
    node.dead_server()
    time.sleep(AGE)
    node.play("--check")
    node.play()
    node.play()


def held(node: Node) -> None:
    """A client holds the dead server's segment: what is there cannot be mended; nor is the node ready."""
    server = node.dead_server()
    node.machine.lose(server.socket)  # its log is proof enough
    node.machine.client(server.shmid)
    node.play("--tags", "fix")
    node.play("--tags", "check")


def unseen(node: Node) -> None:
    """Where servers would be is a link, which nobody follows: what is there cannot be said."""
    Path("/tmp/mindspore").symlink_to("/tmp")
    node.play("--tags", "check")
    node.play("--tags", "fix")


def missing(node: Node) -> None:
    """npudoctor is not installed."""
    node.play("--tags", "check", "-e", json.dumps({"npudoctor_command": ["/nonexistent/npudoctor"]}))
    node.play("--tags", "fix", "-e", json.dumps({"npudoctor_fix": ["no-such-check"]}))


def collected(node: Node) -> None:
    """Installed from wheels, one node of three that answers: all three are in what is merged."""
    Path("/tmp/wheels").mkdir()
    for name in ("dist", "deps"):
        for wheel in Path(os.environ["NPUDOCTOR_WHEELS"], name).glob("*.whl"):
            shutil.copy(wheel, "/tmp/wheels")
    Path("/tmp/reports").mkdir()
    away = "ansible_connection=ssh ansible_host=127.0.0.9"
    hosts = f"[all]\nlocalhost ansible_connection=local\nnode2 {away}\nnode3 {away}\n"
    Path("/tmp/hosts").write_text(hosts)
    settings = {
        "npudoctor_wheelhouse": "/tmp/wheels", "npudoctor_prefix": "/tmp/own",
        "npudoctor_collect": "/tmp/reports",
        "npudoctor_python": sys.executable, "npudoctor_controller": [sys.executable, "-m", "npudoctor"],
        "npudoctor_command": ["/tmp/own/bin/npudoctor"], "npudoctor_formats": ["json", "html"],
    }  # fmt: skip
    node.play("-i", "/tmp/hosts", "--tags", "install,check", "-e", json.dumps(settings))
    merged = json.loads(Path("/tmp/reports/fleet.json").read_text())
    page = Path("/tmp/reports/fleet.html").read_text()
    node.plays[-1]["merged"] = [merged["nodes"], merged["exit_code"], "<html" in page]


SCENES: dict[str, Callable[[Node], None]] = {
    scene.__name__: scene for scene in (mended, held, unseen, missing, collected)
}


def main(name: str, ansible: str, fresh: str, *keep: str) -> None:
    """Play one scene."""
    cover(Path(fresh), [Path(path) for path in keep])
    node = Node(ansible)
    try:
        SCENES[name](node)
    finally:
        node.machine.close()
    print(json.dumps(node.plays))


if __name__ == "__main__":
    main(*sys.argv[1:])
