"""trial-rendezvous: quiet when the ranks can meet, a finding for what refused, no port of this job's own."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

import pytest

from npudoctor import Host, Severity, Status
from npudoctor.checks.trial.trial_rendezvous import trial_rendezvous
from npudoctor.core.frozen import replace
from npudoctor.host.network.interfaces import Address, Interface
from npudoctor.testing import Asked, FakeNetwork, ask, fake_host, package_files
from npudoctor.trial.trials import Attempt, Trial

JOB = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
TWO = {**JOB, "MASTER_ADDR": "10.0.0.9", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "RANK": "8"}
LO = Interface("lo", loopback=True, addresses=(Address("127.0.0.1", 8, scope="host"),))
ETH = Interface("eth0", addresses=(Address("10.0.0.5", 24),))
# Who listens: port 29500 (0x733C) on all addresses, by user 1001, inode 777.
TCP = "  sl\n   0: 00000000:733C 00000000:0000 0A 0:0 00:0 0 1001 0 777 1\n"
HEADER = "  sl\n"


def machine(
    trial: Trial,
    variables: Optional[Mapping[str, str]] = None,
    files: Optional[Mapping[str, Any]] = None,
    interfaces: tuple[Interface, ...] = (LO, ETH),
    **more: Any,
) -> Host:
    tables = {"/proc/net/tcp": HEADER, "/proc/net/tcp6": HEADER}
    return fake_host(
        {**tables, **(files or {})},
        variables=JOB if variables is None else variables,
        euid=1000,
        user="li",
        network=FakeNetwork(interfaces, ["default eth0"]),
        expect=more.pop("expect", "none"),
        trials={"rendezvous": trial},
        **more,
    )


def judged(*attempts: Attempt, **more: Any) -> Asked:
    return ask(trial_rendezvous, machine(Trial(attempts), **more))


def attempt(what: str, number: int = 0, why: str = "", **facts: object) -> Attempt:
    return Attempt(what, number, why or (os.strerror(number) if number > 0 else ""), facts=facts)


def own(*addresses: str, ours: tuple[str, ...] = (), number: int = 0, took: float = 0.0) -> Attempt:
    why = "Name or service not known" if number < 0 else ""
    return attempt("own-name", number, why, name="node", addresses=addresses, ours=ours, took=took)


def questions(host: Host) -> list[dict[str, Any]]:
    """What the child would be asked to try."""
    ask(trial_rendezvous, host)
    asked: list[dict[str, Any]] = host.trials.asked["rendezvous"]["points"]  # type: ignore[attr-defined]
    return asked


def test_well() -> None:
    asked = judged(own("127.0.1.1", ours=("127.0.1.1",)), attempt("resolve", label="MASTER_PORT", took=0.1))
    assert asked.status is Status.OK and asked.codes == []


def test_a_port_for_root() -> None:
    low = {**JOB, "MASTER_PORT": "80"}
    asked = judged(attempt("bind", errno.EACCES, label="MASTER_PORT", port=80), variables=low)
    assert asked.codes == ["trial-rendezvous.cannot-bind"]
    (finding,) = asked.findings
    assert finding.message == "only root may listen on TCP port 80 (MASTER_PORT), as on all ports below 1024"
    assert finding.fix and finding.fix.commands == ("export MASTER_PORT=29501",)
    assert finding.weight is Severity.ERROR


def test_somebody_whose_processes_are_hidden_holds_it() -> None:
    files = {"/proc/net/tcp": TCP, "/etc/passwd": "wang:x:1001:1001::/home/wang:/bin/sh\n"}
    asked = judged(attempt("bind", errno.EADDRINUSE, label="MASTER_PORT", port=29500), files=files)
    (finding,) = asked.findings
    assert finding.message == (
        "the job cannot listen on TCP port 29500 (MASTER_PORT): uid 1001 (wang) holds it on 0.0.0.0"
    )
    assert finding.fix and finding.fix.commands == ("export MASTER_PORT=29501",)


def test_a_holder_that_the_kernel_does_not_list() -> None:
    asked = judged(attempt("bind", errno.EADDRINUSE, label="MASTER_PORT", port=29500))
    assert asked.findings[0].message.endswith("(MASTER_PORT): /proc/net/tcp does not show what holds it")


def test_other_trials_are_no_holder() -> None:
    asked = judged(attempt("bind", errno.EADDRINUSE, label="MASTER_PORT", port=29500, alone=False))
    assert asked.codes == [] and asked.reason == "other trials held TCP port 29500 all the time"


@pytest.mark.parametrize(
    ("number", "end"),
    [
        (errno.EADDRNOTAVAIL, "10.0.0.5, TCP port 8118 (MS_SCHED_PORT): not an address of this machine"),
        (errno.EPERM, "TCP port 8118 (MS_SCHED_PORT): Operation not permitted"),
    ],
)
def test_other_refusals_of_a_port(number: int, end: str) -> None:
    job = {"MS_SCHED_HOST": "10.0.0.5", "MS_SCHED_PORT": "8118"}
    asked = judged(attempt("bind", number, label="MS_SCHED_PORT", port=8118), variables=job)
    assert asked.findings[0].message == f"the job cannot listen on {end}"


def test_the_loopback_interface_is_off() -> None:
    off = Interface("lo", loopback=True, up=False, state="down")
    asked = judged(attempt("connect", errno.ENETUNREACH, label="", port=0), variables={}, interfaces=(off,))
    (finding,) = asked.findings
    assert finding.message == (
        "nothing on this machine can connect to 127.0.0.1, where ranks meet by default: "
        "Network is unreachable"
    )
    assert finding.fix and finding.fix.commands == ("ip link set dev lo up",)


def test_nothing_connects_to_the_master_here() -> None:
    asked = judged(attempt("connect", errno.ETIMEDOUT, label="MASTER_PORT", port=29500))
    (finding,) = asked.findings
    assert finding.code == "trial-rendezvous.cannot-connect" and finding.fix
    assert finding.fix.title.startswith("let this machine's firewall accept traffic on lo")
    assert "connect to 127.0.0.1 (MASTER_ADDR): Connection timed out" in finding.message


def test_the_loopback_address_is_gone() -> None:
    bare = Interface("lo", loopback=True)
    asked = judged(attempt("connect", errno.ENETUNREACH, label="MASTER_PORT"), interfaces=(bare,))
    assert asked.findings[0].fix and asked.findings[0].fix.commands == ("ip address add 127.0.0.1/8 dev lo",)


@pytest.mark.parametrize(("several", "line"), [("1", ("export MASTER_ADDR=127.0.0.1",)), ("2", None)])
def test_the_master_has_no_address(several: str, line: Optional[tuple[str, ...]]) -> None:
    job = {**JOB, "MASTER_ADDR": "master", "NNODES": several}
    failed = attempt(
        "resolve", -3, "Temporary failure in name resolution", label="MASTER_PORT", place="master"
    )
    (finding,) = judged(failed, variables=job).findings
    assert finding.code == "trial-rendezvous.cannot-connect" and finding.weight is Severity.ERROR
    assert finding.message.endswith("cannot resolve: `Temporary failure in name resolution`")
    assert ((finding.fix and finding.fix.commands) or None) == line
    (finding,) = judged(failed, variables=job, expect="auto").findings
    assert finding.weight is Severity.INFO


@pytest.mark.parametrize(
    ("number", "severity", "end"),
    [
        (errno.EHOSTUNREACH, Severity.ERROR, "TCP port 29500: No route to host"),
        (errno.ETIMEDOUT, Severity.WARNING, "neither accepts nor refuses connections on TCP port 29500"),
    ],
)
def test_no_way_to_the_master(number: int, severity: Severity, end: str) -> None:
    asked = judged(attempt("call", number, label="MASTER_PORT", place="10.0.0.9", port=29500), variables=TWO)
    (finding,) = asked.findings
    assert finding.weight is severity and finding.message.endswith(end)


def test_the_master_never_answers_the_question_for_its_name() -> None:
    job = {**JOB, "MASTER_ADDR": "master", "NNODES": "1"}
    silent = attempt("resolve", errno.ETIMEDOUT, label="MASTER_PORT", place="master", took=5.5)
    asked = judged(silent, variables=job, files={"/etc/resolv.conf": 2 * "nameserver 10.0.0.53\n"})
    assert asked.codes == ["trial-rendezvous.slow"]
    assert asked.reason == "no name server answered within 5.5 s for master"
    asked = judged(silent, variables=job, files={"/etc/resolv.conf": "nameserver 10.0.0.53\n"})
    assert asked.codes == ["trial-rendezvous.slow", "trial-rendezvous.cannot-connect"]


def test_the_address_alone_is_free() -> None:
    """Without torch nobody knows whether the job would listen on all of them."""
    held = attempt("bind", errno.EADDRINUSE, label="MASTER_PORT", port=29500, only_by_place=True)
    (finding,) = judged(held).findings
    assert (finding.code, finding.weight) == ("trial-rendezvous.cannot-bind", Severity.WARNING)
    assert finding.evidence[-1] == "listening on 127.0.0.1 alone works"


@pytest.mark.parametrize(
    ("ports", "lines"),
    [("40000\t40001\n", ("sysctl -w 'net.ipv4.ip_local_port_range=32768 60999'",)), ("32768\t60999\n", None)],
)
def test_no_port_is_left_for_connections(ports: str, lines: Optional[tuple[str, ...]]) -> None:
    refused = attempt("connect", errno.EADDRNOTAVAIL, "no port is left", label="MASTER_PORT", port=29500)
    kernel = {"/proc/sys/net/ipv4/ip_local_port_range": ports}
    kernel["/proc/sys/net/ipv4/ip_local_reserved_ports"] = "40000-60999\n"
    (finding,) = judged(refused, files=kernel).findings
    assert finding.evidence[1] == "net.ipv4.ip_local_reserved_ports = 40000-60999"
    assert (
        finding.code == "trial-rendezvous.cannot-connect" and "no port left for outgoing" in finding.message
    )
    assert ((finding.fix and finding.fix.commands) or None) == lines


def test_a_slow_resolver() -> None:
    files = {"/etc/resolv.conf": "search a.b\nnameserver 10.0.0.53\n"}
    asked = judged(own("10.0.0.5", ours=("10.0.0.5",), took=2.04), files=files)
    (finding,) = asked.findings
    assert finding.code == "trial-rendezvous.slow" and finding.weight is Severity.WARNING
    assert finding.message == "the resolver takes 2.0 s to look up node"
    assert finding.evidence == ("nameserver 10.0.0.53",)
    assert finding.fix and "10.0.0.5 node" in finding.fix.commands[0]


GLOO = {"GLOO_SOCKET_IFNAME": "eth0"}
ELASTIC = {"PET_RDZV_BACKEND": "c10d"}


@pytest.mark.parametrize(
    ("variables", "packages", "severity"),
    [
        (JOB, {"torch": "2.9.0"}, Severity.WARNING),
        (TWO, {}, Severity.ERROR),
        ({**TWO, **GLOO}, {}, Severity.WARNING),
        (ELASTIC, {"torch": "2.9.0"}, Severity.ERROR),
        ({"PET_STANDALONE": "1"}, {"torch": "2.9.0"}, Severity.ERROR),
        (ELASTIC, {}, Severity.WARNING),
    ],
)
def test_our_name_has_no_address(
    variables: Mapping[str, str], packages: Mapping[str, str], severity: Severity
) -> None:
    (finding,) = judged(own(number=-2), variables=variables, packages=packages).findings
    assert finding.code == "trial-rendezvous.own-name" and finding.weight is severity
    assert finding.message == "this machine's own name, node, has no address: `Name or service not known`"
    assert finding.fix and finding.fix.commands == ("sh -c 'echo '\"'\"'10.0.0.5 node'\"'\"' >> /etc/hosts'",)


def test_our_name_means_another_machine() -> None:
    (finding,) = judged(own("10.0.0.7"), variables=TWO).findings
    assert finding.message.endswith("node, resolves to 10.0.0.7, which is not an address of this machine")
    assert finding.weight is Severity.ERROR
    assert finding.fix and finding.fix.commands == ("export GLOO_SOCKET_IFNAME=eth0",)


@pytest.mark.parametrize(
    ("variables", "codes"),
    [(TWO, ["trial-rendezvous.own-name"]), ({**TWO, **GLOO}, []), (JOB, [])],
)
def test_our_name_is_a_loopback_address(variables: Mapping[str, str], codes: list[str]) -> None:
    asked = judged(own("127.0.1.1", ours=("127.0.1.1",)), variables=variables)
    assert asked.codes == codes and all(one.weight is Severity.WARNING for one in asked.findings)


def test_our_name_leads_nowhere() -> None:
    asked = judged(own("10.0.0.5", ours=("10.0.0.5",)), attempt("connect-own", errno.ETIMEDOUT))
    assert asked.codes == ["trial-rendezvous.cannot-connect"]
    assert asked.findings[0].weight is Severity.WARNING and "its own name, node:" in asked.findings[0].message
    torch = package_files("torch", "2.7.0")
    asked = judged(own("10.0.0.5"), attempt("connect-own", errno.ETIMEDOUT), files=torch)
    assert asked.findings[-1].weight is Severity.ERROR, "Gloo meets there"
    both = judged(
        attempt("connect", errno.ENETUNREACH, label="MASTER_PORT"), attempt("connect-own", errno.ENETUNREACH)
    )
    assert both.codes == ["trial-rendezvous.cannot-connect"]


@pytest.mark.parametrize(
    ("trial", "reason"),
    [
        (Trial(hung="own-name"), "the trial did not finish in time; it waited in own-name"),
        (Trial(died="bind", signal=31), "the trial was ended by signal 31 in bind"),
        (Trial((attempt("socket", 0, "No module named _socket"),)),
         "the trial could not create sockets: `No module named _socket`"),
    ],
)  # fmt: skip
def test_no_answer(trial: Trial, reason: str) -> None:
    asked = ask(trial_rendezvous, machine(trial))
    assert asked.status is Status.UNKNOWN and asked.reason == reason


def test_root_is_not_the_job() -> None:
    asked = ask(trial_rendezvous, fake_host(variables=JOB))
    assert asked.status is Status.SKIPPED and "--as-user" in (asked.reason or "")


def test_an_image_is_not_running() -> None:
    assert ask(trial_rendezvous, fake_host(root="/image", euid=1000)).status is Status.SKIPPED


def process(pid: int, parent: int, files: str = "", environ: str = "") -> dict[str, Any]:
    """A process that may have a socket open."""
    from npudoctor.testing import folder, link

    stat = f"{pid} (python3) S {parent} {pid} {pid} " + " ".join(["0"] * 14) + " 1 0 100 " + "0 " * 30
    things: dict[str, Any] = {f"/proc/{pid}/stat": stat, f"/proc/{pid}/environ": environ}
    things[f"/proc/{pid}/fd"] = folder()
    if files:
        things[f"/proc/{pid}/fd/3"] = link(files)
    return things


AGENT = {"TORCHELASTIC_USE_AGENT_STORE": "True"}
RANKS = "RANK={}\0MASTER_ADDR=127.0.0.1\0MASTER_PORT=29500\0"


@pytest.mark.parametrize(
    ("variables", "processes", "bind"),
    [
        (JOB, {}, "either"),
        ({**JOB, **AGENT}, {}, ""),
        ({**JOB, "RANK": "3"}, process(77, 1, "socket:[777]", RANKS.format(0)), ""),
        ({**JOB, "RANK": "3"}, process(77, 1, "socket:[777]", RANKS.format(1)), ""),
        ({**JOB, "RANK": "0"}, process(77, 1, "socket:[777]", RANKS.format(0)), "either"),
        (JOB, process(77, 1, "socket:[777]", RANKS.format(0)), "either"),
        (JOB, package_files("torch", "2.7.0"), "any"),
    ],
)
def test_a_port_of_this_job_is_left_alone(
    variables: Mapping[str, str], processes: dict[str, Any], bind: str
) -> None:
    host = machine(Trial(), variables, {"/proc/net/tcp": TCP, **processes})
    assert [point["bind"] for point in questions(host)] == [bind]


def test_what_is_asked_where_no_variable_says_anything() -> None:
    (point,) = questions(machine(Trial(), {}))
    assert (point["place"], point["port"], point["bind"]) == ("127.0.0.1", 0, "any")


@pytest.mark.parametrize(("rank", "bind"), [("8", ""), ("0", "either")])
def test_the_master_is_another_machine(rank: str, bind: str) -> None:
    """Where the first rank is here nevertheless, it listens here: a container's host passes the port on."""
    asked = questions(machine(Trial(), {**TWO, "RANK": rank}))
    assert [point["bind"] for point in asked if point["label"]] == [bind]


