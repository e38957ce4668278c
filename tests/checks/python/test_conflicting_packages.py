"""conflicting-packages: flavours in one folder, copies, and extension modules of another machine."""

from __future__ import annotations

import errno
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor import Risk, Severity, Status
from npudoctor.checks.python.conflicting_packages import conflicting_packages
from npudoctor.checks.python.conflicting_packages import conflicting_packages as check
from npudoctor.checks.python.package_files import package_files as package_files_check
from npudoctor.host import Host, Options
from npudoctor.host.libraries.extensions import elf_machine
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, package_files, unreadable

OTHER_USER = "/root/.local/lib/python3.11/site-packages"
ARM = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\xb7\x00" + bytes(44)


def scene(tmp: Path) -> Iterator[Asked]:
    """No framework; two flavours; two copies, in two folders and in one; another machine; another Python."""
    yield ask(check, fake_host())
    yield ask(check, fake_host(packages={"mindspore": "1.9.0", "mindspore-ascend": "1.10.1"}))
    files: dict[str, Content] = {
        **package_files("torch", "2.7.1", site=OTHER_USER),
        **package_files("torch", "2.1.0"),
        **package_files("numpy", "1.26.4"),
        **package_files("numpy", "1.26.3"),
        f"{OTHER_USER}/torch/_C.so": ARM,
        f"{SITE}/numpy/core/_multiarray_umath.cpython-37m-x86_64-linux-gnu.so": ARM,
    }
    yield ask(check, fake_host(files, search_path=(OTHER_USER, SITE)))
    dynload, end = "/usr/lib/python3.11/lib-dynload", "cpython-311-x86_64-linux"
    musl: dict[str, Content] = {
        **package_files("numpy", "2.2.6"),
        f"{dynload}/math.{end}-gnu.so": ARM,
        f"{SITE}/numpy/_core/_multiarray_umath.{end}-musl.so": ARM,
    }
    yield ask(check, fake_host(musl, search_path=(dynload, SITE)))


AGAIN = "/usr/bin/python3 -m pip install --force-reinstall --no-deps --no-index --find-links npudoctor-wheels"
USER = "/home/u/.local/lib/python3.11/site-packages"


def elf(machine: int, order: str = "little") -> bytes:
    """The header of an ELF file for this machine."""
    start = b"\x7fELF\x02" + (b"\x01" if order == "little" else b"\x02") + b"\x01" + bytes(9)
    return start + (3).to_bytes(2, order) + machine.to_bytes(2, order) + bytes(44)  # type: ignore[arg-type]


X86, ARM = elf(62), elf(183)


def told(files: dict[str, Content], **more: Any) -> Asked:
    return ask(conflicting_packages, fake_host(files, **more))


def beside(*names: str, site: str = SITE) -> dict[str, Content]:
    """Distributions ("name version") of one folder."""
    files: dict[str, Content] = {}
    for name in names:
        files.update(package_files(*name.split(), site=site))
    return files


@pytest.mark.parametrize(
    "names",
    [
        ("mindspore 2.7.0", "numpy 1.26.4", "scipy 1.11.4"),
        ("torch 2.7.1+cpu", "torch-npu 2.7.1", "numpy 1.26.4"),
        ("torch 2.7.1", "triton 3.3.1"),
        ("triton 3.5.0", "triton-ascend 3.2.0", "torch-npu 2.7.1"),
        ("torch 2.7.1", "torch-npu 2.7.1", "triton-ascend 3.2.0", "vllm 0.11.0", "vllm-ascend 0.11.0"),
        ("paddlepaddle 3.0.0", "paddle-custom-npu 3.0.0"),
    ],
)
def test_quiet_when_well(names: tuple[str, ...]) -> None:
    asked = told(beside(*names))
    assert (asked.status, asked.codes) == (Status.OK, [])


