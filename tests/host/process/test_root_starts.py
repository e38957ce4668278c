"""Root starts an interpreter or a program only where all that it loads is root's: real files, real uids."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Callable, Optional

import pytest
from tests.support.ipc import unshare
from tests.support.others import forked
from tests.support.roots import (
    LOADED,
    SOMEBODY,
    VERSION,
    commands,
    interpreter,
    leaving,
    library,
    looked,
    shim,
    site,
    theirs,
)  # fmt: skip

from npudoctor.host import CannotTell

pytestmark = pytest.mark.needs_root
# Those with a standard library where Python would come to, were it to look upwards to "/".
SYSTEMS = [path.parent.name[len("python") :] for path in Path("/lib").glob("python3.*/os.py")]


def test_one_of_roots_is_asked(base: Path) -> None:
    found = looked(base / "bin/python3")
    assert found.asked and found.version == sys.version.split()[0]
    assert found.search_path[-1] == str(site(base))


Change = Callable[[Path, str], None]


def _file(base: Path, code: str) -> None:
    path = library(base) / LOADED
    theirs(path, path.read_text() + code)


def _written_by_group(base: Path, code: str) -> None:
    path = library(base) / LOADED
    path.write_text(path.read_text() + code)
    path.chmod(0o664)


def _compiled(base: Path, code: str) -> None:
    path = library(base) / LOADED
    before = path.read_text()
    path.write_text(before + code)
    subprocess.run([sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", path])
    path.write_text(before)
    for made in (path.parent / "__pycache__").iterdir():
        theirs(made)


def _zipped(base: Path, code: str) -> None:
    shutil.make_archive(str(base / "stdlib"), "zip", library(base), "encodings")
    path = base / f"lib/python{VERSION.replace('.', '')}.zip"
    (base / "stdlib.zip").rename(path)
    theirs(path)


def _linked(base: Path, code: str) -> None:
    path, far = library(base) / LOADED, base.parent / "far.py"
    theirs(far, path.read_text() + code)
    path.unlink()
    path.symlink_to(far)


def _sticky(base: Path, code: str) -> None:
    (library(base) / "encodings").chmod(0o1777)


def _library_of_another(base: Path, code: str) -> None:
    _file(base, code)
    theirs(library(base))


def _prefix_of_another(base: Path, code: str) -> None:
    theirs(base)


def _sticky_prefix(base: Path, code: str) -> None:
    base.chmod(0o1777)  # others may put a pyvenv.cfg here


def _search_path(base: Path, code: str) -> None:
    far = base.parent / "far"
    theirs(far / "encodings/__init__.py", code)
    theirs(base / "bin/python3._pth", f"{far}\n")


def _built_here(base: Path, code: str) -> None:
    theirs(base / "bin/Modules/Setup.local", "")


def _dangling(base: Path, code: str) -> None:
    (base.parent / "sticky").mkdir()
    (base.parent / "sticky").chmod(0o1777)
    (library(base) / "encodings/oem_.py").symlink_to(base.parent / "sticky/oem_.py")


def _turned(base: Path, code: str) -> None:
    (base.parent / "l").symlink_to(base.parent / "none")
    theirs(base.parent / "l")
    (library(base) / "encodings/oem_.py").symlink_to(base.parent / "l")


def _linked_folder(base: Path, code: str) -> None:
    far = base.parent / "far"
    (library(base) / "importlib").rename(far)
    far.chmod(0o1777)
    (library(base) / "importlib").symlink_to(far)


def _module_in_front(base: Path, code: str) -> None:
    theirs(library(base) / "encodings.py", code)


def _extension(base: Path, code: str) -> None:
    theirs(library(base) / "lib-dynload/_any.so", "")


@pytest.mark.parametrize(
    "change",
    [_file, _written_by_group, _compiled, _zipped, _linked, _sticky, _library_of_another, _prefix_of_another,
     _sticky_prefix, _module_in_front, _extension, _search_path, _built_here, _dangling, _turned,
     _linked_folder],
)  # fmt: skip
def test_a_standard_library_that_is_not_wholly_roots(base: Path, mark: Path, change: Change) -> None:
    (site(base) / "numpy-2.1.0.dist-info").mkdir()
    change(base, leaving(mark))
    found = interpreter(base / "bin/python3")
    assert found.version_of("numpy") == "2.1.0"
    assert (found.layout().asked, found.layout().version) == (False, VERSION)
    assert not mark.exists()


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("whose", ["file", "configuration", "root's"])
def test_the_home_of_a_virtual_environment(
    base: Path, tmp_path: Path, mark: Path, copies: bool, whose: str
) -> None:
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / f"lib/python{VERSION}/site-packages/numpy-2.1.0.dist-info").mkdir(parents=True)
    program, source = venv / f"bin/python{VERSION}", base / f"bin/python{VERSION}"
    if copies:
        shutil.copy2(source, program)
    else:
        program.symlink_to(source)
    (venv / "pyvenv.cfg").write_text(f"home = {base / 'bin'}\ninclude-system-site-packages = false\n")
    if whose == "file":
        _file(base, leaving(mark))
    elif whose == "configuration":
        theirs(venv / "pyvenv.cfg")
    found = interpreter(program)
    assert found.version_of("numpy") == "2.1.0"
    assert found.layout().asked is (whose == "root's")
    assert not mark.exists()


@pytest.mark.parametrize("line", ["home={}", "home = ../base/bin", "HOME = {}"])
def test_a_home_that_is_not_read_alike_by_all_releases(base: Path, line: str) -> None:
    (base / "pyvenv.cfg").write_text(f"{line.format(base / 'bin')}\n")
    assert not looked(base / f"bin/python{VERSION}").asked


@pytest.mark.parametrize("version", sorted({VERSION, *SYSTEMS}))
def test_the_systems_library_is_not_that_of_a_python_elsewhere(version: str) -> None:
    """It goes where it was built for, which may be anybody's."""

    def ask() -> Optional[str]:
        unshare("mnt")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", "/mnt"], check=True)
        program = Path(f"/mnt/bin/python{version}")
        program.parent.mkdir()
        shutil.copy2(os.path.realpath(sys.executable), program)
        return commands().why_untrusted([str(program), "-I", "-S"], {})

    # Not below /tmp, where others could put a library in between.
    assert "could not determine where this Python loads" in (forked(ask) or "")