def test_mindspore_listens_on_the_address() -> None:
    (point,) = questions(machine(Trial(), {"MS_SCHED_HOST": "10.0.0.5", "MS_SCHED_PORT": "8118"}))
    assert (point["bind"], point["place"]) == ("place", "10.0.0.5")


def npus(refused: Mapping[str, int], variables: Mapping[str, str], why: str = "") -> Asked:
    return judged(
        Attempt("hccl", facts={"address": "10.0.0.5", "refused": refused, "why": why}),
        variables=variables,
        expect="npu",
    )


BASE = {"HCCL_IF_BASE_PORT": "61000"}


@pytest.mark.parametrize(
    ("variables", "refused", "codes"),
    [
        (BASE, {}, []),
        (BASE, {"61007": errno.EADDRINUSE}, ["trial-rendezvous.cannot-bind"]),
        (BASE, {"61012": errno.EADDRINUSE}, []),
        ({**BASE, "ASCEND_RT_VISIBLE_DEVICES": "0,1"}, {"61007": errno.EADDRINUSE}, []),
        ({}, {"60000": errno.EADDRINUSE}, []),
        ({"HCCL_HOST_SOCKET_PORT_RANGE": "61000-61001"}, {"61000": 98}, []),
        ({"HCCL_HOST_SOCKET_PORT_RANGE": "61000-61001"}, {"61000": 98, "61001": 98},
         ["trial-rendezvous.cannot-bind"]),
        (BASE, dict.fromkeys(map(str, range(61000, 61016)), errno.EADDRNOTAVAIL),
         ["trial-rendezvous.cannot-bind"]),
    ],
)  # fmt: skip
def test_hccl(variables: Mapping[str, str], refused: Mapping[str, int], codes: list[str]) -> None:
    assert npus(refused, variables).codes == codes


