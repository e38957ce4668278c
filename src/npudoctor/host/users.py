"""What the machine calls its users, from /etc/passwd alone: a directory service may hang, a file does not."""

from __future__ import annotations

from npudoctor.host.errors import CannotTell
from npudoctor.host.files import Files


def user_names(files: Files) -> dict[int, str]:
    """Uid to name; the first line of a uid counts, and a file that cannot be read names nobody."""
    try:
        text = files.text("/etc/passwd") or ""
    except CannotTell:
        return {}
    names: dict[int, str] = {}
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) > 2 and fields[2].isdecimal():
            names.setdefault(int(fields[2]), fields[0])
    return names