@pytest.mark.parametrize(
    ("names", "lines"),
    [
        (
            ("mindspore 1.9.0", "mindspore-ascend 1.10.1"),
            (
                "/usr/bin/python3 -m pip download --no-deps --dest npudoctor-wheels mindspore-ascend==1.10.1",
                "/usr/bin/python3 -m pip uninstall mindspore mindspore-ascend",
                f"{AGAIN} mindspore-ascend==1.10.1",
            ),
        ),
        (
            ("mindspore 2.7.0", "mindspore-gpu 1.10.0"),
            (
                "/usr/bin/python3 -m pip download --no-deps --dest npudoctor-wheels mindspore==2.7.0",
                "/usr/bin/python3 -m pip uninstall mindspore mindspore-gpu",
                f"{AGAIN} mindspore==2.7.0",
            ),
        ),
        (
            ("paddlepaddle 2.6.2", "paddlepaddle-gpu 2.6.2"),
            (
                "/usr/bin/python3 -m pip download --no-deps --dest npudoctor-wheels paddlepaddle-gpu==2.6.2",
                "/usr/bin/python3 -m pip uninstall paddlepaddle paddlepaddle-gpu",
                f"{AGAIN} paddlepaddle-gpu==2.6.2",
            ),
        ),
    ],
)
def test_two_flavours(names: tuple[str, ...], lines: tuple[str, ...]) -> None:
    (finding,) = told(beside(*names)).findings
    assert (finding.code, finding.severity) == ("conflicting-packages.two-flavours", Severity.WARNING)
    assert all(name in finding.message for name in names[:2])
    assert finding.fix is not None
    assert finding.fix.commands == lines
    assert (finding.fix.risk, finding.fix.needs_root) == (Risk.MANUAL, False)


def test_a_flavour_that_requires_the_other_knows_what_it_does() -> None:
    files = {
        **package_files("mindspore-gpu", "9.0", "Requires-Dist: mindspore==9.0"),
        **beside("mindspore 9.0"),
    }
    assert told(files).codes == []


def test_flavours_in_two_folders_do_not_overwrite_each_other() -> None:
    files = {**beside("mindspore 2.7.0"), **beside("mindspore-gpu 1.10.0", site=USER)}
    assert told(files, search_path=(USER, SITE)).codes == []


def test_two_copies_name_the_winner() -> None:
    files = {**beside("torch 2.1.0"), **beside("torch 2.7.1", site=USER)}
    (finding,) = told(files, search_path=(USER, SITE)).findings
    assert (finding.code, finding.severity) == ("conflicting-packages.two-copies", Severity.INFO)
    assert f"2.7.1 in {USER} takes precedence over 2.1.0 in {SITE}" in finding.message
    same = {**beside("torch 2.1.0"), **beside("torch 2.1.0", site=USER)}
    assert told(same, search_path=(USER, SITE)).codes == []


def test_two_versions_in_one_folder() -> None:
    (finding,) = told(beside("torch 2.1.0", "torch 2.10.0")).findings
    assert (finding.code, finding.severity) == ("conflicting-packages.mixed-copy", Severity.WARNING)
    assert finding.fix is not None
    words = [line.split("-m pip ")[1].split() for line in finding.fix.commands]
    assert [line[0] for line in words] == ["download", "uninstall", "uninstall", "install"]
    assert "torch==2.10.0" in words[0]


