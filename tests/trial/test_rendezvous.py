"""The meeting of ranks, tried for real: in network namespaces, beside other listeners, killed any time."""

from __future__ import annotations

import errno
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Optional

import pytest
from tests.trial.starting import Ended, refusals, tried

from npudoctor.trial.trials import Attempt, Trial, Trials, parse_output

pytestmark = pytest.mark.whole
HOME = "127.0.0.1 localhost\n"


def point(
    place: str = "127.0.0.1",
    port: int = 0,
    bind: str = "any",
    label: str = "MASTER_PORT",
    first: bool = False,
) -> dict[str, object]:
    known = {"label": label, "place": place, "port": port, "bind": bind}
    return {**known, "here": None, "call": True, "first": first}


def met(
    *points: dict[str, object],
    before: Sequence[str] = (),
    own: bool = False,
    hccl: Optional[dict[str, object]] = None,
    wait: float = 3.0,
    ways: Sequence[dict[str, str]] = (),
) -> Trial:
    trial = tried("rendezvous", None, before, points=points, own=own, hccl=hccl, wait=wait, ways=ways)
    assert (trial.hung, trial.died) == (None, None), "it did not come to its end"
    return trial


def steps(trial: Trial) -> list[str]:
    return [attempt.what for attempt in trial.attempts]


def the(trial: Trial, what: str) -> Attempt:
    (found,) = [attempt for attempt in trial.attempts if attempt.what == what]
    return found


def in_namespace(script: str) -> tuple[str, ...]:
    """A network and a name of its own; `script` sets them up."""
    return (
        "unshare",
        *"-n -u -m -p -f --mount-proc --kill-child".split(),
        "sh",
        "-ec",
        script + '\nexec "$@"',
        "sh",
    )


@pytest.fixture
def named(tmp_path: Path) -> Iterator[object]:
    """A machine called `node`, with this /etc/hosts and a loopback interface that is up."""

    def script(hosts: str, more: str = "", resolv: str = "") -> tuple[str, ...]:
        (tmp_path / "hosts").write_text(hosts)
        (tmp_path / "resolv").write_text(resolv)
        lines = (
            "ip link set lo up",
            "hostname node",
            f"mount --bind {tmp_path}/hosts /etc/hosts",
            f"mount --bind {tmp_path}/resolv /etc/resolv.conf",
            more,
        )
        return in_namespace("\n".join(lines))

    yield script


