"""interpreter: python3 is the one that the framework was installed for, and that CANN allows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.checks.python.stack_machine import cann, site
from tests.support.roots import python_that

from npudoctor import Severity, Status
from npudoctor.checks.python.interpreter import interpreter
from npudoctor.host import Host, Options
from npudoctor.testing import (
    SITE,
    Asked,
    Content,
    Node,
    ask,
    fake_host,
    folder,
    link,
    package_files,
    process_files,
    unreadable,
)

TORCH_NPU: dict[str, Content] = {
    **package_files("torch_npu", "2.7.1"),
    **package_files("torch", "2.7.1"),
    f"{SITE}/torch_npu/_C.cpython-311-x86_64-linux-gnu.so": "",
    f"{SITE}/torch/_C.cpython-311-x86_64-linux-gnu.so": "",
}
PROGRAM = Node(permissions=0o755)
CONDA = "/opt/conda/bin/python"
ELSEWHERE: dict[str, Content] = {
    CONDA: PROGRAM,
    "/usr/bin/python3": PROGRAM,
    **package_files("torch_npu", "2.7.1", site="/opt/conda/lib/python3.10/site-packages"),
}


def told(files: dict[str, Content], **more: Any) -> Asked:
    """The answer of a machine."""
    return ask(interpreter, fake_host(files, **more))


@pytest.mark.parametrize(
    ("files", "more"),
    [
        (TORCH_NPU, {}),
        ({**TORCH_NPU, **cann("8.3.RC1")}, {}),
        ({**TORCH_NPU, **cann("9.2.0")}, {}),
        (package_files("mindspore", "2.7.0"), {"python_version": "3.9.1"}),
        ({**TORCH_NPU, **cann("8.3.RC1"), **ELSEWHERE}, {"variables": {"PATH": "/opt/conda/bin"}}),
        (
            {**TORCH_NPU, "/usr/lib/python3.11/site-packages/torch/_dl.cpython-310-x86_64-linux-gnu.so": ""},
            {},
        ),
    ],
)
def test_quiet_when_it_is_the_right_one(files: dict[str, Content], more: dict[str, Any]) -> None:
    asked = told(files, **more)
    assert (asked.status, asked.codes) == (Status.OK, [])


def test_skipped_where_no_framework_is_anywhere() -> None:
    asked = told(cann("8.3.RC1"), variables={"PATH": "/usr/bin"})
    assert (asked.status, asked.codes) == (Status.SKIPPED, [])


def test_modules_for_another_cpython() -> None:
    asked = told(TORCH_NPU, python_version="3.10.4")
    assert asked.codes == ["interpreter.other-abi"] * 2
    assert asked.findings[0].severity is Severity.ERROR
    assert "3.11" in asked.findings[0].message and "3.10.4" in asked.findings[0].message


def broken(folder: Path, line: str) -> Host:
    """A machine whose python3 is this line of a shell."""
    path = folder / "python3.11"  # root starts none whose name does not tell its release
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    (folder / "python3").symlink_to(path.name)
    return Host(Options(expect="none"), variables={"PATH": str(folder)})


def ending(folder: Path, code: str) -> Host:
    """A machine whose python3 is a real one that does this while it starts."""
    python_that(folder, code)
    return Host(Options(expect="none"), variables={"PATH": f"{folder}/bin"})


def test_one_that_does_not_run_is_what_the_job_will_fail_on(tmp_path: Path) -> None:
    asked = ask(interpreter, ending(tmp_path, "raise ImportError('half removed')"))
    (finding,) = asked.findings
    assert (finding.code, finding.severity) == ("interpreter.does-not-run", Severity.ERROR)
    assert str(tmp_path) in finding.message and "status 1" in finding.message
    assert asked.status is Status.PROBLEM
    assert finding.evidence == ("ImportError: half removed",), "not where its threads were"


def test_a_pth_file_that_it_cannot_decode_is_named(tmp_path: Path) -> None:
    site = tmp_path / "lib/python3.11/site-packages"
    host = ending(tmp_path, "raise UnicodeDecodeError('utf-8', b'\\xfc', 0, 1, 'invalid')")
    site.mkdir(parents=True, exist_ok=True)
    (site / "x.pth").write_bytes(b"# f\xfcr uns\n")
    (finding,) = ask(interpreter, host).findings
    assert finding.fix is not None
    assert finding.fix.commands == (f"mv {site}/x.pth {site}/x.pth.not-utf8",)
    (site / "x.pth").unlink()
    (finding,) = ask(interpreter, Host(host.options, variables=dict(host.variables))).findings
    assert finding.fix is None or not finding.fix.commands


def test_a_wrapper_that_does_not_run(tmp_path: Path) -> None:
    """Root runs none whose name does not tell its release: what that one says to the job is not known."""
    host = broken(tmp_path, "echo 'no encodings' >&2; exit 3")
    (finding,) = ask(interpreter, host).findings
    assert (finding.code, finding.severity) == ("interpreter.does-not-run", Severity.ERROR)
    assert "status 3" in finding.message and finding.evidence == ("no encodings",)
    (tmp_path / "python3").unlink()
    (tmp_path / "python3.11").rename(tmp_path / "python3")
    asked = ask(interpreter, Host(host.options, variables={"PATH": str(tmp_path)}))
    if os.geteuid() == 0:
        assert (asked.status, asked.codes) == (Status.UNKNOWN, [])
        assert "is a script, which npudoctor does not run as root" in asked.reason
    else:
        assert asked.codes == [finding.code]


def test_one_that_hangs_is_not_known(tmp_path: Path) -> None:
    broken(tmp_path, "PATH=/usr/bin:/bin exec sleep 30")
    hasty = Host(Options(timeout=0.5), variables={"PATH": str(tmp_path)})
    assert ask(interpreter, hasty).status is Status.UNKNOWN
    hasty.close()


def test_the_framework_is_elsewhere() -> None:
    files = {**ELSEWHERE, **cann("8.3.RC1")}
    (finding,) = told(files, variables={"PATH": "/usr/bin:/opt/conda/bin:."}).findings
    assert (finding.code, finding.severity) == ("interpreter.framework-elsewhere", Severity.WARNING)
    assert CONDA in finding.message and "torch_npu 2.7.1" in finding.message
    assert finding.fix is not None and finding.fix.commands == (f"npudoctor check --python {CONDA}",)


def test_the_active_environment_is_looked_at() -> None:
    files = {**ELSEWHERE, **cann("8.3.RC1")}
    asked = told(files, variables={"PATH": "/usr/bin", "CONDA_PREFIX": "/opt/conda"})
    assert asked.codes == ["interpreter.framework-elsewhere"]


def notebook(kernel: str) -> dict[str, Content]:
    """Started by a kernel, which Jupyter started."""
    return {
        "/proc/self": link("90"),
        **process_files(90, parent=80, argv=["sh", "-c", "npudoctor check"]),
        **process_files(80, parent=70, argv=[kernel, "-m", "ipykernel_launcher", "-f", "k.json"], exe=CONDA),
        **process_files(70, argv=["/usr/bin/python3", "jupyter-lab"]),
    }


@pytest.mark.parametrize("kernel", [CONDA, "python"])
def test_the_kernel_of_a_notebook_is_another(kernel: str) -> None:
    files = {**TORCH_NPU, **ELSEWHERE, **notebook(kernel)}
    (finding,) = told(files, variables={"JPY_PARENT_PID": "70"}).findings
    assert (finding.code, finding.severity) == ("interpreter.notebook-kernel", Severity.WARNING)
    assert finding.fix is not None and finding.fix.commands == (f"npudoctor check --python {CONDA}",)


def test_the_kernel_of_a_notebook_is_this() -> None:
    files = {**TORCH_NPU, **ELSEWHERE, **notebook("/usr/bin/python")}
    assert told(files, variables={"JPY_PARENT_PID": "70"}).codes == []
    other = {**TORCH_NPU, **ELSEWHERE, **notebook(CONDA)}
    assert told(other).codes == []  # not started by Jupyter


@pytest.mark.parametrize(
    ("version", "python", "severity"),
    [
        ("8.2.RC1", "3.12.1", Severity.WARNING),
        ("8.3.RC2", "3.6.9", Severity.WARNING),
        ("8.5.0", "3.14.0", Severity.INFO),
    ],
)
def test_a_cpython_that_cann_is_not_for(version: str, python: str, severity: Severity) -> None:
    files = {**package_files("torch_npu", "2.7.1"), **cann(version)}
    finding = told(files, python_version=python).findings[-1]
    assert (finding.code, finding.severity) == ("interpreter.cann-range", severity)
    assert python in finding.message


@pytest.mark.parametrize(
    ("name", "version", "python", "listed"),
    [
        ("torch_npu", "2.5.1.post1", "3.12.1", "3.9, 3.10, 3.11"),
        ("mindspore", "2.7.1", "3.12.1", "3.9, 3.10, 3.11"),
        ("mindspore-ascend", "1.9.0", "3.10.1", "3.7, 3.8, 3.9"),
        ("vllm-ascend", "0.15.0rc1", "3.12.1", ">=3.10,<3.12"),
    ],
)
def test_a_release_that_was_not_published_for_it(name: str, version: str, python: str, listed: str) -> None:
    files = {**package_files(name, version), **cann("8.3.RC1")}
    finding = told(files, python_version=python).findings[0]
    assert (finding.code, finding.severity) == ("interpreter.python-not-listed", Severity.WARNING)
    assert f"CPython {listed}, but" in finding.message and python in finding.message
    last = listed[-4:] if "<" not in listed else "3.11"
    assert "interpreter.python-not-listed" not in told(files, python_version=f"{last.strip()}.1").codes
    assert "interpreter.python-not-listed" not in told(package_files(name, "99.0")).codes


def test_modules_for_this_python_make_it_a_note() -> None:
    files = {
        **package_files("torch_npu", "2.7.1"),
        f"{SITE}/torch_npu/_C.cpython-314-x86_64-linux-gnu.so": "",
    }
    (finding,) = told(files, python_version="3.14.0").findings
    assert (finding.code, finding.severity) == ("interpreter.python-not-listed", Severity.INFO)


@pytest.mark.parametrize("version", ["2.9.0.post9", "2.10.0.post7", "2.14.0"])
def test_a_release_that_got_another_python_than_its_torch_before(version: str) -> None:
    assert told(package_files("torch_npu", version), python_version="3.14.0").codes == []
    if version != "2.14.0":
        former = package_files("torch_npu", version[:-1] + "6")
        assert told(former, python_version="3.14.0").codes == ["interpreter.python-not-listed"]


def test_the_tag_of_the_wheel_counts_before_our_table() -> None:
    files = package_files("torch_npu", "2.7.1")
    wheel = f"{SITE}/torch_npu-2.7.1.dist-info/WHEEL"
    for tag, codes in (("cp314-cp314", []), ("cp313-cp313", ["interpreter.python-not-listed"])):
        files[wheel] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}-manylinux_2_28_x86_64\n"
        assert told(files, python_version="3.14.0").codes == codes


def test_a_row_of_a_site_about_pythons(tmp_path: Any) -> None:
    row = '[[torch_npu.python]]\ntorch = "2.7.1"\npython = "{python}"\nsource = "us"\nas_of = "2026-12"\n'
    files = package_files("torch_npu", "2.7.1")
    also = site(tmp_path / "a", row.format(python="3.14"))
    assert told(files, python_version="3.14.0", knowledge=also).codes == []
    never = site(tmp_path / "b", row.format(python="3.11") + "compatible = false\n")
    assert told(files, knowledge=never).codes == ["interpreter.python-not-listed"]


def test_a_broken_row_of_a_site(tmp_path: Any) -> None:
    asked = told(TORCH_NPU, knowledge=site(tmp_path / "k", "[[cann_python.python]]\n"))
    assert asked.codes == ["interpreter.site-table"]


def test_skipped_where_nothing_trains_on_npus() -> None:
    assert told({**ELSEWHERE}, variables={"PATH": "/opt/conda/bin"}).status is Status.SKIPPED


def test_an_image_has_no_notebook_and_no_path() -> None:
    files = {f"/srv/image{path}": content for path, content in {**TORCH_NPU, **cann("8.3.RC1")}.items()}
    asked = told(files, root="/srv/image")
    assert (asked.status, asked.codes) == (Status.OK, [])


def test_cannot_tell() -> None:
    files: dict[str, Content] = {**TORCH_NPU, f"{SITE}/torch_npu": unreadable()}
    assert told({**package_files("torch_npu", "2.7.1"), **files, SITE: folder()}).status is Status.UNKNOWN


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each ending."""
    yield ask(interpreter, fake_host())
    yield ask(interpreter, broken(tmp, "echo broken >&2; exit 3"))
    yield ask(interpreter, ending(tmp / "own", "import posix; posix.write(2, b'broken'); posix._exit(3)"))
    yield told({**TORCH_NPU, **cann("8.3.RC1")}, python_version="3.12.1")
    yield told({**ELSEWHERE, **cann("8.3.RC1")}, variables={"PATH": "/usr/bin:/opt/conda/bin"})
    yield told({**TORCH_NPU, **ELSEWHERE, **notebook(CONDA)}, variables={"JPY_PARENT_PID": "70"})
    yield told(TORCH_NPU, knowledge=site(tmp / "k", "[[cann_python.python]]\n"))
    yield told(package_files("torch_npu", "2.5.1"), python_version="3.12.1")
    row = '[[torch_npu.python]]\ntorch = "2.7.1"\npython = "3.11"\nsource = "us"\nas_of = "2026-12"\n'
    yield told(TORCH_NPU, knowledge=site(tmp / "p", row + "compatible = false\n"))
