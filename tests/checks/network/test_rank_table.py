"""rank-table: the file, and the rules that a table keeps by itself."""

from __future__ import annotations

import errno
import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
from tests.checks.network.rank_table_machine import NODE, PATH, devices, judged, table

from npudoctor.core.model import Severity, Status
from npudoctor.testing import Asked, folder, link, unreadable
from npudoctor.testing import device as device_node

TORCH = {"torch-npu": "2.1.0"}


def told(asked: Any) -> list[str]:
    assert asked.status is not Status.CRASHED
    return [code.partition(".")[2] for code in asked.codes]


@pytest.mark.parametrize("name", ["servers", "super_pod", "pods", "laboratory"])
def test_quiet_about_a_healthy_table(name: str) -> None:
    asked = judged(table(name))
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts["ranks"] == len(devices(table(name))) if "server_list" in table(name) else 2


@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b" \r\n\t"])
def test_a_mark_of_utf_8_and_blanks_are_what_hccl_bears(before: bytes) -> None:
    content = before + json.dumps(table()).encode() + b"\n"
    asked = judged(content)
    assert asked.codes == [] and asked.facts["digest"] == hashlib.sha256(content).hexdigest()


def test_skipped_without_a_table() -> None:
    for value in ({"RANK_TABLE_FILE": ""}, {}):
        asked = judged(None, {"RANK_TABLE_FILE": "", **value})
        assert asked.status is Status.SKIPPED


def test_missing() -> None:
    (finding,) = judged(None).findings
    assert (finding.code, finding.severity) == ("rank-table.missing", Severity.ERROR)
    assert PATH in finding.message
    (finding,) = judged(None, packages=TORCH).findings
    assert finding.severity is Severity.WARNING, "torch_npu goes on without"
    (finding,) = judged(None, packages={**TORCH, "mindspore": "2.4.0"}).findings
    assert finding.severity is Severity.ERROR


def test_unreadable() -> None:
    (finding,) = judged(None, files={PATH: unreadable(errno.EACCES)}).findings
    assert (finding.code, finding.severity) == ("rank-table.unreadable", Severity.ERROR)
    assert told(judged(None, files={PATH: folder()})) == ["unreadable"]


def test_cannot_tell_when_the_disk_does_not_answer() -> None:
    asked = judged(None, files={PATH: unreadable(errno.EIO)})
    assert (asked.status, asked.codes) == (Status.UNKNOWN, [])


@pytest.mark.parametrize(
    "content, why",
    [
        (b"", "it is empty"),
        (b"  \n", "it is empty"),
        (b"completed", "line 1, column 1"),
        (b'{"status": "completed",\n  // ready\n "version": "1.0"}', "line 2 has a comment"),
        (b'{\n "status": "completed", # ready\n}', "line 2 has a comment"),
        (b'{"status": "completed"', "line 1, column"),
        (b'{"status": "comp\xff"}', "byte 16 is not UTF-8"),
        ('{"status": "completed"}'.encode("utf-16"), "not UTF-8"),
        (b'["completed"]', "does not begin with a brace"),
        (b'{"status": NaN}', "NaN is not JSON"),
        (b"PK\x03\x04" + bytes(1000), "line 1, column 1"),
    ],
)
def test_what_is_no_json(content: bytes, why: str) -> None:
    (finding,) = judged(content).findings
    assert (finding.code, finding.severity) == ("rank-table.not-json", Severity.ERROR)
    assert why in finding.message


def test_text_after_the_table() -> None:
    (finding,) = judged(json.dumps(table()) + "\n}").findings
    assert (finding.code, finding.severity) == ("rank-table.not-json", Severity.WARNING)


def test_monsters_are_problems() -> None:
    for deep in ('{"status":' * 100_000, '{"server_list": ' + "[" * 100_000 + "]" * 100_000 + "}"):
        asked = judged(deep)
        assert (asked.status, told(asked)) == (Status.PROBLEM, ["not-json"])
        assert "nested too deeply" in asked.findings[0].message
    asked = judged(b" " * ((32 << 20) + 1))
    assert (asked.status, told(asked)) == (Status.PROBLEM, ["bad-value"])
    assert "larger than 32 MiB" in asked.findings[0].message
    assert told(judged('{"status": ' + "1" * 10_000 + "}"))[0] == "bad-value"