def test_a_home_that_is_another_users_all_of_it(base: Path, tmp_path: Path, mark: Path) -> None:
    """The program itself is a copy of root's."""
    venv, home = tmp_path / "venv", tmp_path / "home"
    (venv / "bin").mkdir(parents=True)
    (venv / f"lib/python{VERSION}/site-packages").mkdir(parents=True)
    shutil.copy2(base / f"bin/python{VERSION}", venv / f"bin/python{VERSION}")
    base.rename(home)
    _file(home, leaving(mark))
    for path in (home, *home.rglob("*")):
        os.chown(path, SOMEBODY, SOMEBODY, follow_symlinks=False)
    (venv / "pyvenv.cfg").write_text(f"home = {home / 'bin'}\n")
    assert not looked(venv / f"bin/python{VERSION}").asked
    assert not mark.exists()


@pytest.mark.parametrize("first", ["#!/usr/bin/env bash", "#!/bin/sh", "#!/usr/bin/env -S bash -e"])
def test_no_script_is_run_for_an_interpreter(base: Path, tmp_path: Path, mark: Path, first: str) -> None:
    """Nobody can tell what it starts; /tmp in root's PATH is only the simplest way."""
    folder = tmp_path / "sticky"
    folder.mkdir()
    folder.chmod(0o1777)
    theirs(shim(folder / "bash", "#!/bin/sh", f"mkdir {mark}"))
    path = shim(tmp_path / "shims/python3", first, f'exec bash -c "exec {base}/bin/python3" "$@"')
    with pytest.raises(CannotTell, match=r"a script, which npudoctor does not run as root: .* with --python"):
        looked(path, PATH=f"{folder}:/usr/bin:/bin")
    assert not mark.exists()


@pytest.mark.parametrize(
    ("variable", "near", "everywhere", "found"),
    [
        ("9.1.0", "", "8.0.0", "9.1.0"),
        ("", "8.0.0\n", "9.1.0", "8.0.0"),
        ("", "", "9.1\n", "9.1.2"),
        ("", "../../evil", "", None),
        ("system", "", "8.0.0", None),
    ],
)
def test_a_shim_of_pyenv_is_followed_without_running_it(
    base: Path, tmp_path: Path, variable: str, near: str, everywhere: str, found: Optional[str]
) -> None:
    root = tmp_path / "pyenv"
    for version in ("8.0.0", "9.1.0", "9.1.2"):
        (root / f"versions/{version}/bin").mkdir(parents=True)
        (root / f"versions/{version}/bin/python3").symlink_to(base / "bin/python3")
    (root / "version").write_text(everywhere)
    (tmp_path / "job").mkdir()
    (tmp_path / "job/.python-version").write_text(near)
    path = shim(
        root / "shims/python3",
        "#!/usr/bin/env bash",
        f'export PYENV_ROOT="{root}"\nexec "{root}/libexec/pyenv" exec "$program" "$@"',
    )
    made = interpreter(path, **({"PYENV_VERSION": variable} if variable else {}))
    made._read_working_folder = lambda: str(tmp_path / "job")
    expected = f"{root}/versions/{found}/bin/python3" if found else str(path)
    if variable == "system":
        expected = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else str(path)
    assert made._resolve_shim() == expected


@pytest.mark.parametrize(
    ("line", "is_followed"),
    [
        ('exec "{python}" "$@"', True),
        ("# of the team\nexec '{python}' \"$@\"", True),
        ('exec {python} "$@"', True),
        ('export LD_PRELOAD=/x.so\nexec "{python}" "$@"', False),
        ('exec "{python}" -I "$@"', False),
        ('exec "$HOME/python" "$@"', False),
        ('exec "{python}.gone" "$@"', False),
    ],
)
def test_a_script_that_only_starts_a_python_is_followed(
    base: Path, tmp_path: Path, line: str, is_followed: bool
) -> None:
    """Anything else in it may change what is started, which only a start would show."""
    python = str(base / "bin/python3")
    text = line.format(python=python)
    path = shim(tmp_path / "python-train", "#!/bin/sh", text)
    assert interpreter(path)._resolve_shim() == (python if is_followed else str(path))
    by_path = shim(tmp_path / "python-env", "#!/usr/bin/env bash", text)
    assert interpreter(by_path)._resolve_shim() == str(by_path)
