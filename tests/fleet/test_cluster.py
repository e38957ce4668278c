"""Sixteen nodes on a bridge, each with its sshd, eight of them ill: what is ill is told of exactly these."""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, Callable

import jsonschema
import pytest
from tests.real import cann_tree

from .cluster import ROOT, Cluster

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]

ALL = "node[1-16]"
FIREWALLED, OLD_CANN, LEFTOVERS, MISSING, HANGING, UNREACHABLE, NOISY, FULL = range(3, 11)
PATIENCE = ("--connect-timeout", "3", "--node-timeout", "12")

_FILTER = """nft -f - <<'X'
table inet filter {
    chain input {
        type filter hook input priority 0; policy accept
        tcp dport 60000-60031 drop
    }
}
X
"""
# A server of its own IPC namespace is killed; what it left is older than a start takes.
_DEAD_SERVER = f"""cd /
PYTHONPATH={shlex.quote(str(ROOT))} {shlex.quote(sys.executable)} - <<'X'
import pathlib, time
from tests.support.machine import Machine, older
machine = Machine()
machine.tmp = pathlib.Path("/tmp")
older(machine.dead_server().socket, 600)
X
"""


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, need: Callable[..., None], lack: Callable[[str], None]
) -> Iterator[Cluster]:
    if os.geteuid() != 0:  # what says so for one test comes after what serves all of them
        lack("needs root")
    need("sshd", "ssh", "nft", "ip", "nsenter")
    folder = tmp_path_factory.mktemp("cluster")
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    variables = cann_tree.write(folder / "cann", "8.1.RC1", python, platform.machine())
    cann_tree.write(folder / "old", "8.0.0", python, platform.machine())
    del variables["PATH"]
    made = Cluster(folder, 16, {**variables, "HCCL_IF_BASE_PORT": "60000"})
    made.prepare()
    made.on(FIREWALLED, _FILTER)
    made.on(OLD_CANN, f"mount --bind {folder}/old {folder}/cann\n")
    made.on(LEFTOVERS, _DEAD_SERVER)
    made.on(MISSING, f"mount -t tmpfs tmpfs {shlex.quote(str(Path(sys.executable).parent))}\n")
    (folder / f"node{HANGING}.conf").write_text(made.configuration("ForceCommand sleep 600\n"))
    made.on(UNREACHABLE, "ip link set eth0 down\n")
    (folder / "noise").write_text(("WELCOME TO THE CLUSTER " * 10 + "\n") * 9_100)
    noise = f'cat {folder}/noise; cat {folder}/noise >&2; exec sh -c "$SSH_ORIGINAL_COMMAND"'
    (folder / f"node{NOISY}.conf").write_text(made.configuration(f"ForceCommand {noise}\n"))
    made.on(FULL, "mount -o remount,size=300M /tmp; fallocate -l 290M /tmp/full\n")
    with made:
        yield made


def documents(text: str) -> dict[str, Any]:
    document = json.loads(text)
    assert isinstance(document, dict)
    for each in (document, *(row for row in document.get("reports", []) if "schema" in row)):
        name = each["schema"].partition(".")[2].replace("/", "-")
        schema = (files("npudoctor.render") / f"schemas/{name}.json").read_text("utf-8")
        jsonschema.validate(each, json.loads(schema))
    return document


def test_check_tells_of_exactly_these(cluster: Cluster) -> None:
    done = cluster.run("fleet", "check", "-w", ALL, *PATIENCE, "--format", "json", "--", "--expect", "none")
    told = documents(done.stdout)
    assert (done.returncode, told["exit_code"], told["engine"]) == (1, 1, "ssh")
    assert told["nodes"] == {
        "ready": "node[1-4,9,11-16]",
        "not_ready": "node[5,10]",
        "undetermined": "node6",
        "silent": "node[7-8]",
    }
    assert {row["code"]: row["nodes"] for row in told["findings"] if row["severity"] != "info"} == {
        "cache-server.orphan-segment": "node5",
        "cache-server.orphan-socket": "node5",
        "disk-space.full": "node10",
        "firewall.blocked": "node3",
    }
    assert [
        (row["fact"], [(other["value"], other["nodes"]) for other in row["others"]]) for row in told["skew"]
    ] == [("CANN", [("8.0.0", "node4")])]
    silent = {row["node"]: row["error"] for row in told["reports"] if "error" in row}
    assert set(silent) == {"node6", "node7", "node8"}
    assert "(status 127)" in silent["node6"] and "no answer in time" in silent["node7"]
    assert "cannot be reached (status 255)" in silent["node8"]
    assert len(told["reports"]) == 16


