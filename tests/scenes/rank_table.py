"""Machines on which rank-table says all that it can say."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path

from npudoctor.testing import Asked, device, folder, link, unreadable

from ..checks.network.rank_table_machine import NODE, PATH, devices, judged, table  # noqa: TID252


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
    yield judged(table(), files={"/dev/davinci5": device()})
