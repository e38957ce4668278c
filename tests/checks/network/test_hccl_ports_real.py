"""hccl-ports on this machine: real sockets, real processes, real network namespaces."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Callable

import pytest

from npudoctor import Status
from npudoctor.checks.network.hccl_ports import hccl_ports
from npudoctor.host import Host, Options
from npudoctor.testing import Asked, ask

from .ports_machine import ANY

# Listens where it is told, says so, and waits for its end.
LISTENER = """
import socket, sys
kept = []
for place in sys.argv[1:]:
    address, port = place.rsplit("/", 1)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    kept.append(socket.create_server((address, int(port)), family=family))
print("ready", flush=True)
sys.stdin.read()
"""
# Asks the check in a process of its own; the argument is what to set.
ASK = """
import json, sys
from npudoctor.checks.network.hccl_ports import hccl_ports
from npudoctor.host import Host, Options
from npudoctor.testing import ask
asked = ask(hccl_ports, Host(Options(expect="none"), variables=json.loads(sys.argv[1])))
told = [[one.code, one.message, list(one.evidence)] for one in asked.findings]
print(json.dumps({"status": asked.status.value, "findings": told, "facts": asked.facts}))
"""


def judge(variables: Mapping[str, str]) -> Asked:
    return ask(hccl_ports, Host(Options(expect="none"), variables=variables))


def judge_elsewhere(variables: Mapping[str, str], before: tuple[str, ...] = ()) -> dict[str, Any]:
    """The answer of a child of ours, started by the command `before`."""
    argv = [*before, sys.executable, "-c", ASK, json.dumps(dict(variables))]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def held(findings: list[list[Any]]) -> list[list[Any]]:
    """Without what this machine's own settings and services add."""
    return [one for one in findings if one[0] == "hccl-ports.held"]


@contextmanager
def listener(*places: str, before: tuple[str, ...] = ()) -> Iterator[int]:
    argv = [*before, sys.executable, "-c", LISTENER, *places]
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None and child.stdout is not None
    try:
        assert child.stdout.readline() == "ready\n"
        yield child.pid
    finally:
        child.stdin.close()
        child.wait()
        child.stdout.close()


BASES = itertools.count(20000, 64)  # for each test its own: a closed connection keeps its port for a minute


@pytest.fixture
def base() -> int:
    """The first of 64 ports on which nobody is."""
    busy = {bound.port for bound in Host().sockets.bound_sockets()}
    return next(port for port in BASES if busy.isdisjoint(range(port, port + 64)))


@pytest.mark.parametrize("address", [ANY, "127.0.0.1", "::", "::1"])
def test_a_child_of_ours_holds_ports(address: str, base: int, lack: Callable[[str], None]) -> None:
    if ":" in address and not socket.has_ipv6:
        lack("no IPv6")
    with listener(f"{address}/{base + 1}", f"{address}/{base + 2}") as pid:
        asked = judge({"HCCL_IF_BASE_PORT": str(base)})
    (finding,) = (one for one in asked.findings if one.code == "hccl-ports.held")
    assert asked.status is Status.PROBLEM
    for word in (f"{base + 1}-{base + 2}", address, f"pid {pid} ("):
        assert word in finding.message
    assert asked.facts[f"tcp/{base}"] == {"state": "free"}
    told = asked.facts[f"tcp/{base + 1}"]
    assert isinstance(told, dict) and (told["state"], told["pids"]) == ("held", [pid])


def test_it_is_free_once_the_child_is_gone(base: int) -> None:
    with listener(f"{ANY}/{base}"):
        assert "hccl-ports.held" in judge({"HCCL_IF_BASE_PORT": str(base)}).codes
    assert judge({"HCCL_IF_BASE_PORT": str(base)}).status is Status.OK


def test_the_ports_that_are_proposed_can_be_bound(base: int) -> None:
    with listener(f"{ANY}/{base}"):
        fix = judge({"HCCL_IF_BASE_PORT": str(base)}).findings[0].fix
    assert fix is not None
    first = int(fix.commands[0].rpartition("=")[2])
    for port in range(first, first + 32):
        socket.create_server((ANY, port)).close()


def test_an_ancestor_holds_the_meeting_point(base: int) -> None:
    """As torchrun's agent does, whose workers ask."""
    named = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(base)}
    with socket.create_server((ANY, base)):
        answer = judge_elsewhere(named, before=("sh", "-c", '"$@"; exit $?', "sh"))
    assert answer["status"] == "ok"
    told = answer["facts"][f"tcp/{base}"]
    assert (told["state"], os.getpid() in told["pids"]) == ("ancestor", True)