def test_a_large_table_takes_no_longer_for_each_rank() -> None:
    count, big = 40_000, table("super_pod")
    device = {"device_id": "0", "device_ip": "", "super_device_id": "0"}
    names = [f"s{number}" for number in range(count)]
    big["server_list"] = [
        {"server_id": name, "device": [{**device, "super_device_id": str(rank), "rank_id": str(rank)}]}
        for rank, name in enumerate(names)
    ]
    big["server_count"] = str(count)
    pod = big["super_pod_list"][0]
    big["super_pod_list"] = [{**pod, "server_list": [{"server_id": name} for name in names]}]
    began = time.process_time()
    asked = judged(big, {"RANK_ID": str(count - 1)})
    assert asked.facts["ranks"] == count
    assert time.process_time() - began < 6.0, "each server is looked for in a list"


def test_initializing() -> None:
    started = {"status": "initializing"}
    (finding,) = judged(started).findings
    assert (finding.code, finding.severity) == ("rank-table.initializing", Severity.WARNING)
    assert "--wait" in finding.evidence[0]
    (finding,) = judged(started, wait=30).findings
    assert finding.severity is Severity.ERROR
    assert "after 30 s" in finding.message


def test_another_version_is_cannot_tell() -> None:
    asked = judged({"status": "completed", "version": "2.0", "rank_list": []})
    assert (asked.status, asked.advisory, asked.codes) == (Status.UNKNOWN, True, [])


def test_a_symbolic_link_matters_to_torch_npu() -> None:
    files = {**NODE, "/job/data": json.dumps(table()), PATH: link("/job/data")}
    assert judged(None, files=files).codes == []
    assert told(judged(None, files=files, packages=TORCH)) == ["symbolic-link"]


def test_the_name() -> None:
    assert told(judged(table(), path="/job/table")) == ["not-named-json"]


def test_the_older_variable() -> None:
    other = {"RANK_TABLE_FILE": "", "MINDSPORE_HCCL_CONFIG_PATH": PATH}
    assert judged(table(), other).codes == []
    assert told(judged(table(), {"MINDSPORE_HCCL_CONFIG_PATH": "/job/other.json"})) == ["two-tables"]
    assert judged(table(), {"MINDSPORE_HCCL_CONFIG_PATH": PATH}).codes == []


def test_a_relative_path_is_of_the_working_directory() -> None:
    files = {**NODE, "/proc/self/cwd": link("/job"), PATH: json.dumps(table())}
    assert judged(None, {"RANK_TABLE_FILE": "hccl.json"}, files).codes == []
    assert judged(None, {"RANK_TABLE_FILE": "hccl.json"}, NODE).status is Status.UNKNOWN


def changed(change: Callable[[Any], object], name: str = "servers", **variables: str) -> list[str]:
    """The codes when one thing in a healthy table is changed."""
    told_table = table(name)
    change(told_table)
    return told(judged(told_table, variables))


@pytest.mark.parametrize(
    "key, value",
    [
        ("rank_id", 0), ("rank_id", None), ("rank_id", "zero"), ("rank_id", "-1"), ("rank_id", ["0"]),
        ("device_id", 0), ("device_id", ""), ("device_ip", "-.-.-.-"), ("device_ip", "198.51.100.300"),
        ("device_ip", 3), ("device_port", "0"), ("device_port", "65536"), ("device_port", 16667),
    ],
)  # fmt: skip
def test_bad_values(key: str, value: object) -> None:
    assert "bad-value" in changed(lambda one: devices(one)[0].update({key: value}))


@pytest.mark.parametrize("key", ["status", "version", "server_list"])
def test_what_must_be_there(key: str) -> None:
    assert "bad-value" in changed(lambda one: one.pop(key))
    assert "bad-value" in changed(lambda one: one.update({key: 1}))


@pytest.mark.parametrize("key", ["server_list", "group_list"])
@pytest.mark.parametrize("value", [[], {}, "none", None, ["none"], [[]], [{}], [{"device": [{}]}]])
def test_lists_that_are_none(key: str, value: object) -> None:
    found = judged({"status": "completed", "version": "1.0", key: value, "group_count": "1"})
    assert "bad-value" in told(found)


def test_a_status_that_is_none() -> None:
    assert changed(lambda one: one.update(status="done")) == ["bad-value"]


def test_counts() -> None:
    assert changed(lambda one: one.update(server_count="3")) == ["wrong-count"]
    assert changed(lambda one: one.pop("server_count")) == [], "HCCL counts for itself"
    assert changed(lambda one: one.update(group_count="2"), "pods") == ["wrong-count"]


