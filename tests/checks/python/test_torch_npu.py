"""torch-npu: the torch and the CANN beside torch_npu are those that it was made for."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import pytest
from tests.checks.cann.test_library_path import HEALTHY
from tests.checks.python.stack_machine import cann, installed, site
from tests.checks.python.test_torch_autoload import WITHOUT_CANN, judge

from npudoctor import Risk, Severity, Status
from npudoctor.checks.python.torch_npu import torch_npu
from npudoctor.knowledge.site import Knowledge
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, folder, package_files, unreadable

ROW = '[[torch_npu.cann]]\ntorch_npu = "2.7.1"\ncann = "{cann}"\nsource = "ours"\nas_of = "2026-12"\n'


def beside(
    torch_npu_version: str, torch: str = "", cann_version: str = "", *headers: str, **more: Any
) -> Asked:
    """The answer where these are installed; torch_npu's metadata has these headers."""
    files: dict[str, Content] = package_files("torch_npu", torch_npu_version, *headers)
    files.update(installed(torch=torch) if torch else {})
    files.update(cann(cann_version) if cann_version else {})
    return ask(torch_npu, fake_host(files, **more))


@pytest.mark.parametrize(
    ("adapter", "torch", "version", "headers"),
    [
        ("2.7.1", "2.7.1", "8.3.RC1", ("Requires-Dist: torch==2.7.1",)),
        ("2.7.1", "2.7.1", "8.3.RC1", ("Requires-Dist: torch==2.7.1+cpu",)),
        ("2.7.1", "2.7.1+cu126", "8.3.RC1", ("Requires-Dist: torch==2.7.1+cpu",)),
        ("2.7.1", "2.7.1+cpu", "8.0.0", ("Requires-Dist: torch==2.7.1",)),  # by its train
        ("2.9.0.post2", "2.9.0", "9.0.1", ("Requires-Dist: torch ==2.9.0",)),  # a patch of 9.0.0
        ("2.9.0", "2.9.0", "8.5.1", ()),
        ("2.1.0.post12", "2.1.0", "8.1.RC1", ()),
        ("2.1.0.post12", "2.1.0", "8.1.rc1", ()),
        ("2.1.0.post12", "2.1.0", "8.1.RC1.beta1", ()),
        ("1.8.1.post2", "1.8.1", "6.3.RC2", ()),
        ("2.1.0rc1", "2.1.0", "7.0.RC1", ()),
        ("2.12.0+git1234567", "2.12.0", "9.1.0", ()),
        ("1.5.0.post3", "1.5.0", "5.0.3", ()),
    ],
)
def test_quiet_when_it_suits(adapter: str, torch: str, version: str, headers: tuple[str, ...]) -> None:
    told = beside(adapter, torch, version, *headers)
    assert (told.status, told.codes) == (Status.OK, [])
    assert told.facts == {"torch_npu": adapter, "torch": torch, "cann": version}


# What TorchNPU 26.2.0's release note declares: every release of these trains with every CANN of these lines.
TRAINS = (
    *("2.14.0", "2.13.0", "2.12.0.post3", "2.11.0.post3", "2.10.0.post7", "2.9.0.post9", "2.7.1.post11"),
    *("2.12.0.post2", "2.11.0.post2", "2.10.0.post6", "2.9.0.post8", "2.7.1.post10"),
    *("2.12.0", "2.11.0", "2.10.0.post4", "2.9.0.post6", "2.7.1.post8"),
    *("2.10.0", "2.9.0.post2", "2.8.0.post4", "2.7.1.post4"),
    *("2.9.0", "2.8.0.post2", "2.7.1.post2", "2.6.0.post5"),
)
CANNS = ("8.5.0", "8.5.1", "8.5.2", "9.0.0-beta.2", "9.0.0", "9.0.1", "9.1.0", "9.2.0-beta.1", "9.2.0")


@pytest.mark.parametrize("adapter", TRAINS)
def test_quiet_with_every_cann_that_its_train_is_declared_for(adapter: str) -> None:
    torch = adapter.partition(".post")[0]
    assert {version: beside(adapter, torch, version).codes for version in CANNS} == {
        version: [] for version in CANNS
    }


def test_every_row_of_ours_is_quiet() -> None:
    rows = [row for row in Knowledge().rows("torch_npu", "cann") if row.texts("torch")]
    assert len(rows) > 80
    for row in rows:
        for version in row.texts("cann"):
            there = version.replace(".X", ".0")
            assert beside(row["torch_npu"], row["torch"], there).codes == [], (row["torch_npu"], version)


