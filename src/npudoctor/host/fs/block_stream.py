"""A file as a stream for libraries that read one (pyelftools, zipfile), without opening it by itself."""

from __future__ import annotations

import io

from npudoctor.core.errors import CannotTell
from npudoctor.core.messages import _
from npudoctor.host.fs.files import Files

BLOCK = 1 << 16
MOST_BYTES = 64 << 20  # of one file; symbol names of the largest libraries take some 30 MiB


class BlockStream(io.RawIOBase):
    """Reads each block once; CannotTell when more than MOST_BYTES of the file are asked for."""

    def __init__(self, files: Files, path: str) -> None:
        super().__init__()
        self._files, self._path = files, path
        entry = files.stat(path)
        self._size = entry.size if entry else 0
        self._blocks: dict[int, bytes] = {}
        self._at = 0
        self._left = MOST_BYTES

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._size, self._at + size)
        if end <= self._at:
            return b""
        first, last = self._at // BLOCK, (end - 1) // BLOCK
        content = b"".join(self._block(number) for number in range(first, last + 1))
        start = self._at - first * BLOCK
        content = content[start : start + end - self._at]
        self._at += len(content)
        return content

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            self._left -= BLOCK
            if self._left < 0:
                raise CannotTell(_("{path} has a table that is too large to read", path=self._path))
            self._blocks[number] = self._files.read(self._path, BLOCK, number * BLOCK) or b""
        return self._blocks[number]