@pytest.mark.parametrize(
    "name, key",
    [
        ("pods", "instance_count"), ("pods", "device_count"), ("laboratory", "device_num"),
        ("laboratory", "server_num"),
    ],
)  # fmt: skip
def test_counts_of_a_group(name: str, key: str) -> None:
    assert changed(lambda one: one["group_list"][0].update({key: "9"}), name) == ["wrong-count"]


def test_ranks() -> None:
    assert changed(lambda one: devices(one)[3].update(rank_id="2")) == ["rank-ids"]
    assert changed(lambda one: devices(one)[3].update(rank_id="4")) == ["rank-ids"]

    def cross(one: Any) -> None:
        devices(one)[1]["rank_id"], devices(one)[2]["rank_id"] = "2", "1"

    assert changed(cross) == ["split-ranks"]


def test_repeated_names_and_addresses() -> None:
    assert changed(lambda one: one["server_list"][1].update(server_id="192.0.2.1")) == ["repeated"]
    assert changed(lambda one: devices(one)[3].update(device_ip="198.51.100.20")) == ["repeated"]
    assert changed(lambda one: devices(one)[3].update(device_id="0")) == ["repeated"]
    pods = lambda one: one["group_list"][0]["instance_list"][1].update(pod_name="train-0")  # noqa: E731
    assert changed(pods, "pods") == ["repeated"]
    assert changed(lambda one: devices(one)[1].update(super_device_id="0"), "super_pod") == ["repeated"]
    assert changed(lambda one: one["server_list"][1].update(server_id="n" * 65)) == ["bad-value"]


def test_several_ranks_of_one_npu_want_ports_of_their_own() -> None:
    same = {"device_id": "0", "device_ip": "198.51.100.20"}
    assert changed(lambda one: devices(one)[3].update(same)) == ["shared-device"]
    assert changed(lambda one: devices(one)[3].update({**same, "device_port": "16668"})) == []


def test_addresses_are_needed_by_several_servers() -> None:
    def without(one: Any) -> None:
        for device in devices(one):
            device["device_ip"] = ""

    def alone(one: Any) -> None:
        without(one)
        one.update(server_count="1", server_list=one["server_list"][:1])

    assert changed(without) == ["no-address"]
    assert changed(alone) == []
    assert changed(alone, HCCL_INTRA_ROCE_ENABLE="1") == ["no-address"]


def test_one_super_pod_does_without_addresses() -> None:
    def without(one: Any) -> None:
        for device in devices(one):
            del device["device_ip"], device["backup_device_ip"]
        for server in one["server_list"]:
            del server["host_ip"]

    assert changed(without, "super_pod") == []
    assert changed(without, "super_pod", HCCL_INTER_HCCS_DISABLE="TRUE") == ["no-address"]


def test_super_pods() -> None:
    pods = "super_pod"
    lost = lambda one: one["super_pod_list"][0]["server_list"].pop()  # noqa: E731
    more = lambda one: one["super_pod_list"][0]["server_list"].append({"server_id": "c"})  # noqa: E731
    assert changed(lost, pods) == ["super-pods"]
    assert changed(more, pods) == ["super-pods"]
    assert changed(lambda one: devices(one)[0].pop("super_device_id"), pods) == ["super-pods"]
    assert changed(lambda one: one.pop("super_pod_list"), pods) == ["server-mode"]
    assert changed(lambda one: [device.pop("super_device_id") for device in devices(one)], pods) == [
        "server-mode"
    ]


def test_ports() -> None:
    assert changed(lambda one: devices(one)[0].update(device_port="80")) == ["low-port"]
    assert changed(lambda one: devices(one)[1].update(host_port="60000"), "super_pod") == ["shared-port"]


def test_backups() -> None:
    foreign = {"backup_device_ip": "198.51.100.20"}
    asked = table("super_pod")
    devices(asked)[0].update(foreign)
    (finding,) = judged(asked).findings
    assert (finding.code, finding.severity) == ("rank-table.backup", Severity.INFO)
    (finding,) = judged(asked, {"HCCL_OP_RETRY_ENABLE": "L1:1,L2:1"}).findings
    assert finding.severity is Severity.WARNING
    assert changed(lambda one: devices(one)[0].update(backup_device_port="16667"), "super_pod") == ["backup"]
    assert changed(lambda one: devices(one)[0].update(backup_device_ip="none"), "super_pod") == ["bad-value"]


def test_uneven_servers() -> None:
    uneven = {"device_id": "2", "device_ip": "198.51.100.22", "rank_id": "4"}
    one = table()
    one["server_list"][1]["device"].append(uneven)
    (finding,) = judged(one).findings
    assert (finding.code, finding.severity) == ("rank-table.device-counts", Severity.INFO)


