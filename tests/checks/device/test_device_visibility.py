"""device-visibility: the variables that choose NPUs agree with each other and with the devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.checks.device.test_device_nodes import CONTAINER, nodes

from npudoctor import Severity, Status
from npudoctor.checks.device.device_visibility import device_visibility
from npudoctor.facts.npu.visible import VisibleNpus, listed_ids, runtime_ids
from npudoctor.testing import Asked, Content, ask, device, fake_host

RT = "ASCEND_RT_VISIBLE_DEVICES"
OUTER = "ASCEND_VISIBLE_DEVICES"


def told(variables: Mapping[str, str], *parts: Mapping[str, Content], count: int = 8) -> Asked:
    files = {path: content for part in (nodes(count), *parts) for path, content in part.items()}
    return ask(device_visibility, fake_host(files, variables=variables))


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield ask(device_visibility, fake_host())
    yield told({})
    for value in ("", "all", "8", "1, 2,3", "1,3,8", "3,1", "9" * 5000):
        yield told({RT: value})
    yield told({OUTER: "0,1"})
    yield told({OUTER: "0," * 3000}, CONTAINER)
    yield told({OUTER: "6-9"}, CONTAINER)
    yield told({"SLURM_JOB_GPUS": "2,3"})


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ("0", VisibleNpus((0,))),
        ("0,1,2,3,4,5,6,7", VisibleNpus(tuple(range(8)))),
        ("1,3,8", VisibleNpus((1, 3), "8")),
        ("1, 2,3", VisibleNpus((1,), " 2,3", strange=True)),
        ("1 ,2", VisibleNpus((1,), " ,2", strange=True)),
        ("0-3", VisibleNpus((0,), "-3", strange=True)),
        ("0,1 ", VisibleNpus((0, 1), strange=True)),
        ("0,1,", VisibleNpus((0, 1), strange=True)),
        (" 0", VisibleNpus((), " 0", strange=True)),
        ("NPU0", VisibleNpus((), "NPU0", strange=True)),
        ("0;1", VisibleNpus((0,), ";1", strange=True)),
        ("8", VisibleNpus((), "8")),
        ("-1", VisibleNpus((), "-1", strange=True)),
        ("٣", VisibleNpus((), "٣", strange=True)),
        ("9" * 30, VisibleNpus((), "9" * 30)),
        ("9" * 5000, VisibleNpus((), "9" * 5000)),
        ("1,2, ,3", VisibleNpus((1, 2), " ,3", strange=True)),
        ("1,,3", VisibleNpus((1,), ",3", strange=True)),
    ],
)
def test_how_the_runtime_reads_it(value: str, seen: VisibleNpus) -> None:
    assert runtime_ids(value, 8) == seen


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        ("0", [0]),
        ("1,3", [1, 3]),
        ("0-2,4", [0, 1, 2, 4]),
        ("", None),
        ("Ascend910-0", None),
        ("void", None),
        ("0-99999999", None),
        ("9" * 4000, None),
        ("0-4095", list(range(4096))),
        ("0-4095," * 500 + "0", None),
    ],
)
def test_lists_with_ranges(value: str, ids: object) -> None:
    assert listed_ids(value) == ids


@pytest.mark.parametrize(
    "variables",
    [
        {RT: "0"},
        {RT: "0,1,2,3,4,5,6,7"},
        {RT: "2,5"},
        {RT: "2,5 "},
        {RT: "2,3", "SLURM_JOB_GPUS": "2,3"},
        {RT: "2", "SLURM_JOB_GPUS": "2,3"},
        {"SLURM_JOB_GPUS": "0-7"},
        {"SLURM_JOB_GPUS": "0-15"},
        {"SLURM_STEP_GPUS": "what"},
        {OUTER: "0,1", RT: "0,1"},
    ],
)
def test_quiet(variables: Mapping[str, str]) -> None:
    answer = told(variables)
    assert (answer.status, answer.findings) == (Status.OK, ())


@pytest.mark.parametrize(
    "variables",
    [
        {OUTER: "0-7"},
        {OUTER: "0,3", RT: "0,1"},
        {OUTER: "Ascend910-0"},
        {OUTER: "void"},
        {"SLURM_JOB_GPUS": "2"},
    ],
)
def test_quiet_in_a_container(variables: Mapping[str, str]) -> None:
    assert told(variables, CONTAINER).codes == []


@pytest.mark.parametrize("value", ["8", "4,5", "all", " 0", "-1"])
def test_nothing_is_left(value: str) -> None:
    """Also where somebody wrote the host's numbers into a container that was given two."""
    (finding,) = told({RT: value, OUTER: "0,1"}, CONTAINER, count=2).findings
    assert (finding.code, finding.severity) == ("device-visibility.none-left", Severity.ERROR)


