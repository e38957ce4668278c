"""rank-table: the table beside this process and this machine; a real file that is being written."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from npudoctor.checks.network.rank_table import rank_table
from npudoctor.core.model import Severity, Status
from npudoctor.core.mounts import Mount, Mounts
from npudoctor.host import Host, Options
from npudoctor.host.fs.files import LocalDisk
from npudoctor.testing import Asked, Content, ask, device, unreadable

from .rank_table_machine import NODE, NPUS, devices, judged, table

OTHER_CONF = "address_0=203.0.113.1\naddress_1=203.0.113.2\n"


def told(asked: Asked) -> list[str]:
    return [code.partition(".")[2] for code in asked.codes]


def alone() -> Any:
    one = table()
    one.update(server_count="1", server_list=one["server_list"][:1])
    return one


@pytest.mark.parametrize(
    "variables", [{}, {"RANK_ID": "1", "RANK_SIZE": "4", "DEVICE_ID": "1"}, {"RANK": "0"}]
)
def test_quiet_where_all_agrees(variables: dict[str, str]) -> None:
    asked = judged(table(), variables)
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts["this-server"] == "192.0.2.1"


def test_a_login_node_and_a_container_without_hccn_conf_hear_nothing() -> None:
    assert judged(table(), files={}, addresses=("127.0.0.1", "203.0.113.9")).codes == []
    assert judged(table(), files={**NPUS, "/.dockerenv": ""}, addresses=("172.17.0.2",)).codes == []
    assert judged(table(), files={**NODE, "/etc/hccn.conf": unreadable()}).codes == []


@pytest.mark.parametrize("name", ["RANK_SIZE", "WORLD_SIZE"])
def test_size(name: str) -> None:
    (finding,) = judged(table(), {name: "8"}).findings
    assert (finding.code, finding.severity) == ("rank-table.rank-size", Severity.WARNING)
    (finding,) = judged(table(), {name: "1"}).findings
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize("name", ["RANK_ID", "RANK"])
def test_rank(name: str) -> None:
    for value in ("4", "worker"):
        (finding,) = judged(table(), {name: value}).findings
        assert (finding.code, finding.severity) == ("rank-table.rank-id", Severity.ERROR)
    assert judged(table(), {name: ""}).codes == []


def test_a_rank_that_the_job_does_not_have_is_told_by_rank_env_alone() -> None:
    (finding,) = judged(table(), {"RANK": "4"}).findings
    assert finding.echo_of == ("rank-env.bad-value", "rank-env.out-of-range")


def test_in_a_table_of_pods_a_rank_is_a_name() -> None:
    assert judged(table("pods"), {"RANK_ID": "train-0"}).codes == []


def test_device_id_counts_what_the_process_sees() -> None:
    job = {"RANK_ID": "1", "DEVICE_ID": "0"}
    (finding,) = judged(table(), job).findings
    assert (finding.code, finding.severity) == ("rank-table.device-id", Severity.WARNING)
    assert judged(table(), {**job, "ASCEND_RT_VISIBLE_DEVICES": "1"}).codes == []
    assert judged(table(), {**job, "ASCEND_RT_VISIBLE_DEVICES": "1, 2"}).codes == []
    far = {"/dev/davinci4": device(), "/dev/davinci5": device()}
    one = alone()
    for number, entry in enumerate(devices(one)):
        entry["device_id"] = str(4 + number)
    assert judged(one, {"RANK_ID": "0", "DEVICE_ID": "0"}, far).codes == []


def test_a_table_of_other_machines() -> None:
    files = {**NODE, "/etc/hccn.conf": OTHER_CONF}
    (finding,) = judged(table(), files=files, addresses=("203.0.113.9",)).findings
    assert (finding.code, finding.severity) == ("rank-table.not-this-host", Severity.ERROR)
    assert "203.0.113.1" in finding.message
    login: dict[str, Content] = {"/etc/hccn.conf": OTHER_CONF}
    assert judged(table(), files=login, addresses=("203.0.113.9",)).codes == []


def test_addresses_of_the_npus() -> None:
    files = {**NODE, "/etc/hccn.conf": OTHER_CONF}
    (finding,) = judged(table(), {"RANK_ID": "0"}, files).findings
    assert (finding.code, finding.severity) == ("rank-table.wrong-address", Severity.ERROR)
    (finding,) = judged(alone(), files=files).findings
    assert finding.severity is Severity.WARNING, "one server meets over other links"
    partly = {**NODE, "/etc/hccn.conf": "address_0=198.51.100.10\n"}
    assert judged(table(), files=partly).codes == []


def test_devices_that_are_not_here() -> None:
    one: dict[str, Content] = {"/dev/davinci0": device(), "/etc/hccn.conf": NODE["/etc/hccn.conf"]}
    (finding,) = judged(table(), files=one).findings
    assert (finding.code, finding.severity) == ("rank-table.no-device", Severity.ERROR)
    assert judged(table(), {"RANK_ID": "0"}, one).codes == [], "the other rank may be elsewhere"
    assert judged(table(), files={**one, "/.dockerenv": ""}).codes == []
    other: dict[str, Content] = {"/dev/davinci7": device(), "/.dockerenv": ""}
    (finding,) = judged(table(), files=other).findings
    assert finding.severity is Severity.WARNING


def test_host_ip() -> None:
    job = {"RANK_ID": "0"}
    pod = table("super_pod")
    asked = judged(pod, job, addresses=("203.0.113.9",))
    assert [(one.code, one.severity) for one in asked.findings] == [
        ("rank-table.host-address", Severity.INFO)
    ]
    (finding,) = judged(pod, {**job, "HCCL_OP_RETRY_ENABLE": "L2:1"}, addresses=("203.0.113.9",)).findings
    assert finding.severity is Severity.WARNING


def really(path: Path, wait: float = 0.0, disk: Any = None) -> Asked:
    """The same check on the real disk, with the real clock."""
    host = Host(Options(wait=wait), variables={"RANK_TABLE_FILE": str(path)}, disk=disk)
    try:
        return ask(rank_table, host)
    finally:
        host.close()


def test_a_real_file_is_read_again_until_it_is_completed(tmp_path: Path) -> None:
    path = tmp_path / "hccl.json"
    path.write_text('{"status": "initializing"}')

    def complete() -> None:
        time.sleep(0.4)
        (tmp_path / "new").write_text('{"status": "comp')
        os.replace(tmp_path / "new", path)
        time.sleep(0.8)
        (tmp_path / "new").write_text(json.dumps(table()))
        os.replace(tmp_path / "new", path)

    writer = threading.Thread(target=complete)
    writer.start()
    began = time.monotonic()
    asked = really(path, wait=30)
    writer.join()
    assert time.monotonic() - began < 20
    assert "rank-table.initializing" not in asked.codes
    assert asked.facts["ranks"] == 4


def test_a_real_folder_of_a_config_map(tmp_path: Path) -> None:
    """Kubernetes mounts it as links to links, and swaps the inner one."""
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1/hccl.json").write_text(json.dumps(table()))
    (tmp_path / "..data").symlink_to("v1")
    (tmp_path / "hccl.json").symlink_to("..data/hccl.json")
    assert really(tmp_path / "hccl.json").facts["ranks"] == 4


def test_a_file_on_a_mount_that_hangs_is_cannot_tell(tmp_path: Path) -> None:
    """A FIFO in place of the child's answer would be a trick: the child that is asked is stopped."""
    import signal

    import psutil

    path = tmp_path / "hccl.json"
    path.write_text(json.dumps(table()))
    disk = LocalDisk(0.5, Mounts([Mount("/", "ext4"), Mount(str(tmp_path), "nfs4")]))
    assert disk.lstat(str(path)).size > 0
    child = max(psutil.Process().children(), key=lambda process: process.create_time())
    os.kill(child.pid, signal.SIGSTOP)
    began = time.monotonic()
    asked = really(path, disk=disk)
    assert (asked.status, asked.codes) == (Status.UNKNOWN, [])
    assert "does not answer" in asked.reason
    assert time.monotonic() - began < 5
    child.wait(5)


@pytest.mark.parametrize("value", ["9" * 5000, "0," * 60_000])
def test_a_choice_of_devices_without_end_is_left_to_its_own_check(value: str) -> None:
    variables = {"RANK_ID": "0", "DEVICE_ID": "0", "ASCEND_RT_VISIBLE_DEVICES": value}
    assert judged(table(), variables).codes == []
