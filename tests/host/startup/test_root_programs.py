"""Root starts a program or a script only where all that it loads is root's: real files, real uids."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Optional

import pytest
from tests.support.fuse import Claiming
from tests.support.ipc import unshare
from tests.support.others import forked
from tests.support.roots import SOMEBODY, VERSION, commands, python_in, shim, theirs

from npudoctor.core.trust.paths import read_trusted
from npudoctor.host.process.commands import DROPPED_FOLDERS, CommandResult
from npudoctor.host.process.examined_variables import read_script_variables

pytestmark = pytest.mark.needs_root


def test_folders_in_which_others_may_put_programs(tmp_path: Path) -> None:
    for name, mode in (("sticky", 0o1777), ("group", 0o775), ("good", 0o755)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
    (tmp_path / "theirs").mkdir()
    theirs(tmp_path / "theirs")
    (tmp_path / "link").symlink_to(tmp_path / "theirs")
    names = ("sticky", "group", "theirs", "link", "good", "missing")
    path = ":".join([*(f"{tmp_path}/{name}" for name in names), "", ".", "relative"])
    assert commands(PATH=path).trusted_path() == f"{tmp_path}/good"


def test_what_env_finds(tmp_path: Path, mark: Path) -> None:
    (tmp_path / "sticky").mkdir()
    (tmp_path / "sticky").chmod(0o1777)
    theirs(shim(tmp_path / "sticky/tool", "#!/bin/sh", f"mkdir {mark}"))
    script = shim(tmp_path / "own/script", "#!/usr/bin/env tool", "")
    for path in (f"{tmp_path}/sticky:/usr/bin", f"{tmp_path}/own:{tmp_path}/sticky", ":/usr/bin", ""):
        answer = commands().run([str(script)], variables={"PATH": path})
        assert answer.ended == "untrusted" and "first line" in answer.stderr
    assert not mark.exists()
    good = shim(tmp_path / "own/good", "#!/usr/bin/env sh", "echo fine")
    assert commands().run([str(good)]).stdout == "fine\n"


def test_the_interpreter_of_a_script_is_judged(tmp_path: Path, mark: Path) -> None:
    theirs(shim(tmp_path / "sh", "#!/bin/sh", f"mkdir {mark}"))
    for first in (f"#!{tmp_path}/sh", f"#! {tmp_path}/sh -e", f"#!/usr/bin/env {tmp_path}/sh"):
        answer = commands().run([str(shim(tmp_path / "script", first, ""))])
        assert (answer.ended, answer.stderr) == ("untrusted", f"{tmp_path}/sh belongs to another user")
    assert not mark.exists()


def test_the_users_own_folder_of_a_script_in_python(tmp_path: Path) -> None:
    script = shim(tmp_path / "tools/script", f"#!{python_in(tmp_path / 'base')}", "")
    own = tmp_path / f"home/.local/lib/python{VERSION}/site-packages"
    own.mkdir(parents=True)
    assert commands().why_untrusted([str(script)], {"HOME": str(tmp_path / "home")}) is None
    theirs(own / "sitecustomize.py", "")
    assert commands().why_untrusted([str(script)], {}) is None
    assert "sitecustomize" in (
        commands().why_untrusted([str(script)], {"HOME": str(tmp_path / "home")}) or ""
    )


@pytest.mark.parametrize("variable", ["PYTHONUSERBASE", "PYTHONHOME", "PYTHONPYCACHEPREFIX"])
def test_variables_of_python(tmp_path: Path, variable: str) -> None:
    script = shim(tmp_path / "tools/script", f"#!{python_in(tmp_path / 'base')}", "")
    assert variable in (commands().why_untrusted([str(script)], {variable: "/opt"}) or "")


@pytest.mark.parametrize("entry", ["", "own", "own/module.py", "own/gone"])
def test_a_search_path_of_roots_own(tmp_path: Path, entry: str) -> None:
    """Each entry is judged: what is root's, and what only root can make."""
    script = shim(tmp_path / "tools/script", f"#!{python_in(tmp_path / 'base')}", "")
    (tmp_path / "own").mkdir()
    (tmp_path / "own/module.py").write_text("")
    assert commands().why_untrusted([str(script)], {"PYTHONPATH": str(tmp_path / entry)}) is None


@pytest.mark.parametrize("entry", ["theirs", "open/gone", "holds"])
def test_a_search_path_of_others(tmp_path: Path, entry: str) -> None:
    script = shim(tmp_path / "tools/script", f"#!{python_in(tmp_path / 'base')}", "")
    theirs(tmp_path / "theirs/module.py", "")
    os.chown(tmp_path / "theirs", 1234, 1234)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o1777)
    theirs(tmp_path / "holds/module.py", "")
    why = commands().why_untrusted([str(script)], {"PYTHONPATH": str(tmp_path / entry)}) or ""
    assert str(tmp_path / entry.partition("/")[0]) in why


def test_a_relative_search_path(tmp_path: Path) -> None:
    script = shim(tmp_path / "tools/script", f"#!{python_in(tmp_path / 'base')}", "")
    assert "not an absolute path" in (commands().why_untrusted([str(script)], {"PYTHONPATH": "own"}) or "")


