"""The generated parts of the READMEs: what stands between the markers is replaced, nothing else."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "readme.py"
CHECK = {
    "id": "hccl-ports",
    "group": "network",
    "title": "Ports a|b are free",
    "codes": {"hccl-ports.held": "warning", "hccl-ports.dead": "error"},
}


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("readme_tool", TOOL)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_row_links_to_the_file_and_escapes_its_title(tool: ModuleType) -> None:
    lines = tool.table([CHECK], "en", str).splitlines()
    assert lines[0] == "## network"
    assert lines[4:] == [
        (
            r"| [`hccl-ports`](../checks/network/hccl_ports.py): Ports a\|b are free "
            "| `hccl-ports.dead` | error |"
        ),
        "|  | `hccl-ports.held` | warning |",
    ]


def test_only_what_is_between_the_markers_is_replaced(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "part", lambda name, language, folder: f"{name} in {language}\n")
    old = (
        "a\n<!-- help fix:begin -->\nold\n<!-- help fix:end -->\nb\n"
        "<!-- checks:begin -->\n<!-- checks:end -->\n"
    )
    assert tool.filled(old, "zh", "zh_CN") == (
        "a\n<!-- help fix:begin -->\nhelp fix in zh\n<!-- help fix:end -->\nb\n"
        "<!-- checks:begin -->\nchecks in zh\n<!-- checks:end -->\n"
    )
