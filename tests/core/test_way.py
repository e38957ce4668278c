"""What is written is written where it was meant to be, whoever exchanges folders meanwhile."""

from __future__ import annotations

import ast
import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from npudoctor.core import way

STRANGER = 12345
ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 150


def opened(path: Path) -> Path:
    """pytest's folders are closed to others: the stranger has to reach his own."""
    for parent in [path, *path.parents]:
        if parent != Path("/") and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    return path


@pytest.mark.needs_root
@pytest.mark.parametrize("kind", ["output", "env --write", "collect"])
def test_a_folder_that_is_exchanged_leads_nowhere_else(tmp_path: Path, kind: str) -> None:
    theirs, victim = opened(tmp_path) / "theirs", tmp_path / "victim"
    folder = theirs / "out"
    folder.mkdir(parents=True)
    victim.mkdir()
    for path in (theirs, folder):
        os.chown(path, STRANGER, STRANGER)
    # In a small process: each attempt forks, and to copy a worker of pytest takes ten times as long.
    tool = [sys.executable, str(Path(__file__).with_name("exchanging.py")), kind, str(folder), str(victim)]
    done = subprocess.run(tool, capture_output=True, text=True, check=True)
    failures, rounds = json.loads(done.stdout)
    assert rounds == ROUNDS
    assert os.listdir(victim) == []
    assert all("\n" not in line and str(folder) in line for line in failures), failures[:3]
    written = [path for path in theirs.rglob("report-*") if path.is_file()]
    assert {path.stat().st_uid for path in written} <= {STRANGER}


@pytest.mark.needs_root
def test_in_another_users_folder_root_writes_as_that_user(tmp_path: Path) -> None:
    folder = opened(tmp_path) / "theirs"
    folder.mkdir()
    os.chown(folder, STRANGER, STRANGER)
    path = folder / "report"
    way.write(str(path), b"text")
    assert (path.read_bytes(), path.stat().st_uid, os.geteuid()) == (b"text", STRANGER, 0)
    os.chown(folder, 0, 0)
    way.write(str(path), b"root's")
    assert path.stat().st_uid == 0


@pytest.mark.needs_root
@pytest.mark.parametrize("owner", [0, STRANGER])
def test_root_follows_no_link_that_another_user_can_move(tmp_path: Path, owner: int) -> None:
    theirs, victim = tmp_path / "theirs", tmp_path / "victim"
    theirs.mkdir()
    victim.mkdir()
    (theirs / "link").symlink_to(victim)
    os.chown(theirs, STRANGER, STRANGER)
    os.chown(theirs / "link", owner, owner, follow_symlinks=False)
    with pytest.raises(way.UnsafePath, match="another user controls"):
        way.write(str(theirs / "link" / "report"), b"text")
    assert os.listdir(victim) == []


def test_links_of_ones_own_are_followed_and_loops_are_not(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "loop").symlink_to("loop")
    way.write(str(tmp_path / "link" / "report"), b"text", 0o600)
    assert (tmp_path / "real" / "report").read_bytes() == b"text"
    assert stat.S_IMODE((tmp_path / "real" / "report").stat().st_mode) == 0o600
    with pytest.raises(OSError, match="loop"):
        way.write(str(tmp_path / "loop" / "report"), b"text")


def test_what_exists_is_replaced_by_a_write_and_not_by_a_link(tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_text("old")
    with pytest.raises(FileExistsError):
        way.write(str(path), b"new", place=way.link)
    assert path.read_text() == "old"
    way.write(str(path), b"new")
    assert path.read_text() == "new" and os.listdir(tmp_path) == ["report"]


def test_a_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    os.close(way.make_folder(str(tmp_path / "a" / "b")))
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    os.close(way.make_folder(str(tmp_path / "a" / "b")))
    (tmp_path / "link").symlink_to("a")
    with pytest.raises(NotADirectoryError):
        way.make_folder(str(tmp_path / "link"))
    with pytest.raises(FileNotFoundError):
        way.make_folder(str(tmp_path / "c" / "d"), parents=False)


def test_a_pipe_without_a_reader_is_waited_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(way, "READER", 0.1)
    begin = time.monotonic()
    with pytest.raises(OSError, match="No such device"):
        way.open_stream(str(tmp_path / "pipe"))
    assert time.monotonic() - begin >= 0.1
    assert way.open_stream(str(tmp_path / "nothing")) is None


# Who may make or replace files elsewhere, and why.
ALLOWED = {
    "src/npudoctor/core/way.py": "the one place",
    "src/npudoctor/fixing/actions/kernel.py": "settings below /proc/sys: no folder there is anybody's",
    "src/npudoctor/launch/witness.py": "/proc of itself",
    "src/npudoctor/cli/companions/share.py": "run by the build, in its own tree",
    "src/npudoctor/explain/signatures/prepared.py": "run by the build, in its own tree",
    "src/npudoctor/facts/job/probes.py": "mkdtemp: a folder of random name, 0700",
    "src/npudoctor/cli/fleet/delivery.py": "TemporaryFile: it has no name",
}
ELSEWHERE = (
    "src/npudoctor/probes/",
    "src/npudoctor/rehearsal/",
    "src/npudoctor/trial/parts/",
)  # the job's interpreter; machines of their own
CALLS = {
    "os": {
        "replace",
        "rename",
        "renames",
        "link",
        "symlink",
        "mkdir",
        "makedirs",
        "mkfifo",
        "mknod",
        "truncate",
    },
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move"},
    "tempfile": {"NamedTemporaryFile", "TemporaryFile", "TemporaryDirectory", "mkstemp", "mkdtemp"},
}
METHODS = {"write_text", "write_bytes", "touch", "symlink_to", "hardlink_to"}


def makes_files(node: ast.AST) -> bool:
    """Whether a piece of code makes or replaces a file or folder by its name."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
        return node.attr in ("O_CREAT", "O_TRUNC")
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    if isinstance(called, ast.Attribute):
        module = called.value.id if isinstance(called.value, ast.Name) else ""
        makes = called.attr in METHODS or called.attr in CALLS.get(module, ())
        return makes and not ast.unparse(called.value).startswith("super(")
    if isinstance(called, ast.Name) and called.id == "open" and len(node.args) > 1:
        opened_by_number = isinstance(node.args[0], ast.Call)  # of os.open or way.open_new, judged there
        mode = node.args[1].value if isinstance(node.args[1], ast.Constant) else "?"
        return not opened_by_number and isinstance(mode, str) and bool(set("wax+?") & set(mode))
    return False


def test_only_the_way_makes_files() -> None:
    writers = set()
    for folder in ("src/npudoctor", "checks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if not name.startswith(ELSEWHERE) and any(makes_files(node) for node in nodes):
                writers.add(name)
    assert writers == set(ALLOWED)


@pytest.mark.parametrize(
    "code",
    ["open(p, 'w')", "open(p, mode)", "os.rename(a, b)", "p.write_text('')", "os.O_CREAT", "os.makedirs(p)"],
)
def test_the_guard_sees_what_makes_files(code: str) -> None:
    assert any(makes_files(node) for node in ast.walk(ast.parse(code)))
