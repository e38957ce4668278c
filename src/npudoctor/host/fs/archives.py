"""What lies in a zip file, by its directory: Python imports from those on its search path."""

from __future__ import annotations

import struct

from npudoctor.core.errors import CannotTell
from npudoctor.host.fs.files import Files

# The last record: 22 bytes and a comment of at most 64 KiB. A directory of more is not read.
_END = b"PK\5\6"
_END_LENGTH = 22
_COMMENT = 1 << 16
_DIRECTORY_LIMIT = 16 << 20
_ENTRY = b"PK\1\2"
_ENTRY_LENGTH = 46


def members(files: Files, path: str) -> frozenset[str]:
    """The names in it; empty where it is no zip file, or one that may not be read."""
    entry = files.stat(path)
    if entry is None or not entry.is_file:
        return frozenset()
    try:
        start = max(0, entry.size - _END_LENGTH - _COMMENT)
        tail = files.read(path, _END_LENGTH + _COMMENT, start) or b""
        at = tail.rfind(_END)
        if at < 0 or len(tail) < at + _END_LENGTH:
            return frozenset()
        size = struct.unpack_from("<L", tail, at + 12)[0]
        # Right before the last record, whatever stands in front of the archive.
        first = start + at - size
        if size > _DIRECTORY_LIMIT or first < 0:
            return frozenset()
        directory = files.read(path, size, first) or b""
    except CannotTell:
        return frozenset()
    names, at = set(), 0
    while directory.startswith(_ENTRY, at) and at + _ENTRY_LENGTH <= len(directory):
        name, extra, comment = struct.unpack_from("<HHH", directory, at + 28)
        at += _ENTRY_LENGTH
        names.add(directory[at : at + name].decode("utf-8", "replace"))
        at += name + extra + comment
    return frozenset(names)
