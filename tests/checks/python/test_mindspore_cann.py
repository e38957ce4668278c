"""mindspore-cann: the number in CANN's compiler/version.info is one that this MindSpore accepts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.checks.cann import cann_trees as trees
from tests.checks.python.stack_machine import LATEST, cann, site

from npudoctor import Severity, Status
from npudoctor.checks.python.mindspore_cann import mindspore_cann
from npudoctor.knowledge.site import Knowledge
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, package_files, unreadable

# As in the wheel of 2.7.0: the checker of GPUs has such a list too, and stands before.
OWN = '''
class GPUEnvChecker(EnvChecker):
    def __init__(self, library_path):
        self.version = ["10.1", "11.1", "11.6"]

class AscendEnvChecker(EnvChecker):
    """ascend environment check"""

    def __init__(self, library_path):
        self.library_path = library_path
        self.version = ["7.7", "7.8", "8.2"]
'''
ROW = '[[mindspore.cann]]\nmindspore = "2.7.0"\ncann = "{cann}"\nsource = "ours"\nas_of = "2026-12"\n'


def beside(
    mindspore: str, version: str, component: str = "", *, own: str = "", name: str = "mindspore", **more: Any
) -> Asked:
    """The answer where these are installed; `own` is the text of MindSpore's own check."""
    files: dict[str, Content] = {**package_files(name, mindspore), **cann(version or None, component)}
    if own:
        files[f"{SITE}/mindspore/run_check/_check_version.py"] = own
    return ask(mindspore_cann, fake_host(files, **more))


@pytest.mark.parametrize(
    ("mindspore", "version", "component", "own"),
    [
        ("2.7.0", "8.1.RC1", "7.7.0.1.238", OWN),
        ("2.7.0", "8.1.RC1", "7.7.0.1.238", ""),
        ("2.7.0", "8.2.RC1", "8.2.0.0.201", OWN),
        ("2.7.0", "8.2.RC1", "", OWN),
        ("2.99.0", "8.1.RC1", "7.7.0.1.238", OWN),  # the list of the installed one, not of a release
        ("2.10.0", "9.1.0", "9.1.0.0.10", ""),
        ("2.6.0", "8.1.RC1", "7.7.0.1.238", ""),
        ("2.3.1", "8.0.RC2", "", ""),
        ("2.0.0", "6.3.RC1", "6.3.0.1.1", ""),
    ],
)
def test_quiet_when_it_is_accepted(mindspore: str, version: str, component: str, own: str) -> None:
    told = beside(mindspore, version, component, own=own)
    assert (told.status, told.codes) == (Status.OK, [])


@pytest.mark.parametrize(
    ("version", "component"), [("1.10.0", "1.84.15.1.310"), ("1.5.0", "1.79.3"), ("1.3.0", "1.78.23.3.230")]
)
def test_releases_before_2_by_their_own_name(version: str, component: str) -> None:
    assert beside(version, "", component, name="mindspore-ascend").codes == []


def test_older_than_all_that_it_accepts() -> None:
    (finding,) = beside("2.7.0", "8.0.0", "7.6.0.1.220", own=OWN).findings
    assert (finding.code, finding.severity) == ("mindspore-cann.not-accepted", Severity.ERROR)
    for word in ("2.7.0", "8.0.0", "7.6.0.1.220", "7.7, 7.8, 8.2"):
        assert word in finding.message
    assert f"7.7, 7.8, 8.2: {SITE}/mindspore/run_check/_check_version.py" in finding.evidence
    assert finding.fix is not None and finding.fix.commands == ()  # no published one accepts it


def test_a_mixture_of_releases_is_the_cause() -> None:
    files = {
        **package_files("mindspore", "2.7.0"),
        **trees.healthy(),
        **trees.release("8.0.0", "7.6.0.1.220"),
        **trees.latest(compiler="8.0.0"),
        f"{SITE}/mindspore/run_check/_check_version.py": OWN,
    }
    (finding,) = ask(mindspore_cann, fake_host(files)).findings
    assert (finding.code, finding.severity) == ("mindspore-cann.not-accepted", Severity.ERROR)
    assert finding.echo_of == ("cann-install.mixed-latest",)
    (finding,) = beside("2.7.0", "8.0.0", "7.6.0.1.220", own=OWN).findings
    assert finding.echo_of == ()


@pytest.mark.parametrize(("version", "component"), [("8.3.RC1", "8.3.0.1.200"), ("8.5.0", "")])
def test_newer_than_all_is_a_warning_as_mindspore_says_it(version: str, component: str) -> None:
    (finding,) = beside("2.7.0", version, component, own=OWN).findings
    assert (finding.code, finding.severity) == ("mindspore-cann.not-accepted", Severity.WARNING)
    assert finding.fix is not None
    assert finding.fix.commands == ("/usr/bin/python3 -m pip install mindspore==2.10.0",)