def test_hccl_has_no_descriptors_left() -> None:
    (finding,) = npus({"61003": errno.EMFILE}, BASE, "Too many open files").findings
    assert finding.message.endswith("TCP port 61003 (HCCL_IF_BASE_PORT=61000): Too many open files")


def test_hccl_is_asked_on_its_own_address() -> None:
    host = machine(Trial(), BASE, expect="npu")
    ask(trial_rendezvous, host)
    asked = host.trials.asked["rendezvous"]["hccl"]  # type: ignore[attr-defined]
    assert asked == {"address": "10.0.0.5", "ports": list(range(61000, 61016))}


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    port: dict[str, Any] = {"label": "MASTER_PORT", "port": 29500, "place": "10.0.0.5"}
    unresolved = attempt("resolve", addresses=["10.0.0.5"], label="MASTER_PORT", place="10.0.0.5")
    unknown = attempt("resolve", -3, "Temporary failure in name resolution", **port)
    for number in (errno.EACCES, errno.EADDRNOTAVAIL, errno.EADDRINUSE, errno.EPERM):
        yield judged(attempt("bind", number, **port), variables={**JOB, "MASTER_PORT": "80"})
        yield judged(attempt("bind", number, **port), files={"/proc/net/tcp": TCP})
        yield judged(attempt("bind", number, label="", port=0), variables={})
        yield judged(attempt("connect", number, **port))
    yield judged(attempt("connect", errno.EADDRNOTAVAIL, "no port is left", **port))
    yield judged(attempt("bind", errno.EADDRINUSE, **port, only_by_place=True))
    yield judged(attempt("bind", errno.EADDRINUSE, **port, alone=False))
    for interface in (Interface("lo", loopback=True, up=False), Interface("lo", loopback=True), LO):
        yield judged(attempt("connect", errno.ENETUNREACH, **port), interfaces=(interface,))
    yield judged(attempt("connect", errno.ENETUNREACH, label="", port=0), variables={}, interfaces=())
    for variables in (JOB, TWO):
        yield judged(unknown, variables=variables)
        yield judged(own(number=-2), variables=variables)
        yield judged(own("10.0.0.7"), variables=variables)
        yield judged(own("127.0.1.1", ours=("127.0.1.1",)), variables=variables)
        yield judged(own("10.0.0.5", ours=("10.0.0.5",)), attempt("connect-own", errno.ETIMEDOUT))
    for number in (errno.ETIMEDOUT, errno.EHOSTUNREACH):
        yield judged(attempt("call", number, **port), variables=TWO)
    for facts in ({"nowhere": True}, {"beside": True}, {"alone": ["10.0.0.5"]}):
        yield judged(attempt("call", **port, stranger="npudoctor-1", **facts))
    yield judged(attempt("connect-elsewhere", errno.ECONNREFUSED, **port))
    yield judged(attempt("connect", errno.ETIMEDOUT, **port, connections=2))
    yield judged(attempt("call", errno.ETIMEDOUT, **port), unresolved, interfaces=(LO, ETH))
    yield judged(attempt("connect-way", errno.EPERM, label="GLOO_SOCKET_IFNAME=eth0", address="10.0.0.5"))
    yield judged(attempt("detour", errno.ETIMEDOUT, **port, address="fd00::7"))
    yield judged(attempt("interfaces", errno.EPERM), files=package_files("torch", "2.7.0"))
    yield judged(own("10.0.0.5"), attempt("connect-own", errno.ETIMEDOUT), attempt("connect-loopback"))
    for number in (errno.ETIMEDOUT, errno.EACCES):
        yield judged(attempt("connect", number, **port), interfaces=(replace(LO, queue="tbf"),))
    yield judged(attempt("resolve", errno.ETIMEDOUT, **port, took=5.5))
    yield judged(own("10.0.0.5", ours=("10.0.0.5",), took=2.04))
    for number in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EMFILE):
        yield npus({"60000": number}, {"HCCL_IF_IP": "10.0.0.5"})
    yield judged(attempt("socket", 0, "No module named _socket"))
