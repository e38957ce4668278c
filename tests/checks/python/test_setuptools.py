"""setuptools: pkg_resources is there for the tensorboard and the torch that import it."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

import pytest

from npudoctor import Risk, Severity, Status
from npudoctor.checks.python.setuptools import find_import, setuptools
from npudoctor.checks.python.setuptools import setuptools as check
from npudoctor.host import Host, Options
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, package_files, unreadable

BOARD = {**package_files("tensorboard", "2.20.0"), f"{SITE}/tensorboard/default.py": "import pkg_resources\n"}
CPP = f"{SITE}/torch/utils/cpp_extension.py"
OLD_TORCH = {**package_files("torch", "1.11.0"), CPP: "import os\nfrom pkg_resources import packaging\n"}
NEW_TORCH = {**package_files("torch", "2.7.1"), CPP: "import setuptools\n"}


def told(files: dict[str, Content], setuptools_version: str = "", root: str = "") -> Asked:
    """The answer beside this setuptools ("" for none); up to 81 it holds pkg_resources."""
    if setuptools_version:
        files = {**files, **package_files("setuptools", setuptools_version)}
        if int(setuptools_version.split(".")[0]) < 82:
            files[f"{SITE}/pkg_resources/__init__.py"] = ""
    if root:
        files = {root + path: content for path, content in files.items()}
    return ask(setuptools, fake_host(files, root=root or None))


@pytest.mark.parametrize(
    ("files", "version"),
    [
        (BOARD, "80.9.0"),
        (OLD_TORCH, "59.5.0"),
        ({**BOARD, "/usr/lib/python3.11/site-packages/pkg_resources/__init__.py": ""}, ""),
    ],
)
def test_quiet_when_well(files: dict[str, Content], version: str) -> None:
    asked = told(files, version)
    assert (asked.status, asked.codes) == (Status.OK, [])


@pytest.mark.parametrize("files", [NEW_TORCH, package_files("tensorboard", "2.20.0")])
@pytest.mark.parametrize("version", ["82.0.1", "80.9.0", ""])
def test_skipped_where_nothing_imports_it(files: dict[str, Content], version: str) -> None:
    asked = told(files, version)
    assert (asked.status, asked.codes) == (Status.SKIPPED, [])


@pytest.mark.parametrize(("files", "name"), [(BOARD, "tensorboard 2.20.0"), (OLD_TORCH, "torch 1.11.0")])
@pytest.mark.parametrize(
    ("version", "said"), [("82.0.1", "setuptools 82.0.1 no longer"), ("", "is not installed")]
)
def test_gone(files: dict[str, Content], name: str, version: str, said: str) -> None:
    (finding,) = told(files, version).findings
    assert (finding.code, finding.severity) == ("setuptools.pkg-resources-gone", Severity.WARNING)
    assert name in finding.message and said in finding.message
    assert "pkg_resources" in finding.evidence[0]
    assert finding.fix is not None
    kept = "torch==1.11.0 " if name.startswith("torch") else ""
    assert finding.fix.commands == (f"/usr/bin/python3 -m pip install {kept}'setuptools<82'",)
    assert finding.fix.risk is Risk.MANUAL


def test_a_name_that_the_metadata_spells_otherwise() -> None:
    path = f"{SITE}/torch-1.11.0.dist-info/METADATA"
    files: dict[str, Content] = {**OLD_TORCH, path: "Name: Torch.GPU\nVersion: 1.11.0\n"}
    (finding,) = told(files, "82.0.1").findings
    assert "Torch.GPU 1.11.0" in finding.message


def test_both_are_named() -> None:
    assert told({**BOARD, **OLD_TORCH}, "82.0.0").codes == ["setuptools.pkg-resources-gone"] * 2


def test_in_an_image_the_line_enters_it() -> None:
    (finding,) = told(BOARD, "84.0.0", "/srv/image").findings
    assert finding.fix is not None
    assert finding.fix.commands == ("chroot /srv/image /usr/bin/python3 -m pip install 'setuptools<82'",)


@pytest.mark.parametrize(
    "source",
    [
        "",
        "import pkg_resources_shim",
        "try:\n    import pkg_resources\nexcept ImportError: pass",
        "# pkg_resources",
    ],
)
def test_what_is_no_import_of_it(source: str) -> None:
    assert find_import(source) is None


def test_skipped_without_a_reader() -> None:
    assert told({}, "82.0.1").status is Status.SKIPPED


def test_cannot_tell_when_it_cannot_look() -> None:
    files = {**BOARD, f"{SITE}/tensorboard/default.py": unreadable(errno.EACCES)}
    assert told(files, "82.0.1").status is Status.UNKNOWN


@pytest.mark.slow
def test_real_releases(tmp_path: Path, lack: Callable[[str], None]) -> None:
    """What pip installs, judged as an image; the real file says the same as the real interpreter."""
    site = tmp_path / "usr/lib/python3.11/site-packages"
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/python3").touch()

    def pip(*names: str) -> None:
        line = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile", "--upgrade"]
        line += ["--target", str(site)]
        if subprocess.run([*line, *names], capture_output=True, timeout=240, check=False).returncode:
            lack(f"pip cannot install {' '.join(names)}")

    def codes() -> list[str]:
        return ask(setuptools, Host(Options(root=str(tmp_path)))).codes

    pip("tensorboard==2.20.0", "setuptools==82.0.1")
    assert codes() == ["setuptools.pkg-resources-gone"]
    pip("setuptools==80.9.0")
    assert codes() == []


def scene(tmp: Path) -> Iterator[Asked]:
    """Nobody who needs it; setuptools without it; no setuptools."""
    files = {f"{SITE}/tensorboard/default.py": "import pkg_resources\n"}
    yield ask(check, fake_host())
    yield ask(check, fake_host(files, packages={"tensorboard": "2.20.0", "setuptools": "82.0.1"}))
    yield ask(check, fake_host(files, packages={"tensorboard": "2.20.0"}))