def test_of_two_versions_the_one_that_suits_comes_back() -> None:
    """What package-files says of it has the same remedy, and is the one that is shown."""
    files = beside("numpy 1.26.4", "numpy 2.3.5", "torch 2.2.0")
    files.update(package_files("mindspore", "2.7.0", "Requires-Dist: numpy<2"))
    (finding,) = told(files).findings
    (other,) = ask(package_files_check, fake_host(files)).findings
    assert finding.fix is not None and other.fix is not None
    assert finding.fix.commands == other.fix.commands
    assert "numpy==1.26.4" in finding.fix.commands[0]
    assert other.code in finding.echo_of and finding.code not in other.echo_of


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("mindspore 2.7.0", "mindspore/_c_expression.cpython-311-aarch64-linux-gnu.so"),
        ("mindspore-ascend 1.10.1", "mindspore/_c_expression.so"),
        ("torch-npu 2.7.1", "torch_npu/_C.cpython-311-aarch64-linux-gnu.so"),
        ("numpy 2.1.0", "numpy/_core/_multiarray_umath.cpython-311-aarch64-linux-gnu.so"),
        ("paddlepaddle 3.0.0", "paddle/base/libpaddle.so"),
        ("torch 2.7.1", "torch/_C.abi3.so"),
    ],
)
def test_built_for_another_machine(name: str, module: str) -> None:
    files = {**beside(name), f"{SITE}/{module}": ARM}
    (finding,) = told(files).findings
    assert (finding.code, finding.severity) == ("conflicting-packages.other-machine", Severity.ERROR)
    assert "is built for aarch64, but /usr/bin/python3 runs on x86_64" in finding.message
    assert f"{SITE}/{module}: ELF, aarch64" in finding.evidence
    assert finding.fix is not None
    assert finding.fix.commands == (f"/usr/bin/python3 -m pip uninstall {name.split()[0]}",)
    assert told(files, machine="aarch64").codes == []


def test_a_wheel_for_one_machine_is_had_for_another_too() -> None:
    info = f"{SITE}/numpy-2.2.6.dist-info"
    files = {
        **beside("numpy 2.2.6"),
        f"{SITE}/numpy/_core/_multiarray_umath.cpython-311-aarch64-linux-gnu.so": ARM,
    }
    for tag, verb in (("cp311-cp311-manylinux_2_17_aarch64", "install"), ("py3-none-any", "uninstall")):
        files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nTag: {tag}\n"
        (finding,) = told(files).findings
        assert finding.fix is not None and finding.fix.commands[0].split("-m pip ")[1].startswith(verb)


def test_the_interpreters_own_file_tells_its_machine() -> None:
    files = {**beside("mindspore 2.7.0"), f"{SITE}/mindspore/_c_expression.so": ARM, "/usr/bin/python3": X86}
    assert told(files, machine="aarch64").codes == ["conflicting-packages.other-machine"]
    files["/usr/bin/python3"] = "#!/bin/sh\n"
    assert told(files, machine="aarch64").codes == []


def test_built_for_another_python() -> None:
    module = f"{SITE}/mindspore/_c_expression.cpython-37m-x86_64-linux-gnu.so"
    files = {**beside("mindspore 1.9.0"), module: X86}
    (finding,) = told(files).findings
    assert (finding.code, finding.severity) == ("conflicting-packages.other-python", Severity.ERROR)
    assert "is built for Python 3.7, but /usr/bin/python3 is 3.11" in finding.message
    assert finding.fix is not None
    files[f"{SITE}/mindspore/_c_expression.cpython-311-x86_64-linux-gnu.so"] = X86
    assert told(files).codes == []


DYNLOAD = "/usr/lib/python3.11/lib-dynload"


@pytest.mark.parametrize(("own", "other"), [("gnu", "musl"), ("musl", "gnu")])
def test_built_for_another_c_library(own: str, other: str) -> None:
    module = f"{SITE}/numpy/_core/_multiarray_umath.cpython-311-x86_64-linux-"
    files: dict[str, Content] = {
        **beside("numpy 2.2.6"),
        f"{DYNLOAD}/math.cpython-311-x86_64-linux-{own}.so": X86,
    }
    path = (DYNLOAD, SITE)
    (finding,) = told({**files, f"{module}{other}.so": X86}, search_path=path).findings
    assert (finding.code, finding.severity) == ("conflicting-packages.other-c-library", Severity.ERROR)
    assert finding.fix is not None
    assert "install --force-reinstall --no-deps numpy==2.2.6" in finding.fix.commands[0]
    assert told({**files, f"{module}{own}.so": X86}, search_path=path).codes == []
    both: dict[str, Content] = {f"{module}{own}.so": X86, f"{module}{other}.so": X86}
    assert told({**files, **both}, search_path=path).codes == []


