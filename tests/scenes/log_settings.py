"""Shells in which log-settings says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.cann.log_settings import log_settings
from npudoctor.testing import Asked

from .driver_machine import asked, cann

SHELLS: tuple[dict[str, str], ...] = (
    {},
    {"ASCEND_GLOBAL_LOG_LEVEL": "1", "ASCEND_MODULE_LOG_LEVEL": "TBE=0:NOBODY=3", "DUMP_GE_GRAPH": "2"},
    {"ASCEND_GLOBAL_LOG_LEVEL": "“3”", "ASCEND_SLOG_PRINT_TO_STDOUT": "3", "DUMP_GRAPH_LEVEL": "1"},
    {"ASCEND_SLOG_PRINT_TO_STDOUT": "1", "ASCEND_LOG_PRINT_TO_STDOUT": "0"},
    {"ASCEND_SLOG_PRINT_TO_STDOUT": "1"},
)


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    for variables in SHELLS:
        yield asked(log_settings, cann("9.2.0", "9.2.0.0.1"), variables=variables)
