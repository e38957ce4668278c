"""Parses what npu-smi prints by the words of its headers; widths of columns differ between versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Optional

from npudoctor.core.frozen import dataclass, field

Row = dict[str, str]


@dataclass(frozen=True)
class Chip:
    """One NPU chip of the table.

    - `npu`, `chip`: the numbers that -i and -c take.
    - `physical`: the N of /dev/davinciN, None if the table does not have it.
    - `memory`, `hbm`: (used, total) in MB, None if the table has no such column or no memory in it.
    - `has_chip_option`: False for the 950, whose `-t health` takes no -c.
    - `core_percent`: how busy the AI core is.
    """

    npu: int
    chip: int
    name: str
    health: str
    bus: str = ""
    physical: Optional[int] = None
    memory: Optional[tuple[int, int]] = None
    hbm: Optional[tuple[int, int]] = None
    has_chip_option: bool = True
    core_percent: Optional[int] = None

    @property
    def label(self) -> str:
        """How a person finds the chip in the table."""
        return f"NPU {self.npu}" if self.chip == 0 else f"NPU {self.npu} chip {self.chip}"


@dataclass(frozen=True)
class NpuProcess:
    """One row of the process table. `memory` in MB. `container_pid`: its pid in a container, if the table
    has it."""

    npu: int
    chip: int
    pid: int
    name: str
    memory: int
    container_pid: Optional[int] = None


@dataclass(frozen=True)
class Screen:
    """The answer to `npu-smi info`. `processes`: None if it has no process table.

    `is_cut`: a chip has only its first row, so the table is not complete.
    """

    tool: Optional[str]
    driver: Optional[str]
    chips: tuple[Chip, ...]
    processes: Optional[tuple[NpuProcess, ...]] = None
    is_cut: bool = False


@dataclass(frozen=True)
class Health:
    """The answer to `npu-smi info -t health`: one word, the error codes, and their meanings."""

    status: str
    codes: tuple[str, ...] = ()
    information: tuple[str, ...] = field(default_factory=tuple)


def parse_info(text: str) -> Optional[Screen]:
    """Parse the table of `npu-smi info`; None if its layout is unknown or it has no chip."""
    reader = _ScreenReader()
    try:
        for line in text.splitlines():
            reader.read_line(line.strip())
    except (KeyError, ValueError, IndexError):
        return None
    if not reader.chips:
        return None
    processes = tuple(reader.processes) if reader.has_processes else None
    return Screen(
        *reader.versions,
        tuple(reader.chips),
        processes,
        is_cut=reader.is_cut or reader.first_half is not None,
    )


def parse_health(text: str) -> Optional[Health]:
    """Parse the health of one chip; None if the text has no status."""
    values: dict[str, list[str]] = {}
    for key, value in parse_key_values(text):
        values.setdefault(key.lower(), []).append(value)
    status = (values.get("health status") or values.get("health") or [""])[0]
    if not status:
        return None
    codes = [code for value in values.get("error code", []) for code in value.split() if code != "NA"]
    meanings = [value for value in values.get("error information", []) if value not in ("", "NA")]
    return Health(status, tuple(codes), tuple(meanings))


def parse_key_values(text: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs of `key : value` lines; a line without a key belongs to the key before."""
    last_key = ""
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and (key.strip() or last_key):
            last_key = key.strip() or last_key
            yield last_key, value.strip()


class _ScreenReader:
    """Parses the output of `npu-smi info` line by line; each header row names the columns of those below."""

    def __init__(self) -> None:
        self.versions: tuple[Optional[str], Optional[str]] = (None, None)
        self.chips: list[Chip] = []
        self.processes: list[NpuProcess] = []
        self.has_processes = False
        self.is_cut = False
        self.first_half: Optional[Row] = None
        self._chip_titles: list[list[list[str]]] = []
        self._process_titles: Optional[list[list[str]]] = None

    def read_line(self, line: str) -> None:
        """Read one line; lines that are not rows of a table are skipped."""
        if not line.startswith("|"):
            if line.startswith("+") and self.first_half is not None:
                self.is_cut, self.first_half = True, None
            return
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0].startswith("npu-smi"):
            tool, _version, driver = cells[0].partition("Version:")
            self.versions = (tool.split()[1] if len(tool.split()) > 1 else None, driver.strip() or None)
        elif any(cell.split("  ")[0] in ("Health", "Bus-Id", "Process id") for cell in cells):
            titles = [re.split(r"\s{2,}", cell) for cell in cells]
            if "Process id" in _all_titles(titles):
                self._process_titles, self.has_processes = titles, True
            elif "Health" in _all_titles(titles):
                self._chip_titles, self._process_titles = [titles], None
            else:
                self._chip_titles.append(titles)
        elif self._process_titles is not None:
            self._read_process_row(cells)
        elif len(self._chip_titles) == 2:
            self._read_half_row(cells)

    def _read_half_row(self, cells: list[str]) -> None:
        """Read one of the two rows that describe a chip."""
        if self.first_half is None:
            self.first_half = _parse_row(self._chip_titles[0], cells)
            return
        first, self.first_half = self.first_half, None
        second = _parse_row(self._chip_titles[1], cells)
        physical, core = second.get("Phy-ID", ""), second.get("AICore(%)", "")
        self.chips.append(
            Chip(
                int(first.get("NPU") or first["NPU ID"]),
                int(second.get("Chip") or 0),
                first["Name"],
                first["Health"],
                second["Bus-Id"],
                int(physical) if physical.isdecimal() else None,
                _parse_amounts(second.get("Memory-Usage(MB)", "")),
                _parse_amounts(second.get("HBM-Usage(MB)", "")),
                has_chip_option="NPU ID" not in first,
                core_percent=int(core) if core.isdecimal() else None,
            )
        )

    def _read_process_row(self, cells: list[str]) -> None:
        if len(cells) == 1:  # No running processes found in NPU n
            return
        row = _parse_row(self._process_titles or [], cells)
        container_pid = row.get("Process id in container", "")
        self.processes.append(
            NpuProcess(
                int(row.get("NPU") or row["NPU ID"]),
                int(row.get("Chip") or 0),
                int(row["Process id"]),
                row["Process name"],
                int(row["Process memory(MB)"]),
                int(container_pid) if container_pid.isdecimal() else None,
            )
        )


def _all_titles(titles: list[list[str]]) -> list[str]:
    return [title for cell in titles for title in cell]


def _parse_row(titles: list[list[str]], cells: list[str]) -> Row:
    """The values of a row by their titles; ValueError if it has not as many cells as the header."""
    if len(titles) != len(cells):
        raise ValueError("a row of another table")
    row: Row = {}
    for names, cell in zip(titles, cells):
        # "61825/ 65536" and "0    / 0" are one value each, although they contain blanks.
        values = re.sub(r"\s*/\s*", "/", cell).split(None, len(names) - 1)
        row.update(zip(names, [*values, *[""] * len(names)]))
    return row


def _parse_amounts(value: str) -> Optional[tuple[int, int]]:
    """Parse "3314/65536"; None for a total of 0, which stands for memory that a chip does not have."""
    used, _slash, total = value.partition("/")
    return (int(used), int(total)) if total.isdecimal() and int(total) else None