@pytest.mark.parametrize(
    ("value", "code", "line"),
    [
        ("1, 2,3", "cut", "export ASCEND_RT_VISIBLE_DEVICES=1,2,3"),
        ("0-3", "cut", "export ASCEND_RT_VISIBLE_DEVICES=0,1,2,3"),
        ("0;1", "cut", "unset ASCEND_RT_VISIBLE_DEVICES"),
        ("1,3,8", "no-such-device", "export ASCEND_RT_VISIBLE_DEVICES=1,3"),
        ("3,1", "not-ascending", "export ASCEND_RT_VISIBLE_DEVICES=1,3"),
        ("1,1", "not-ascending", "export ASCEND_RT_VISIBLE_DEVICES=1"),
    ],
)
def test_it_gets_fewer_or_others(value: str, code: str, line: str) -> None:
    (finding,) = told({RT: value}).findings
    assert (finding.code, finding.severity) == (f"device-visibility.{code}", Severity.WARNING)
    assert value in finding.message
    assert finding.fix is not None
    assert finding.fix.commands == (line,)
    assert value in finding.fix.undo[0]


@pytest.mark.parametrize("value", ["9" * 5000, "0," * 60_000, "0-4095," * 20_000, "x" * 130_000])
@pytest.mark.parametrize("name", [RT, OUTER])
def test_a_value_without_end_is_a_problem_at_once(name: str, value: str) -> None:
    (finding,) = told({name: value}, CONTAINER).findings
    assert (finding.code, finding.severity) == ("device-visibility.bad-value", Severity.WARNING)
    assert len(finding.message) + len(finding.evidence[0]) < 1000
    assert told({"SLURM_JOB_GPUS": value}).findings == ()


def test_a_long_number_is_shown_in_part() -> None:
    (finding,) = told({RT: "9" * 4000}).findings
    assert (finding.code, len(finding.message) < 400) == ("device-visibility.none-left", True)
    (finding,) = told({OUTER: "0-4095"}, CONTAINER).findings
    assert (finding.code, len(finding.message) < 400) == ("device-visibility.not-given", True)


@pytest.mark.parametrize("value", ["", "  "])
def test_empty_is_not_known(value: str) -> None:
    (finding,) = told({RT: value}).findings
    assert (finding.code, finding.severity) == ("device-visibility.empty", Severity.INFO)


def test_what_the_container_was_to_be_given() -> None:
    (finding,) = told({OUTER: "6-9"}, CONTAINER).findings
    assert (finding.code, finding.severity) == ("device-visibility.not-given", Severity.WARNING)
    assert "/dev/davinci8, /dev/davinci9" in finding.message
    virtual = {OUTER: "100", "ASCEND_RUNTIME_OPTIONS": "NODRV,VIRTUAL"}
    assert told(virtual, CONTAINER).codes == ["device-visibility.not-given"]
    there: dict[str, Content] = {"/dev/vdavinci100": device()}
    assert told(virtual, CONTAINER, there).codes == []


def test_the_container_runtimes_variable_limits_nothing_on_a_host() -> None:
    (finding,) = told({OUTER: "0,1"}).findings
    assert (finding.code, finding.severity) == ("device-visibility.container-only", Severity.INFO)


@pytest.mark.parametrize("variables", [{}, {RT: "0,2"}])
def test_more_than_slurm_gave(variables: Mapping[str, str]) -> None:
    (finding,) = told({**variables, "SLURM_JOB_GPUS": "0,2,3", "SLURM_STEP_GPUS": "2-3"}).findings
    assert (finding.code, finding.severity) == ("device-visibility.beyond-slurm", Severity.WARNING)
    assert "2,3 (SLURM_STEP_GPUS)" in finding.message
    assert finding.fix is not None
    assert finding.fix.commands == ("export ASCEND_RT_VISIBLE_DEVICES=2,3",)


def test_slurms_gpus_are_gpus_where_there_are_any() -> None:
    assert told({"SLURM_JOB_GPUS": "2"}, {"/dev/nvidia0": device()}).codes == []


def test_skipped() -> None:
    assert told({}).status is Status.SKIPPED
    assert ask(device_visibility, fake_host(variables={RT: "0"})).status is Status.SKIPPED
    image = fake_host(nodes(), variables={RT: "0"}, root="/srv/image")
    assert ask(device_visibility, image).reason == "an image is not running"
