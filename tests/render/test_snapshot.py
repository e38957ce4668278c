"""What a snapshot and a comparison look like: their schemas, the block for issues, 80 columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from npudoctor.core.messages import activate
from npudoctor.core.redact.bundle import BundleRedactor
from npudoctor.facts.snapshot import sections
from npudoctor.facts.snapshot.compare import compare
from npudoctor.facts.snapshot.document import Snapshot, Unread, parse
from npudoctor.facts.snapshot.values import Fact
from npudoctor.host import Host
from npudoctor.registry.collector import LoadedChecks
from npudoctor.render.columns import width
from npudoctor.render.diff import diff_object, diff_text
from npudoctor.render.json_text import json_text
from npudoctor.render.snapshot_json import snapshot_object, snapshot_text
from npudoctor.render.snapshot_paste import COLUMNS, paste_text
from npudoctor.runner.runner import Settings
from npudoctor.runner.snapshot import TakenSnapshot, take_snapshot
from npudoctor.testing import fake_host, unreadable

NAMES = ("a.json", "b.json")


def validator(name: str) -> Draft202012Validator:
    schema = json.loads((files("npudoctor.render") / "schemas" / f"{name}-1.json").read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def taken(host: Host) -> TakenSnapshot:
    return take_snapshot(LoadedChecks((), (), {}), host, Settings())


def everything() -> TakenSnapshot:
    return taken(
        fake_host(
            {"/usr/local/Ascend/driver/version.info": unreadable(), "/etc/os-release": 'PRETTY_NAME="X 1"'},
            packages={"torch": "2.1.0"},
            variables={"HCCL_EXEC_TIMEOUT": "60", "OWN": "x"},
            euid=1000,
            user="alice",
        )
    )


def test_a_snapshot_fits_its_schema_and_is_read_back() -> None:
    snapshot = everything()
    document = snapshot_object(snapshot)
    assert list(validator("snapshot").iter_errors(json.loads(json_text(document)))) == []
    assert "driver" in {row["section"] for row in document["unread"]}
    again = parse(json_text(document).encode())
    assert again.sections["packages"] == {"torch": "2.1.0"}
    assert compare(again, again).differences == ()


def test_every_field_of_the_schemas_is_described() -> None:
    for name in ("snapshot", "diff"):
        undescribed = [path for path, field in fields(validator(name).schema) if "description" not in field]
        assert undescribed == [], name


def fields(schema: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, field in schema.get("properties", {}).items():
        yield f"{path}/{name}", field
        yield from fields(field, f"{path}/{name}")
    if isinstance(schema.get("items"), dict):
        yield from fields(schema["items"], path)


def test_secrets_of_the_caller_are_taken_out_wherever_they_stand() -> None:
    secret = "hunter2-AB12cd34EF"  # noqa: S105
    host = fake_host(variables={"MY_PASSWORD": secret, "ASCEND_NOTE": f"with {secret} in it"})
    redactor = BundleRedactor(host.variables)
    assert secret not in snapshot_text(taken(host), redactor)
    assert secret not in paste_text(taken(host), redactor)


def pasted(**more: Any) -> str:
    host = fake_host(**more)
    return paste_text(taken(host), BundleRedactor(host.variables))


def test_the_block_is_a_fence_with_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    text = pasted(
        packages={"torch": "2.1.0", "torch-npu": "2.1.0.post6"}, variables={"HCCL_EXEC_TIMEOUT": "60"}
    )
    lines = text.splitlines()
    assert (lines[0], lines[-1]) == ("```text", "```")
    assert "torch 2.1.0, torch-npu 2.1.0.post6" in text and "HCCL_EXEC_TIMEOUT=60" in text
    assert len(lines) <= 60 and max(map(len, lines)) <= COLUMNS


def test_nobody_and_no_place_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setattr(os, "uname", lambda: type("U", (), {
        "nodename": "gpu-node17.corp.example", "machine": "x86_64", "sysname": "Linux", "release": "5.10.0",
    }))  # fmt: skip
    text = pasted(
        python="/home/alice/miniconda3/bin/python3",
        euid=1000,
        user="alice",
        variables={
            "HCCL_DEBUG_CONFIG": "alice@corp.example at gpu-node17 10.1.2.3 fe80::1:2 of alice",
            "ASCEND_X": "/home/bob/x /root/y",
        },
    )
    for word in ("alice", "bob", "corp", "gpu-node17", "10.1.2.3", "fe80", "/root", "/home"):
        assert word not in text, word
    assert "~/miniconda3/bin/python3" in text


def test_a_driver_is_no_address() -> None:
    text = pasted(files={"/usr/local/Ascend/driver/version.info": "Version=24.1.0.3\n"})
    assert "24.1.0.3" in text and "<address>" not in text


def test_nothing_ends_the_fence_or_floods_it() -> None:
    variables = {f"HCCL_X{number}": "```\n# a title\x1b[31m" + "y" * 500 for number in range(200)}
    lines = pasted(variables=variables).splitlines()
    assert len(lines) <= 60 and max(map(len, lines)) <= COLUMNS
    assert [line for line in lines if "```" in line] == ["```text", "```"]
    assert "\x1b" not in "".join(lines) and "more lines" in lines[-2]


def test_a_crash_of_ours_is_in_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(host: Host) -> Iterator[Fact]:
        raise ZeroDivisionError
        yield

    monkeypatch.setitem(sections.READERS, "packages", broken)
    assert "unknown:      packages" in pasted()


LONG = ":".join(f"/usr/local/Ascend/ascend-toolkit/latest/part{number}/lib64" for number in range(9))


def sides() -> tuple[Snapshot, Snapshot]:
    own = {"HOSTNAME": "a"}
    variables = {"LD_LIBRARY_PATH": LONG, **own}
    others = {"LD_LIBRARY_PATH": LONG + ":/opt/other/lib64", "HCCL_\x1b[31m\n": "\u202e" + "z" * 300, **own}
    first = Snapshot("node1", "2026-01-01T00:00:00Z", True, {
        "system": {"kernel": "5.10", "container": False}, "variables": variables,
        "packages": {"torch": "2.1.0"}, "check rank-table": {"digest": "x" * 90}, "hccn": {},
        "made\x07up": {"a": 1},
    }, (Unread("hccn", "", "only root " * 30),))  # fmt: skip
    second = Snapshot("node2", "", True, {
        "system": {"kernel": "5.10", "container": True}, "variables": others,
        "packages": {}, "check rank-table": {"digest": "y" * 90}, "hccn": {},
        "made\x07up": {"a": ("b",)},
    })  # fmt: skip
    return first, second


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_comparison_fits_80_columns_and_is_harmless(language: str) -> None:
    activate(language)
    try:
        text = diff_text(NAMES, sides(), compare(*sides()))
    finally:
        activate("en")
    long_words = ("zzz", "xxx", "yyy", "/part")
    lines = [line for line in text.splitlines() if not any(word in line for word in long_words)]
    assert max(map(width, lines)) <= 80
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "/opt/other/lib64" in text and "part3" not in text


def test_a_comparison_fits_its_schema() -> None:
    first, second = sides()
    for pair in ((first, second), (first, first), (second, second)):
        document = json.loads(json_text(diff_object(NAMES, pair, compare(*pair))))
        assert list(validator("diff").iter_errors(document)) == []
        assert document["failed"] == (document["exit_code"] != 0)
