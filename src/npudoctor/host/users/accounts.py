"""What the machine calls its users, from /etc/passwd alone: a directory service may hang, a file does not.

Python's own pwd asks that service, and under --root it would name the users of another machine.
"""

from __future__ import annotations

from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.host.fs.files import Files


def user_names(files: Files) -> dict[int, str]:
    """Uid to name; the first line of a uid counts, and a file that cannot be read names nobody."""
    return {uid: fields[0] for uid, fields in _lines(files).items()}


def home_of(files: Files, uid: int) -> Optional[str]:
    """The home that the machine gives a user; None when it does not know the user."""
    fields = _lines(files).get(uid, [])
    return fields[5] if len(fields) > 5 and fields[5].startswith("/") else None


def group_of(files: Files, gid: int) -> tuple[Optional[str], frozenset[str]]:
    """The name of a group, None where /etc/group has none, and the users that it lists as members."""
    for name, _password, number, members, *_more in _rows(files, "/etc/group", 4):
        if number == str(gid):
            return name, frozenset(filter(None, members.split(",")))
    return None, frozenset()


def groups_of(files: Files, user: str, gids: frozenset[int] = frozenset()) -> frozenset[str]:
    """The names of the groups that /etc/group puts a user into, and of those whose numbers are given."""
    numbers = {str(gid) for gid in gids}
    rows = _rows(files, "/etc/group", 4)
    return frozenset(row[0] for row in rows if row[2] in numbers or user in row[3].split(","))


def _lines(files: Files) -> dict[int, list[str]]:
    lines: dict[int, list[str]] = {}
    for fields in _rows(files, "/etc/passwd", 3):
        if fields[2].isdecimal():
            lines.setdefault(int(fields[2]), fields)
    return lines


def _rows(files: Files, path: str, least: int) -> list[list[str]]:
    """The rows of a table with at least so many fields; none where it cannot be read."""
    try:
        text = files.text(path) or ""
    except CannotTell:
        return []
    rows = (line.split(":") for line in text.split("\n"))
    return [row for row in rows if len(row) >= least]
