"""aicpu-path: ASCEND_AICPU_PATH names the CANN that the other variables name."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

import pytest

from npudoctor import Action, Risk, Severity, Status
from npudoctor.checks.cann.aicpu_path import aicpu_path
from npudoctor.testing import Asked, Content, ask, fake_host, folder, link, unreadable

TOOLKIT = "/usr/local/Ascend/ascend-toolkit"
LATEST = f"{TOOLKIT}/latest"


def release(product: str, component: str, root: str = TOOLKIT) -> dict[str, Content]:
    """A tree of the 5.1 to 8.3 layout, without `latest`."""
    return {
        f"{root}/{product}/compiler/version.info": f"Version={component}\nversion_dir={product}\n",
        f"{root}/{product}/opp/version.info": f"Version={component}\nversion_dir={product}\n",
        f"{root}/{product}/aarch64-linux/ascend_toolkit_install.info": (
            f"package_name=Ascend-cann-toolkit\nversion={product}\narch=aarch64\n"
            f"path={root}/{product}/aarch64-linux\n"
        ),
        f"{root}/set_env.sh": "",
    }


def active(product: str, root: str = TOOLKIT) -> dict[str, Content]:
    """The real folder `latest`, full of relative links."""
    return {f"{root}/latest/{part}": link(f"../{product}/{part}") for part in ("compiler", "opp")}


OLD_TREE: dict[str, Content] = {
    "/usr/local/Ascend/nnae/latest/fwkacllib/version.info": "Version=1.78.23.3.230\n",
    "/usr/local/Ascend/nnae/latest/opp/op_impl/built-in": folder(),
}
OLD = {"ASCEND_OPP_PATH": "/usr/local/Ascend/nnae/latest/opp/"}
TREE = {**release("8.1.RC1", "7.7.0.1.238"), **active("8.1.RC1")}
SOURCED = {
    "ASCEND_HOME_PATH": LATEST,
    "ASCEND_TOOLKIT_HOME": LATEST,
    "ASCEND_OPP_PATH": f"{LATEST}/opp",
    "ASCEND_AICPU_PATH": LATEST,
}
HALF = {name: value for name, value in SOURCED.items() if name != "ASCEND_AICPU_PATH"}


def told(files: Mapping[str, Content], variables: Mapping[str, str], **more: Any) -> Asked:
    return ask(aicpu_path, fake_host(files, variables=variables, **{"expect": "npu", **more}))


def line(asked: Asked) -> Optional[str]:
    """The one line of the fix of the one finding."""
    (finding,) = asked.findings
    if finding.fix is None or not finding.fix.commands:
        return None
    (command,) = finding.fix.commands
    return command


@pytest.mark.parametrize(
    "value",
    [
        LATEST,
        f"{LATEST}/",
        f"{TOOLKIT}/8.1.RC1",
        f"{LATEST}/opp/..",
        "/usr/local/Ascend/../Ascend/ascend-toolkit/latest",
    ],
)
def test_quiet_whatever_name_the_same_tree_has(value: str) -> None:
    asked = told(TREE, {**SOURCED, "ASCEND_AICPU_PATH": value})
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts == {"value": value, "install": LATEST, "version": "8.1.RC1"}


def test_quiet_with_the_later_layout() -> None:
    cann = "/usr/local/Ascend/cann"
    files: dict[str, Content] = {
        f"{cann}-8.5.0/opp/built-in": folder(),
        f"{cann}-8.5.0/share/info/runtime/version.info": "Version=8.5.0\n",
        cann: link("cann-8.5.0"),
        LATEST: link(cann),
    }
    resolved = {"ASCEND_HOME_PATH": f"{cann}-8.5.0", "ASCEND_OPP_PATH": f"{cann}-8.5.0/opp"}
    for value in (cann, f"{cann}-8.5.0", LATEST):
        assert told(files, {**resolved, "ASCEND_AICPU_PATH": value}).codes == []


def test_quiet_where_the_runtime_falls_back_to() -> None:
    files: dict[str, Content] = {
        "/usr/local/Ascend/opp/built-in": folder(),
        "/usr/local/Ascend/fwkacllib/version.info": "Version=1.76.22.3.220\n",
    }
    assert told(files, {"ASCEND_OPP_PATH": "/usr/local/Ascend/opp"}).codes == []
    assert told(files, {}).codes == []


@pytest.mark.parametrize("variables", [HALF, {**HALF, "ASCEND_AICPU_PATH": ""}])
def test_unset_beside_others(variables: Mapping[str, str]) -> None:
    asked = told(TREE, variables)
    (finding,) = asked.findings
    assert finding.code == "aicpu-path.unset"
    assert finding.severity is Severity.WARNING
    assert finding.echo_of == ()
    assert "ASCEND_HOME_PATH, ASCEND_TOOLKIT_HOME, ASCEND_OPP_PATH" in finding.message
    assert line(asked) == f"export ASCEND_AICPU_PATH={LATEST}"
    assert finding.fix is not None
    assert (finding.fix.risk, finding.fix.needs_root) == (Risk.MANUAL, False)
    assert finding.fix.undo == ("unset ASCEND_AICPU_PATH",)
    assert finding.action is Action.CONFIG


@pytest.mark.parametrize(
    ("packages", "severity"),
    [
        ({"torch": "1.5.0+ascend.post3"}, Severity.ERROR),
        ({"torch-npu": "1.8.1.post1"}, Severity.ERROR),
        ({"mindspore-ascend": "1.3.0"}, Severity.INFO),
        ({}, Severity.INFO),
    ],
)
def test_unset_is_an_error_for_pytorch_1_on_cann_5(packages: Mapping[str, str], severity: Severity) -> None:
    asked = told(OLD_TREE, OLD, packages=packages)
    assert [finding.severity for finding in asked.findings] == [severity]
    assert line(asked) == "export ASCEND_AICPU_PATH=/usr/local/Ascend/nnae/latest"


def test_unset_is_a_warning_for_pytorch_1_on_a_newer_cann() -> None:
    (finding,) = told(TREE, HALF, packages={"torch-npu": "1.11.0"}).findings
    assert finding.severity is Severity.WARNING


def test_nothing_sourced_is_an_echo() -> None:
    asked = told(TREE, {})
    (finding,) = asked.findings
    assert finding.code == "aicpu-path.unset"
    assert finding.echo_of == ("cann-env.not-sourced",)
    assert f"{TOOLKIT}/set_env.sh was not sourced" in finding.message
    assert line(asked) == f"export ASCEND_AICPU_PATH={LATEST}"


def test_nothing_sourced_and_no_script() -> None:
    files = {path: content for path, content in TREE.items() if not path.endswith("set_env.sh")}
    (finding,) = told(files, {}).findings
    assert f"no variable of the CANN at {LATEST}" in finding.message


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("/opt/gone", "does not exist"),
        ("/opt/dangling", "does not exist"),
        (f"{LATEST}/opp", "no folder opp"),
        ("/usr/local/Ascend", "no folder opp"),
        (f"{LATEST}/compiler/version.info", "no folder opp"),
        ("ascend-toolkit/latest", "not an absolute path"),
    ],
)
def test_missing(value: str, said: str) -> None:
    asked = told({**TREE, "/opt/dangling": link("gone")}, {**SOURCED, "ASCEND_AICPU_PATH": value})
    (finding,) = asked.findings
    assert (finding.code, finding.severity) == ("aicpu-path.missing", Severity.ERROR)
    assert said in finding.message
    assert value in finding.message
    assert line(asked) == f"export ASCEND_AICPU_PATH={LATEST}"
    assert finding.fix is not None
    assert finding.fix.undo == (f"export ASCEND_AICPU_PATH={value}",)


def test_what_cann_env_says_is_an_echo() -> None:
    gone = {name: value.replace(LATEST, "/opt/gone") for name, value in SOURCED.items()}
    assert told(TREE, gone).findings[0].echo_of == ("cann-env.no-such-path",)
    alone = {**SOURCED, "ASCEND_AICPU_PATH": "/opt/gone"}
    assert told(TREE, alone).findings[0].echo_of == ()
    files = {**TREE, **release("8.0.RC3", "7.5.0.1.129")}
    (other,) = told(files, {**SOURCED, "ASCEND_AICPU_PATH": f"{TOOLKIT}/8.0.RC3"}).findings
    assert other.echo_of == ("cann-env.mixed-installs",)


def test_missing_and_nothing_to_point_to() -> None:
    assert line(told({}, {"ASCEND_AICPU_PATH": "/opt/gone"})) is None


def test_another_version() -> None:
    files = {**TREE, **release("8.0.RC3", "7.5.0.1.129")}
    asked = told(files, {**SOURCED, "ASCEND_AICPU_PATH": f"{TOOLKIT}/8.0.RC3"})
    (finding,) = asked.findings
    assert (finding.code, finding.severity) == ("aicpu-path.other-install", Severity.ERROR)
    assert f"{TOOLKIT}/8.0.RC3 (8.0.RC3)" in finding.message
    assert f"ASCEND_HOME_PATH points to {LATEST} (8.1.RC1)" in finding.message
    assert f"ASCEND_OPP_PATH={LATEST}/opp" in finding.evidence
    assert line(asked) == f"export ASCEND_AICPU_PATH={LATEST}"


def test_another_tree_of_the_same_version_is_a_warning() -> None:
    copy = "/data/ascend-toolkit"
    files = {**TREE, **release("8.1.RC1", "7.7.0.1.238", copy), **active("8.1.RC1", copy)}
    (finding,) = told(files, {**SOURCED, "ASCEND_AICPU_PATH": f"{copy}/latest"}).findings
    assert (finding.code, finding.severity) == ("aicpu-path.other-install", Severity.WARNING)


def test_when_only_opp_is_of_another_install_the_line_leaves_it_to_others() -> None:
    files = {**TREE, **release("8.0.RC3", "7.5.0.1.129")}
    asked = told(files, {**SOURCED, "ASCEND_OPP_PATH": f"{TOOLKIT}/8.0.RC3/opp"})
    assert asked.codes == ["aicpu-path.other-install"]
    assert "ASCEND_OPP_PATH points to" in asked.findings[0].message
    assert line(asked) is None, "ASCEND_AICPU_PATH is right"


def test_other_variables_that_name_nothing_are_not_this_checks_business() -> None:
    assert told(TREE, {"ASCEND_HOME_PATH": "/opt/gone", "ASCEND_AICPU_PATH": LATEST}).codes == []


def test_skipped_without_cann() -> None:
    assert told({}, {}).status is Status.SKIPPED
    assert told({"/usr/local/Ascend/driver/version.info": "Version=25.0.1\n"}, {}).status is Status.SKIPPED


def test_skipped_in_an_image() -> None:
    assert told(TREE, {}, root="/srv/image").status is Status.SKIPPED


@pytest.mark.parametrize("variables", [SOURCED, {"ASCEND_AICPU_PATH": LATEST}, {}])
def test_cannot_tell_when_it_may_not_look(variables: Mapping[str, str]) -> None:
    asked = told({TOOLKIT: unreadable(errno.EACCES)}, variables)
    assert asked.status is Status.UNKNOWN
    assert "Permission denied" in asked.reason


def test_only_said_where_no_npu_is_to_be_used() -> None:
    """A login node, or one that builds."""
    for variables in ({**SOURCED, "ASCEND_AICPU_PATH": "/nonexistent"}, HALF):
        for expect in ("auto", "none", "gpu"):
            asked = told(TREE, variables, expect=expect)
            assert [finding.weight for finding in asked.findings] == [Severity.INFO]
            assert asked.status is Status.OK


def test_a_cann_in_condas_folder_is_found_by_its_python() -> None:
    """Nothing but the interpreter's own folder tells of it."""
    conda = release("8.1.RC1", "7.7.0.1.238", root="/opt/conda/Ascend/ascend-toolkit")
    files = {**conda, **active("8.1.RC1", "/opt/conda/Ascend/ascend-toolkit")}
    asked = told(files, {}, python="/opt/conda/bin/python3")
    assert asked.codes == ["aicpu-path.unset"]


def scene(tmp: Path) -> Iterator[Asked]:
    yield told({}, {})
    yield told(TREE, {})
    yield told(TREE, HALF)
    yield told(OLD_TREE, OLD, packages={"torch": "1.8.1"})
    for value in ("/no/such/path", "latest", "/usr/local"):
        yield told(TREE, {**SOURCED, "ASCEND_AICPU_PATH": value})
    other = release("7.0.0", "7.1.0.3.220", "/opt/cann")
    yield told({**TREE, **other}, {**HALF, "ASCEND_AICPU_PATH": "/opt/cann/7.0.0"})
    yield told({**TREE, **other}, {"ASCEND_OPP_PATH": "/opt/cann/7.0.0/opp", "ASCEND_AICPU_PATH": LATEST})
