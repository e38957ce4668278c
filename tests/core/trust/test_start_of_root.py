"""What root starts and obeys: nothing that another user could have put there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from npudoctor.host.fs.files import Files, LocalDisk
from npudoctor.host.process.commands import Commands

pytestmark = pytest.mark.needs_root
SOMEBODY = 65534


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder of another user, below folders of root's."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    return folder


def give_away(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, SOMEBODY, SOMEBODY, follow_symlinks=False)


def check(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "npudoctor", "check", *arguments],
        env={**os.environ, **variables}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def environment_of(folder: Path, mark: Path) -> str:
    """A virtual environment that leaves a mark when it is started; its python3."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "hook.pth").write_text(f"import os; os.mkdir({str(mark)!r})\n")
    return str(folder / "bin" / "python3")


@pytest.mark.parametrize("by", ["path", "option"])
def test_another_users_environment_is_not_started(theirs: Path, tmp_path: Path, by: str) -> None:
    mark = tmp_path / "started"
    python = environment_of(theirs / "venv", mark)
    give_away(theirs)
    if by == "path":
        done = check("-v", "--expect", "none", PATH=f"{os.path.dirname(python)}:{os.environ['PATH']}")
    else:
        done = check("-v", "--expect", "none", "--python", python)
    assert python in done.stdout
    assert not mark.exists()


def test_a_hook_of_another_user_in_an_environment_of_root(theirs: Path, tmp_path: Path) -> None:
    mark = tmp_path / "started"
    python = environment_of(theirs / "venv", mark)
    for hook in theirs.rglob("hook.pth"):
        os.chown(hook, SOMEBODY, SOMEBODY)
    assert python in check("-v", "--expect", "none", "--python", python).stdout
    assert not mark.exists()


def test_a_link_that_another_user_may_turn(theirs: Path) -> None:
    (theirs / "true").symlink_to("/bin/true")
    give_away(theirs)
    commands = Commands(Files(LocalDisk()), as_root=True)
    assert commands.is_trusted("/bin/true")
    assert not commands.is_trusted(str(theirs / "true"))
    assert commands.run([str(theirs / "true")]).ended == "untrusted"


def test_programs_of_another_user_are_not_on_the_path_of_a_shim(theirs: Path, tmp_path: Path) -> None:
    mark = tmp_path / "started"
    (theirs / "env-shell").write_text(f"#!/bin/sh\nmkdir {mark}\n")
    (theirs / "env-shell").chmod(0o755)
    give_away(theirs)
    shim = tmp_path / "python3"
    shim.write_text("#!/bin/sh\nenv-shell\n")
    shim.chmod(0o755)
    check("--expect", "none", "--python", str(shim), PATH=f"{theirs}:{os.environ['PATH']}")
    assert not mark.exists()


@pytest.mark.parametrize("name", ["HOME", "XDG_CONFIG_HOME"])
def test_a_configuration_at_a_home_that_is_not_roots(theirs: Path, name: str) -> None:
    folder = theirs / (".config/npudoctor" if name == "HOME" else "npudoctor")
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('expect = "nonsense"\n')
    give_away(theirs)
    done = check("accelerator", "--expect", "none", **{name: str(theirs)})
    assert done.returncode == 0
    assert "config.toml is ignored" in done.stderr


@pytest.mark.parametrize("kind", ["theirs", "in a folder of theirs", "by a link of theirs", "writable"])
@pytest.mark.parametrize("way", ["NPUDOCTOR_CONFIG", "--config"])
def test_a_configuration_that_is_named(theirs: Path, tmp_path: Path, kind: str, way: str) -> None:
    """It would decide what is expected and ignored: refused, and no check is asked."""
    own = tmp_path / "own.toml"
    own.write_text('fail_on = "warning"\n')
    named = theirs / "config.toml"
    if kind == "by a link of theirs":
        named.symlink_to(own)
    elif kind == "writable":
        named = own
        own.chmod(0o666)
    else:
        named.write_text('expect = "nonsense"\n')
    give_away(theirs)
    if kind == "in a folder of theirs":
        os.chown(named, 0, 0)
    words, variables = ((way, str(named)), {}) if way == "--config" else ((), {way: str(named)})
    done = check("accelerator", "--expect", "none", *words, **variables)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (64, "", 1)
    assert done.stderr.startswith(f"npudoctor: {way}: /")
    assert "belongs to another user" in done.stderr or "is writable by other users" in done.stderr
    own.chmod(0o600)
    assert check("accelerator", "--expect", "none", "--config", str(own)).returncode == 0


def test_rows_of_a_site_in_a_folder_of_another_user(theirs: Path) -> None:
    (theirs / "rows.toml").write_text("[[mindspore.scipy]]\n")
    give_away(theirs)
    done = subprocess.run(
        [sys.executable, "-m", "npudoctor", "list", "--knowledge"],
        env={**os.environ, "NPUDOCTOR_KNOWLEDGE_DIR": str(theirs)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"not used: {theirs}/rows.toml: {theirs} belongs to another user" in done.stdout