def test_the_oldest_template_insists_on_even_servers() -> None:
    one = table("laboratory")
    (group,) = one["group_list"]
    third = {"devices": [{"device_id": "2", "device_ip": "198.51.100.12"}], "rank_id": "2"}
    group["instance_list"].append({**third, "server_id": "192.0.2.1"})
    group.update(instance_count="3", device_num="3")
    (finding,) = judged(one, {"RANK_ID": "0"}).findings
    assert (finding.code, finding.severity) == ("rank-table.device-counts", Severity.ERROR)


def test_a_script_that_was_wrong_everywhere_is_one_finding() -> None:
    big = table()
    for device in devices(big):
        device["rank_id"] = int(device["rank_id"])
    (finding,) = judged(big).findings
    assert finding.message.endswith("(+3)")
    assert len(finding.evidence) == 4


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield judged(None, {"RANK_TABLE_FILE": ""})
    yield from _files()
    yield from _tables()
    yield from _super_pods()
    yield from _here()


def _files() -> Iterator[Asked]:
    torch = {"torch-npu": "2.1.0"}
    yield judged(None, packages=torch)
    yield judged(None, {"RANK_TABLE_FILE": "hccl.json"})
    for node in (unreadable(errno.EACCES), unreadable(errno.EIO), folder()):
        yield judged(None, files={PATH: node})
    for text in (
        "",
        "{",
        "{ // yes\n}",
        "[]",
        '{"a": NaN}',
        b"\xff",
        b" " * (33 << 20),
        "[" * 100_000,
        json.dumps(table()) + "}",
    ):
        yield judged(text)
    yield judged({"status": "initializing"})
    yield judged({"status": "initializing"}, wait=5)
    yield judged({"status": "completed", "version": "3.0"})
    yield judged(None, files={"/job/a": json.dumps(table()), PATH: link("/job/a")}, packages=torch)
    yield judged(table(), {"MINDSPORE_HCCL_CONFIG_PATH": "/job/b.json"}, path="/job/table")


def _tables() -> Iterator[Asked]:
    one = table()
    one.update(server_count="5", status="done")
    one["server_list"][1].update(server_id="", host_ip="x")
    devices(one)[1].update(rank_id="7", device_id=1, device_port="0")
    devices(one)[2].update(rank_id="0", device_ip="-.-.-.-", device_port="80")
    one["server_list"].append({"server_id": "192.0.2.1" * 9, "device": [{}, 3]})
    one["server_list"].append({"server_id": "192.0.2.1", "device": []})
    yield judged(one)
    one = table()
    devices(one)[1].update(rank_id="2", device_id="0", device_ip="")
    devices(one)[2].update(rank_id="1", device_ip="198.51.100.10", host_port="9000")
    devices(one)[3].update(device_id="0", host_port="9000")
    one["server_list"][1]["device"].append({**devices(one)[3], "rank_id": "4", "device_id": "2"})
    yield judged(one)
    yield judged({"status": "completed", "group_list": [{"instance_list": "a"}, 1]})


def _super_pods() -> Iterator[Asked]:
    one = table("super_pod")
    one["super_pod_list"][0]["server_list"] = [
        {"server_id": "node-a"},
        {"server_id": "node-a"},
        {"server_id": "c"},
    ]
    del devices(one)[0]["super_device_id"]
    devices(one)[1].update(backup_device_port="16666", super_device_id="2")
    devices(one)[2]["backup_device_ip"] = "198.51.100.10"
    yield judged(one)
    one = table("super_pod")
    devices(one)[1]["super_device_id"] = "0"
    one["server_list"].insert(1, {"server_id": "node-c", "device": devices(table("super_pod"))[:1]})
    yield judged(one)
    one = table("super_pod")
    del one["super_pod_list"]
    yield judged(one)


def _here() -> Iterator[Asked]:
    other = {**NODE, "/etc/hccn.conf": "address_0=203.0.113.1\n"}
    far = ("203.0.113.9",)
    yield judged(
        table(), {"RANK_ID": "9", "RANK": "x", "RANK_SIZE": "2", "WORLD_SIZE": "1"}, other, addresses=far
    )
    yield judged(table("super_pod"), {"RANK_ID": "0", "DEVICE_ID": "1"}, other, addresses=far)
    yield judged(table(), files={"/dev/davinci5": device_node()})