def test_an_outgoing_connection_holds_its_port(base: int) -> None:
    """And truly does: the bind that the job would do fails."""
    named = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(base)}
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.bind(("127.0.0.1", base))
        client.connect(server.getsockname())
        with pytest.raises(OSError, match="in use"):
            socket.create_server((ANY, base))
        assert "hccl-ports.held" in judge(named).codes


@pytest.mark.needs_root
def test_without_rights_the_user_is_named(base: int) -> None:
    """A child that gave root away asks about a socket of root's."""
    named = {"HCCL_IF_BASE_PORT": str(base)}
    judge(named)  # what is imported late may not be readable for nobody
    with listener(f"{ANY}/{base}") as pid:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            try:
                told = [one.message for one in judge(named).findings if one.code == "hccl-ports.held"]
            except BaseException as error:
                told = [repr(error)]
            os.write(writing, json.dumps(told).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as answer:
            (message,) = json.load(answer)
        os.waitpid(child, 0)
    assert "by uid 0 (root)" in message
    assert f"pid {pid}" not in message


@pytest.mark.needs_root
def test_another_network_namespace_is_another_world(base: int, need: Callable[..., None]) -> None:
    need("unshare", "nsenter")
    named = {"HCCL_IF_BASE_PORT": str(base), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(base + 40)}
    with listener(f"{ANY}/{base}"):
        inside = judge_elsewhere(named, before=("unshare", "--net"))
    assert (inside["status"], held(inside["findings"])) == ("ok", [])
    with listener(f"{ANY}/{base}", before=("unshare", "--net")) as pid:
        inside = judge_elsewhere(named, before=("nsenter", f"--net=/proc/{pid}/ns/net"))
        outside = judge(named)
    ((_code, message, _evidence),) = held(inside["findings"])
    assert f"pid {pid} (" in message
    assert "hccl-ports.held" not in outside.codes


@pytest.mark.needs_root
def test_hccl_on_the_address_of_a_card(base: int, need: Callable[..., None]) -> None:
    """A connection from the card's address is in the way, one inside of the machine is not."""
    need("unshare", "ip")
    script = """
import socket, subprocess, sys
base = int(sys.argv[1])
kept = []
for address in ("127.0.0.1", "192.0.2.1"):
    server = socket.create_server((address, 0))
    client = socket.socket()
    client.bind((address, base + len(kept)))
    client.connect(server.getsockname())
    kept += [(server, client)]
sys.exit(subprocess.call(sys.argv[2:]))
"""
    setup = 'ip link set lo up && ip addr add 192.0.2.1/32 dev lo && exec "$@"'
    before = ("unshare", "--net", "sh", "-c", setup, "sh", sys.executable, "-c", script, str(base))
    answer = judge_elsewhere({"HCCL_IF_BASE_PORT": str(base)}, before=before)
    assert answer["facts"][f"tcp/{base}"]["state"] == "partly-free"
    assert answer["facts"][f"tcp/{base}"]["addresses"] == ["127.0.0.1"]
    ((_code, message, _evidence),) = held(answer["findings"])
    assert "192.0.2.1" in message
    assert str(base + 1) in message


@pytest.mark.needs_root
def test_the_line_that_reserves_ports_does(need: Callable[..., None]) -> None:
    need("unshare", "sysctl")
    named = {"HCCL_IF_BASE_PORT": "40000"}
    prepare = "sysctl -qw net.ipv4.ip_local_port_range='32768 60999' net.ipv4.ip_local_reserved_ports=8080; "
    before = ("unshare", "--net", "sh", "-c", prepare + 'exec "$@"', "sh")
    assert [one[0] for one in judge_elsewhere(named, before)["findings"]] == ["hccl-ports.ephemeral"]
    line = "sysctl -qw net.ipv4.ip_local_reserved_ports=8080,40000-40031; "
    after = ("unshare", "--net", "sh", "-c", prepare + line + 'exec "$@"', "sh")
    assert judge_elsewhere(named, after)["findings"] == []


def test_reading_it_takes_no_time() -> None:
    began = time.monotonic()
    ask(hccl_ports, Host(Options(expect="npu"), variables={}))
    assert time.monotonic() - began < 5