def test_pairs_prove_the_firewall(cluster: Cluster) -> None:
    done = cluster.run("fleet", "pairs", "-w", ALL, "--connect-timeout", "3", "--format", "json")
    told = documents(done.stdout)
    assert done.returncode == 1
    assert [row["nodes"] for row in told["deaf"]] == ["node3"]
    assert (told["mute"], told["blocked"], told["held"]) == ([], [], [])
    assert told["nodes"] == {"taking_part": "node[1-5,9-16]", "silent": "node[6-8]"}
    assert told["attempts"] == 13 * 12 * 16


def test_pairs_leave_nothing_behind(cluster: Cluster) -> None:
    done = cluster.run("fleet", "pairs", "-w", "node[1-2]", "--ports", "61000-61001", "--interface", "eth0")
    assert done.returncode == 0, done
    # Not even a port in TIME_WAIT, which the next job could not bind.
    for node in ("node1", "node2"):
        assert cluster.shell(node, "ss -Hatn | grep -c ':6100[01] '") == "0\n"


def test_a_port_that_is_held_is_said(cluster: Cluster) -> None:
    listen = (
        "import socket, sys; s = socket.create_server(('', 61005)); print(1, flush=True); sys.stdin.read()"
    )
    command = cluster.enter("ssh", "node2", f'{shlex.quote(sys.executable)} -c "{listen}"')
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"1\n"
        done = cluster.run("fleet", "pairs", "-w", "node[1-2]", "--ports", "61004-61005")
        holder.communicate()
    assert done.returncode == 1
    assert "node2 cannot listen on 61005: Address already in use" in done.stdout


def test_fix_shows_one_plan_and_does_it(cluster: Cluster) -> None:
    everywhere = ("fleet", "fix", "--cache-server", "-w", "node[1-5,9-16]", "--format", "json", "--dry-run")
    assert documents(cluster.run(*everywhere).stdout)["nodes"]["left"] == "node5"
    run = ("fleet", "fix", "--cache-server", "-w", "node[4-5]", "--format", "json")
    plan = documents(cluster.run(*run, "--dry-run").stdout)
    assert {row["nodes"] for row in plan["actions"]} == {"node5"} and plan["would_change"]
    assert not plan["changed"] and plan["exit_code"] == 1
    # Nobody is there to agree, and so nothing is done.
    assert cluster.run(*run).returncode == 1
    assert documents(cluster.run(*run, "--dry-run").stdout)["actions"] == plan["actions"]
    done = documents(cluster.run(*run, "--yes").stdout)
    assert {row["status"] for row in done["actions"]} == {"applied"} and done["changed"]
    assert (done["exit_code"], done["nodes"]["left"], done["nodes"]["silent"]) == (0, "", "")
    assert cluster.shell("node5", "ls /var/lib/npudoctor") and not cluster.shell("node4", "ls /var/lib")
    after = documents(cluster.run(*run).stdout)
    assert (after["actions"], after["exit_code"], after["msg"]) == ([], 0, "2 nodes, nothing to do")


def test_fix_without_an_answer_is_not_done(cluster: Cluster) -> None:
    done = cluster.run("fleet", "fix", "--cache-server", "-w", "node[1,8]", "--yes", *PATIENCE)
    assert done.returncode == 2
    assert "no answer from node8: cannot be reached" in done.stdout


