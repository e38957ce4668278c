"""Files that are there and hold something else: zeros after a crash, a pointer of Git LFS, cut byte code."""

from __future__ import annotations

import ast
import base64
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Optional

from npudoctor.facts.python.spoiled_libraries import LATER, LFS, SpoiledLibraries
from npudoctor.host.fs.disk import NO_FILE
from npudoctor.host.fs.files import Files
from npudoctor.host.python.bindings import read_submodule_imports
from npudoctor.host.python.byte_code import HEADER_BYTES, ByteCode, is_unchecked
from npudoctor.host.python.installed_files import InstalledFile

SOURCE_LIMIT = 1 << 20
CHANGED = 40  # longer sources that are read; people change a few, a mixed tree has hundreds
SHORTENED = 400  # and shorter ones, of which each may be cut
REWRITTEN = 1000  # sources of the same size that are read where they were written after the installation
END = 64  # bytes at the end of a source that no crash leaves alone
EACH = 8  # of the modules deep in a framework, one in so many is looked into: a crash spoils many
UNCHECKED = 4000  # sources that are compared with byte code, where Python would not compare them
DEEPEST = 3  # folders of a framework down to which byte code that was written later is looked into
LATE = 2000  # modules of one distribution of which that is asked
SAMPLE = 256  # headers of byte code by which it is told whether any of a package is so


