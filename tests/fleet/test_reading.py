"""Reports are found in whatever carried them; what was meant to be one is never dropped."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from npudoctor.fleet.reading import ReceivedReport, UnreadableReport, read_reports, read_stream
from npudoctor.render.json_text import json_text

from .carriers import prefixed, report


def items(text: str) -> list[Any]:
    return list(read_stream([line.encode() for line in text.splitlines(keepends=True)], "-"))


def names(text: str) -> list[str]:
    return [
        item.report["host"]["name"] if isinstance(item, ReceivedReport) else f"!{item.node}"
        for item in items(text)
    ]


A, B = json_text(report("a")), json.dumps(report("b"))
ANSIBLE = json.dumps(
    {"plays": [{"tasks": [{"hosts": {"a": {"stdout": A, "rc": 1}, "x": {"unreachable": True}}}]}]}
)

STREAMS = {
    "pretty": (A, ["a"]),
    "lines": (B + "\n" + json.dumps(report("a")) + "\n", ["b", "a"]),
    "concatenated": (A + A.replace('"a"', '"c"') + B, ["a", "c", "b"]),
    "without a line between": (A.rstrip() + B + "\n", ["a", "b"]),
    "indented": (json.dumps(report("a"), indent=2) + "\n" + json.dumps(report("b"), indent=4), ["a", "b"]),
    "noise": ("Welcome {user}\n=== npudoctor ===\n" + A + "=== end ===\nbye: {\n", ["a"]),
    "srun -l": ("".join(x + y for x, y in zip(prefixed("a", " 3: "), prefixed("b", "12: "))), ["a", "b"]),
    "clush": ("".join(prefixed("a", "node3: ") + prefixed("b", "node4: ", False)), ["a", "b"]),
    "kubectl": ("".join(prefixed("a", "[pod/train-0/doctor] ")), ["a"]),
    "ansible callback": (ANSIBLE, ["a", "!x"]),
    "ansible debug": ("TASK [x]\nok: [a] => " + json.dumps({"stdout": A}, indent=4) + "\n", ["a"]),
    "ansible unreachable": ('y | UNREACHABLE! => {\n    "msg": "no route",\n    "unreachable": true\n}\n', ["!y"]),  # noqa: E501
    "cut short": (A[: len(A) // 2], ["!a"]),
    "cut short, then whole": (A[: len(A) // 2] + "\n" + B, ["!a", "b"]),
    "newer minor": (A.replace('"seconds"', '"later": {"x": 1},\n  "seconds"', 1), ["a"]),
    "another major": (A.replace("report/1", "report/2"), ["!a"]),
    "deep": ('{"schema": "npudoctor.report/1", "a": ' + "[" * 100_000 + "}\n", ["!None"]),
    "a merged one": (json.dumps({"schema": "npudoctor.fleet/1", "reports": [report("a"),
                     {"node": "n9", "error": "silent"}]}), ["a", "!n9"]),
}  # fmt: skip


@pytest.mark.parametrize("case", STREAMS)
def test_reports_are_found_in(case: str) -> None:
    text, expected = STREAMS[case]
    assert names(text) == expected


def test_folders_and_packed_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper/a.json.gz").write_bytes(gzip.compress(A.encode()))
    (tmp_path / "b.json").write_text(B)
    (tmp_path / "c.json").write_text("")
    (tmp_path / "d.json.gz").write_bytes(gzip.compress(A.encode())[:200])
    found = list(read_reports([str(tmp_path)], None))  # type: ignore[arg-type]
    assert [type(item) for item in found] == [
        ReceivedReport,
        UnreadableReport,
        UnreadableReport,
        ReceivedReport,
    ]
