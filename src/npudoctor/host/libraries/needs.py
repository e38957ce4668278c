"""What a file makes the loader look for, and what is written in search paths.

This much every run asks; of libraries and loader most runs ask nothing else.
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
    """What the loader takes from a file to find more of them. `needed`: names of libraries, or paths, those
    of filters and auditors too. `rpath` and `runpath`: entries as written there."""

    machine: str
    interpreter: Optional[str] = None
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()


def read_needs(files: Files, path: str) -> Optional[Needs]:
    """The needs of the file at a path; None where it is no ELF file. CannotTell where it is a damaged one."""
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
            # An empty text is none to the loader; an empty entry of a longer one is the working directory.
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
    """A path with these words in the place of $ORIGIN, $LIB and $PLATFORM."""
    return TOKEN.sub(lambda match: words[match[1] or match[2]], text)


def split_path(text: str, separators: str) -> list[str]:
    """The entries of a search path; empty ones, the working directory, are kept, an empty path has none."""
    for separator in separators[1:]:
        text = text.replace(separator, separators[0])
    return text.split(separators[0]) if text else []
