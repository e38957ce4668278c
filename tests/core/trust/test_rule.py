"""The one rule for an entry, and that no other file has a second one."""

from __future__ import annotations

import ast
import os
import stat
from pathlib import Path
from typing import Optional

import pytest

from npudoctor.core.trust.rule import is_own_file, why_not_elsewhere, why_not_entry, why_not_mounted

SOURCE = Path(__file__).resolve().parents[3] / "src/npudoctor"
FILE, FOLDER, LINK = stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK
FOREIGN, OPEN = "/x belongs to another user", "/x is writable by other users"


@pytest.mark.parametrize(
    ("uid", "mode", "place", "reason"),
    [
        (0, FILE | 0o644, False, None),
        (7, FILE | 0o600, False, None),
        (8, FILE | 0o600, False, FOREIGN),
        (8, LINK | 0o777, False, FOREIGN),
        (0, LINK | 0o777, False, None),
        (0, FILE | 0o620, False, OPEN),
        (0, FILE | stat.S_ISVTX | 0o602, False, OPEN),
        (0, FOLDER | 0o757, False, OPEN),
        (0, FOLDER | stat.S_ISVTX | 0o777, False, None),
        (0, FOLDER | stat.S_ISVTX | 0o777, True, OPEN),
        (0, FOLDER | 0o755, True, None),
    ],
)
def test_owner_and_mode_decide(uid: int, mode: int, place: bool, reason: Optional[str]) -> None:
    assert why_not_entry("/x", uid, mode, (0, 7), place=place) == reason


def test_who_mounted_it_decides() -> None:
    assert why_not_mounted("/home/a/mnt", ("/home/a/m",)) is None
    for path in ("/home/a/m", "/home/a/m/x"):
        assert why_not_mounted(path, ("/elsewhere", "/home/a/m")) == (
            f"{path} is on the file system at /home/a/m, which another user mounted"
        )
    assert why_not_elsewhere("/x", 3, 3) is None
    assert "/x is not on the same file system as /" in (why_not_elsewhere("/x", 3, 4) or "")


def test_a_file_of_ours_alone(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path, mode, uid, own in (
        (file, 0o644, os.geteuid(), True),
        (file, 0o664, os.geteuid(), False),
        (file, 0o644, os.geteuid() + 1, False),
        (tmp_path, 0o700, os.geteuid(), False),
    ):
        path.chmod(mode)
        assert is_own_file(path.stat(), uid) is own


@pytest.mark.parametrize("text", ["{path} belongs to another user", "{path} is writable by other users"])
def test_no_other_file_says_it_by_a_rule_of_its_own(text: str) -> None:
    said = [
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for source in [path.read_text(encoding="utf-8")]
        if text in source
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and node.value == text
    ]
    assert said == ["core/trust/rule.py"]


def test_the_room_itself_loads_nothing() -> None:
    """The guard of our own start runs before anything else is loaded."""
    body = ast.parse((SOURCE / "core/trust/__init__.py").read_text(encoding="utf-8")).body
    assert len(body) == 1 and isinstance(body[0], ast.Expr)
