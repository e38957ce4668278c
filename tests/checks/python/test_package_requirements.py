"""package-requirements: the closure of what the installed frameworks require."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from tests.checks.python.stack_machine import site

from npudoctor import Severity, Status
from npudoctor.checks.python.package_requirements import package_requirements
from npudoctor.facts.python.specifiers import simplify
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, package_files, unreadable

Package = tuple[str, ...]
TORCH: Package = ("torch", "2.13.0", "typing-extensions>=4.10.0", "networkx>=2.5.1", "sympy>=1.13.3")
PIP = "/usr/bin/python3 -m pip install"
WITH_OLD_NUMPY: Package = ("numpy", "1.26.4")
WITH_NUMPY: Package = ("numpy", "2.1.3")
WELL = (
    TORCH,
    WITH_NUMPY,
    ("typing_extensions", "4.12.2"),
    ("networkx", "3.3"),
    ("sympy", "1.14.0", "mpmath<1.4,>=1.1.0"),
    ("mpmath", "1.3.0"),
)


def told(*packages: Package, **more: object) -> Asked:
    """The answer where these are installed: name, version, what each requires."""
    files: dict[str, Content] = {}
    for name, version, *requires in packages:
        files.update(package_files(name, version, *(f"Requires-Dist: {one}" for one in requires)))
    return ask(package_requirements, fake_host(files, **more))  # type: ignore[arg-type]


def without(*names: str) -> tuple[Package, ...]:
    return tuple(package for package in WELL if package[0] not in names)


def test_quiet_when_well() -> None:
    asked = told(*WELL)
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts["frameworks"] == {"torch": "2.13.0"}


def test_skipped_without_a_framework() -> None:
    assert told(("requests", "2.32.0", "urllib3")).status is Status.SKIPPED


@pytest.mark.parametrize(
    ("gone", "severity"),
    [
        ("typing_extensions", Severity.ERROR),
        ("networkx", Severity.WARNING),  # a row says that the import works without it
        ("mpmath", Severity.WARNING),  # reached through sympy alone, without which it works
        ("numpy", Severity.WARNING),  # in no metadata; a row knows what breaks
    ],
)
def test_what_is_missing(gone: str, severity: Severity) -> None:
    (finding,) = told(*without(gone)).findings
    assert (finding.code, finding.severity) == ("package-requirements.missing", severity)
    assert finding.message.endswith(f", but {gone.replace('_', '-')} is not installed")
    assert finding.fix is not None
    (line,) = finding.fix.commands
    assert line.startswith("/usr/bin/python3 -m pip install torch==2.13.0 ")


def test_the_way_is_told_and_errors_come_first() -> None:
    asked = told(*without("mpmath", "typing_extensions"))
    assert [finding.severity for finding in asked.findings] == [Severity.ERROR, Severity.WARNING]
    assert asked.findings[1].evidence == ("torch -> sympy -> mpmath<1.4,>=1.1.0",)


@pytest.mark.parametrize(
    ("version", "severities"), [("4.1.1", [Severity.ERROR]), ("4.10.0", []), ("nonsense", [])]
)
def test_too_old(version: str, severities: list[Severity]) -> None:
    findings = told(*without("typing_extensions"), ("typing_extensions", version)).findings
    assert [finding.severity for finding in findings] == severities


SCIPY: Package = ("scipy", "1.17.1", "numpy<2.7,>=1.26.4")
TYPING: Package = ("typing_extensions", "4.12.2")
PADDLE: Package = ("paddlepaddle", "3.3.1", "numpy>=1.21", "protobuf>=3.20.2")


@pytest.mark.parametrize(
    ("framework", "others", "severity", "error"),
    [
        (("mindspore", "2.8.0", "scipy"), (SCIPY, ("numpy", "1.26.3")), Severity.WARNING, ""),
        (("mindspore", "2.8.0", "scipy"), (SCIPY, ("numpy", "1.25.2")), Severity.WARNING, ""),
        (("mindspore", "2.8.0", "scipy"), (SCIPY, ("numpy", "1.24.4")), Severity.ERROR, "numpy.exceptions"),
        (PADDLE, (WITH_NUMPY, TYPING, ("protobuf", "3.20.1")), Severity.WARNING, ""),
        (
            PADDLE,
            (WITH_NUMPY, TYPING, ("protobuf", "3.19.6")),
            Severity.ERROR,
            "cannot import name 'builder'",
        ),
        (
            ("datasets", "5.2.0", "pandas"),
            (("pandas", "2.0.3", "numpy>=1.21"), ("numpy", "2.4.1")),
            Severity.ERROR,
            "numpy.dtype size changed",
        ),
        (
            ("trl", "1.16.0", "jinja2"),
            (("jinja2", "2.11.3", "markupsafe>=0.23"), ("markupsafe", "3.0.2")),
            Severity.ERROR,
            "soft_unicode",
        ),
    ],
)
def test_only_what_was_seen_to_fail_is_an_error(
    framework: Package, others: tuple[Package, ...], severity: Severity, error: str
) -> None:
    (finding,) = told(framework, *others).findings
    assert (finding.code, finding.severity) == ("package-requirements.unsuitable", severity)
    assert ("fails: " in finding.evidence[0], error in finding.evidence[0]) == (bool(error), True)


def test_newer_than_a_bound_is_a_warning() -> None:
    (finding,) = told(*without("mpmath"), ("mpmath", "1.4.0")).findings
    assert (finding.code, finding.severity) == ("package-requirements.unsuitable", Severity.WARNING)


def test_a_need_that_no_metadata_tells() -> None:
    (finding,) = told(("mindspore", "2.10.0", "numpy>=1.20.0"), ("numpy", "2.2.6")).findings
    assert (finding.code, finding.severity) == ("package-requirements.unsuitable", Severity.ERROR)
    assert "numpy.core.multiarray failed to import" in finding.evidence[0]
    assert "numpy-version.unsuitable" in finding.echo_of
    assert finding.fix is not None
    assert finding.fix.commands == ("/usr/bin/python3 -m pip install mindspore==2.10.0 'numpy<2,>=1.20.0'",)


def test_the_line_heeds_what_no_metadata_says_and_the_rest_of_the_environment() -> None:
    scipy: Package = ("scipy", "1.15.3", "numpy>=1.23")
    (finding,) = told(("mindspore", "2.10.0", "numpy", "dill", "scipy"), WITH_OLD_NUMPY, scipy).findings
    assert finding.fix is not None
    assert finding.fix.commands == (f"{PIP} mindspore==2.10.0 'numpy<2,>=1.23' dill",)
    other: Package = ("pandas", "2.2.0", "numpy<2.1,>=1.26")
    (finding,) = told(("paddlepaddle", "3.2.0", "numpy>=1.21"), other).findings
    assert finding.fix is not None
    assert finding.fix.commands == (f"{PIP} paddlepaddle==3.2.0 'numpy<2.1,>=1.26'",)


def test_where_pip_would_find_no_way_nothing_else_comes_along() -> None:
    torch: Package = ("torch", "2.5.1", "dill")
    (first, second) = told(torch, WITH_NUMPY, ("torchvision", "0.21.0", "torch==2.6.0")).findings
    lines = [line for one in (first, second) for line in (one.fix.commands if one.fix else ())]
    assert f"{PIP} --no-deps dill" in lines


@pytest.mark.parametrize(
    ("wordy", "short"),
    [
        ("<2,<2.5,>=1.20,>=1.25", "<2,>=1.25"),
        (">1.0,>=1.0,<=2.0,<2.0", "<2.0,>1.0"),
        (">=1,==1.26.4,<2", "==1.26.4"),
        (">=1,!=1.5,~=1.4", "!=1.5,>=1,~=1.4"),
        ("", ""),
    ],
)
def test_a_requirement_in_few_words(wordy: str, short: str) -> None:
    assert str(simplify(SpecifierSet(wordy))) == short


def test_what_is_there_needs_no_index_of_its_own() -> None:
    (finding,) = told(("torch", "2.13.0+cpu", "typing-extensions>=4.10.0"), WITH_NUMPY).findings
    assert finding.fix is not None
    assert finding.fix.commands == (f"{PIP} torch==2.13.0+cpu 'typing-extensions>=4.10.0'",)


def test_two_that_exclude_each_other_have_no_line() -> None:
    (finding,) = told(
        ("mindspore", "2.7.1", "numpy<2"), ("tensorflow", "2.20.0", "numpy>=2.1"), ("numpy", "1.26.4")
    ).findings
    assert finding.fix is not None
    assert finding.fix.commands == ()
    assert "mindspore 2.7.1 (numpy<2)" in finding.fix.title
    assert "tensorflow 2.20.0 (numpy>=2.1)" in finding.fix.title


def test_extras_and_markers_of_the_examined_python() -> None:
    user = (
        "torch",
        "2.13.0",
        "one[more]",
        "old; python_version < '3.10'",
        "arm; platform_machine == 'aarch64'",
    )
    asked = told(user, WITH_NUMPY, ("one", "1.0", "hidden; extra == 'more'", "never; extra == 'other'"))
    assert [finding.evidence[0] for finding in asked.findings] == ["torch -> one -> hidden"]


def test_a_stand_in_counts_under_numbers_of_its_own() -> None:
    asked = told(("torch", "2.5.1", "triton==3.1.0"), WITH_NUMPY, ("triton-ascend", "3.2.0"))
    assert asked.codes == []
    asked = told(("torch", "2.5.1", "opencv-python>=4.9"), WITH_NUMPY, ("opencv-python-headless", "4.5.1"))
    assert asked.codes == ["package-requirements.unsuitable"]


def test_builds_of_one_release_are_alike() -> None:
    torch = ("torch", "2.9.0")
    assert told(torch, WITH_NUMPY, ("torch-npu", "2.9.0", "torch==2.9.0+cpu")).codes == []
    assert told(("torch", "2.9.0+cpu"), WITH_NUMPY, ("torch-npu", "2.9.0", "torch==2.9.0")).codes == []
    (finding,) = told(torch, WITH_NUMPY, ("torch-npu", "2.10.0", "torch==2.10.0")).findings
    assert (finding.code, finding.severity) == ("package-requirements.unsuitable", Severity.WARNING)
    assert "torch-npu.torch-mismatch" in finding.echo_of  # which knows what fails, and is an error


def test_a_plug_in_names_the_version_for_what_it_extends() -> None:
    vllm, plugin = ("vllm", "0.15.0", "torch==2.9.1", "xgrammar"), ("vllm-ascend", "0.15.0", "torch==2.9.0")
    rest = (("torch", "2.9.0"), WITH_NUMPY)
    assert told(vllm, *rest, ("xgrammar", "1")).codes == ["package-requirements.unsuitable"]
    assert told(vllm, plugin, *rest, ("xgrammar", "1")).codes == []
    assert told(vllm, plugin, *rest).codes == ["package-requirements.missing"]


CANN: dict[str, Content] = {
    "/usr/local/Ascend/ascend-toolkit/latest/compiler/version.info": "Version=8.1.RC1\n",
}


@pytest.mark.parametrize(
    ("cann", "te", "named"),
    [
        ({}, ("Requires-Dist: psutil",), False),  # without CANN its check says nothing
        (CANN, ("Requires-Dist: psutil",), True),
        (CANN, (), False),  # a warning there, an error here
    ],
)
def test_what_cann_needs_as_well_is_said_by_its_own_check(
    cann: dict[str, Content], te: tuple[str, ...], named: bool
) -> None:
    files = {**cann, **package_files("torch", "2.5.1", "Requires-Dist: psutil", "Requires-Dist: other")}
    for name, version, *lines in (("torch-npu", "2.5.1"), ("numpy", "1.26.4"), ("te", "0.4.0", *te)):
        files.update(package_files(name, version, *lines))
    asked = ask(package_requirements, fake_host(files, expect="npu"))
    echoes = {finding.message.split(", but ")[1].split()[0]: finding.echo_of for finding in asked.findings}
    assert ("cann-python-deps.missing" in echoes["psutil"]) is named
    assert echoes["other"] == ()


def test_rows_of_a_site_that_make_no_sense(tmp_path: Path) -> None:
    row = 'users = ["torch"]\nversions = "?"\nrequires = "?"\nbreaks = ""\nerror = ""\n'
    row += 'source = ""\nas_of = ""\n'
    knowledge = site(tmp_path / "k", f"[[requirements.needs]]\n{row}")
    assert told(*WELL, knowledge=knowledge).codes == ["package-requirements.site-table"]


def test_a_circle_ends() -> None:
    assert told(("torch", "2.13.0", "a"), WITH_NUMPY, ("a", "1", "b"), ("b", "1", "a")).status is Status.OK


def test_metadata_that_cannot_be_read_is_unknown() -> None:
    path = f"{SITE}/torch-2.13.0.dist-info/METADATA"
    asked = ask(package_requirements, fake_host({path: unreadable()}))
    assert asked.status is Status.UNKNOWN


def test_what_can_be_imported_without_metadata_is_not_missing() -> None:
    files: dict[str, Content] = {}
    for name, version, *requires in without("typing_extensions", "numpy"):
        files.update(package_files(name, version, *(f"Requires-Dist: {one}" for one in requires)))
    codes = ask(package_requirements, fake_host(files)).codes
    assert codes == ["package-requirements.missing"] * 2
    files[f"{SITE}/typing_extensions.py"] = "x = 1\n"
    files[f"{SITE}/numpy/__init__.py"] = "__version__ = '2.1.3'\n"
    assert ask(package_requirements, fake_host(files)).codes == []


@pytest.mark.parametrize(
    ("version", "codes"), [("4.0.1", ["package-requirements.unsuitable"]), ("4.1.1", [])]
)
def test_a_bound_that_no_metadata_says(version: str, codes: list[str]) -> None:
    """Seen: `import paddle` ends in typing_extensions, whose version paddle's metadata leaves open."""
    asked = told(("paddlepaddle", "3.3.1", "typing_extensions"), ("typing_extensions", version))
    assert asked.codes == codes
    assert all(one.severity is Severity.ERROR for one in asked.findings)


