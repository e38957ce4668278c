"""The facts of a node by section: what is told, what is hidden, and what is said of what cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.checks.cann.cann_trees import later, sourced

from npudoctor.core.redact.prefilter import HIDDEN
from npudoctor.facts.snapshot import sections
from npudoctor.facts.snapshot.sections import READERS, FactSection, read_section
from npudoctor.facts.snapshot.values import Fact, Value
from npudoctor.host import Host
from npudoctor.testing import Content, FakeNetwork, Limit, fake_host, interface, unreadable

GROUP = "/sys/fs/cgroup/job"


def values(section: FactSection) -> dict[str, Value]:
    return {fact.name: fact.value for fact in section.facts if not fact.unread}


def read(name: str, host: Host) -> dict[str, Value]:
    section = read_section(name, host)
    assert not section.failed, section
    return values(section)


def test_a_bare_machine_has_every_section_and_no_crash() -> None:
    host = fake_host()
    read_all = {name: read_section(name, host) for name in READERS}
    assert not [section for section in read_all.values() if section.crashed]
    assert values(read_all["accelerator"])["NPUs"] == 0
    assert values(read_all["cann"])["version"] is None


def test_cann_and_the_drivers_are_told_with_their_versions() -> None:
    files = {
        **later(),
        "/usr/local/Ascend/driver/version.info": "Version=25.0.rc1.1\n",
        "/usr/local/Ascend/firmware/version.info": "Version=7.7.0.1.231\n",
        "/sys/module/nvidia/version": "550.54.14\n",
    }
    host = fake_host(files, variables=sourced(), machine="aarch64")
    cann, driver = read("cann", host), read("driver", host)
    assert cann["version"] and cann["path"] and cann["installed"]
    assert driver["NPU driver"] == "25.0.rc1.1" and driver["NPU firmware"] == "7.7.0.1.231"
    assert driver["GPU driver"] == "550.54.14"


def test_every_package_is_told_whatever_its_name_announces() -> None:
    packages = {"torch": "2.1.0", "Secret_Storage": "3.3.3", "api.token": "1"}
    told = read("packages", fake_host(packages=packages))
    assert told == {"torch": "2.1.0", "secret-storage": "3.3.3", "api-token": "1"}


def test_of_variables_names_are_kept_and_secrets_are_not() -> None:
    variables = {
        "HCCL_CONNECT_TIMEOUT": "600",
        "MY_OWN": "whatever it is",
        "HCCL_ACCESS_TOKEN": "hunter2-AB12cd34EF",
        "ASCEND_URL": "https://someone:hunter2@example.org/",
    }
    told = read("variables", fake_host(variables=variables))
    assert list(told) == sorted(variables)
    assert told["HCCL_CONNECT_TIMEOUT"] == "600" and told["MY_OWN"] == HIDDEN
    assert "hunter2" not in str(told)


def test_limits_of_the_process_and_of_its_groups() -> None:
    files = {
        "/proc/self/cgroup": "0::/job/step\n",
        f"{GROUP}/memory.max": "1073741824\n",
        f"{GROUP}/memory.current": "4096\n",
        f"{GROUP}/step/memory.max": "max\n",
        f"{GROUP}/step/memory.current": "4096\n",
        f"{GROUP}/step/cpu.max": "400000 100000\n",
        f"{GROUP}/cpu.max": "200000 100000\n",
        f"{GROUP}/pids.max": "max\n",
        f"{GROUP}/cpuset.cpus.effective": "0-7\n",
    }
    host = fake_host(files, limits={"Max open files": Limit(1024, None)})
    assert read("limits", host)["Max open files, soft"] == 1024
    assert read("limits", host)["Max open files, hard"] == "unlimited"
    group = {
        "memory": 1 << 30,
        "processor time": "200000 100000",
        "processors": "0-7",
        "processes": "unlimited",
    }
    assert read("cgroup", host) == group


def test_control_groups_of_version_1() -> None:
    files = {
        "/proc/self/cgroup": "5:cpu,cpuacct:/job\n4:memory:/job\n3:pids:/\n",
        "/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "-1\n",
        "/sys/fs/cgroup/memory/job/memory.limit_in_bytes": "2097152\n",
        "/sys/fs/cgroup/memory/job/memory.usage_in_bytes": "0\n",
        "/sys/fs/cgroup/pids/pids.max": "512\n",
    }
    told = read("cgroup", fake_host(files))
    assert told == {"memory": 2 << 20, "processor time": "unlimited", "processors": None, "processes": "512"}


def test_settings_of_the_kernel_and_what_it_does_not_have() -> None:
    files: dict[str, Content] = {
        "/proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456\n",
        "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "/proc/sys/kernel/shmmax": unreadable(),
    }
    section = read_section("sysctls", fake_host(files))
    told = values(section)
    assert told["net.ipv4.tcp_rmem"] == "4096 131072 6291456" and told["transparent_hugepage"] == "madvise"
    assert told["vm.swappiness"] is None
    (unread,) = [fact for fact in section.facts if fact.unread]
    assert unread.name == "kernel.shmmax" and "/proc/sys/kernel/shmmax" in unread.unread


def test_interfaces_that_lead_out_have_their_mtu_and_no_address() -> None:
    network = FakeNetwork([interface("lo", "127.0.0.1/8"), interface("eth0", "192.0.2.7/24", mtu=9000),
                           interface("docker0", "172.17.0.1/16"), interface("eth1", up=False)])  # fmt: skip
    told = read("network", fake_host(network=network))
    assert told["eth0 MTU"] == 9000 and told["eth0 state"] == "up" and told["eth1 state"] == "off"
    assert "192.0.2.7" not in str(told) and not [name for name in told if name.startswith(("lo", "docker"))]


def test_what_cannot_be_read_is_said_and_the_rest_is_kept() -> None:
    files: dict[str, Content] = {
        "/usr/local/Ascend/driver/version.info": unreadable(),
        "/sys/module/nvidia/version": "550.54.14\n",
    }
    section = read_section("driver", fake_host(files, euid=1000, user="who"))
    assert values(section)["GPU driver"] == "550.54.14"
    assert [fact.name for fact in section.facts if fact.unread] == ["NPU driver"]


def test_a_section_that_crashes_says_so_and_keeps_what_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(host: Host) -> Iterator[Fact]:
        yield Fact("first", 1)
        raise ZeroDivisionError("a defect")

    monkeypatch.setitem(sections.READERS, "system", broken)
    section = read_section("system", fake_host())
    assert (
        values(section) == {"first": 1}
        and section.crashed
        and section.failed == "ZeroDivisionError: a defect"
    )


def test_an_image_has_packages_and_no_limits() -> None:
    host = fake_host({"/image/etc/os-release": 'PRETTY_NAME="openEuler 22.03"\n'}, root="/image")
    told = read("system", host)
    assert told["distribution"] == "openEuler 22.03" and not {"kernel", "architecture", "container"} & {*told}
    section = read_section("limits", host)
    assert section.failed and section.advisory and not section.crashed


def test_ports_of_npus_need_their_tool() -> None:
    from npudoctor.testing import device

    host = fake_host({"/dev/davinci0": device()}, expect="npu")
    section = read_section("hccn", host)
    assert section.failed and section.advisory
