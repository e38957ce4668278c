"""NNAL, the acceleration library beside CANN: where its ATB lies, its version, its two C++ ABIs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.lazy import pattern
from npudoctor.facts.cann.installations import ASCEND, Install
from npudoctor.host.fs.files import Files
from npudoctor.host.libraries.library import Libraries

# ATB ships both builds side by side, as cxx_abi_0 and cxx_abi_1; torch decides which one is needed.
_ABI = pattern(r"/cxx_abi_([01])(?:/|\Z)")
_VERSION = pattern(r"^[ \t]*Ascend-cann-atb[ \t]*:[ \t]*(\S+)", re.MULTILINE)
_LIMIT = 1 << 13  # bytes of a version.info


def scripts(files: Files, install: Optional[Install], home: str) -> Iterator[str]:
    """The set_env.sh of each ATB that is installed: beside the CANN in use, system-wide, the user's."""
    roots = [ASCEND, f"{home}/Ascend"]
    if install is not None:
        above = install.real.rpartition("/")[0]
        # /usr/local/Ascend/ascend-toolkit/8.1.RC1: one or two folders up.
        roots = [above, above.rpartition("/")[0], *roots]
    for root in dict.fromkeys(roots):
        path = f"{root}/nnal/atb/set_env.sh"
        if root and files.stat(path) is not None:
            yield path


def abi_of(path: str) -> Optional[int]:
    """The C++ ABI by the folder of a library of ATB: 1 is the one since GCC 5; None for any other folder."""
    match = _ABI.search(path)
    return int(match[1]) if match else None


def version_of(files: Files, library: str) -> Optional[str]:
    """The CANN release that an ATB belongs to, by the version.info above its library; None where none says
    so.
    """
    real = files.real(library)
    folder = (real or "").rpartition("/")[0]
    while folder.count("/") > 1:
        try:
            release = parse_release(files.text(f"{folder}/version.info", _LIMIT) or "")
        except CannotTell:
            # Not readable: the next folder up may have a version.info, too.
            release = None
        if release:
            return release
        folder = folder.rpartition("/")[0]
    return None


def parse_release(text: str) -> Optional[str]:
    """The CANN release that a version.info of ATB names; None when it names none."""
    match = _VERSION.search(text)
    return match[1] if match else None


def cxx_abi_of(libraries: Libraries, path: str) -> Optional[int]:
    """The C++ ABI (0 or 1) that a library which passes strings was built with, by its symbols; None where
    they cannot be read.
    """
    symbols = libraries.symbols(path)
    if symbols is None or not symbols.defined:
        return None
    # std::string mangles to std::__cxx11::basic_string in the new ABI (libstdc++ manual, Dual ABI).
    return int(any("__cxx11" in name for name in symbols.defined))
