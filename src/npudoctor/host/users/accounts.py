"""Reads names of users and groups from /etc/passwd and /etc/group alone.

Python's module pwd also asks directory services (LDAP, NIS), which may hang, and under --root it would name
the users of another machine.
"""

from __future__ import annotations

from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.host.fs.files import Files


def user_names(files: Files) -> dict[int, str]:
    """Names by uid; the first line of a uid counts. Empty if /etc/passwd cannot be read."""
    return {uid: fields[0] for uid, fields in _passwd_row_by_uid(files).items()}


def home_of(files: Files, uid: int) -> Optional[str]:
    """The home folder of a user; None if /etc/passwd has no such uid or no absolute path for it."""
    fields = _passwd_row_by_uid(files).get(uid, [])
    return fields[5] if len(fields) > 5 and fields[5].startswith("/") else None


def group_of(files: Files, gid: int) -> tuple[Optional[str], frozenset[str]]:
    """The name of a group, None if /etc/group has none, and the users that it lists as members."""
    for name, _password, number, members, *_more in _read_rows(files, "/etc/group", 4):
        if number == str(gid):
            return name, frozenset(filter(None, members.split(",")))
    return None, frozenset()


def groups_of(files: Files, user: str, gids: frozenset[int] = frozenset()) -> frozenset[str]:
    """The names of the groups that list a user as a member, and of those with these numbers."""
    numbers = {str(gid) for gid in gids}
    rows = _read_rows(files, "/etc/group", 4)
    return frozenset(row[0] for row in rows if row[2] in numbers or user in row[3].split(","))


def _passwd_row_by_uid(files: Files) -> dict[int, list[str]]:
    lines: dict[int, list[str]] = {}
    for fields in _read_rows(files, "/etc/passwd", 3):
        if fields[2].isdecimal():
            lines.setdefault(int(fields[2]), fields)
    return lines


def _read_rows(files: Files, path: str, least: int) -> list[list[str]]:
    """The rows of a table that have at least so many fields; none if it cannot be read."""
    try:
        text = files.text(path) or ""
    except CannotTell:
        return []
    rows = (line.split(":") for line in text.split("\n"))
    return [row for row in rows if len(row) >= least]
