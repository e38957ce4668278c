"""like-snapshot: quiet when alike, speaks by what a difference stops, and cannot tell."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

import pytest

from npudoctor import Severity, Status
from npudoctor.checks.host.like_snapshot import like_snapshot
from npudoctor.core.redact.bundle import BundleRedactor
from npudoctor.facts.snapshot.document import parse
from npudoctor.host import Host, Options
from npudoctor.registry.collector import LoadedChecks
from npudoctor.render.snapshot_json import snapshot_text
from npudoctor.runner.runner import Settings
from npudoctor.runner.snapshot import take_snapshot
from npudoctor.testing import Asked, Limit, Memory, ask, fake_host, unreadable

DRIVER = "/usr/local/Ascend/driver/version.info"


def machine(
    like: Optional[bytes] = None,
    *,
    packages: Optional[Mapping[str, str]] = None,
    variables: Optional[Mapping[str, str]] = None,
    soft: int = 65536,
    driver: Any = "Version=25.0.rc1\n",
    mtu: int = 1500,
    python: str = "3.11.7",
    euid: int = 0,
    more: Optional[Mapping[str, Any]] = None,
) -> Host:
    from npudoctor.testing import FakeNetwork, interface

    return fake_host(
        {DRIVER: driver, **(more or {})},
        memory=Memory(total=64 << 30, available=32 << 30),
        limits={"Max open files": Limit(soft, soft)},
        packages={"torch": "2.1.0", "numpy": "1.26.4"} if packages is None else packages,
        variables=variables,
        python_version=python,
        network=FakeNetwork([interface("eth0", "192.0.2.1/24", mtu=mtu)]),
        euid=euid,
        options=Options(like=parse(like) if like else None, like_path="good.json"),
    )


def snapshot_of(host: Host) -> bytes:
    """What `npudoctor snapshot` writes on such a machine."""
    return snapshot_text(
        take_snapshot(LoadedChecks((), (), {}), host, Settings()), BundleRedactor({})
    ).encode()


def changed(section: str, **facts: Any) -> bytes:
    """The snapshot of the good machine with other facts; None takes one out."""
    document = json.loads(snapshot_of(machine()))
    for name, value in facts.items():
        document["facts"][section][name.replace("__", " ")] = value
    return json.dumps(document).encode()


def judge(**more: Any) -> Asked:
    return ask(like_snapshot, machine(snapshot_of(machine()), **more))


def test_a_machine_is_like_itself() -> None:
    asked = judge()
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts["snapshot"] == "good.json"


def test_without_a_snapshot_it_does_not_apply() -> None:
    assert ask(like_snapshot, machine()).status is Status.SKIPPED


@pytest.mark.parametrize(
    ("more", "code", "severity"),
    [
        ({"packages": {"torch": "2.4.0", "numpy": "1.26.4"}}, "version", Severity.ERROR),
        ({"packages": {"numpy": "1.26.4"}}, "version", Severity.ERROR),
        ({"driver": "Version=24.1.0\n"}, "version", Severity.ERROR),
        ({"python": "3.10.7"}, "version", Severity.ERROR),
        ({"python": "3.11.9"}, "system", Severity.INFO),
        ({"packages": {"torch": "2.1.0", "numpy": "2.0.0"}}, "package", Severity.WARNING),
        ({"variables": {"HCCL_EXEC_TIMEOUT": "60"}}, "variable", Severity.WARNING),
        ({"soft": "1024"}, "limit", Severity.WARNING),
        ({"mtu": 1400}, "network", Severity.WARNING),
        ({"more": {"/proc/sys/vm/swappiness": "1\n"}}, "system", Severity.INFO),
    ],
)
def test_each_kind_has_its_weight(more: dict[str, Any], code: str, severity: Severity) -> None:
    asked = judge(**more)
    assert [(one.code, one.weight) for one in asked.findings] == [(f"like-snapshot.{code}", severity)]


@pytest.mark.parametrize(
    "more", [{"soft": 512000}, {"packages": {"torch": "2.1.0", "numpy": "1.26.4", "pip": "24"}}]
)
def test_more_than_there_stops_nobody(more: dict[str, Any]) -> None:
    assert judge(**more).codes == []


def test_a_finding_names_both_values_and_the_line_to_type() -> None:
    (finding,) = judge(packages={"torch": "2.4.0", "numpy": "1.26.4"}).findings
    assert "torch: 2.4.0 here, 2.1.0 there" in finding.message
    assert finding.fix and "torch==2.1.0" in finding.fix.commands[0]


def test_variables_are_set_and_unset() -> None:
    like = changed("variables", HCCL_CONNECT_TIMEOUT="600", LD_LIBRARY_PATH="/a/b:/c/d")
    (finding,) = ask(like_snapshot, machine(like, variables={"NCCL_DEBUG": "INFO"})).findings
    assert finding.fix and set(finding.fix.commands) == {
        "export HCCL_CONNECT_TIMEOUT=600",
        "unset NCCL_DEBUG",
    }


def test_fewer_devices_are_an_error() -> None:
    (finding,) = ask(like_snapshot, machine(changed("accelerator", NPUs=8))).findings
    assert finding.code == "like-snapshot.device" and "NPUs: 0 here, 8 there" in finding.message


def test_what_cannot_be_read_here_is_unknown() -> None:
    asked = judge(driver=unreadable(), euid=1000)
    assert asked.status is Status.UNKNOWN and "driver NPU driver" in asked.reason


def test_no_word_of_a_hostile_file_becomes_a_command() -> None:
    document = json.loads(snapshot_of(machine()))
    document["facts"]["variables"].update(
        {"HCCL_X; reboot": "1", "HCCL_Y": "a\nreboot", "HCCL_Z": "$(reboot)", "LD_PRELOAD": "/tmp/evil.so"}
    )
    document["facts"]["packages"].update({"torch": "2.1.0 --index-url=http://evil", "--evil": "1"})
    findings = ask(like_snapshot, machine(json.dumps(document).encode())).findings
    lines = [line for finding in findings if finding.fix for line in finding.fix.commands]
    assert lines == ["export HCCL_Z='$(reboot)'"]


def test_a_report_is_compared_as_far_as_it_goes() -> None:
    from tests.fleet.carriers import report

    document = report("node1")
    document["results"] = []
    asked = ask(like_snapshot, machine(json.dumps(document).encode()))
    assert asked.status is not Status.CRASHED and "not in a report" not in asked.reason


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code and each way of putting it."""
    yield judge(
        packages={"torch": "2.4.0", "numpy": "2.0.0"},
        variables={"HCCL_EXEC_TIMEOUT": "60", "LD_LIBRARY_PATH": "/a/b:/c/d"},
        soft=1024,
        mtu=1400,
        more={"/proc/sys/vm/swappiness": "1\n"},
    )
    yield ask(like_snapshot, machine(changed("variables", LD_LIBRARY_PATH="/a/b:/x/y"),
                                     variables={"LD_LIBRARY_PATH": "/a/b:/c/d"}))  # fmt: skip
    yield ask(like_snapshot, machine(changed("accelerator", NPUs=8)))
    yield ask(like_snapshot, machine())
    yield judge(driver=unreadable(), euid=1000)