def test_a_name_without_a_c_library_is_for_all() -> None:
    files: dict[str, Content] = {
        **beside("torch 2.7.1", "numpy 2.2.6"),
        f"{DYNLOAD}/math.cpython-311-x86_64-linux-gnu.so": X86,
        f"{SITE}/numpy/_core/_multiarray_umath.abi3.so": X86,
        f"{SITE}/torch/_C.so": X86,
    }
    assert told(files, search_path=(DYNLOAD, SITE)).codes == []
    # And where Python's own modules tell nothing, nothing is said of others.
    musl = f"{SITE}/numpy/_core/_multiarray_umath.cpython-311-x86_64-linux-musl.so"
    assert told({**beside("numpy 2.2.6"), musl: X86}).codes == []


def test_what_frameworks_import_is_judged_too() -> None:
    files: dict[str, Content] = {
        **beside("torch 2.7.1", "pillow 11.0.0"),
        f"{SITE}/PIL/_imaging.cpython-310-x86_64-linux-gnu.so": X86,
    }
    assert told(files).codes == ["conflicting-packages.other-python"]


def test_what_comes_from_pythonpath_is_taken_out_of_it() -> None:
    extra = "/data/site"
    files = {
        **beside("mindspore 1.9.0", site=extra),
        f"{extra}/mindspore/_c_expression.cpython-37m.so": X86,
    }
    (finding,) = told(files, variables={"PYTHONPATH": extra}, search_path=(extra, SITE)).findings
    assert finding.fix is not None and finding.fix.commands == (
        "unset PYTHONPATH",
        "/usr/bin/python3 -m pip install mindspore==1.9.0",  # it is nowhere else
    )


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"version https://git-lfs", elf(9999), elf(62, "big")])
def test_what_is_no_known_elf_file_is_not_judged(content: bytes) -> None:
    assert told({**beside("torch 2.7.1"), f"{SITE}/torch/_C.so": content}).codes == []


def test_skipped_without_frameworks() -> None:
    assert told(beside("requests 2.32.0")).status is Status.SKIPPED


@pytest.mark.parametrize("path", [SITE, f"{SITE}/torch/_C.so", f"{SITE}/torch"])
def test_cannot_tell_when_it_cannot_look(path: str) -> None:
    asked = told({**beside("torch 2.7.1"), path: unreadable(errno.EACCES)})
    assert asked.status is Status.UNKNOWN


def test_a_real_extension_module_in_a_real_image(tmp_path: Path) -> None:
    """A copy of a module of this Python; then the same file, its header saying another machine."""
    site = tmp_path / "usr/lib/python3.11/site-packages"
    (site / "mindspore").mkdir(parents=True)
    (tmp_path / "usr/bin").mkdir()
    for path, content in package_files("mindspore", "2.7.0", site=str(site)).items():
        Path(path).parent.mkdir()
        Path(path).write_text(str(content))
    real = next(Path(sysconfig.get_config_var("DESTSHARED")).glob("*.so"))
    module = site / "mindspore/_c_expression.so"
    shutil.copy(real, module)
    shutil.copy(real, tmp_path / "usr/bin/python3")

    def codes() -> list[str]:
        return ask(conflicting_packages, Host(Options(root=str(tmp_path)))).codes

    assert codes() == []
    changed = bytearray(module.read_bytes())
    assert elf_machine(bytes(changed)) is not None
    changed[18:20] = (243).to_bytes(2, "little")  # riscv64
    module.write_bytes(changed)
    assert codes() == ["conflicting-packages.other-machine"]
