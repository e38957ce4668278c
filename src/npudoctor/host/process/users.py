"""What the machine calls its users, from /etc/passwd alone: a directory service may hang, a file does not."""

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


def _lines(files: Files) -> dict[int, list[str]]:
    try:
        text = files.text("/etc/passwd") or ""
    except CannotTell:
        return {}
    lines: dict[int, list[str]] = {}
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) > 2 and fields[2].isdecimal():
            lines.setdefault(int(fields[2]), fields)
    return lines


def group_of(files: Files, gid: int) -> tuple[Optional[str], frozenset[str]]:
    """The name of a group, None where /etc/group has none, and the users that it lists as members."""
    try:
        text = files.text("/etc/group") or ""
    except CannotTell:
        text = ""
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) > 3 and fields[2] == str(gid):
            return fields[0], frozenset(name for name in fields[3].split(",") if name)
    return None, frozenset()


def groups_of(files: Files, user: str, gids: frozenset[int] = frozenset()) -> frozenset[str]:
    """The names of the groups that /etc/group puts a user into, and of those whose numbers are given."""
    try:
        text = files.text("/etc/group") or ""
    except CannotTell:
        return frozenset()
    rows = (line.split(":") for line in text.splitlines())
    numbers = {str(gid) for gid in gids}
    return frozenset(
        row[0] for row in rows if len(row) > 3 and (row[2] in numbers or user in row[3].split(","))
    )
