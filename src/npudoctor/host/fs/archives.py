"""Lists the members of zip files, which Python imports modules from if they are on its search path."""

from __future__ import annotations

import struct

from npudoctor.core.errors import CannotTell
from npudoctor.host.fs.files import Files

# The end record of a zip file: 22 bytes and a comment of at most 64 KiB (APPNOTE.TXT of PKWARE, 4.3.16).
_END_SIGNATURE = b"PK\5\6"
_END_LENGTH = 22
_MAX_COMMENT_LENGTH = 1 << 16
_MAX_DIRECTORY_BYTES = 16 << 20  # a larger directory is not read
# An entry of the directory: 46 bytes, the name, an extra field and a comment (4.3.12).
_ENTRY_SIGNATURE = b"PK\1\2"
_ENTRY_LENGTH = 46


def list_members(files: Files, path: str) -> frozenset[str]:
    """The names of the members; empty if the path is not a zip file or cannot be read."""
    entry = files.stat(path)
    if entry is None or not entry.is_file:
        return frozenset()
    try:
        tail_start = max(0, entry.size - _END_LENGTH - _MAX_COMMENT_LENGTH)
        tail = files.read(path, _END_LENGTH + _MAX_COMMENT_LENGTH, tail_start) or b""
        position = tail.rfind(_END_SIGNATURE)
        if position < 0 or len(tail) < position + _END_LENGTH:
            return frozenset()
        size = struct.unpack_from("<L", tail, position + 12)[0]
        # The directory ends where the end record begins. Its own offset field does not count what may stand
        # in front of the archive, such as the first line of a zipapp.
        directory_start = tail_start + position - size
        if size > _MAX_DIRECTORY_BYTES or directory_start < 0:
            return frozenset()
        directory = files.read(path, size, directory_start) or b""
    except CannotTell:
        return frozenset()
    names, position = set(), 0
    while directory.startswith(_ENTRY_SIGNATURE, position) and position + _ENTRY_LENGTH <= len(directory):
        name, extra, comment = struct.unpack_from("<HHH", directory, position + 28)
        position += _ENTRY_LENGTH
        names.add(directory[position : position + name].decode("utf-8", "replace"))
        position += name + extra + comment
    return frozenset(names)
