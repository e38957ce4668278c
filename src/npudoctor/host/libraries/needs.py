"""Reads what a file makes the loader look for, and splits search paths.

Apart from `loader` and `library`, because every run needs this and most runs need nothing else of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _
from npudoctor.host.fs.files import Files

DEFAULT_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
TOKEN = pattern(r"\$(?:\{(ORIGIN|LIB|PLATFORM)\}|(ORIGIN|LIB|PLATFORM)(?![A-Za-z0-9_]))")


@dataclass(frozen=True)
class Needs:
    """What a file makes the loader look for. `needed`: names or paths of libraries, also of filters and
    auditors. `rpath`, `runpath`: the entries as they are written there."""

    machine: str
    interpreter: Optional[str] = None
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()


def read_needs(files: Files, path: str) -> Optional[Needs]:
    """Read the needs of a file; None if it is missing or not an ELF file, CannotTell if it is damaged."""
    from npudoctor.host.libraries import elf as parts

    try:
        with files.open_file(path) as file:
            if file.read(0, len(parts.MAGIC)) != parts.MAGIC:
                return None
            entry = files.stat(path)
            elf = parts.Elf(file.read, entry.size if entry else 0, path)
            names: list[str] = []
            for tag in (parts.NEEDED, parts.AUXILIARY, parts.FILTER, parts.AUDIT, parts.DEPAUDIT):
                for text in elf.read_tag_texts(tag):
                    names += filter(None, text.split(":"))
            # The loader ignores an empty DT_RPATH; an empty entry in a longer one is the working directory.
            rpath, runpath = (
                tuple(entry for text in elf.read_tag_texts(tag) if text for entry in text.split(":"))
                for tag in (parts.RPATH, parts.RUNPATH)
            )
            return Needs(elf.machine, elf.interpreter(), tuple(names), rpath, runpath)
    except parts.DamagedElf as error:
        raise CannotTell(_("the ELF file {path} cannot be parsed: {why}", path=path, why=error)) from error
    except OSError:
        return None  # nothing is there


def fill_tokens(text: str, words: Mapping[str, str]) -> str:
    """Replace $ORIGIN, $LIB and $PLATFORM in a path by these words."""
    return TOKEN.sub(lambda match: words[match[1] or match[2]], text)


def split_path(text: str, separators: str) -> list[str]:
    """The entries of a search path, with empty ones, which mean the working directory; none for ""."""
    for separator in separators[1:]:
        text = text.replace(separator, separators[0])
    return text.split(separators[0]) if text else []
