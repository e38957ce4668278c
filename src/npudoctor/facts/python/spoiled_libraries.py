"""Libraries of a distribution that are there and are not what was installed: zeros, text, another build."""

from __future__ import annotations

import base64
import heapq
from collections.abc import Iterator, Sequence

from npudoctor.core.errors import CannotTell
from npudoctor.host.fs.disk import OpenFile
from npudoctor.host.fs.files import Files
from npudoctor.host.libraries.elf import MAGIC
from npudoctor.host.libraries.elf_damage import is_damaged
from npudoctor.host.python.installed_files import InstalledFile

LARGEST = 8  # libraries of one distribution that are none if they do not begin as one
HEAD = 512
READ_WHOLE = 32 << 20  # bytes of one distribution, and only of files that are younger than its list
# Bytes that are hashed at once, so that a library of a gigabyte is not held in memory.
PIECE = 1 << 20
LATER = 2  # seconds; the list is written last
# A pointer of Git LFS: the repository was cloned without its large files.
LFS = b"version https://git-lfs.github.com/spec/"


class SpoiledLibraries:
    """Looks into each library of one distribution, opened once.

    Afterwards `other` has those that can be loaded and hold something else than was installed; `unreadable`
    those that this user may not read.
    """

    def __init__(self, files: Files, site: str, listed_at: int) -> None:
        """`listed_at`: when the list of the distribution's files was written, in seconds."""
        self._files, self._site, self._listed_at = files, site, listed_at
        self._left = READ_WHOLE
        self.other: list[str] = []
        self.unreadable: list[str] = []

    def find_spoiled(self, libraries: Sequence[tuple[InstalledFile, int]]) -> Iterator[str]:
        """Yield the paths of the libraries that no loader gets through; each is given with its size now."""
        largest = {
            library.path
            for library, _now in heapq.nlargest(LARGEST, libraries, key=lambda pair: pair[0].size)
        }
        for library, now in libraries:
            try:
                with self._files.open_file(f"{self._site}/{library.path}") as file:
                    surely = library.path in largest or now != library.size
                    if file.read(0, len(MAGIC)) == MAGIC:
                        spoiled = is_damaged(file, now, is_thorough=surely)
                    else:
                        # What a wheel brought may be a script for a linker, which nothing loads.
                        head = file.read(0, HEAD)
                        spoiled = surely or b"\0" in head or head.startswith(LFS)
                    if spoiled:
                        yield library.path
                    elif now == library.size and self._is_other(file, library):
                        self.other.append(library.path)
            except FileNotFoundError:
                continue  # since its size was asked
            except CannotTell as error:
                if not isinstance(error.__cause__, PermissionError):
                    raise
                self.unreadable.append(library.path)

    def _is_other(self, file: OpenFile, library: InstalledFile) -> bool:
        """Return whether it was written after the installation and differs from it; only for as many as can
        be read quickly.
        """
        if not library.digest or file.mtime <= self._listed_at + LATER or library.size > self._left:
            return False
        import hashlib  # which loads OpenSSL

        self._left -= library.size
        digest = hashlib.sha256()
        for start in range(0, library.size, PIECE):
            digest.update(file.read(start, PIECE))
        return base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode() != library.digest
