"""vllm-ascend: vLLM, torch, torch_npu and CANN are those that it was made for."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tests.checks.python.stack_machine import cann, installed, site

from npudoctor import Severity, Status
from npudoctor.checks.python.torch_npu import torch_npu
from npudoctor.checks.python.vllm_ascend import vllm_ascend
from npudoctor.knowledge.site import Knowledge
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, package_files, unreadable

# As in the wheels of PyPI.
OLD = ("Requires-Dist: numpy<2.0.0", "Requires-Dist: torch==2.7.1", "Requires-Dist: torch-npu==2.7.1")
NEW = (
    *("Requires-Dist: torch==2.10.0", "Requires-Dist: torch-npu==2.10.0.post4"),
    *("Requires-Dist: torchvision==0.25.0", "Requires-Dist: triton-ascend==3.2.2"),
)
SUITS = {"torch": "2.10.0", "torch_npu": "2.10.0.post4", "torchvision": "0.25.0", "triton_ascend": "3.2.2"}
ROW = (
    '[[vllm_ascend.releases]]\nvllm_ascend = "0.11.0"\nvllm = "0.11.0"\ncann = "{cann}"\n'
    'torch = "2.7.1"\ntorch_npu = "2.7.1"\npython = ">=3.9"\nsource = "ours"\nas_of = "2026-12"\n'
)


def beside(
    version: str, headers: tuple[str, ...], packages: dict[str, str], cann_version: str = "", **more: Any
) -> Asked:
    """The answer where this vllm-ascend is beside these packages and this CANN."""
    files: dict[str, Content] = {**package_files("vllm_ascend", version, *headers), **installed(**packages)}
    files.update(cann(cann_version) if cann_version else {})
    return ask(vllm_ascend, fake_host(files, **more))


def old(vllm: str = "0.11.0", cann_version: str = "8.3.RC2", **packages: Any) -> Asked:
    """vllm-ascend 0.11.0 among what it wants, but for what is given."""
    given: dict[str, str] = {name: packages.pop(name) for name in ("torch", "torch_npu") if name in packages}
    told: dict[str, str] = {"vllm": vllm, "torch": "2.7.1", "torch_npu": "2.7.1.post1"}
    told.update(given)
    there: dict[str, str] = {name: version for name, version in told.items() if version}
    return beside("0.11.0", OLD, there, cann_version, **packages)


@pytest.mark.parametrize(
    ("told", "status"),
    [
        (old(), Status.OK),
        (old(torch_npu="2.7.1"), Status.OK),
        (old(torch="2.7.1+cpu", vllm="0.11.0+empty"), Status.OK),
        (old(cann_version=""), Status.SKIPPED),
        (beside("0.23.0", NEW, {"vllm": "0.23.0", **SUITS}, "9.1.0"), Status.OK),
        (beside("0.11.0rc4.dev2+g1", (), {"vllm": "0.11.1"}), Status.SKIPPED),
        (beside("0.10.1rc1", (), {"vllm": "0.10.1.1"}, "8.2.RC1"), Status.OK),
    ],
)
def test_quiet_when_all_suit(told: Asked, status: Status) -> None:
    assert (told.codes, told.status) == ([], status)


def test_another_release_of_what_it_requires() -> None:
    (finding,) = old(torch="2.8.0", torch_npu="2.8.0").findings
    assert (finding.code, finding.severity) == ("vllm-ascend.unmet-requirement", Severity.ERROR)
    assert "torch==2.7.1, torch-npu==2.7.1" in finding.message
    assert f"torch==2.7.1: torch 2.8.0: {SITE}/torch-2.8.0.dist-info" in finding.evidence
    assert finding.echo_of == ()
    assert finding.fix is not None
    assert finding.fix.commands == (
        "/usr/bin/python3 -m pip install --no-deps torch==2.7.1 torch-npu==2.7.1",
    )


def test_torch_alone_is_the_echo_of_torch_npu() -> None:
    (finding,) = old(torch="2.8.0").findings
    assert finding.echo_of == ("torch-npu.torch-mismatch", "torch-npu.torch-missing")


def test_torch_stands_apart_where_others_are_wrong_too() -> None:
    packages = {"vllm": "0.23.0", **SUITS, "torch": "2.11.0", "torchvision": "0.26.0"}
    torch, vision = beside("0.23.0", NEW, packages).findings
    assert (torch.severity, torch.echo_of[0]) == (Severity.ERROR, "torch-npu.torch-mismatch")
    assert (vision.severity, vision.echo_of) == (Severity.WARNING, ())
    assert "torchvision" in vision.message and "torch==2.10.0" not in vision.message


def test_the_wrong_torch_npu_is_one_error() -> None:
    """torch is right: torch_npu, which wants another one, is what must change."""
    files = {
        **package_files("vllm_ascend", "0.11.0", *OLD),
        **package_files("torch-npu", "2.8.0", "Requires-Dist: torch==2.8.0"),
        **installed(vllm="0.11.0", torch="2.7.1"),
    }
    (finding,) = ask(vllm_ascend, fake_host(files)).findings
    assert (finding.code, finding.echo_of) == ("vllm-ascend.unmet-requirement", ())
    (echo,) = ask(torch_npu, fake_host(files)).findings
    assert echo.echo_of == ("vllm-ascend.unmet-requirement",)


def test_triton_ascend_from_another_index_stands_last() -> None:
    packages = {"vllm": "0.23.0", **SUITS, "torchvision": "", "triton_ascend": ""}
    (finding,) = beside("0.23.0", NEW, {name: told for name, told in packages.items() if told}).findings
    assert finding.fix is not None and "installation page" in finding.fix.title
    assert [line.partition("install ")[2] for line in finding.fix.commands] == [
        "--no-deps torchvision==0.25.0",
        "--no-deps triton-ascend==3.2.2",
    ]


def test_a_package_that_is_missing() -> None:
    (finding,) = old(torch_npu="").findings
    assert (finding.code, finding.severity) == ("vllm-ascend.unmet-requirement", Severity.ERROR)
    assert "torch-npu==2.7.1: torch-npu is not installed" in finding.evidence


@pytest.mark.parametrize(
    "packages", [{**SUITS, "torch_npu": "2.10.0.post2"}, {**SUITS, "triton_ascend": "3.2.0"}]
)
def test_less_than_that_is_a_warning(packages: dict[str, str]) -> None:
    (finding,) = beside("0.23.0", NEW, {"vllm": "0.23.0", **packages}).findings
    assert (finding.code, finding.severity) == ("vllm-ascend.unmet-requirement", Severity.WARNING)


def test_without_vllm() -> None:
    (finding,) = old(vllm="").findings
    assert (finding.code, finding.severity) == ("vllm-ascend.vllm-missing", Severity.ERROR)
    assert finding.fix is not None and finding.fix.commands[0].endswith("pip install --no-deps vllm==0.11.0")
    assert "torch" in finding.fix.title


@pytest.mark.parametrize(
    ("vllm", "severity"),
    [
        ("0.10.2", Severity.ERROR),
        ("0.10.2+empty", Severity.ERROR),
        ("0.11.1", Severity.WARNING),
        ("0.11.0rc3", Severity.WARNING),
        ("0.11.1+empty", Severity.WARNING),
        ("0.1.dev1+g1234567", Severity.WARNING),
    ],
)
def test_another_vllm(vllm: str, severity: Severity) -> None:
    (finding,) = old(vllm=vllm).findings
    assert (finding.code, finding.severity) == ("vllm-ascend.vllm-mismatch", severity)
    assert f"vLLM {vllm}" in finding.message and "vLLM 0.11.0" in finding.message


def test_a_release_without_a_row_is_compared_by_its_own_number() -> None:
    told = beside("0.11.0rc4.dev2+g1", (), {"vllm": "0.10.2"})
    assert told.codes == ["vllm-ascend.vllm-mismatch"] and told.findings[0].fix is None
    assert told.findings[0].severity is Severity.WARNING, "a development build"


def test_a_release_beside_a_vllm_of_long_ago_will_fail() -> None:
    (finding,) = beside("0.23.0", NEW, {"vllm": "0.11.0", **SUITS}, "9.1.0").findings
    assert (finding.code, finding.severity) == ("vllm-ascend.vllm-mismatch", Severity.ERROR)
    assert beside("0.23.0.post1", NEW, {"vllm": "0.23.0", **SUITS}, "9.1.0").codes == []


@pytest.mark.parametrize(
    ("line", "torch", "severity"),
    [
        ("torch===2.7.1", "2.7.1.post1", Severity.WARNING),
        ("torch==2.7.1,>=2.0", "2.7.1.post1", Severity.WARNING),
        ("torch==2.7.1+cpu,>=2.0", "2.8.0", Severity.ERROR),
    ],
)
def test_other_forms_of_a_requirement(line: str, torch: str, severity: Severity) -> None:
    told = beside("0.11.0", (f"Requires-Dist: {line}",), {"vllm": "0.11.0", "torch": torch})
    assert [(one.code, one.severity) for one in told.findings] == [
        ("vllm-ascend.unmet-requirement", severity)
    ]


def test_a_final_release_of_which_a_candidate_is_listed() -> None:
    told = beside("0.10.0", (), {"vllm": "0.10.0"}, "8.2.RC1")
    assert told.codes == ["vllm-ascend.cann-not-listed"]
    assert told.findings[0].severity is Severity.INFO


def test_another_cann() -> None:
    (finding,) = old(cann_version="8.1.RC1").findings
    assert (finding.code, finding.severity) == ("vllm-ascend.cann-not-listed", Severity.WARNING)
    assert finding.echo_of == ("torch-npu.cann-not-listed",)
    assert "0.11.0 with CANN 8.3.RC2" in finding.message


def test_newer_than_the_table() -> None:
    (finding,) = beside("0.31.0", (), {"vllm": "0.31.0"}, "9.2.0").findings
    assert (finding.code, finding.severity) == ("vllm-ascend.newer-than-table", Severity.INFO)


def test_every_row_of_ours_is_quiet() -> None:
    rows = Knowledge().rows("vllm_ascend", "releases")
    assert len(rows) > 35
    for row in rows:
        names = {"torch": row["torch"], "torch_npu": row["torch_npu"]}
        for version, vllm in product(row.texts("cann"), row.texts("vllm")):
            told = beside(row["vllm_ascend"], (), {"vllm": vllm, **names}, version)
            assert told.codes == [], (row["vllm_ascend"], vllm, version)


def test_the_newest_release_with_the_cann_of_the_one_before_it_is_a_note() -> None:
    (finding,) = beside("0.30.0rc1", (), {"vllm": "0.30.0"}, "9.1.0").findings
    assert (finding.code, finding.severity) == ("vllm-ascend.cann-not-listed", Severity.INFO)


def test_the_rows_of_a_site(tmp_path: Path) -> None:
    assert old(cann_version="8.1.RC1", knowledge=site(tmp_path / "a", ROW.format(cann="8.1.RC1"))).codes == []
    forbidden = site(tmp_path / "b", ROW.format(cann="8.3.RC2") + "compatible = false\n")
    assert old(knowledge=forbidden).codes == ["vllm-ascend.cann-incompatible"]
    short = 'vllm_ascend = "0.9.9"\ncann = "8.1.RC1"\nsource = "us"\nas_of = "2026-12"\n'
    short = f"[[vllm_ascend.releases]]\n{short}"
    assert "vllm-ascend.site-table" not in old(knowledge=site(tmp_path / "d", short)).codes
    assert old(knowledge=site(tmp_path / "c", "x = [")).codes == ["vllm-ascend.site-table"]


def test_skipped_without_it() -> None:
    told = ask(vllm_ascend, fake_host({**installed(vllm="0.11.0"), **cann("8.3.RC1")}))
    assert told.status is Status.SKIPPED


def test_cannot_tell() -> None:
    assert beside("zero", (), {"vllm": "0.11.0"}).status is Status.UNKNOWN
    assert old(vllm="zero").status is Status.UNKNOWN
    files: dict[str, Content] = {f"{SITE}/vllm_ascend-0.11.0.dist-info/METADATA": unreadable(errno.EIO)}
    assert ask(vllm_ascend, fake_host(files)).status is Status.UNKNOWN


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each ending."""
    yield ask(vllm_ascend, fake_host())
    yield old(vllm="", torch_npu="")
    yield old(vllm="0.10.2", cann_version="8.1.RC1")
    yield beside("0.24.0", (), {"vllm": "0.24.0"}, "9.1.0")
    yield beside("0.31.0", (), {"vllm": "0.31.0"}, "9.2.0")
    yield old(knowledge=site(tmp / "b", ROW.format(cann="8.3.RC2") + "compatible = false\n"))
    yield old(knowledge=site(tmp / "c", "x = ["))