def test_a_release_of_no_train_between_two_that_suit_is_a_note() -> None:
    (finding,) = beside("2.10.0.post2", "2.10.0", "8.5.0").findings
    assert (finding.code, finding.severity) == ("torch-npu.cann-not-listed", Severity.INFO)


def test_the_release_that_was_published_for_this_cann_is_offered_first() -> None:
    told = beside("2.8.0", "2.9.0", "8.5.0", "Requires-Dist: torch==2.8.0")
    fix = told.findings[0].fix
    assert fix is not None and fix.commands[0].endswith(" torch-npu==2.9.0")


def test_quiet_without_cann() -> None:
    assert beside("2.7.1", "2.7.1").codes == []


def test_another_release_of_torch_than_the_metadata_wants() -> None:
    (finding,) = beside("2.7.1", "2.8.0", "8.3.RC1", "Requires-Dist: torch==2.7.1+cpu").findings
    assert (finding.code, finding.severity) == ("torch-npu.torch-mismatch", Severity.ERROR)
    assert "torch 2.8.0" in finding.message and "torch==2.7.1" in finding.message
    assert f"torch 2.8.0: {SITE}/torch-2.8.0.dist-info" in finding.evidence
    assert finding.fix is not None and finding.fix.risk is Risk.MANUAL
    # The build too, which PyPI does not have: pip calls another one unsuitable.
    index = "--extra-index-url https://download.pytorch.org/whl/cpu"
    other = f"/usr/bin/python3 -m pip install torch==2.7.1+cpu {index}"
    assert finding.evidence[-1] == f"or install the torch that torch_npu was made for: {other}"
    # What works now comes first: torch stays.
    assert finding.fix.commands == ("/usr/bin/python3 -m pip install torch==2.8.0 torch-npu==2.8.0",)


@pytest.mark.parametrize(
    ("adapter", "torch", "headers"),
    [
        ("2.7.1", "2.7.1.post1", ("Requires-Dist: torch==2.7.1",)),
        ("2.1.0.post12", "2.2.0", ()),
    ],
)
def test_less_than_that_is_a_warning(adapter: str, torch: str, headers: tuple[str, ...]) -> None:
    (finding,) = beside(adapter, torch, "", *headers).findings
    assert (finding.code, finding.severity) == ("torch-npu.torch-mismatch", Severity.WARNING)


@pytest.mark.parametrize(
    ("line", "torch", "severity"),
    [
        ("torch===2.8.0", "2.8.0", None),
        ("torch===2.8.0+cpu", "2.8.0+cu126", None),
        ("torch==2.8.0,>=2.0", "2.8.0", None),
        ("torch==2.8.0+cpu,>=2.0", "2.8.0", None),
        ("torch===2.8.0", "2.9.0", Severity.ERROR),
        ("torch==2.8.0,>=2.0", "2.9.0", Severity.ERROR),
        ("torch==2.8.0+cpu,!=2.8.0.post1", "2.8.0.post1", Severity.WARNING),
        ("torch==2.8.*", "2.9.0", Severity.ERROR),
        ("torch>=2.8,<2.9", "2.9.0", Severity.ERROR),
        ("torch", "2.8.0", None),
        ("torch", "2.9.0", Severity.WARNING),
    ],
)
def test_every_legal_requirement(line: str, torch: str, severity: Optional[Severity]) -> None:
    told = beside("2.8.0", torch, "", f"Requires-Dist: {line}")
    assert [one.severity for one in told.findings] == ([severity] if severity else [])
    assert set(told.codes) <= {"torch-npu.torch-mismatch"}


@pytest.mark.parametrize(
    ("expect", "switch", "severity"),
    [
        ("none", "0", Severity.WARNING),
        ("gpu", "0", Severity.WARNING),
        ("auto", "0", Severity.WARNING),  # and no NPU is seen
        ("npu", "0", Severity.ERROR),
        ("none", "1", Severity.ERROR),  # import torch loads it
        ("none", "", Severity.ERROR),
    ],
)
def test_where_nothing_imports_torch_npu(expect: str, switch: str, severity: Severity) -> None:
    variables = {"TORCH_DEVICE_BACKEND_AUTOLOAD": switch} if switch else {}
    headers = ("Requires-Dist: torch==2.9.0",)
    asked = beside("2.9.0", "2.13.0", "", *headers, expect=expect, variables=variables)
    (finding,) = [one for one in asked.findings if one.code == "torch-npu.torch-mismatch"]
    assert finding.severity is severity


