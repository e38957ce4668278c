"""cann-python-deps: what CANN's own Python code needs is in the interpreter of the job."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.checks.cann.cann_trees import CANN, TOOLKIT, healthy, later, old, old_variables, sourced
from tests.checks.python.stack_machine import site

from npudoctor import Severity, Status
from npudoctor.checks.cann.cann_python_deps import cann_python_deps
from npudoctor.host import Host, Options
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, package_files, unreadable

# As te 0.4.0 of CANN 8.1.RC1 has it, in part.
METADATA = """Metadata-Version: 2.1
Name: te
Version: 0.4.0
Requires-Dist: attrs
Requires-Dist: cloudpickle
Requires-Dist: decorator
Requires-Dist: ml-dtypes
Requires-Dist: numpy
Requires-Dist: psutil
Requires-Dist: scipy
Requires-Dist: tornado
Provides-Extra: dev
Requires-Dist: black ==20.8b1 ; extra == 'dev'
"""
TE: dict[str, Content] = {
    f"{TOOLKIT}/8.1.RC1/python/site-packages/te-0.4.0.dist-info/METADATA": METADATA,
}
HAVE = {
    "torch-npu": "2.5.1",
    "attrs": "24.2.0",
    "cloudpickle": "3.1.0",
    "decorator": "5.1.1",
    "ml_dtypes": "0.5.0",
    "numpy": "1.26.4",
    "psutil": "6.1.0",
    "scipy": "1.13.1",
    "tornado": "6.4.1",
    "sympy": "1.13.1",
    "cffi": "1.17.1",
    "protobuf": "5.28.3",
    "PyYAML": "6.0.2",
    "requests": "2.32.3",
    "absl-py": "2.1.0",
}


def without(*names: str, **other: str) -> dict[str, str]:
    """The packages of a healthy interpreter, but these."""
    return {**{name: version for name, version in HAVE.items() if name not in names}, **other}


def told(files: Mapping[str, Content], packages: Mapping[str, str], **more: Any) -> Asked:
    """The answer with these packages in the interpreter."""
    settings = {"variables": sourced(), "packages": packages, "expect": "npu", **more}
    return ask(cann_python_deps, fake_host(files, **settings))


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield told({}, HAVE, variables={})
    yield told(healthy(), {})
    yield told({**healthy(), **TE}, without("numpy", "decorator", "tornado", "sympy"))
    yield told({**healthy(), **TE}, without(numpy="2.0.2"))
    yield told({**healthy(), **TE}, HAVE, knowledge=site(tmp, "[[cann_packages.numpy]]\n"))
    old = {path: str(text).replace("decorator", "decorator >=5") for path, text in TE.items()}
    yield told({**healthy(), **old}, without(decorator="4.4.2"))


WHOLE = {**healthy(), **TE}


def test_quiet_on_each_healthy_era() -> None:
    for files, variables in (
        (old(), old_variables()),
        (healthy("6.0.1", "1.84.15.1.310"), sourced()),
        (WHOLE, sourced()),
        (healthy("8.3.RC1", "8.3.0.1.231"), sourced()),
        (later(), sourced(f"{CANN}-8.5.0")),
    ):
        asked = told(files, HAVE, variables=variables)
        assert (asked.status, asked.codes) == (Status.OK, []), asked.findings


def test_what_te_and_the_list_name_is_an_error() -> None:
    (finding,) = told(WHOLE, without("decorator", "attrs")).findings
    assert (finding.code, finding.severity) == ("cann-python-deps.missing", Severity.ERROR)
    assert finding.message.startswith("attrs, decorator not installed in /usr/bin/python3")
    assert finding.fix is not None
    assert finding.fix.commands == ("/usr/bin/python3 -m pip install attrs decorator",)


@pytest.mark.parametrize(
    ("name", "severity"), [("tornado", Severity.WARNING), ("sympy", Severity.INFO), ("scipy", Severity.ERROR)]
)
def test_how_much_each_matters(name: str, severity: Severity) -> None:
    (finding,) = told(WHOLE, without(name)).findings
    assert finding.severity is severity


def test_tools_needs_are_not_asked_for_beside_tes_metadata() -> None:
    assert told(WHOLE, without("requests", "absl-py", "PyYAML")).codes == []


def test_without_tes_metadata_the_list_speaks() -> None:
    asked = told(healthy(), without("decorator", "requests"))
    assert [finding.severity for finding in asked.findings] == [Severity.WARNING, Severity.INFO]
    assert asked.findings[0].fix is not None
    assert asked.findings[0].fix.commands == ("/usr/bin/python3 -m pip install 'decorator>=4.4.0'",)


def test_tes_metadata_in_the_interpreter() -> None:
    files = {**old(), f"{SITE}/te-0.4.0.dist-info/METADATA": METADATA}
    (finding,) = told(files, without("decorator"), variables=old_variables()).findings
    assert finding.severity is Severity.ERROR


def test_numpy_missing_echoes() -> None:
    (finding,) = told(WHOLE, without("numpy")).findings
    assert finding.echo_of == ("numpy-version.missing",)


def test_what_a_framework_requires_as_well_is_its_error() -> None:
    files = {**healthy(), **package_files("torch-npu", "2.5.1", "Requires-Dist: decorator")}
    (finding,) = told(files, without("decorator", "torch-npu")).findings
    assert (finding.severity, finding.echo_of) == (Severity.WARNING, ("package-requirements.missing",))


def test_what_cann_itself_holds_only_wants_sourcing() -> None:
    own = next(iter(TE)).replace("te-0.4.0", "ml_dtypes-0.5.0")
    files = {**WHOLE, own: "Metadata-Version: 2.1\nName: ml_dtypes\nVersion: 0.5.0\n"}
    (finding,) = told(files, without("ml_dtypes"), variables={}).findings
    assert finding.echo_of == ("cann-env.not-sourced", "cann-env.missing-entry")


@pytest.mark.parametrize("version", ["2.0.2", "2.1.0rc1"])
def test_numpy_2_beside_an_older_cann(version: str) -> None:
    (finding,) = told(WHOLE, without(numpy=version)).findings
    assert (finding.code, finding.severity) == ("cann-python-deps.numpy-2", Severity.ERROR)
    assert finding.echo_of == ("numpy-version.unsuitable",)
    assert finding.fix is not None
    assert finding.fix.commands == ("/usr/bin/python3 -m pip install 'numpy<2'",)


def test_numpy_2_beside_a_later_cann_is_not_judged() -> None:
    for files in (healthy("8.3.RC1", "8.3.0.1.231"), later()):
        assert told(files, without(numpy="2.2.0")).codes == []


def test_a_version_that_te_does_not_accept() -> None:
    files = {**healthy(), **{path: str(text).replace("psutil", "psutil >=6") for path, text in TE.items()}}
    (finding,) = told(files, without(psutil="5.9.0")).findings
    assert (finding.code, finding.severity) == ("cann-python-deps.unsuitable", Severity.WARNING)
    assert "psutil>=6" in finding.message
    assert told(files, without(psutil="six")).codes == []


ROW = (
    '[[cann_packages.packages]]\nname = "decorator"\nspecifier = "{}"\nstart = {}\n'
    'source = "us"\nas_of = "2026-12"\n'
)


def test_rows_of_a_site(tmp_path: Path) -> None:
    wider = site(tmp_path / "a", ROW.format(">=6", "true"))
    (finding,) = told(healthy(), HAVE, knowledge=wider).findings
    assert "decorator>=6" in finding.message
    for row in (
        ROW.format(">= what", "true"),
        ROW.format(">=6", '"yes"'),
        "[[cann_packages.packages]]\n",
        "x = [",
    ):
        asked = told(healthy(), HAVE, knowledge=site(tmp_path / "b", row))
        assert (asked.status, asked.codes) == (Status.PROBLEM, ["cann-python-deps.site-table"])
        assert "scipy-version.site-table" in asked.findings[0].echo_of


def test_senseless_lines_do_not_hide_others() -> None:
    files = {**healthy(), **dict.fromkeys(TE, f"{METADATA}Requires-Dist: what (ever\n")}
    assert told(files, without("tornado")).codes == ["cann-python-deps.missing"]


def test_skipped() -> None:
    assert told({}, HAVE, variables={}).status is Status.SKIPPED
    asked = told(WHOLE, without("torch-npu"))
    assert asked.status is Status.SKIPPED
    assert "/usr/bin/python3" in asked.reason


def test_cannot_tell() -> None:
    closed: dict[str, Content] = {path: unreadable(errno.EIO) for path in TE}
    assert told({**healthy(), **closed}, HAVE).status is Status.UNKNOWN


def test_in_an_image_the_line_enters_it() -> None:
    files = {f"/img{path}": text for path, text in WHOLE.items()}
    for name, version in without("decorator").items():
        files.update({f"/img{path}": text for path, text in package_files(name, version).items()})
    (finding,) = told(files, {}, root="/img").findings
    assert finding.fix is not None
    assert finding.fix.commands == ("chroot /img /usr/bin/python3 -m pip install decorator",)


@pytest.mark.slow
def test_in_a_real_environment(tmp_path: Path) -> None:
    """A real interpreter with real metadata folders, without any of the packages."""
    root = tmp_path / "cann"
    info = root / "python/site-packages/te-0.4.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA)
    (root / "python/site-packages/te").mkdir()
    (root / "opp").mkdir()
    (root / "opp/version.info").write_text("Version=7.7.0.1.238\nversion_dir=8.1.RC1\n")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    site = next((tmp_path / "env/lib").glob("python3*/site-packages"))
    for name, version in without("decorator", numpy="2.0.0").items():
        folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    variables = {"ASCEND_HOME_PATH": str(root), "PATH": os.defpath}
    host = Host(Options(python=str(tmp_path / "env/bin/python")), variables=variables)
    asked = ask(cann_python_deps, host)
    host.close()
    assert asked.codes == ["cann-python-deps.missing", "cann-python-deps.numpy-2"]
