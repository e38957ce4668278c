"""Where metadata lies: eggs of `setup.py install`, development installs, and folders without any."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Optional

import pytest

from npudoctor.host import CannotTell, Host, Options
from npudoctor.host.python.interpreter import Layout
from npudoctor.host.python.requirements import read_requirement, read_requirements
from npudoctor.testing import SITE, Content, fake_host, folder

EGG = f"{SITE}/torchvision-0.16.0-py3.11-linux-aarch64.egg"
LAYOUT = Layout((), "3.11.7", "aarch64", asked=True)
INFO = "Metadata-Version: 2.1\nName: torchvision\nVersion: 0.16.0\n"
REQUIRES = (
    'numpy\ntorch==2.1.0\n\n[:python_version < "3.8"]\nold\n\n[scipy]\nscipy\n\n[a:os_name == "nt"]\nb\n'
)


def machine(files: Mapping[str, Content], *more: str) -> Host:
    """A machine whose search path has these entries before the folder for packages."""
    return fake_host(files, search_path=(*more, SITE))


@pytest.mark.parametrize(
    ("path", "entries"),
    [
        (f"{EGG}/EGG-INFO", [EGG]),
        ("/src/vision/torchvision.egg-info", ["/src/vision"]),
        (f"{SITE}/torchvision-0.16.0-py3.11.egg-info", []),
    ],
)
def test_an_egg_tells_what_it_requires(path: str, entries: list[str]) -> None:
    host = machine({f"{path}/PKG-INFO": INFO, f"{path}/requires.txt": REQUIRES}, *entries)
    (found,) = host.interpreter.distributions("torchvision")
    assert (found.version, found.folder) == ("0.16.0", path)
    assert {name: str(one) for name, one in read_requirements(found, LAYOUT).items()} == {
        "numpy": "",
        "torch": "==2.1.0",
    }
    assert str(read_requirement(found, "torch", LAYOUT)) == "==2.1.0"


def test_headers_come_before_the_old_list() -> None:
    path = f"{SITE}/torchvision.egg-info"
    files = {f"{path}/PKG-INFO": INFO + "Requires-Dist: torch==2.2.0\n", f"{path}/requires.txt": REQUIRES}
    (found,) = machine(files).interpreter.distributions("torchvision")
    assert str(read_requirement(found, "torch", LAYOUT)) == "==2.2.0"


def test_an_egg_counts_only_where_it_is_searched() -> None:
    assert machine({f"{EGG}/EGG-INFO/PKG-INFO": INFO}).interpreter.version_of("torchvision") is None


def test_a_packed_egg_is_there_and_does_not_say_what_it_requires() -> None:
    (found,) = machine({EGG: b"PK"}, EGG).interpreter.distributions("torchvision")
    assert found.version == "0.16.0"
    with pytest.raises(CannotTell, match="torchvision"):
        read_requirement(found, "torch", LAYOUT)


@pytest.mark.parametrize("content", [None, "", "\0\1", "Home-page: x\n"])
def test_without_metadata_only_the_name_and_the_version_are_known(content: Optional[str]) -> None:
    path = f"{SITE}/mindspore-2.7.0.dist-info"
    files: dict[str, Content] = {path: folder()} if content is None else {f"{path}/METADATA": content}
    host = machine(files)
    assert host.interpreter.version_of("mindspore") == "2.7.0"
    (found,) = host.interpreter.distributions("mindspore")
    for ask in (lambda: read_requirement(found, "numpy", LAYOUT), lambda: read_requirements(found, LAYOUT)):
        with pytest.raises(CannotTell, match=r"mindspore 2\.7\.0"):
            ask()


@pytest.mark.slow
def test_what_a_real_setuptools_leaves(tmp_path: Path) -> None:
    """An egg made by setuptools, on the path as easy-install writes it; importlib.metadata says the same."""
    if find_spec("setuptools") is None:  # imported, it would refuse a distutils that another test has loaded
        pytest.skip("no setuptools here")
    source, env = tmp_path / "source", tmp_path / "env"
    source.mkdir()
    (source / "setup.py").write_text(
        "from setuptools import setup\n"
        "setup(name='torchvision', version='0.16.0', py_modules=[], install_requires=['torch==2.1.0'])\n"
    )
    build = [sys.executable, "setup.py", "-q", "bdist_egg"]
    if subprocess.run(build, cwd=source, check=False, timeout=120, capture_output=True).returncode:
        pytest.skip("this setuptools makes no eggs")
    (packed,) = (source / "dist").glob("*.egg")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(env)], check=True, timeout=60)
    (site,) = env.glob("lib/python*/site-packages")
    subprocess.run(
        [sys.executable, "-m", "zipfile", "-e", packed, site / packed.name], check=True, timeout=60
    )
    (site / "easy-install.pth").write_text(f"./{packed.name}\n")
    theirs = [f"{env}/bin/python3", "-c", "import importlib.metadata as m; print(m.requires('torchvision'))"]
    told = subprocess.run(theirs, check=True, timeout=60, capture_output=True, text=True).stdout
    assert "torch==2.1.0" in told
    host = Host(Options(python=f"{env}/bin/python3"))
    (found,) = host.interpreter.distributions("torchvision")
    assert str(read_requirement(found, "torch", host.interpreter.layout())) == "==2.1.0"