@pytest.mark.parametrize("headers", [(), ("Requires-Dist: torch",)])
def test_without_a_row_and_a_requirement_its_own_number_tells(headers: tuple[str, ...]) -> None:
    assert beside("2.7.2.post1", "2.7.2", "", *headers).codes == []
    (finding,) = beside("2.7.2.post1", "2.9.0", "", *headers).findings
    assert (finding.code, finding.severity) == ("torch-npu.torch-mismatch", Severity.WARNING)
    assert "torch==2.7.2" in finding.message
    assert beside("1.5.0.post3", "1.8.1").codes == [], "a row that says no torch"


def test_without_metadata_its_requirements_are_not_known() -> None:
    files = {f"{SITE}/torch_npu-2.7.1.dist-info": folder(), **installed(torch="2.9.0")}
    told = ask(torch_npu, fake_host(files))
    assert told.status is Status.UNKNOWN and "torch_npu-2.7.1.dist-info" in told.reason


def test_newer_than_its_line_on_a_cann_that_is_older() -> None:
    (finding,) = beside("2.7.1.post12", "2.7.1", "8.0.0").findings
    assert (finding.code, finding.severity) == ("torch-npu.cann-not-listed", Severity.WARNING)
    assert "2.7.1.post11 with CANN 9.2.0" in finding.message


def test_only_what_is_newer_is_called_so() -> None:
    (finding,) = beside("2.7.1.post12", "2.7.1", "9.1.0").findings
    assert "torch_npu 2.7.1.post12 is newer" in finding.message and "2.7.1.post11" in finding.message
    (finding,) = beside("2.7.1", "2.7.1", "10.0.0").findings
    assert finding.message.startswith("CANN 10.0.0 is newer")


def test_without_torch() -> None:
    (finding,) = beside("2.1.0.post12").findings
    assert (finding.code, finding.severity) == ("torch-npu.torch-missing", Severity.ERROR)
    assert finding.fix is not None
    assert finding.fix.commands == ("/usr/bin/python3 -m pip install torch==2.1.0",)


def test_an_image_is_entered_to_mend_it() -> None:
    files = {f"/srv/image{path}": text for path, text in package_files("torch_npu", "2.1.0").items()}
    (finding,) = ask(torch_npu, fake_host(files, root="/srv/image")).findings
    assert finding.fix is not None and finding.fix.commands[0].startswith(
        "chroot /srv/image /usr/bin/python3"
    )


def test_a_pair_that_is_not_listed() -> None:
    (finding,) = beside("2.9.0", "2.9.0", "8.1.RC1").findings
    assert (finding.code, finding.severity) == ("torch-npu.cann-not-listed", Severity.WARNING)
    assert "2.9.0 with CANN 8.5.0" in finding.message
    assert any("COMPATIBILITY.md" in line for line in finding.evidence)


def test_a_package_between_two_that_suit_is_a_note() -> None:
    (finding,) = beside("2.7.1.post6", "2.7.1", "9.0.0").findings
    assert (finding.code, finding.severity) == ("torch-npu.cann-not-listed", Severity.INFO)
    assert "2.7.1.post4 with CANN 9.0.0" in finding.message
    assert "2.7.1.post8 with CANN 9.1.0" in finding.message


def test_a_package_between_two_that_do_not_suit() -> None:
    (finding,) = beside("2.7.1.post6", "2.7.1", "8.1.RC1").findings
    assert (finding.code, finding.severity) == ("torch-npu.cann-not-listed", Severity.WARNING)


@pytest.mark.parametrize(
    ("adapter", "version"),
    [("2.15.0", "9.1.0"), ("2.9.0.post10", "9.1.0"), ("2.12.0", "9.3.0-beta.2"), ("2.1.0", "10.0.0")],
)
def test_newer_than_the_table(adapter: str, version: str) -> None:
    (finding,) = beside(adapter, adapter.partition(".post")[0], version).findings
    assert (finding.code, finding.severity) == ("torch-npu.newer-than-table", Severity.INFO)
    assert "2026-11" in finding.message


def test_a_site_allows_a_pair(tmp_path: Path) -> None:
    directory = site(tmp_path / "k", ROW.format(cann="7.0.0"))
    assert beside("2.7.1", "2.7.1", "7.0.0", knowledge=directory).codes == []