def assert_left_nothing(cluster: Cluster, node: str) -> None:
    """What takes the folders away may be a moment behind."""
    until = time.monotonic() + 10
    count = "ls -d /tmp/npudoctor* /var/tmp/npudoctor* 2>/dev/null | wc -l"
    while cluster.shell(node, count) != "0\n":
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_node_without_npudoctor_gets_one_and_loses_it_again(cluster: Cluster, one_file: Path) -> None:
    carried = cluster.folder / "npudoctor.pyz"
    carried.write_bytes(one_file.read_bytes())
    cluster.shell("node6", "mount -t tmpfs tmpfs /var/tmp")  # it is this machine's
    push = ("-w", "node[1,6]", "--push", "--file", str(carried), "--format", "json")
    told = documents(cluster.run("fleet", "check", *push, "--", "--expect", "none").stdout)
    assert told["nodes"]["ready"] == "node[1,6]", told
    done = cluster.run("fleet", "fix", "--cache-server", *push, "--dry-run")
    assert done.returncode == 0, done
    assert_left_nothing(cluster, "node6")
    cluster.shell("node6", "umount /var/tmp")
    for words in (("--push",), ("--push", "--file", "/etc/passwd"), ("--push", "--file", "/nowhere")):
        refused = cluster.run("fleet", "check", "-w", "node6", *words)
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (64, "", 1), refused


def test_a_full_disk_is_no_reason_to_say_nothing(cluster: Cluster, one_file: Path) -> None:
    carried = cluster.folder / "npudoctor.pyz"
    carried.write_bytes(one_file.read_bytes())
    push = ("fleet", "check", "-w", "node6", "--push", "--file", str(carried), "--format", "json")
    fill = "umask 077; head -c 64k /dev/zero >/tmp/x; mount -o remount,size=64k"
    cluster.shell("node6", f"mount -t tmpfs tmpfs /var/tmp; {fill} /tmp")
    told = documents(cluster.run(*push, "--", "--expect", "none").stdout)
    assert told["nodes"]["silent"] == "", told
    assert_left_nothing(cluster, "node6")
    cluster.shell("node6", "for place in /var/tmp /dev/shm; do mount -t tmpfs -o size=4k tmpfs $place; done")
    told = documents(cluster.run(*push, "--", "--expect", "none").stdout)
    assert "no folder with room" in json.dumps(told["reports"]), told
    cluster.shell("node6", "umount /dev/shm /var/tmp /var/tmp; mount -o remount,size=50% /tmp; rm /tmp/x")


def test_stopped_it_ends_what_runs_there(cluster: Cluster) -> None:
    words = ("fleet", "check", "-w", "node[1,7]", "--format", "jsonl", "--", "--expect", "none")
    asked = subprocess.Popen(
        cluster.enter(sys.executable, "-m", "npudoctor", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert asked.stdout is not None
    first = json.loads(asked.stdout.readline())
    assert first["node"] == "node1" and first["report"]["exit_code"] == 0
    inner = subprocess.run(
        cluster.enter("pkill", "--signal", "INT", "--full", "npudoctor fleet check"), check=True
    )
    assert inner.returncode == 0
    rest, _errors = asked.communicate(timeout=20)
    assert asked.returncode == 130
    assert [json.loads(line)["node"] for line in rest.splitlines()] == ["node7"]
    until = time.monotonic() + 10
    while time.monotonic() < until and cluster.shell("node1", "pgrep -c -f 'npudoctor check'") != "0\n":
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("hostfile", "node1 slots=8\nnode2:8\n# node9\n"),
        ("inventory.ini", "[npu]\nalias1 ansible_host=node1\nnode2\n[npu:vars]\nansible_user=root\n"),
        ("inventory.yml", "all:\n  children:\n    npu:\n      hosts:\n        node[1:2]:\n"),
        (
            "ranks.json",
            '{"version": "1.0", "server_list": [{"server_id": "10.77.1.1"}, {"server_id": "10.77.1.2"}]}',
        ),
    ],
    ids=["hostfile", "ini", "yaml", "rank-table"],
)
def test_nodes_come_from_files(cluster: Cluster, name: str, content: str) -> None:
    (cluster.folder / name).write_text(content)
    done = cluster.run(
        "fleet", "check", "--from", str(cluster.folder / name), "--nodes", "ready", "--", "--expect", "none"
    )
    assert done.returncode == 0, done
    assert done.stdout in ("node[1-2]\n", "10.77.1.[1-2]\n")
