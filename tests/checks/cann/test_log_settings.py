"""log-settings: CANN's log variables are valid, and no debugging is left on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.checks.cann.driver_machine import asked, cann

from npudoctor import Risk, Severity, Status
from npudoctor.checks.cann.log_settings import log_settings
from npudoctor.host import Host, Options
from npudoctor.testing import Asked, ask

LEVEL, MODULE = "ASCEND_GLOBAL_LOG_LEVEL", "ASCEND_MODULE_LOG_LEVEL"
SLOG, LOG = "ASCEND_SLOG_PRINT_TO_STDOUT", "ASCEND_LOG_PRINT_TO_STDOUT"


def shell(variables: Mapping[str, str], release: str = "8.1.RC1") -> Asked:
    return asked(log_settings, cann(release), variables=variables)


@pytest.mark.parametrize(
    "variables",
    [
        {LEVEL: "3", "ASCEND_GLOBAL_EVENT_ENABLE": "0", SLOG: "0"},
        {LEVEL: "", MODULE: "", "DUMP_GE_GRAPH": ""},
        {LEVEL: "4", "ASCEND_GLOBAL_EVENT_ENABLE": "1", LOG: "0", "ASCEND_LOG_SYNC_SAVE": "1"},
        {MODULE: "TBE=3:RUNTIME=2", "ASCEND_HOST_LOG_FILE_NUM": "1000"},
        {"ASCEND_LOG_DEVICE_FLUSH_TIMEOUT": "0", "DUMP_GE_GRAPH": "0", "DUMP_GRAPH_LEVEL": "2"},
        {LEVEL: " 3 "},
    ],
)
def test_quiet(variables: dict[str, str]) -> None:
    told = shell(variables)
    assert (told.status, told.codes) == (Status.OK, [])
    assert told.facts == {"variables": variables}


@pytest.mark.parametrize(
    ("variables", "line"),
    [
        ({LEVEL: "0"}, f"export {LEVEL}=3"),
        ({LEVEL: "1"}, f"export {LEVEL}=3"),
        ({MODULE: "TBE=1"}, f"unset {MODULE}"),
        ({MODULE: "TBE=3:GE=0"}, f"unset {MODULE}"),
    ],
)
def test_debugging_left_on(variables: dict[str, str], line: str) -> None:
    told = shell(variables)
    (finding,) = told.findings
    assert (finding.code, finding.severity) == ("log-settings.verbose", Severity.WARNING)
    assert finding.fix is not None
    assert finding.fix.commands == (line,)
    assert (finding.fix.risk, finding.fix.needs_root) == (Risk.MANUAL, False)
    assert finding.fix.undo == tuple(f"export {name}={value}" for name, value in variables.items())


@pytest.mark.parametrize("value", ["1", "2", "3"])
def test_graphs_are_dumped(value: str) -> None:
    (finding,) = shell({"DUMP_GE_GRAPH": value, "DUMP_GRAPH_LEVEL": "1|2"}).findings
    assert (finding.code, finding.severity) == ("log-settings.graph-dump", Severity.WARNING)


def test_the_detail_of_no_dump() -> None:
    assert shell({"DUMP_GRAPH_LEVEL": "1"}).codes == ["log-settings.no-effect"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (LEVEL, "5"),
        (LEVEL, "debug"),
        (SLOG, "3"),
        (LOG, "on"),
        ("ASCEND_GLOBAL_EVENT_ENABLE", "2"),
        ("ASCEND_HOST_LOG_FILE_NUM", "0"),
        ("ASCEND_HOST_LOG_FILE_NUM", "9" * 5000),
        ("ASCEND_LOG_DEVICE_FLUSH_TIMEOUT", "-1"),
        ("ASCEND_LOG_SYNC_SAVE", "yes"),
        ("DUMP_GE_GRAPH", "true"),
        (MODULE, "TBE"),
        (MODULE, "TBE=7"),
        (MODULE, "TBE=3: GE=3"),
        (MODULE, "TBE=3,GE=3"),
    ],
)
def test_not_valid(name: str, value: str) -> None:
    told = shell({name: value})
    assert (told.status, told.codes) == (Status.OK, ["log-settings.bad-value"])
    assert name in told.findings[0].message


@pytest.mark.parametrize("value", ["３", "“3”", "3；", "'3'", "3;", "3\u200b"])
def test_pasted(value: str) -> None:
    told = shell({LEVEL: value})
    assert told.codes == ["log-settings.pasted-punctuation"]
    assert told.findings[0].fix is not None
    assert told.findings[0].fix.commands == (f"export {LEVEL}=3",)


def test_pasted_modules() -> None:
    told = shell({MODULE: "TBE＝3：GE＝3"})
    assert told.codes == ["log-settings.pasted-punctuation"]
    assert shell({MODULE: "TBE=3:NOBODY=3"}).codes == ["log-settings.unknown-module"]


def test_screen_instead_of_a_file() -> None:
    assert shell({SLOG: "1"}).codes == ["log-settings.no-log-file"]
    assert shell({LOG: "1"}).codes == ["log-settings.no-log-file"]
    assert shell({SLOG: "1", LOG: "0"}).codes == ["log-settings.set-twice"]
    assert shell({SLOG: "1"}, "9.2.0").codes == ["log-settings.deprecated", "log-settings.no-log-file"]
    assert shell({SLOG: "0"}, "9.1.0").codes == []


def test_skipped(tmp_path: Path) -> None:
    assert shell({}).status is Status.SKIPPED
    assert shell({"ASCEND_PROCESS_LOG_PATH": "/x"}).status is Status.SKIPPED
    told = ask(log_settings, Host(Options(root=str(tmp_path)), variables={LEVEL: "0"}))
    assert (told.status, told.reason) == (Status.SKIPPED, "an image is not running")


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