def test_a_site_forbids_a_pair(tmp_path: Path) -> None:
    directory = site(tmp_path / "k", ROW.format(cann="8.3.RC1") + "compatible = false\n")
    (finding,) = beside("2.7.1", "2.7.1", "8.3.RC1", knowledge=directory).findings
    assert (finding.code, finding.severity) == ("torch-npu.cann-incompatible", Severity.ERROR)
    assert "2.7.1 not with CANN 8.3.RC1: ours, 2026-12" in finding.evidence


def test_a_broken_row_of_a_site_is_a_warning(tmp_path: Path) -> None:
    directory = site(tmp_path / "k", ROW.format(cann="7.0.0").replace("source", "sauce"))
    told = beside("2.7.1", "2.7.1", "8.3.RC1", knowledge=directory)
    assert told.codes == ["torch-npu.site-table"]
    assert told.findings[0].severity is Severity.WARNING and "sauce" in told.findings[0].message


def test_skipped_without_torch_npu() -> None:
    told = ask(torch_npu, fake_host({**installed(torch="2.7.1"), **cann("8.3.RC1")}))
    assert told.status is Status.SKIPPED and "/usr/bin/python3" in told.reason


@pytest.mark.parametrize(
    ("adapter", "torch", "version", "headers", "named"),
    [
        ("2.x", "2.7.1", "8.3.RC1", (), "2.x"),
        ("2.7.1", "two", "", ("Requires-Dist: torch==2.7.1",), "two"),
        ("2.7.1", "2.7.1", "eight", (), "eight"),
        ("2.7.1", "2.7.1", "", ("Requires-Dist: torch == what",), "torch == what"),
    ],
)
def test_cannot_tell(adapter: str, torch: str, version: str, headers: tuple[str, ...], named: str) -> None:
    told = beside(adapter, torch, version, *headers)
    assert told.status is Status.UNKNOWN and named in told.reason


def test_cannot_tell_when_cann_does_not_say_its_version() -> None:
    told = ask(torch_npu, fake_host({**installed(torch_npu="2.7.1", torch="2.7.1"), **cann(None)}))
    assert told.status is Status.UNKNOWN and "ascend-toolkit" in told.reason


def test_what_torch_tells_is_told_though_cann_cannot_be_looked_at() -> None:
    files = {**package_files("torch_npu", "2.7.1"), "/usr/local/Ascend": unreadable()}
    told = ask(torch_npu, fake_host(files))
    assert (told.status, told.codes) == (Status.UNKNOWN, ["torch-npu.torch-missing"])


def test_a_component_number_is_enough() -> None:
    files = {**installed(torch_npu="2.5.1", torch="2.5.1"), **cann(None, "7.7.0.1.238")}
    told = ask(torch_npu, fake_host(files))
    assert (told.codes, told.facts["cann"]) == ([], "8.1.RC1")


def test_cannot_tell_when_the_metadata_cannot_be_read() -> None:
    files: dict[str, Content] = {f"{SITE}/torch_npu-2.7.1.dist-info/METADATA": unreadable(errno.EIO)}
    assert ask(torch_npu, fake_host(files)).status is Status.UNKNOWN


PIN = "Requires-Dist: torch==2.7.1"


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each ending."""
    yield ask(torch_npu, fake_host())
    yield beside("2.7.1", "2.8.0", "", PIN)
    yield beside("2.1.0.post12", "2.2.0")
    yield beside("2.7.1")
    yield judge(WITHOUT_CANN)
    yield judge(HEALTHY)
    for adapter, version in (
        ("2.9.0", "8.1.RC1"),
        ("2.7.1.post6", "9.0.0"),
        ("2.15.0", "9.1.0"),
        ("2.1.0", "10.0.0"),
    ):
        yield beside(adapter, adapter[:5], version)
    yield beside("2.7.1", "2.7.1", "eight")
    yield ask(torch_npu, fake_host({**installed(torch_npu="2.7.1", torch="2.7.1"), **cann(None)}))
    forbidden = ROW.format(cann="8.3.RC1") + "compatible = false\n"
    yield beside("2.7.1", "2.7.1", "8.3.RC1", knowledge=site(tmp / "forbidden", forbidden))
    for number, wrong in enumerate(
        (
            forbidden.replace("false", "1"),
            ROW.replace("source", "sauce"),
            ROW.replace('source = "ours"', ""),
            ROW.replace('"2.7.1"', "2"),
            ROW.replace("torch_npu.cann", "torch_npu.can"),
            ROW.replace("torch_npu.cann", "torch"),
            "[torch_npu]\ncann = 1\n",
        )
    ):
        yield beside("2.7.1", "2.7.1", "8.3.RC1", knowledge=site(tmp / f"site{number}", wrong))
