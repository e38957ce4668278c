"""npu-smi's tables: every layout is read by its headers, and what is none is None."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.checks.device import npu_machine as npu
from tests.checks.device.npu_machine import screen

from npudoctor.host.devices.npu_smi import parse_failure
from npudoctor.host.devices.npu_tables import Chip, Health, NpuProcess, parse_health, parse_info

SCREENS = sorted(Path(__file__).parent.glob("npu_smi/[a-g]_*.txt"))


@pytest.mark.parametrize(
    ("name", "tool", "driver", "count", "chip"),
    [
        (
            "a_910a_1.8.19",
            "1.8.19",
            "20.2.1",
            4,
            Chip(0, 0, "910A", "OK", "0000:01:00.0", memory=(700, 15100), hbm=(0, 32768), core_percent=0),
        ),
        (
            "b_910a_21.0.3",
            "21.0.3",
            "21.0.3",
            4,
            Chip(0, 0, "910A", "OK", "0000:01:00.0", memory=(900, 15160), hbm=(2, 32768), core_percent=0),
        ),
        (
            "c_910b2_24.1.0_idle",
            "24.1.0",
            "24.1.0",
            8,
            Chip(0, 0, "910B2", "OK", "0000:01:00.0", hbm=(3320, 65536), core_percent=0),
        ),
        (
            "d_a3_25.0.1_idle",
            None,
            None,
            8,
            Chip(0, 0, "Ascend910", "OK", "0000:01:00.0", physical=0, hbm=(3400, 65536), core_percent=0),
        ),
        (
            "e_310p_24.1.1_two_chips",
            "24.1.1",
            "24.1.1",
            2,
            Chip(6, 0, "310P3", "OK", "0000:07:00.0", memory=(1180, 44280), core_percent=0),
        ),
        (
            "f_910b3_26.0.0_busy",
            "26.0.0",
            "26.0.0",
            2,
            Chip(0, 0, "910B3", "OK", "0000:01:00.0", hbm=(8600, 65536), core_percent=0),
        ),
        (
            "g_950_26.1.0",
            "26.1.0",
            "26.1.0",
            2,
            Chip(0, 0, "Ascend950", "OK", "0000:01:00.0", hbm=(4100, 131072), has_chip_option=False),
        ),
    ],
)
def test_each_layout(name: str, tool: str, driver: str, count: int, chip: Chip) -> None:
    told = parse_info(screen(name))
    assert told is not None
    assert (told.tool, told.driver, len(told.chips), told.chips[0], told.is_cut) == (
        tool,
        driver,
        count,
        chip,
        False,
    )


@pytest.mark.parametrize("path", SCREENS, ids=lambda path: path.stem)
def test_indented_or_with_other_lines_around(path: Path) -> None:
    """As people paste it."""
    text = path.read_text()
    plain = parse_info(text)
    assert plain is not None
    assert parse_info("".join(f"        {line}\n" for line in text.splitlines())) == plain
    assert parse_info(f"Fri Nov 20\n\n{text}\n{npu.INCOMPLETE}") == plain


def test_two_dies_have_their_physical_ids() -> None:
    told = parse_info(screen("d_a3_25.0.1_idle"))
    assert told is not None
    assert [(chip.npu, chip.chip, chip.physical) for chip in told.chips[:3]] == [
        (0, 0, 0),
        (0, 1, 1),
        (1, 0, 2),
    ]
    assert told.chips[1].label == "NPU 0 chip 1"


def test_processes() -> None:
    busy = parse_info(screen("c_910b4_25.0.1_busy"))
    assert busy is not None
    assert busy.processes == (NpuProcess(0, 0, 71001, "python3.1", 25033), NpuProcess(0, 0, 71002, "", 7))
    inside = parse_info(screen("f_910b3_26.0.0_container"))
    assert inside is not None
    assert inside.processes == (
        NpuProcess(0, 0, 52001, "python3", 5190, 77),
        NpuProcess(1, 0, 52002, "", 5990),
    )
    idle = parse_info(screen("c_910b2_24.1.0_idle"))
    assert idle is not None
    assert idle.processes == ()
    old = parse_info(screen("b_910a_21.0.3"))
    assert old is not None
    assert old.processes is None


def test_a_table_that_is_cut() -> None:
    text = screen("c_910b2_24.1.0_idle")
    lines = text.splitlines()
    told = parse_info("\n".join(lines[:10]))
    assert told is not None
    assert (len(told.chips), told.is_cut) == (1, True)
    assert parse_info("\n".join(lines[:6])) is None, "headers alone are no answer"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0\1\2" * 1000,
        "| " * 5000,
        "|Health|Bus-Id|\n|a|b|",
        screen("c_910b2_24.1.0_idle").replace("Health", "Gesundheit"),
        screen("c_910b2_24.1.0_idle").replace("HBM-Usage(MB)", "| HBM-Usage(MB)"),
        screen("c_910b2_24.1.0_idle").replace("3320", "many"),
        npu.NO_DRIVER,
        npu.USAGE,
        screen("health_alarm"),
    ],
)
def test_what_is_no_table(text: str) -> None:
    assert parse_info(text) is None


def test_health() -> None:
    assert parse_health(screen("health_alarm")) == Health(
        "Alarm",
        ("80E18402", "80CD8006"),
        (
            "node type=HBM, sensor type=Memory, event state=Multi bit ECC.",
            "node type=L2BUFF, event state=Input error.",
        ),
    )
    assert parse_health(screen("health_950")) == Health("Warning")
    for text in ("", npu.USAGE, npu.NO_DRIVER, screen("c_910b2_24.1.0_idle")):
        assert parse_health(text) is None


@pytest.mark.parametrize(
    ("text", "kind", "code"),
    [
        (npu.NO_DRIVER, "no-driver", -8005),
        (npu.NO_RIGHTS, "no-rights", -8005),
        (npu.USED, "used", -8020),
        (npu.NOT_READY, "code", -9005),
        (npu.NO_LIBRARY, "library", None),
        (npu.NO_CARD, "no-card", None),
        (npu.USAGE, "usage", None),
    ],
)
def test_failures(text: str, kind: str, code: int) -> None:
    told = parse_failure(text)
    assert told is not None
    assert (told.kind, told.code) == (kind, code)
    assert told.line in text
    assert parse_failure("something else") is None
