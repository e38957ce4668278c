"""scipy-version: the SciPy beside MindSpore is one that this MindSpore accepts."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor import Action, Risk, Severity, Status
from npudoctor.checks.python.scipy_version import scipy_version
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, package_files, unreadable

from .stack_machine import site


def beside(mindspore: str, scipy: str = "", *headers: str, name: str = "mindspore", **more: Any) -> Asked:
    """The answer where this MindSpore, with these headers, and this SciPy are installed."""
    files: dict[str, Content] = package_files(name, mindspore, *headers)
    if scipy:
        files.update(package_files("scipy", scipy))
    return ask(scipy_version, fake_host(files, **more))


NEEDS = "Requires-Dist: scipy>=1.5.4"


@pytest.mark.parametrize(
    ("mindspore", "scipy", "headers"),
    [
        ("2.7.0", "1.11.4", (NEEDS,)),
        ("2.7.0", "1.5.4", (NEEDS,)),
        ("2.7.0", "1.16.0rc1", (NEEDS,)),
        ("2.7.0", "1.11.4+mkl", (NEEDS,)),
        ("9.9.9", "1.11.4", (NEEDS,)),
        ("1.0.0", "1.3.3", ("Requires-Dist: scipy (==1.3.3)",)),
        ("2.7.0", "1.11.4", ()),
        ("1.0.1", "1.3.3", ()),
        ("1.10.1", "1.5.2", ()),
        ("2.0.0rc1", "1.5.4", ()),
    ],
)
def test_quiet_when_it_suits(mindspore: str, scipy: str, headers: tuple[str, ...]) -> None:
    told = beside(mindspore, scipy, *headers)
    assert (told.status, told.codes) == (Status.OK, [])
    assert told.facts["scipy"] == scipy


def with_numpy(numpy: str, wanted: str, holds: str = "numpy<2.0.0,>=1.20.0") -> Asked:
    """The answer where SciPy 1.18.1, which wants this NumPy, is beside that one."""
    files = {
        **package_files("mindspore", "2.8.0", NEEDS, f"Requires-Dist: {holds}"),
        **package_files("scipy", "1.18.1", f"Requires-Dist: {wanted}"),
        **(package_files("numpy", numpy) if numpy else {}),
    }
    return ask(scipy_version, fake_host(files))


def test_scipy_for_numpy_2_beside_numpy_1() -> None:
    # So in the wheels of PyPI; `import scipy.sparse` fails then.
    (finding,) = with_numpy("1.26.4", "numpy<2.8,>=2.0.0").findings
    assert (finding.code, finding.severity) == ("scipy-version.unsuitable", Severity.ERROR)
    assert finding.evidence[-1] == "import scipy.sparse fails: module 'numpy' has no attribute 'long'"
    assert finding.message == "SciPy 1.18.1 requires numpy<2.8,>=2.0.0, but NumPy 1.26.4 is installed"
    assert finding.fix is not None and finding.fix.commands == (
        "/usr/bin/python3 -m pip install mindspore==2.8.0 'scipy>=1.5.4' 'numpy<2.0.0,>=1.20.0'",
    )


@pytest.mark.parametrize(
    ("numpy", "wanted"),
    [
        ("1.26.4", "numpy<2.7,>=1.26.4"),
        ("1.26.0", "numpy<2.7,>=1.26.4"),  # it warns, and goes on
        ("2.9.0", "numpy<2.8,>=2.0.0"),  # so it does here
        ("1.26.4", "numpydoc>=2.0.0"),
        ("", "numpy<2.8,>=2.0.0"),  # numpy-version says so
    ],
)
def test_what_scipy_says_of_releases_is_no_reason(numpy: str, wanted: str) -> None:
    assert with_numpy(numpy, wanted).codes == []


@pytest.mark.parametrize("name", ["mindspore", "mindspore-ascend", "mindspore-gpu"])
def test_too_old(name: str) -> None:
    told = beside("1.9.0", "1.3.3", "Requires-Dist: scipy (>=1.5.2)", name=name)
    assert told.status is Status.PROBLEM
    (finding,) = told.findings
    # Only metadata says so; with which error it fails, nobody has seen.
    assert (finding.code, finding.severity) == ("scipy-version.unsuitable", Severity.WARNING)
    assert "SciPy 1.3.3" in finding.message
    assert "scipy>=1.5.2" in finding.message
    assert finding.action is Action.CONFIG
    assert f"scipy 1.3.3: {SITE}/scipy-1.3.3.dist-info" in finding.evidence
    assert f"scipy>=1.5.2: metadata of {name}" in finding.evidence


@pytest.mark.parametrize("scipy", ["1.4.0", "1.4.1", "1.4.0rc2"])
def test_the_slow_series_is_named(scipy: str) -> None:
    told = beside("2.7.0", scipy, NEEDS)
    assert told.codes == ["scipy-version.slow-initialisation"]
    assert "weight initialization" in told.findings[0].message


def test_the_fix_is_the_exact_line() -> None:
    fix = beside("2.7.0", "1.4.1", NEEDS, python="/opt/conda/bin/python3").findings[0].fix
    assert fix is not None
    assert fix.commands == ("/opt/conda/bin/python3 -m pip install mindspore==2.7.0 'scipy>=1.5.4'",)
    assert (fix.risk, fix.needs_root) == (Risk.MANUAL, False)


def test_the_fix_never_leads_to_the_slow_series() -> None:
    told = beside("2.7.0", "1.4.1", "Requires-Dist: scipy")
    fix = told.findings[0].fix
    assert fix is not None
    assert fix.commands == ("/usr/bin/python3 -m pip install mindspore==2.7.0 'scipy!=1.4.*'",)


def test_in_an_image_the_line_enters_it() -> None:
    files = {f"/srv/image{path}": text for path, text in package_files("mindspore", "2.7.0").items()}
    (finding,) = ask(scipy_version, fake_host(files, root="/srv/image")).findings
    assert finding.fix is not None
    assert finding.fix.commands == (
        "chroot /srv/image /usr/bin/python3 -m pip install mindspore==2.7.0 'scipy>=1.5.4'",
    )
    assert finding.fix.needs_root


def test_missing() -> None:
    told = beside("2.7.0", "", NEEDS)
    assert told.codes == ["scipy-version.missing"]
    assert "scipy>=1.5.4" in told.findings[0].message


def test_the_metadata_comes_before_the_table() -> None:
    assert beside("2.7.0", "1.3.3", "Requires-Dist: scipy (==1.3.3)").codes == []


def test_a_mindspore_that_no_longer_requires_it() -> None:
    told = beside("2.7.0", "", "Requires-Dist: numpy>=1.20")
    assert (told.status, told.codes) == (Status.SKIPPED, [])


ROW = '[[mindspore.scipy]]\nversions = "{}"\nscipy = "{}"\nsource = "us"\nas_of = "2026-12"\n'


def test_rows_of_a_site(tmp_path: Path) -> None:
    known = site(tmp_path / "a", ROW.format("==99.0", ">=2"))
    assert beside("99.0", "1.11.4", knowledge=known).codes == ["scipy-version.unsuitable"]
    for number, row in enumerate(
        (ROW.format("==99", "two"), ROW.format("~1", ">=2"), "[[mindspore.scipy]]\n")
    ):
        broken = site(tmp_path / f"b{number}", row)
        for headers in ((NEEDS,), ()):
            told = beside("2.7.0", "1.11.4", *headers, knowledge=broken)
            assert (told.status, told.codes) == (Status.PROBLEM, ["scipy-version.site-table"])
            assert "mindspore-cann.site-table" in told.findings[0].echo_of


def test_markers_are_asked_for_the_examined_interpreter() -> None:
    lines = (
        "Requires-Dist: scipy>=1.5.4; python_version < '3.10'",
        "Requires-Dist: scipy>=1.9; python_version >= '3.10' and platform_machine == 'aarch64'",
        "Requires-Dist: scipy>=99; extra == 'test'",
    )
    assert beside("2.7.0", "1.6.0", *lines, python_version="3.9.1").codes == []
    newer = beside("2.7.0", "1.6.0", *lines, python_version="3.11.7", machine="aarch64")
    assert newer.codes == ["scipy-version.unsuitable"]
    assert "scipy>=1.9" in newer.findings[0].message


def test_other_names_and_senseless_other_lines_do_not_matter() -> None:
    lines = ("Requires-Dist: scipy-stubs>=99", "Requires-Dist: numpy (what", NEEDS)
    assert beside("2.7.0", "1.11.4", *lines).codes == []


def test_skipped_without_mindspore() -> None:
    told = ask(scipy_version, fake_host(packages={"scipy": "1.4.1"}))
    assert told.status is Status.SKIPPED
    assert "/usr/bin/python3" in told.reason


@pytest.mark.parametrize(
    ("mindspore", "scipy", "headers", "named"),
    [
        ("2.7.0", "1.4.one", (NEEDS,), "1.4.one"),
        ("two", "1.11.4", (), "two"),
        ("99.0", "1.11.4", (), "99.0"),
        ("2.7.0", "1.11.4", ("Requires-Dist: scipy >= what",), "scipy >= what"),
    ],
)
def test_cannot_tell(mindspore: str, scipy: str, headers: tuple[str, ...], named: str) -> None:
    told = beside(mindspore, scipy, *headers)
    assert told.status is Status.UNKNOWN
    assert named in told.reason
    assert not told.advisory


def test_cannot_tell_when_the_metadata_cannot_be_read() -> None:
    files: dict[str, Content] = {f"{SITE}/mindspore-2.7.0.dist-info/METADATA": unreadable(errno.EIO)}
    assert ask(scipy_version, fake_host(files)).status is Status.UNKNOWN


def test_the_first_copy_on_the_search_path_counts() -> None:
    files = {
        **package_files("mindspore", "2.7.0", NEEDS),
        **package_files("scipy", "1.4.1", site="/job/site"),
        **package_files("scipy", "1.11.4"),
    }
    told = ask(scipy_version, fake_host(files, search_path=("/job/site", SITE)))
    assert told.codes == ["scipy-version.slow-initialisation"]


def scene(tmp: Path) -> Iterator[Asked]:
    yield ask(scipy_version, fake_host())
    yield beside("2.7.0", "", NEEDS)
    yield beside("2.7.0", "1.4.1", NEEDS)
    yield beside("2.7.0", "1.3.0")
    for mindspore, scipy, lines in (
        ("99.0", "1.11.4", ()),
        ("2.7.0", "1.4.one", (NEEDS,)),
        ("2.7.0", "1.11.4", ("Requires-Dist: scipy >= what",)),
    ):
        yield beside(mindspore, scipy, *lines)
    yield beside("2.7.0", "1.11.4", NEEDS, knowledge=site(tmp, "[[mindspore.scipy]]\n"))
