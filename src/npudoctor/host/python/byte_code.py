"""Judges byte code beside a source, or in its place: for which Python it is, whether cut or stale."""

from __future__ import annotations

import re
import sys
from typing import NamedTuple, Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.lazy import pattern
from npudoctor.host.fs.files import Files

CODE_LIMIT = 8 << 20
SOURCE_LIMIT = 4 << 20
TAIL_BYTES = 2048  # enough of the end to see in most byte code that it is complete
HEADER_BYTES = 16
_UNCHECKED_FLAG = 1
# MAGIC_NUMBER of importlib by release: the first two bytes of byte code, as each release writes them.
_MAGIC = {"3.8": 3413, "3.9": 3425, "3.10": 3439, "3.11": 3495, "3.12": 3531, "3.13": 3571}
_NEW_HASH = 3495  # from Python 3.11 on _imp.source_hash is another function
_TWO_TABLES = 3495  # from Python 3.11 on code objects end with a table of exceptions, too
# Type codes of marshal: "s" bytes, "r" reference; 0x80 is FLAG_REF, which _KIND masks.
_BYTES, _REFERENCE, _KIND = 0x73, 0x72, 0x7F
_REFERENCE_SIZE = 5
_NAME = b"\x08<module>"
# A marshal reference to the name <module>, before the number of the first line, which is 1 in most modules.
_LINE_ONE = pattern(rb"r.{4}(?=\x01\0\0\0)", re.DOTALL)


class ByteCodeEnds(NamedTuple):
    """The header and the end of byte code. `is_partial`: `tail` is not all that follows the header."""

    head: bytes
    tail: bytes
    is_partial: bool

    @property
    def is_unchecked(self) -> bool:
        """Whether Python uses it without looking at the source (an unchecked pyc of PEP 552)."""
        return is_unchecked(self.head)


class ByteCode:
    """The byte code of one folder for packages. `version`: of the Python that would import it, as 3.11."""

    def __init__(self, files: Files, site: str, version: str) -> None:
        self._files, self._site, self._version = files, site, version
        self._magic = _MAGIC.get(version)

    def path_of(self, source: str) -> str:
        """The path of a source's byte code, relative to `site` as the source is."""
        folder, slash, name = source.rpartition("/")
        return f"{folder}{slash}__pycache__/{name[:-3]}.cpython-{self._version.replace('.', '')}.pyc"

    def read_ends(self, source: str) -> Optional[ByteCodeEnds]:
        """The ends of the byte code that this Python would load for a source; None if there is none.

        Also None for a release whose format is not known, and for a header that is cut or another Python's:
        then Python compiles the source again.
        """
        code = f"{self._site}/{self.path_of(source)}"
        if self._magic is None:
            return None
        try:
            entry = self._files.stat(code)
            if entry is None or not HEADER_BYTES <= entry.size <= CODE_LIMIT:
                return None
            start = max(HEADER_BYTES, entry.size - TAIL_BYTES)
            with self._files.open_file(code) as file:
                head, tail = file.read(0, HEADER_BYTES), file.read(start, TAIL_BYTES)
        except CannotTell as error:
            if isinstance(error.__cause__, PermissionError):
                return None  # Python goes on without what it may not read
            raise
        return (
            ByteCodeEnds(head, tail, start > HEADER_BYTES) if head[:4] == _magic_bytes(self._magic) else None
        )

    def is_cut(self, source: str, ends: ByteCodeEnds) -> bool:
        """Whether byte code is cut short although its header matches the source, so that Python loads it."""
        magic = self._magic or 0
        if _ends_completely(ends.tail, magic):
            return False
        # Only byte code that Python would load: its header has the source's mtime and size (PEP 552). Byte
        # code that is checked by the hash of the source is not judged.
        if not self._is_current(source, ends):
            return False
        content = self._files.read(f"{self._site}/{self.path_of(source)}", CODE_LIMIT) or b""
        return not _ends_completely(content, magic)

    def replaces(self, source: str) -> bool:
        """Whether Python loads byte code and does not read its source, which this user may not read."""
        try:
            # Python lists a folder before it looks for modules there.
            self._files.names(f"{self._site}/{source}".rpartition("/")[0])
            ends = self.read_ends(source)
            return ends is not None and self._is_current(source, ends)
        except CannotTell:
            return False

    def _is_current(self, source: str, ends: ByteCodeEnds) -> bool:
        flags = int.from_bytes(ends.head[4:8], "little")
        entry = None if flags else self._files.stat(f"{self._site}/{source}")
        if entry is None:
            return flags == _UNCHECKED_FLAG
        source_stamp = (entry.mtime_ns // 10**9 & 0xFFFFFFFF, entry.size & 0xFFFFFFFF)
        return ends.head[8:HEADER_BYTES] == b"".join(number.to_bytes(4, "little") for number in source_stamp)

    def is_stale(self, source: str, ends: ByteCodeEnds) -> bool:
        """Whether Python loads it unchecked although it was compiled from another source."""
        if not ends.is_unchecked or self._magic is None:
            return False
        # Our own Python has the function of its release only.
        # source_hash of our own Python is that of its release only.
        if (sys.version_info >= (3, 11)) != (self._magic >= _NEW_HASH):
            return False
        entry = self._files.stat(f"{self._site}/{source}")
        if entry is None or not entry.is_file or entry.size > SOURCE_LIMIT:
            return False
        from _imp import source_hash

        content = self._files.read(f"{self._site}/{source}", SOURCE_LIMIT) or b""
        computed: bytes = source_hash(int.from_bytes(ends.head[:4], "little"), content)
        return computed != ends.head[8:HEADER_BYTES]

    def is_foreign(self, path: str) -> bool:
        """Whether byte code without a source, foo.pyc, is for another Python, or cut."""
        if self._magic is None:
            return False
        content = self._files.read(f"{self._site}/{path}", CODE_LIMIT) or b""
        return content[:4] != _magic_bytes(self._magic) or not _ends_completely(content, self._magic)


def is_unchecked(head: bytes) -> bool:
    """Whether Python loads byte code with this header without looking at its source."""
    return int.from_bytes(head[4:8], "little") == _UNCHECKED_FLAG


def _magic_bytes(magic: int) -> bytes:
    # A pyc that was copied in text mode loses the carriage return and is not valid any more.
    return magic.to_bytes(2, "little") + b"\r\n"


def _ends_completely(content: bytes, magic: int) -> bool:
    """Whether byte code, or its end, ends as the code of a module does.

    In the form of `marshal`: the name `<module>`, since 3.11 once more for its long name, the first line as
    four bytes, and the tables of lines and, since 3.11, of exceptions. Any of these but the line may be a
    reference to what came before, and the tables in most modules are so short that all of it is in the end.
    """
    name = content.rfind(_NAME) + len(_NAME)
    starts = [name, name + _REFERENCE_SIZE] if name >= len(_NAME) else []
    starts += [match.end() for match in _LINE_ONE.finditer(content)]
    tables = 2 if magic >= _TWO_TABLES else 1
    for start in starts:
        position = start + 4
        for _table in range(tables):
            kind = content[position] & _KIND if position < len(content) else 0
            if kind == _BYTES:
                position += 5 + int.from_bytes(content[position + 1 : position + 5], "little")
            elif kind == _REFERENCE:
                position += _REFERENCE_SIZE
            else:
                break
        else:
            if position == len(content):
                return True
    return False