def test_a_full_number_is_compared_in_full() -> None:
    told = beside("1.3.0", "", "1.78.23.9.9", name="mindspore-ascend")
    assert told.codes == ["mindspore-cann.not-accepted"]


def test_by_the_table_when_its_own_list_cannot_be_read() -> None:
    files = {
        **package_files("mindspore", "2.7.2"),
        **cann("8.3.RC1", "8.3.0.1.200"),
        f"{SITE}/mindspore/run_check/_check_version.py": unreadable(),
    }
    (finding,) = ask(mindspore_cann, fake_host(files)).findings
    assert finding.code == "mindspore-cann.not-accepted" and "mindspore 2.7.2 wheel" in finding.evidence[2]


def test_a_release_of_which_only_the_notes_are_known() -> None:
    (finding,) = beside("2.4.0", "8.1.RC1", "7.7.0.1.238").findings
    assert (finding.code, finding.severity) == ("mindspore-cann.cann-not-listed", Severity.WARNING)
    assert "2.4.0 with CANN 8.0.RC3" in finding.message


@pytest.mark.parametrize(("mindspore", "version"), [("2.11.0", "9.1.0"), ("2.4.0", "9.2.0")])
def test_newer_than_the_table(mindspore: str, version: str) -> None:
    (finding,) = beside(mindspore, version).findings
    assert (finding.code, finding.severity) == ("mindspore-cann.newer-than-table", Severity.INFO)
    assert "2026-11" in finding.message


def test_every_row_of_ours_is_quiet() -> None:
    rows = Knowledge().rows("mindspore", "cann")
    assert len(rows) > 20
    for row in rows:
        for version in row.texts("cann"):
            assert beside(row["mindspore"], version).codes == [], (row["mindspore"], version)
    for row in Knowledge().rows("mindspore", "cann_component_versions"):
        for component in row.texts("accepts"):
            assert beside(row["mindspore"], "", component).codes == [], (row["mindspore"], component)


def test_a_site_has_the_first_word(tmp_path: Path) -> None:
    allowed = site(tmp_path / "yes", ROW.format(cann="8.5.0"))
    assert beside("2.7.0", "8.5.0", own=OWN, knowledge=allowed).codes == []
    forbidden = site(tmp_path / "no", ROW.format(cann="8.1.RC1") + "compatible = false\n")
    (finding,) = beside("2.7.0", "8.1.RC1", "7.7.0.1.238", own=OWN, knowledge=forbidden).findings
    assert (finding.code, finding.severity) == ("mindspore-cann.cann-incompatible", Severity.ERROR)


def test_a_broken_row_of_a_site(tmp_path: Path) -> None:
    directory = site(tmp_path / "k", "[[mindspore.cann]]\n")
    told = beside("2.7.0", "8.1.RC1", "7.7.0.1.238", own=OWN, knowledge=directory)
    assert told.codes == ["mindspore-cann.site-table"]
    assert told.findings[0].echo_of == ("torch-npu.site-table",)


@pytest.mark.parametrize("name", ["mindspore", "mindspore-gpu"])
def test_skipped_for_other_devices(name: str) -> None:
    assert beside("1.10.0", "8.1.RC1", name=name).status is Status.SKIPPED


def test_skipped_without_cann() -> None:
    told = ask(mindspore_cann, fake_host(package_files("mindspore", "2.7.0")))
    assert told.status is Status.SKIPPED and "CANN" in told.reason


def test_cannot_tell() -> None:
    told = beside("2.4.0", "")
    assert told.status is Status.UNKNOWN and LATEST in told.reason
    assert beside("two", "8.1.RC1").status is Status.UNKNOWN


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each ending."""
    yield ask(mindspore_cann, fake_host())
    yield ask(mindspore_cann, fake_host(package_files("mindspore", "2.7.0")))
    yield beside("2.7.0", "8.0.0", "7.6.0.1.220", own=OWN)
    yield beside("2.7.0", "8.5.0")
    yield beside("2.4.0", "8.1.RC1")
    yield beside("2.11.0", "9.1.0")
    yield beside("2.4.0", "")
    forbidden = site(tmp / "no", ROW.format(cann="8.1.RC1") + "compatible = false\n")
    yield beside("2.7.0", "8.1.RC1", own=OWN, knowledge=forbidden)
    yield beside("2.7.0", "8.1.RC1", own=OWN, knowledge=site(tmp / "broken", "[[mindspore.cann]]\n"))