def test_a_preloaded_library_that_is_missing(tmp_path: Path) -> None:
    """The loader passes over it, unless others make it."""
    script = shim(tmp_path / "tools/script", f"#!{python_in(tmp_path / 'base')}", "")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o1777)
    told = [
        commands().why_untrusted([str(script)], {"LD_PRELOAD": f"{tmp_path}/{one}.so"})
        for one in ("gone", "open/gone")
    ]
    assert told[0] is None and "is writable by other users" in (told[1] or "")


def test_the_folder_of_a_script_in_python(tmp_path: Path, mark: Path) -> None:
    """It comes first on its search path, and what root put into a sticky folder is still root's."""
    python = python_in(tmp_path / "base")
    script = shim(tmp_path / "tools/script", f"#!{python}", "import colorsys")
    assert commands().why_untrusted([str(script)], {}) is None
    theirs(script.parent / "colorsys.py", f"import os; os.mkdir({str(mark)!r})\n")
    assert "colorsys.py belongs to another user" in (commands().why_untrusted([str(script)], {}) or "")
    (script.parent / "colorsys.py").unlink()
    script.parent.chmod(0o1777)
    assert commands().run([str(script)]).ended == "untrusted"
    assert not mark.exists()


@pytest.mark.parametrize("rest", ["-S PATH={} tool", "-i tool", "-S 'tool'", "-S ${{X}}", "-S -P {} tool"])
def test_what_env_would_take_apart(tmp_path: Path, mark: Path, rest: str) -> None:
    (tmp_path / "sticky").mkdir()
    (tmp_path / "sticky").chmod(0o1777)
    theirs(shim(tmp_path / "sticky/tool", "#!/bin/sh", f"mkdir {mark}"))
    shim(tmp_path / "own/tool", "#!/bin/sh", "")
    script = shim(tmp_path / "own/script", f"#!/usr/bin/env {rest.format(tmp_path / 'sticky')}", "")
    answer = commands().run([str(script)], variables={"PATH": f"{tmp_path}/own:/usr/bin"})
    assert answer.ended == "untrusted"
    assert not mark.exists()


def test_variables_by_which_a_shell_of_roots_would_load_more(tmp_path: Path) -> None:
    (tmp_path / "packages/deep").mkdir(parents=True)
    theirs(tmp_path / "packages/deep/module.py", "")
    told = {
        "PYTHONPATH": str(tmp_path / "packages"),
        "PYTHONUSERBASE": str(tmp_path),
        "LD_LIBRARY_PATH": f"/usr/lib;{tmp_path}/theirs:/lib",
    }
    (tmp_path / "theirs").mkdir()
    theirs(tmp_path / "theirs")
    left = commands().narrow_variables(told)
    assert left == {"PYTHONPATH": DROPPED_FOLDERS, "LD_LIBRARY_PATH": f"/usr/lib:/lib:{DROPPED_FOLDERS}"}


def test_a_script_that_root_names_starts_nothing_of_anothers(tmp_path: Path, mark: Path) -> None:
    for name in ("sticky", "libraries"):
        (tmp_path / name).mkdir()
    (tmp_path / "sticky").chmod(0o1777)
    theirs(shim(tmp_path / "sticky/tool", "#!/bin/sh", f"mkdir {mark}"))
    theirs(tmp_path / "libraries")
    script = tmp_path / "set_env.sh"
    script.write_text("tool; export PATH=/first:$PATH LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/last A=1\n")
    before = {
        "PATH": f"{tmp_path}/sticky:/usr/bin",
        "LD_LIBRARY_PATH": f"{tmp_path}/libraries",
        "LD_PRELOAD": str(tmp_path / "none.so"),
    }
    left = read_script_variables(commands(), str(script), before, 10.0).variables
    assert not mark.exists()
    assert left["PATH"] == f"/first:{tmp_path}/sticky:/usr/bin"
    assert left["LD_LIBRARY_PATH"] == f"{tmp_path}/libraries:/last"
    assert (left["A"], left["LD_PRELOAD"]) == ("1", str(tmp_path / "none.so"))


def test_a_file_system_of_a_user_that_claims_to_be_roots(tmp_path: Path, mark: Path) -> None:
    """Real FUSE: every file is uid 0's, for it says so."""
    code = f"#!/bin/sh\nmkdir {mark}\n".encode()

    def ask() -> tuple[int, CommandResult, Optional[bytes], Optional[str]]:
        unshare("mnt")
        with Claiming({"tool": code, "check.py": b"x = 1\n"}).mounted(tmp_path / "mount", SOMEBODY):
            owner = os.stat(tmp_path / "mount/tool").st_uid
            answer = commands().run([str(tmp_path / "mount/tool")])
            return owner, answer, *read_trusted(str(tmp_path / "mount/check.py"), 0)

    tmp_path.chmod(0o755)
    (tmp_path / "mount").mkdir()
    theirs(tmp_path / "mount")
    owner, answer, content, reason = forked(ask)
    assert (owner, answer.ended, content) == (0, "untrusted", None)
    said = f"is on the file system at {tmp_path}/mount, which another user mounted"
    assert said in answer.stderr and said in (reason or "")
    assert not mark.exists()
