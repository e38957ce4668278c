"""The topology of --tree is read by us, and what is none is a usage error of one line."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from npudoctor.fleet.topology import InvalidTopology, parse_topology

HERE = socket.gethostname().partition(".")[0]


def test_a_topology_of_clustershell() -> None:
    for section in ("routes", "Main"):
        tree = parse_topology(f"[{section}]\n{HERE}: gate[1-2]\ngate[1-2]: node[1-8]\n".encode())
        assert str(tree.root.nodeset) == HERE
        assert {str(group.nodeset) for group in tree} == {HERE, "gate[1-2]", "node[1-8]"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[main]\n127.0.0.1: 127.0.0.2\n", r"it has no section \[routes\]"),
        (b"", r"it has no section \[routes\]"),
        (b"[routes]\n", "No route found"),
        (b"[routes]\nelsewhere: node1\n", "is not a valid root node"),
        (f"[routes]\n{HERE}: node[1-\n".encode(), "missing bracket|bracket"),
        (f"[routes]\n{HERE}: a\n{HERE}: b\n".encode(), "already exists"),
        (f"[routes]\n{HERE}: %(a)s\n".encode(), "interpolation"),
        (b"\xff\xfe", "decode"),
        (b"node1 node2\n", "no section headers"),
    ],
)
def test_what_is_none(content: bytes, why: str) -> None:
    with pytest.raises(InvalidTopology, match=f"(?i)^not a ClusterShell topology: .*(?:{why})") as caught:
        parse_topology(content)
    assert "\n" not in str(caught.value)


def fleet_check(tree: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "npudoctor", "fleet", "check", "-w", "n", "--tree", tree]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_bad_file_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "topology.conf"
    file.write_text("[main]\n127.0.0.1: 127.0.0.2\n")
    why = {
        str(file): f"--tree: {file}: not a ClusterShell topology: it has no section [routes]",
        str(tmp_path): f"--tree: {tmp_path} is not a regular file",
        f"{tmp_path}/none": f"--tree: {tmp_path}/none does not exist",
    }
    for path, text in why.items():
        done = fleet_check(path)
        assert (done.returncode, done.stdout, done.stderr) == (64, "", f"npudoctor: {text}\n")


def test_a_gateway_that_cannot_be_reached_is_an_answer(tmp_path: Path) -> None:
    file = tmp_path / "topology.conf"
    file.write_text(f"[routes]\n{HERE}: gate.invalid\ngate.invalid: n\n")
    done = fleet_check(str(file))
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "No route available to n" in done.stdout


@pytest.mark.needs_root
def test_root_obeys_no_topology_of_another_user(trusted: Path) -> None:
    file = trusted / "topology.conf"
    file.write_text(f"[routes]\n{HERE}: n\n")
    os.chown(file, 4711, 4711)
    done = fleet_check(str(file))
    assert done.returncode == 64 and done.stderr.endswith(f"{file} belongs to another user\n")