def held(
    address: str = "127.0.0.1", family: int = socket.AF_INET, backlog: Optional[int] = 1
) -> socket.socket:
    """A port that we have; without a backlog it is bound only."""
    holder = socket.socket(family, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    holder.bind((address, 0))
    if backlog is not None:
        holder.listen(backlog)
    return holder


def free_port() -> int:
    with held() as holder:
        return int(holder.getsockname()[1])


def states(port: int) -> list[str]:
    """The sockets of a port in /proc/net, in whatever state."""
    tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    ends = f":{port:04X}"
    return [
        line for table in tables for line in table if any(end.endswith(ends) for end in line.split()[1:3])
    ]


def test_a_machine_that_is_well_gives_all() -> None:
    port = free_port()
    trial = met(point(port=port), own=True, hccl={"address": "127.0.0.1", "ports": [free_port()]})
    assert refusals(trial) == {} and the(trial, "hccl").facts["refused"] == {}
    own = ["connect-own"] if the(trial, "own-name").facts["ours"] else []
    assert steps(trial) == ["interfaces", "own-name", "resolve", "bind", "connect", *own, "hccl", "socket"]
    assert states(port) == []


def test_somebody_listens_there() -> None:
    with held() as holder:
        trial = met(point(port=holder.getsockname()[1]))
    assert refusals(trial) == {"bind": errno.EADDRINUSE} and "connect" not in steps(trial)


def test_a_port_that_is_only_bound_with_reuse_is_free() -> None:
    with held(backlog=None) as holder:
        assert refusals(met(point(port=holder.getsockname()[1]))) == {}


def test_a_port_in_time_wait_is_free() -> None:
    with held() as holder:
        port = holder.getsockname()[1]
        with socket.create_connection(holder.getsockname()) as client:
            server, _peer = holder.accept()
            server.close()
            client.recv(1)
    assert states(port) and refusals(met(point(port=port))) == {}


def test_who_only_takes_ipv6_is_met_by_those_who_connect_by_it() -> None:
    with held("::", socket.AF_INET6) as holder:
        port = holder.getsockname()[1]
        assert refusals(met(point("127.0.0.1", port))) == {}
        other = met(point("::1", port))
    assert refusals(other) == {"connect": errno.EADDRINUSE}
    assert the(other, "connect").why == "another program answers there"


def test_mindspore_listens_on_the_address_alone() -> None:
    with held("127.0.0.2") as holder:
        port = holder.getsockname()[1]
        assert refusals(met(point("127.0.0.1", port, "place", "MS_SCHED_PORT"))) == {}
        assert refusals(met(point("127.0.0.2", port, "place", "MS_SCHED_PORT"))) == {"bind": errno.EADDRINUSE}


def test_hccl_listens_on_all_its_ports_at_once() -> None:
    with held() as holder:
        taken, free = holder.getsockname()[1], free_port()
        trial = met(point(), hccl={"address": "127.0.0.1", "ports": [taken, free]})
    assert the(trial, "hccl").facts["refused"] == {str(taken): errno.EADDRINUSE}


def test_nobody_else_reaches_the_listener() -> None:
    """Whoever already looks for its master must not find the trial."""
    port, over = free_port(), threading.Event()
    answered = []

    def look() -> None:
        while not over.is_set():
            with socket.socket() as client:
                client.settimeout(0.005)
                if client.connect_ex(("127.0.0.1", port)) == 0:
                    answered.append(client.getsockname())

    with ThreadPoolExecutor() as pool:
        looking = pool.submit(look)
        try:
            trials = [met(point(port=port)) for _ in range(5)]
        finally:
            over.set()
        looking.result()
    assert answered == [] and [refusals(trial) for trial in trials] == [{}] * 5


def test_eight_ranks_do_not_refuse_each_other() -> None:
    line = command(point(port=free_port()))
    ranks = [subprocess.Popen(line, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    said = [rank.communicate(timeout=20)[0] for rank in ranks]
    assert [refusals(parse_output(Ended("exited", 0, out, ""))) for out in said] == [{}] * 8


def command(*points: dict[str, object]) -> list[str]:
    """How the part is started."""
    lines: list[list[str]] = []

    def start(argv: Sequence[str], seconds: float) -> Ended:
        lines.append(list(argv))
        return Ended("exited", 0, "", "")

    trials = Trials(start, lambda: None, list, lambda: sys.executable, time.monotonic() + 60)
    trials.try_part("rendezvous", points=points, own=True, hccl=None, wait=3.0, ways=[])
    *words, known = lines[0]
    return [*words, json.dumps({**json.loads(known), "prefix": ""})]


# Kills the part again and again, in namespaces in which nobody else leaves anything.
KILLER = """
import json, os, random, subprocess, sys, time
line, folder = json.loads(sys.argv[1]), sys.argv[2]
os.chdir(folder)
os.environ.update(HOME=folder, TMPDIR=folder)
tables = ["net/tcp", "net/tcp6", "net/unix", "sysvipc/shm", "sysvipc/sem", "sysvipc/msg"]
def seen():
    lines = [open("/proc/" + table).read().splitlines()[1:] for table in tables]
    pids = [name for name in os.listdir("/proc") if name.isdecimal()]
    return [lines, sorted(pids), sorted(os.listdir("/dev/shm")), sorted(os.listdir(folder))]
subprocess.run(line, stdout=subprocess.DEVNULL)
before, said = seen(), []
for _ in range(20):
    child = subprocess.Popen(line, stdout=subprocess.PIPE)
    heard = [child.stdout.readline() for _ in range(random.randrange(1, 13))]  # all of it takes 10 ms
    time.sleep(random.choice((0, 0.0002, 0.002)))
    child.kill()
    said.append((b"".join(heard) + child.communicate()[0]).decode())
    if seen() != before:
        sys.exit("left: %s, where before: %s" % (seen(), before))
print(json.dumps(said))
"""


@pytest.mark.needs_root
def test_nothing_is_left_whenever_it_is_killed(tmp_path: Path) -> None:
    alone = in_namespace("ip link set lo up; mount -t tmpfs none /dev/shm")
    line = json.dumps(command(point(port=29544)))
    done = subprocess.run(
        [*alone[:1], "-i", *alone[1:], sys.executable, "-c", KILLER, line, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    trials = [parse_output(Ended("exited", -9, out, "")) for out in json.loads(done.stdout)]
    assert any(trial.died is not None for trial in trials), "none was killed before its end"


@pytest.mark.needs_root
def test_without_the_loopback_interface_nothing_connects() -> None:
    ill = met(point(), before=in_namespace(""))
    assert refusals(ill) == {"connect": errno.ENETUNREACH}
    assert refusals(met(point(), before=in_namespace("ip link set lo up"))) == {}


ORDINARY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


@pytest.mark.needs_root
def test_packets_that_are_dropped_take_a_second() -> None:
    if not Path("/usr/sbin/nft").exists():
        pytest.skip("no nft")
    rules = "nft add table t; nft 'add chain t c { type filter hook input priority 0; }'"
    deaf = in_namespace(f"ip link set lo up; {rules}; nft add rule t c tcp dport 29544 drop")
    for before in (deaf, (*deaf, *ORDINARY)):
        assert refusals(met(point(port=29544), before=before)) == {"connect": errno.ETIMEDOUT}
        assert refusals(met(point(port=29545), before=before)) == {}


@pytest.mark.needs_root
def test_as_many_connections_as_two_ranks_have() -> None:
    if not Path("/usr/sbin/nft").exists():
        pytest.skip("no nft")
    rules = "nft add table t; nft 'add chain t c { type filter hook input priority 0; }'"
    rules += "; nft 'add set t seen { type ipv4_addr; flags dynamic; }'"
    counted = "nft 'add rule t c tcp flags syn ct state new add @seen { ip saddr ct count over %s } drop'"
    for most, refused in ((1, {"connect": errno.ETIMEDOUT}), (100, {})):
        counting = in_namespace(f"ip link set lo up; {rules}; {counted % most}")
        assert refusals(met(point(port=29544), before=counting)) == refused


@pytest.mark.needs_root
@pytest.mark.parametrize(("ports", "refused"), [("1", {"connect": errno.EADDRNOTAVAIL}), ("99", {})])
def test_ports_of_outgoing_connections(ports: str, refused: dict[str, int]) -> None:
    few = f"ip link set lo up; echo 40000 400{ports:>02} > /proc/sys/net/ipv4/ip_local_port_range"
    assert refusals(met(point(port=29544), before=in_namespace(few))) == refused


@pytest.mark.needs_root
def test_a_loopback_address_that_no_interface_has_is_here_all_the_same() -> None:
    bare = in_namespace("ip link set lo up; ip address flush dev lo")
    assert "connect" in refusals(met(point(), before=bare))


@pytest.mark.needs_root
@pytest.mark.parametrize(("lowest", "refused"), [(1024, {"bind": errno.EACCES}), (80, {})])
def test_a_port_that_is_kept_for_root(lowest: int, refused: dict[str, int]) -> None:
    up = f"ip link set lo up; echo {lowest} > /proc/sys/net/ipv4/ip_unprivileged_port_start"
    plain = ("setpriv", "--bounding-set=-net_bind_service", "--inh-caps=-net_bind_service")
    assert refusals(met(point(port=80), before=(*in_namespace(up), *plain))) == refused


@pytest.mark.needs_root
def test_without_ipv6_it_is_ipv4() -> None:
    off = "ip link set lo up; echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6"
    assert refusals(met(point(port=29544), before=in_namespace(off))) == {}


@pytest.mark.needs_root
def test_a_name_that_has_an_address(named) -> None:  # type: ignore[no-untyped-def]
    well = met(point("node", 29544), before=named(HOME + "127.0.1.1 node\n"), own=True)
    assert refusals(well) == {} and the(well, "own-name").facts["ours"] == ["127.0.1.1"]
    assert steps(well)[-2:] == ["connect-own", "socket"]


@pytest.mark.needs_root
def test_a_name_without_one(named) -> None:  # type: ignore[no-untyped-def]
    ill = met(point("node", 29544), before=named(HOME), own=True)
    assert set(refusals(ill)) == {"own-name", "resolve"} and set(refusals(ill).values()) <= {-2, -3}


@pytest.mark.needs_root
def test_a_name_that_means_another_machine(named) -> None:  # type: ignore[no-untyped-def]
    other = met(point(), before=named(HOME + "10.9.9.9 node\n"), own=True)
    assert refusals(other) == {} and the(other, "own-name").facts["ours"] == []
    assert "connect-own" not in steps(other)


@pytest.mark.needs_root
def test_a_name_server_that_does_not_answer(named) -> None:  # type: ignore[no-untyped-def]
    net = "ip link add name wide0 type veth peer name deaf0; ip address add 10.9.9.1/24 dev wide0"
    net += "; ip link set wide0 up; ip link set deaf0 up"
    deaf = named(HOME, net, "nameserver 10.9.9.9\noptions timeout:2 attempts:1\n")
    trial = met(point("far.example", 29544), before=deaf, own=True, wait=0.3)
    assert refusals(trial) == {"own-name": errno.ETIMEDOUT, "resolve": errno.ETIMEDOUT}
    assert the(trial, "own-name").facts["took"] == 0.3


FAR = """
ip link set lo up
unshare -n sleep 9 >/dev/null 2>&1 & far=$!
sleep 0.1
ip link add name near0 type veth peer name far0 netns $far
ip address add 10.9.9.1/24 dev near0; ip link set near0 up
nsenter -t $far -n sh -c 'ip address add 10.9.9.2/24 dev far0; ip link set far0 up'
"""


@pytest.mark.needs_root
@pytest.mark.parametrize(
    ("more", "refused"),
    [
        ("", {}),
        ("ip route add unreachable 10.9.9.2", {"call": errno.EHOSTUNREACH}),
        ("ip route flush 10.9.9.0/24", {"call": errno.ENETUNREACH}),
    ],
)
def test_the_master_is_another_machine(more: str, refused: dict[str, int]) -> None:
    """That nobody listens there yet is well: the refusal came back."""
    trial = met(point("10.9.9.2", 29544), before=in_namespace(FAR + more))
    assert refusals(trial) == refused and "bind" not in steps(trial)


LOOKER = """
import socket, time
until = time.monotonic() + 3
while time.monotonic() < until:
    with socket.socket() as client:
        client.settimeout(0.005)
        if client.connect_ex(("10.9.9.1", 29544)) == 0:
            print("reached", flush=True)
"""


@pytest.mark.needs_root
def test_who_may_not_filter_is_not_reached_from_another_machine(tmp_path: Path) -> None:
    """Where filters are for root, the listener is the loopback interface's, also for our own address."""
    (tmp_path / "look.py").write_text(LOOKER)
    look = f"nsenter -t $far -n {sys.executable} {tmp_path}/look.py >{tmp_path}/said 2>&1 & sleep 0.3\n"
    often = ("sh", "-c", 'for time in 1 2 3 4 5 6 7 8; do "$@"; done', "sh")
    before = (*in_namespace(FAR + look), *often, *ORDINARY)
    assert refusals(met(point("10.9.9.1", 29544), before=before)) == {}
    assert (tmp_path / "said").read_text() == ""