@pytest.mark.parametrize(
    ("version", "severity"), [("1.0.1", Severity.WARNING), ("0.9", Severity.WARNING), ("odd", None)]
)
def test_older_than_required_and_not_seen_to_fail(version: str, severity: object) -> None:
    findings = told(
        ("mindspore", "2.10.0", "asttokens>=2.0.4"), WITH_OLD_NUMPY, ("asttokens", version)
    ).findings
    assert [one.severity for one in findings] == ([severity] if severity else [])


SCENE_TORCH = package_files("torch", "2.13.0", "Requires-Dist: typing-extensions>=4.10.0")
NEEDY = package_files("mindspore", "2.7.1", "Requires-Dist: typing-extensions<4")
ROW = 'users = ["torch"]\nversions = "?"\nrequires = "?"\nbreaks = ""\nerror = ""\nsource = ""\nas_of = ""\n'


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each ending, each remedy."""
    old = package_files("typing_extensions", "4.1.0")
    for files in ({}, SCENE_TORCH, {**SCENE_TORCH, **old}, {**SCENE_TORCH, **NEEDY, **old}):
        yield ask(package_requirements, fake_host(files))
    yield ask(package_requirements, fake_host({f"{SITE}/torch-2.13.0.dist-info/METADATA": unreadable()}))
    yield ask(
        package_requirements, fake_host(SCENE_TORCH, knowledge=site(tmp, f"[[requirements.needs]]\n{ROW}"))
    )
