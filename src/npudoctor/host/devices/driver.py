"""Finds the Ascend driver and firmware packages, and reads their version files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.host.devices.cann_info import parse_settings
from npudoctor.host.fs.files import Files

RECORD = "/etc/ascend_install.info"  # written by the installers of driver and firmware
USUAL_ROOT = "/usr/local/Ascend"
LIBRARY = "libascend_hal.so"


@dataclass(frozen=True)
class Package:
    """The driver or firmware package. `settings`: its version.info, keys in lower case."""

    folder: str
    settings: Mapping[str, str]

    @property
    def version(self) -> Optional[str]:
        return self.settings.get("version") or None

    @property
    def info_path(self) -> str:
        """The path of its version.info."""
        return f"{self.folder}/version.info"


def read_install_record(files: Files) -> dict[str, str]:
    """The record of the installers of driver and firmware; empty if it is missing or unreadable."""
    try:
        return parse_settings(files.text(RECORD, 1 << 16) or "")
    except CannotTell:
        return {}


def find_package(files: Files, kind: str) -> Optional[Package]:
    """The package "driver" or "firmware"; None if it is not installed, CannotTell if it cannot be read."""
    for folder in package_folders(files, kind):
        text = files.text(f"{folder}/version.info", 1 << 16)
        if text is not None:
            return Package(folder, parse_settings(text))
    return None


def package_folders(files: Files, kind: str) -> Iterator[str]:
    """Yield the folders that a package may be in: by the install record, then the usual one."""
    recorded = read_install_record(files).get(f"{kind}_install_path_param", "").rstrip("/")
    roots = [recorded, USUAL_ROOT] if recorded.startswith("/") else [USUAL_ROOT]
    yield from (f"{root}/{kind}" for root in dict.fromkeys(roots))


def find_libraries(files: Files) -> Iterator[str]:
    """Yield the driver's libascend_hal.so: in lib64, or in its subfolder `driver` or `common` by version."""
    for folder in package_folders(files, "driver"):
        for subfolder in ("lib64/driver", "lib64", "lib64/common"):
            path = f"{folder}/{subfolder}/{LIBRARY}"
            if files.stat(path) is not None:
                yield path


def has_library(files: Files, library_path: Sequence[str]) -> bool:
    """Whether a libascend_hal.so is in the driver's folders or in `library_path` (of LD_LIBRARY_PATH)."""
    if next(find_libraries(files), None):
        return True
    # CANN's folders devlib and stub hold a library of that name to link against, which drives no device.
    real_folders = (
        folder
        for folder in library_path
        if folder.startswith("/") and not {"devlib", "stub"} & set(folder.split("/"))
    )
    return any(files.stat(f"{folder}/{LIBRARY}") is not None for folder in real_folders)
