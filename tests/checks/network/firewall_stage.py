"""Plays scenes, each in namespaces of its own: sets rules, asks the check, and has a peer connect for real.

A program that stays: what all scenes need is loaded once, and each scene is a process forked from it. Each
line of standard input is a JSON list of scenes, and each line of standard output the list of what they told.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from typing import Any, Callable

from npudoctor.checks.network.firewall import firewall
from npudoctor.host import Host, Options
from npudoctor.rehearsal import kernel
from npudoctor.testing import Asked, ask

US, PEER, US6, PEER6 = "10.77.0.1", "10.77.0.2", "fd77::1", "fd77::2"
WAIT = 1.2  # more than the first repetition of a packet that is lost
AT_ONCE = 8  # they wait most of the time
PATIENCE = 80  # seconds, for a scene

Scene = Any
Play = Callable[[Scene], "dict[str, Any]"]


def sh(script: str) -> None:
    done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the scene cannot be set: {done.stderr or done.stdout}")


def _ip(lines: str) -> None:
    subprocess.run(["ip", "-batch", "-"], input=lines, text=True, check=True)


class Peer:
    """A process in a network namespace of its own that is joined to ours."""

    def __init__(self) -> None:
        ours, its = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            ours.close()
            _be_the_peer(its)
        its.close()
        self._talk = ours.makefile("rw")
        self._talk.readline()  # it has its namespace
        _ip(
            f"link set lo up\nlink add eth7 type veth peer name eth0 netns {pid}\n"
            f"address add {US}/24 dev eth7\naddress add {US6}/64 dev eth7 nodad\nlink set eth7 up\n"
        )
        self._ask(None)

    def _ask(self, question: object) -> Any:
        self._talk.write(json.dumps(question) + "\n")
        self._talk.flush()
        return json.loads(self._talk.readline())

    def connect(self, ports: list[int], *peers: str) -> dict[str, str]:
        """What it meets at each port; the worst where there are several peers."""
        real: dict[str, str] = {}
        for address in {US6 if ":" in peer else US for peer in peers}:
            for port, answer in self._ask([address, ports]).items():
                real[f"tcp/{port}"] = "blocked" if real.get(f"tcp/{port}") == "blocked" else answer
        return real


def _be_the_peer(talk: socket.socket) -> None:
    """Never returns."""
    try:
        kernel.die_with_parent()
        kernel.unshare("net")
        with talk.makefile("rw") as lines:
            lines.write("\n")
            lines.flush()
            for line in lines:
                question = json.loads(line)
                if question is None:
                    _ip(
                        f"address add {PEER}/24 dev eth0\naddress add {PEER6}/64 dev eth0 nodad\n"
                        "link set lo up\nlink set eth0 up\n"
                    )
                lines.write(json.dumps(_connect(*question) if question else {}) + "\n")
                lines.flush()
    finally:
        os._exit(1)


def _connect(address: str, ports: list[int]) -> dict[int, str]:
    """Connects to every port at once, and counts only an echo."""
    found: dict[int, str] = {}

    def connect(port: int) -> None:
        try:
            with socket.create_connection((address, port), timeout=WAIT) as client:
                client.settimeout(WAIT)
                client.sendall(b"x")
                found[port] = "open" if client.recv(1) == b"x" else "blocked"
        except OSError:
            found[port] = "blocked"

    threads = [threading.Thread(target=connect, args=(port,)) for port in ports]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def serve(port: int) -> None:
    server = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)

    def answer() -> None:
        while True:
            connection, _address = server.accept()
            connection.settimeout(3)
            with contextlib.suppress(OSError):
                connection.sendall(connection.recv(1))
            connection.close()

    threading.Thread(target=answer, daemon=True).start()


def look(scene: Scene) -> dict[str, Any]:
    """A shell script with the rules, variables, peers: what the check and the peer say of each port."""
    script, variables, peers = scene
    peer = Peer()
    sh(script)

    def judge(*named: str) -> Asked:
        return ask(firewall, Host(Options(peers=named, expect="none"), variables=variables))

    asked, anybody = judge(*peers), judge()
    ports = [int(key.partition("/")[2]) for key in asked.facts]
    for port in ports:
        serve(port)
    real = peer.connect(ports, *peers)
    return {
        "facts": asked.facts,
        "anybody": anybody.facts,
        "real": real,
        "status": asked.status.value,
        "reason": asked.reason,
        "advisory": asked.advisory,
        "messages": [one.message for one in asked.findings],
        "fixes": [list(one.fix.commands) for one in asked.findings if one.fix],
    }


def _apart(play: Play, scene: Scene, folder: str) -> None:
    """In a child: in namespaces of its own, with whose first process all ends. Never returns."""
    try:
        os.dup2(os.open(f"{folder}/errors", os.O_WRONLY | os.O_CREAT), 2)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(2, 1)
        signal.alarm(PATIENCE)
        kernel.die_with_parent()
        kernel.unshare("net", "mnt", "pid")
        kernel.mount("none", "/", flags=kernel.RECURSIVE | kernel.PRIVATE)
        pid = os.fork()
        if pid:
            os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)
        kernel.die_with_parent()
        kernel.mount("proc", "/proc", "proc")
        answer = os.open(f"{folder}/told", os.O_WRONLY | os.O_CREAT)  # before its mounts cover the folder
        os.write(answer, json.dumps(play(scene)).encode())
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(0)


def stay(play: Play) -> None:
    """Play what standard input asks for, to its end."""
    gc.freeze()  # what is loaded stays shared with the forks: a collection would copy its pages
    for line in sys.stdin:
        scenes = json.loads(line)
        with tempfile.TemporaryDirectory() as top:
            folders = [os.path.join(top, str(number)) for number in range(len(scenes))]
            running = 0
            for scene, folder in zip(scenes, folders):
                if running == AT_ONCE:
                    os.wait()
                    running -= 1
                os.mkdir(folder)
                running += 1
                if os.fork() == 0:
                    _apart(play, scene, folder)
            for _left in range(running):
                os.wait()
            print(json.dumps([_told(folder) for folder in folders]), flush=True)


def _told(folder: str) -> Any:
    try:
        with open(f"{folder}/told", encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        with open(f"{folder}/errors", encoding="utf-8", errors="replace") as file:
            return {"failed": file.read()[-1000:]}


if __name__ == "__main__":
    stay(look)