class SpoiledFiles:
    """Looks into the files of one distribution. `version`: of the Python that would import them; `cached`:
    whether that reads the byte code beside them; `listed_at`: when the list of its files was written, in
    seconds; None where no file is to be compared with what the list says it held.

    After `find_spoiled`, `other` holds the libraries that are whole and are not what was installed, `stale`
    the sources in the place of which Python runs byte code that was made of something else, and `unreadable`
    what this user may not read and an import would.
    """

    def __init__(
        self, files: Files, site: str, version: Optional[str], cached: bool, listed_at: Optional[int] = None
    ) -> None:
        self._files, self._site, self._cached = files, site, cached
        self._listed_at = sys.maxsize if listed_at is None else listed_at
        self._version = ".".join((version or "").split(".")[:2])
        self._code = ByteCode(files, site, self._version)
        self._shorter: set[str] = set()
        self._unchecked = False
        self.other: list[str] = []
        self.stale: list[str] = []
        self.unreadable: list[str] = []

    def find_spoiled(
        self,
        listed: Sequence[InstalledFile],
        here: Sequence[int],
        deep: bool,
        mtimes: Sequence[int] = (),
    ) -> Iterator[str]:
        """Yield the paths of the files that no import gets through.

        `here`: their sizes now; `mtimes`: when they were written, where that is known. `deep`: also look at
        the modules right below a package, not only the package itself, and at the ends of many others.
        """
        changed: list[str] = []
        keys: list[InstalledFile] = []
        other_modules: list[InstalledFile] = []
        libraries: list[tuple[InstalledFile, int]] = []
        later: list[InstalledFile] = []
        after = self._listed_at + LATER
        for file, size, mtime in zip(listed, here, mtimes or repeat(0)):  # thousands
            if size == NO_FILE:
                yield file.path
            elif not file.path.endswith(".py"):
                if file.size and size > 0:
                    libraries.append((file, size))
            elif size != file.size:
                if size > 0:
                    changed.append(file.path)
                if size < file.size:
                    self._shorter.add(file.path)
            elif file.size:
                if mtime > after:
                    later.append(file)
                (keys if file.path.count("/") < 2 and _is_key(file.path, deep) else other_modules).append(
                    file
                )
        # What lies near the top is imported first.
        changed.sort(key=lambda path: path.count("/"))
        longer = [path for path in changed if path not in self._shorter][:CHANGED]
        shorter = [path for path in changed if path in self._shorter][:SHORTENED]
        yield from filter(self._is_no_source, [*longer, *shorter])
        yield from filter(self._is_no_source, self._choose_rewritten(later))
        yield from self._find_zeros(keys, _choose_modules(other_modules) if deep else [])
        key_paths = [file.path for file in keys]
        yield from self._find_cut_codes(key_paths)
        yield from self._find_late_codes([file.path for file in other_modules], DEEPEST if deep else 2)
        # Note the stale byte code of these where Python does not compare that of some, as it is made so for
        # whole trees, so that a sample tells; `depth`: how many folders above those of the sample.
        paths = [*(file.path for file in other_modules), *changed]
        depth = 2 if deep else 1
        near = [path for path in paths if path.count("/") <= depth][:UNCHECKED] if self._cached else []
        codes = [self._code.path_of(path) for path in near[:: len(near) // SAMPLE + 1]]
        heads = self._files.parts(self._site, codes, [0] * len(codes), HEADER_BYTES) if codes else ()
        # Unchecked byte code (PEP 552) is run without a look at its source.
        if self._unchecked or any(is_unchecked(head) for head in heads if head):
            for path in paths[:UNCHECKED]:
                self._note_stale(path)
        looking = SpoiledLibraries(self._files, self._site, self._listed_at)
        yield from looking.find_spoiled(libraries)
        self.other = looking.other
        self.unreadable += looking.unreadable

    def find_changed(self, listed: Sequence[InstalledFile], here: Sequence[int]) -> list[str]:
        """The packages themselves, and single modules, that have another size than was installed, other than
        by converted line ends.
        """
        return [
            file.path
            for file, now in zip(listed, here)
            if 0 < now != file.size and _is_key(file.path, deep=False) and not self._is_converted(file, now)
        ]

    def is_read(self, path: str) -> bool:
        """Return whether Python reads the file itself: not a source with current byte code."""
        return not (self._cached and path.endswith(".py") and self._code.replaces(path))

    def is_foreign_code(self, path: str) -> bool:
        """Return whether byte code in the place of a source, foo.pyc, is for another Python, or cut."""
        return self._code.is_foreign(path)

    def _find_zeros(
        self, keys: Sequence[InstalledFile], other_modules: Sequence[InstalledFile]
    ) -> Iterator[str]:
        modules = [*keys, *other_modules]
        paths, starts = [file.path for file in modules], [max(0, file.size - END) for file in modules]
        ends = self._files.parts(self._site, paths, starts, END) if modules else ()
        for number, (path, end) in enumerate(zip(paths, ends)):
            if end is None:
                # A source is not read where its byte code is there and may be read.
                if not self._cached or self._code.read_ends(path) is None:
                    self.unreadable.append(path)
                continue
            if not end and number < len(keys):  # a link, or on a mount that may block
                end = self._files.read(f"{self._site}/{path}", END, starts[number]) or b""
            if b"\0" in end:
                yield path

    def _find_cut_codes(self, keys: Sequence[str]) -> Iterator[str]:
        """Yield the cut byte code of these modules, and note the stale one."""
        for path in keys if self._cached else ():
            if path in self.unreadable:
                continue
            ends = self._code.read_ends(path)
            if ends is not None and self._code.is_cut(path, ends):
                yield self._code.path_of(path)
            elif ends is not None and ends.is_unchecked:
                self._unchecked = True
                self._note_stale(path)

    def _choose_rewritten(self, later: Sequence[InstalledFile]) -> list[str]:
        """Of the sources that were written after the list: those with other content of the same size."""
        if not later:
            return []
        import hashlib  # which loads OpenSSL

        rewritten = []
        for file in [file for file in later if file.digest][:REWRITTEN]:
            content = self._files.read(f"{self._site}/{file.path}", SOURCE_LIMIT) or b""
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            if digest != file.digest:
                rewritten.append(file.path)
        return rewritten

    def _find_late_codes(self, paths: Sequence[str], depth: int) -> Iterator[str]:
        """Yield cut byte code of other modules; only of what was written after the installation, as byte code
        that a crash or a copy cut was."""
        if not self._cached or self._listed_at == sys.maxsize:
            return
        near = [path for path in paths if path.count("/") <= depth]
        if len(near) > LATE:  # transformers has thousands of models, of which a job imports one
            near = [path for path in near if path.count("/") < depth][:LATE]
        codes = [self._code.path_of(path) for path in near]
        mtimes = self._files.stamps(self._site, codes)[1] if codes else []
        late = [path for path, mtime in zip(near, mtimes) if mtime > self._listed_at + LATER]
        yield from self._find_cut_codes(late)

    def _note_stale(self, path: str) -> None:
        ends = self._code.read_ends(path)
        if ends is not None and self._code.is_stale(path, ends):
            self.stale.append(path)

    def _is_no_source(self, path: str) -> bool:
        content = self._files.read(f"{self._site}/{path}", SOURCE_LIMIT) or b""
        # No source has a NUL; Python refuses it.
        if b"\0" in content or content.startswith(LFS):
            return True
        # By our own Python only, as another may know more; but what became shorter, and ends within a line
        # that cannot be read, was cut.
        ours = self._version == f"{sys.version_info[0]}.{sys.version_info[1]}"
        cut = path in self._shorter and not content.endswith(b"\n")
        if not (ours or cut) or len(content) == SOURCE_LIMIT:
            return False
        try:
            ast.parse(content)
        except SyntaxError:
            return True
        # Unusual, and no sign of damage.
        except (ValueError, RecursionError, MemoryError):
            return False
        if not ours or path.count("/") != 1 or not path.endswith("/__init__.py"):
            return False
        # A package that imports parts of itself which are not there is another version's.
        text = content.decode("utf-8", "replace")
        there = self._files.names(f"{self._site}/{path.rpartition('/')[0]}")
        missing = read_submodule_imports(text) - {name.partition(".")[0] for name in there}
        return any(
            not re.search(rf"^[ \t]*(?:{name}[ \t]*[:=]|(?:def|class)[ \t]+{name}\b)", text, re.M)
            for name in missing
        )

    def _is_converted(self, file: InstalledFile, now: int) -> bool:
        """Return whether a copy in text mode converted its line ends, which Python reads as well."""
        if now > SOURCE_LIMIT:
            return False
        content = self._files.read(f"{self._site}/{file.path}", SOURCE_LIMIT) or b""
        lines, returns = content.count(b"\n"), content.count(b"\r\n")
        return file.size == (now - lines if returns == lines else now + lines if not returns else -1)


def _choose_modules(modules: Sequence[InstalledFile]) -> list[InstalledFile]:
    """The modules that lie two folders deep, where most of what an import loads is, and a sample of
    the rest.
    """
    near: list[InstalledFile] = []
    rest: list[InstalledFile] = []
    for module in modules:  # thousands
        depth = module.path.count("/")
        if depth >= 2:
            (near if depth == 2 else rest).append(module)
    return [*near, *rest[::EACH]]


def _is_key(path: str, deep: bool) -> bool:
    """Return whether it is a module, a package itself, or with `deep` a module right in a package."""
    folders = path.count("/")
    if not path.endswith(".py") or folders > 1:
        return False
    return deep or not folders or path.endswith("/__init__.py")
