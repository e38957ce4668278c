"""Reading a snapshot back: whatever somebody wrote into the file, the answer is bounded and harmless."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from tests.fleet.carriers import ready

from npudoctor.facts.snapshot.document import LARGEST, MOST, UnreadableSnapshot, parse

SNAPSHOT: dict[str, Any] = {
    "schema": "npudoctor.snapshot/1",
    "host": {"name": "node1"},
    "started": "2026-01-01T00:00:00Z",
    "facts": {"packages": {"torch": "2.1.0"}, "system": {"kernel": "5.10"}},
    "checks": {"clock": {"synchronised": True}, "npu-health": {"health": {"0/0": "OK"}}},
    "unread": [{"section": "hccn", "fact": None, "reason": "only root", "advisory": True}],
}


def read(**changes: Any) -> Any:
    return parse(json.dumps({**SNAPSHOT, **changes}).encode())


def test_a_snapshot_is_read() -> None:
    snapshot = read()
    assert snapshot.node == "node1" and snapshot.whole
    assert snapshot.sections["packages"] == {"torch": "2.1.0"}
    assert snapshot.sections["check npu-health"] == {"health 0/0": "OK"}
    assert [(one.section, one.fact, one.advisory) for one in snapshot.unread] == [("hccn", "", True)]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe{}",
        b'{"schema": "npudoctor.fix/1"}',
        b'{"schema": ["npudoctor.snapshot/1"]}',
        b'{"schema": "npudoctor.snapshot/2"}',
        b'{"schema": "npudoctor.snapshot/1", "facts": {"a": {"b": NaN}}}',
        b'{"schema": "npudoctor.snapshot/1", "facts": {"a": {"b": ' + b"9" * 2_000_000 + b"}}}",
        b'{"schema": "npudoctor.snapshot/1", "facts": ' + b'{"a": ' * 200_000,
        b'{"schema": "npudoctor.snapshot/1", "facts": {"a": {"b": 1e999}}}',
        b" " * (LARGEST + 1),
    ],
    ids=range(13),
)
def test_what_is_none_is_refused_in_bounded_time(content: bytes) -> None:
    began = time.monotonic()
    with pytest.raises(UnreadableSnapshot) as refused:
        parse(content)
    assert time.monotonic() - began < 5 and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"facts": []},
        {"facts": {"packages": 7, "system": None}},
        {"facts": {"packages": {"torch": {"deep": {"er": 1}}, "a": [1, 2], "b": [["c"]]}}},
        {"checks": {"clock": [], "a": "text", "b": None}},
        {"unread": {"section": "x"}},
        {"unread": [1, None, {"section": 7}, {"fact": "x"}]},
        {"host": "node1", "started": 7},
        {"host": {"name": ["x"]}},
    ],
    ids=range(8),
)
def test_other_types_are_passed_over(changes: dict[str, Any]) -> None:
    for table in read(**changes).sections.values():
        for value in table.values():
            plain = value is None or isinstance(value, (bool, int, float, str))
            assert plain or (isinstance(value, tuple) and all(isinstance(part, str) for part in value))


def test_a_flood_of_facts_is_cut() -> None:
    flood = {f"p{number}": "1" for number in range(MOST + 500)}
    assert len(read(facts={"packages": flood}).sections["packages"]) == MOST
    assert len(read(facts={f"s{number}": {} for number in range(5000)}).sections) < 1000


def test_deep_facts_of_checks_end_somewhere() -> None:
    deep: Any = "leaf"
    for _level in range(40):
        deep = {"a": deep}
    assert len(read(checks={"x": deep}).sections["check x"]) <= 1
    for _level in range(300):
        deep = {"a": deep}
    with pytest.raises(UnreadableSnapshot, match="nested too deeply"):
        read(checks={"x": deep})


def test_secrets_that_somebody_left_in_are_taken_out() -> None:
    snapshot = read(facts={"variables": {"URL": "https://me:hunter2@example.org/"}})
    assert "hunter2" not in str(snapshot)


def test_a_report_tells_its_facts_under_the_same_names() -> None:
    facts = {
        "accelerator": {"npu": {"nodes": ["/dev/davinci0"], "models": ["Ascend 910B"], "driver": "25.0"}},
        "cann_install": {"active": "/a", "installs": [{"path": "/a", "version": "8.2.RC1"}]},
        "driver_firmware": {"driver": "25.0.rc1", "firmware": None},
        "hccl_env": {"variables": {"HCCL_EXEC_TIMEOUT": "60"}},
    }
    snapshot = parse(json.dumps(ready("node7", **facts)).encode())
    assert snapshot.node == "node7" and not snapshot.whole
    assert snapshot.sections["accelerator"] == {"NPUs": 1, "NPU models": ("Ascend 910B",)}
    assert snapshot.sections["cann"] == {"version": "8.2.RC1", "path": "/a"}
    assert snapshot.sections["driver"] == {"NPU driver": "25.0.rc1"}
    assert snapshot.sections["check hccl-env"] == {"variables HCCL_EXEC_TIMEOUT": "60"}
