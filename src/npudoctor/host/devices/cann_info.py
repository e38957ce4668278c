"""Reads the info files of a CANN installation: product and component version, machine, package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.lazy import pattern
from npudoctor.host.fs.files import Files

# The parts whose version is asked for, in this order: from CANN 5.1 to 8.3 `latest` is a real folder full of
# links, which may lead to parts of different trees.
COMPONENTS = ("compiler", "runtime", "opp", "fwkacllib", "atc")

KINDS = {"ascend-toolkit": "toolkit", "nnae": "nnae", "nnrt": "nnrt"}

# Records of the installers; ascend_cann_install.info was first seen from that of CANN 6.0.
_RECORD = pattern(r"ascend_(toolkit|nnae|nnrt|cann)_install\.info\Z")
_ARCH = pattern(r"(aarch64|x86_64)-linux\Z")
MAX_INFO_BYTES = 1 << 16  # bytes of an info file; real ones have a few KiB

_PRODUCT = pattern(r"^\w+_running_version=\[([^:\]\n]+):([^\]\n]+)\]", re.MULTILINE)


def parse_settings(content: str) -> dict[str, str]:
    """Parse the `key=value` lines of an info file; keys in lower case, values without quotes."""
    pairs = (line.partition("=") for line in content.splitlines())
    return {key.strip().lower(): value.strip().strip('"') for key, equals, value in pairs if equals}


def read_record(files: Files, roots: tuple[str, ...]) -> dict[str, str]:
    """The first install record below these roots, else empty: nnae has it on top, others in <arch>-linux."""
    records = (read_record_in(files, folder) for folder in record_folders(files, roots))
    return next(filter(None, records), {})


def read_record_in(files: Files, folder: str) -> dict[str, str]:
    """The install record in a folder; empty if there is none."""
    name = next(filter(_RECORD.match, files.names(folder)), None)
    return parse_settings(read_text(files, f"{folder}/{name}")) if name else {}


def machine_of(files: Files, roots: tuple[str, ...]) -> Optional[str]:
    """The machine that an installation is for, by its <arch>-linux folder; None without such a folder."""
    names = (folder.rsplit("/", 1)[-1] for folder in record_folders(files, roots))
    return next((match[1] for match in map(_ARCH.match, names) if match), None)


def read_versions(files: Files, path: str) -> tuple[Optional[str], Optional[str]]:
    """The component and product version, by version.info of a part, else by version.cfg; None if unknown."""
    component, product = parse_running_versions(read_text(files, f"{path}/version.cfg"))
    for part in COMPONENTS:
        for folder in (f"{path}/{part}", f"{path}/share/info/{part}"):
            info = parse_settings(read_text(files, f"{folder}/version.info"))
            if "version" in info:
                return info["version"], info.get("version_dir", product)
    return component, product


def parse_running_versions(content: str) -> tuple[Optional[str], Optional[str]]:
    """The component and product version in the first *_running_version row of a version.cfg; None without."""
    match = _PRODUCT.search(content)
    return (match[1], match[2]) if match else (None, None)


def record_folders(files: Files, roots: tuple[str, ...]) -> Iterator[str]:
    """Yield the folders that may have an install record: <arch>-linux, and the installation itself."""
    for root in dict.fromkeys(roots):
        yield from (f"{root}/{name}" for name in files.names(root) if _ARCH.match(name))
        yield root


def read_text(files: Files, path: str, limit: int = MAX_INFO_BYTES) -> str:
    """The text of a small file; "" if it is missing or cannot be read."""
    try:
        return files.text(path, limit) or ""
    except CannotTell:
        return ""
