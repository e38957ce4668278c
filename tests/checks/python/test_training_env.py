"""training-env: a variable is judged as its reader reads it, and only where that reader is installed."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor import Risk, Severity, Status
from npudoctor.checks.python.training_env import training_env
from npudoctor.checks.python.training_env import training_env as check
from npudoctor.knowledge import tables
from npudoctor.testing import SITE, Asked, ask, fake_host, unreadable

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO


def told(torch_npu: str = "2.7.1", /, **variables: str) -> Asked:
    """The answer where this torch_npu ("" for none) is installed and these variables are set."""
    packages = {"torch-npu": torch_npu} if torch_npu else {}
    return ask(training_env, fake_host(variables=variables, packages=packages))


@pytest.mark.parametrize(
    "variables",
    [
        {"TASK_QUEUE_ENABLE": "0"},
        {"TASK_QUEUE_ENABLE": "2"},
        {"TASK_QUEUE_ENABLE": " 1 "},
        {"COMBINED_ENABLE": "1", "ASCEND_LAUNCH_BLOCKING": "0", "TASK_QUEUE_ENABLE": "1"},
        {"ASCEND_LAUNCH_BLOCKING": ""},
        {"ASCEND_LAUNCH_BLOCKING": "false"},
        {"ASCEND_LAUNCH_BLOCKING": "1", "TASK_QUEUE_ENABLE": "0"},
        {"SCALAR_TO_HOST_MEM": "1", "BMMV2_ENABLE": "1"},
        {"PYTORCH_NPU_ALLOC_CONF": "max_split_size_mb:256,garbage_collection_threshold:0.8"},
        {"AUTO_USE_UC_MEMORY": "0", "ASCEND_COREDUMP_SIGNAL": "none", "ASCEND_TRACE_RECORD_NUM": "1000"},
        {"AUTO_USE_UC_MEMORY": "", "ASCEND_COREDUMP_SIGNAL": "all", "ASCEND_TRACE_RECORD_NUM": ""},
    ],
)
def test_quiet_when_well(variables: dict[str, str]) -> None:
    asked = told(**variables)
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts == {"variables": variables}


def test_a_number_that_torch_npu_refuses() -> None:
    asked = told(TASK_QUEUE_ENABLE="3")
    (finding,) = asked.findings
    assert (finding.code, finding.severity) == ("training-env.bad-value", ERROR)
    assert "TASK_QUEUE_ENABLE should be 0, 1 or 2" in finding.message
    assert finding.evidence[0] == "TASK_QUEUE_ENABLE=3"
    assert finding.fix is not None
    assert finding.fix.commands == ("unset TASK_QUEUE_ENABLE",)
    assert finding.fix.undo == ("export TASK_QUEUE_ENABLE=3",)
    assert (finding.fix.risk, finding.fix.needs_root) == (Risk.MANUAL, False)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("COMBINED_ENABLE", "2", "1 is used instead"),
        ("AUTO_USE_UC_MEMORY", "yes", "0 is used instead"),
        ("ASCEND_TRACE_RECORD_NUM", "5", "10-1000"),
        ("ASCEND_TRACE_RECORD_NUM", "1001", "10-1000"),
        ("ASCEND_TRACE_RECORD_NUM", "ten", "the default is used instead"),
    ],
)
def test_another_value_is_taken_instead(name: str, value: str, said: str) -> None:
    (finding,) = told(**{name: value}).findings
    assert (finding.code, finding.severity) == ("training-env.bad-value", INFO)
    assert said in finding.message


@pytest.mark.parametrize(
    ("name", "value", "severity", "line"),
    [
        ("TASK_QUEUE_ENABLE", "“1”", WARNING, "export TASK_QUEUE_ENABLE=1"),
        ("TASK_QUEUE_ENABLE", "‘2’", WARNING, "export TASK_QUEUE_ENABLE=2"),
        ("TASK_QUEUE_ENABLE", '"1"', WARNING, "export TASK_QUEUE_ENABLE=1"),
        ("TASK_QUEUE_ENABLE", "２", WARNING, "export TASK_QUEUE_ENABLE=2"),
        ("TASK_QUEUE_ENABLE", "\u00a01", WARNING, "export TASK_QUEUE_ENABLE=1"),
        ("TASK_QUEUE_ENABLE", "\ufeff1", WARNING, "export TASK_QUEUE_ENABLE=1"),
        ("TASK_QUEUE_ENABLE", "1；", INFO, "export TASK_QUEUE_ENABLE=1"),
        ("COMBINED_ENABLE", "1;", INFO, "export COMBINED_ENABLE=1"),
        ("COMBINED_ENABLE", "“0”", INFO, "export COMBINED_ENABLE=0"),
        ("BMMV2_ENABLE", "“1”", WARNING, "export BMMV2_ENABLE=1"),
        ("ASCEND_COREDUMP_SIGNAL", "none ", WARNING, "export ASCEND_COREDUMP_SIGNAL=none"),
        (
            "PYTORCH_NPU_ALLOC_CONF",
            "expandable_segments：True",
            WARNING,
            "export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True",
        ),
    ],
)
def test_pasted_punctuation(name: str, value: str, severity: Severity, line: str) -> None:
    (finding,) = told(**{name: value}).findings
    assert (finding.code, finding.severity) == ("training-env.pasted-punctuation", severity)
    assert finding.fix is not None
    assert finding.fix.commands == (line,)


def test_pasted_and_invalid_all_the_same() -> None:
    assert told(TASK_QUEUE_ENABLE="3；").findings[0].severity is ERROR
    assert told(ASCEND_TRACE_RECORD_NUM="“5”").codes == ["training-env.bad-value"]


@pytest.mark.parametrize(
    ("value", "line"), [("on", "export TASK_QUEUE_ENABLE=1"), ("fast", "unset TASK_QUEUE_ENABLE")]
)
def test_a_word_is_read_as_0(value: str, line: str) -> None:
    (finding,) = told(TASK_QUEUE_ENABLE=value).findings
    assert (finding.code, finding.severity) == ("training-env.read-otherwise", WARNING)
    assert "reads as the number 0" in finding.message
    assert finding.fix is not None
    assert finding.fix.commands == (line,)


def test_a_number_with_words_after_it_is_that_number() -> None:
    (finding,) = told(TASK_QUEUE_ENABLE="2 # fast").findings
    assert (finding.code, finding.severity) == ("training-env.read-otherwise", INFO)
    assert finding.fix is not None and finding.fix.commands == ("export TASK_QUEUE_ENABLE=2",)
    assert told(TASK_QUEUE_ENABLE="7 # fast").findings[0].severity is ERROR


def test_empty_is_not_unset() -> None:
    (finding,) = told(TASK_QUEUE_ENABLE="").findings
    assert (finding.code, finding.severity) == ("training-env.read-otherwise", INFO)


@pytest.mark.parametrize(("name", "value"), [("PTCOPY_ENABLE", "1"), ("DYNAMIC_OP", "ADD#MUL")])
def test_no_effect_any_more(name: str, value: str) -> None:
    (finding,) = told("2.7.1", **{name: value}).findings
    assert (finding.code, finding.severity) == ("training-env.no-effect", INFO)
    assert "torch_npu 2.7.1" in finding.message
    assert told("1.8.1", **{name: value}).codes == []


def test_overridden() -> None:
    (finding,) = told(ASCEND_LAUNCH_BLOCKING="1", TASK_QUEUE_ENABLE="2").findings
    assert (finding.code, finding.severity) == ("training-env.overridden", INFO)
    assert "ASCEND_LAUNCH_BLOCKING=1" in finding.message


def test_a_refused_number_is_not_refused_where_nobody_looks() -> None:
    assert told(ASCEND_LAUNCH_BLOCKING="1", TASK_QUEUE_ENABLE="3").codes == ["training-env.overridden"]


def test_without_the_reader_nothing_is_judged() -> None:
    asked = told("", TASK_QUEUE_ENABLE="3", PTCOPY_ENABLE="“1”")
    assert (asked.status, asked.codes) == (Status.SKIPPED, [])
    assert "PTCOPY_ENABLE" in asked.reason


def test_skipped_when_none_is_set() -> None:
    assert told().status is Status.SKIPPED
    assert told(HCCL_CONNECT_TIMEOUT="“600”").status is Status.SKIPPED


def test_skipped_in_an_image() -> None:
    assert ask(training_env, fake_host(root="/srv/image")).status is Status.SKIPPED


def test_cannot_tell_when_the_packages_cannot_be_seen() -> None:
    host = fake_host({SITE: unreadable(errno.EACCES)}, variables={"TASK_QUEUE_ENABLE": "3"})
    assert ask(training_env, host).status is Status.UNKNOWN
    host = fake_host({SITE: unreadable(errno.EACCES)}, variables={"AUTO_USE_UC_MEMORY": "1"})
    assert ask(training_env, host).status is Status.OK


@pytest.mark.parametrize("row", tables.load_table("variables")["variable"], ids=lambda row: str(row["name"]))
def test_each_row_of_the_table_is_whole(row: dict[str, Any]) -> None:
    assert row["source"] and row["as_of"]
    assert "values" in row or "read" not in row
    assert ("least" in row) == ("most" in row)
    assert row.get("read") in (None, "number", "flag")
    assert "package" in row or "until" not in row


@pytest.mark.parametrize("value", ["", "“”", ";", "x" * 10_000, "9" * 5000, "\udcff", "-1", "+2"])
def test_no_value_is_a_crash(value: str) -> None:
    for row in tables.load_table("variables")["variable"]:
        assert told(**{row["name"]: value}).status in (Status.OK, Status.PROBLEM), row["name"]


VARIABLES: tuple[dict[str, str], ...] = (
    {},
    {"TASK_QUEUE_ENABLE": "3", "COMBINED_ENABLE": "7", "PTCOPY_ENABLE": "1", "ASCEND_TRACE_RECORD_NUM": "1"},
    {"TASK_QUEUE_ENABLE": "“1”", "COMBINED_ENABLE": "1；", "BMMV2_ENABLE": "“1”"},
    {"TASK_QUEUE_ENABLE": "fast", "ASCEND_LAUNCH_BLOCKING": "on"},
    {"TASK_QUEUE_ENABLE": ""},
    {"TASK_QUEUE_ENABLE": "2", "ASCEND_LAUNCH_BLOCKING": "1"},
)


def scene(tmp: Path) -> Iterator[Asked]:
    """Every code, and both lines of its fix."""
    for variables in VARIABLES:
        yield ask(check, fake_host(variables=variables, packages={"torch-npu": "2.7.1"}))
