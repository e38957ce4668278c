"""The Ascend driver and firmware packages: where they are, and what they say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.host.devices.cann_info import parse_settings
from npudoctor.host.fs.files import Files

RECORD = "/etc/ascend_install.info"
USUAL_ROOT = "/usr/local/Ascend"
LIBRARY = "libascend_hal.so"


@dataclass(frozen=True)
class Package:
    """The driver or the firmware package as its version.info says; keys in lower case."""

    folder: str
    settings: Mapping[str, str]

    @property
    def version(self) -> Optional[str]:
        return self.settings.get("version") or None

    @property
    def info_path(self) -> str:
        """The file that says so."""
        return f"{self.folder}/version.info"


def read_install_record(files: Files) -> dict[str, str]:
    """What the installers wrote down of driver and firmware; empty where that is missing or unreadable."""
    try:
        return parse_settings(files.text(RECORD, 1 << 16) or "")
    except CannotTell:
        return {}


def find_package(files: Files, kind: str) -> Optional[Package]:
    """The package "driver" or "firmware"; None when it is not installed here.

    CannotTell when its version.info is there and cannot be read.
    """
    for folder in package_folders(files, kind):
        text = files.text(f"{folder}/version.info", 1 << 16)
        if text is not None:
            return Package(folder, parse_settings(text))
    return None


def package_folders(files: Files, kind: str) -> Iterator[str]:
    """Where it may be: where the record says, then the usual place."""
    recorded = read_install_record(files).get(f"{kind}_install_path_param", "").rstrip("/")
    roots = [recorded, USUAL_ROOT] if recorded.startswith("/") else [USUAL_ROOT]
    yield from (f"{root}/{kind}" for root in dict.fromkeys(roots))


def find_libraries(files: Files) -> Iterator[str]:
    """The driver's own libascend_hal.so, by era directly in lib64 or in its folder driver."""
    for folder in package_folders(files, "driver"):
        for subfolder in ("lib64/driver", "lib64", "lib64/common"):
            path = f"{folder}/{subfolder}/{LIBRARY}"
            if files.stat(path) is not None:
                yield path


def has_library(files: Files, library_path: Sequence[str]) -> bool:
    """Whether a libascend_hal.so is in the driver's folders, or in one of those on LD_LIBRARY_PATH."""
    if next(find_libraries(files), None):
        return True
    # CANN's devlib and stub folders hold one for builds that drives nothing.
    real_folders = (
        folder
        for folder in library_path
        if folder.startswith("/") and not {"devlib", "stub"} & set(folder.split("/"))
    )
    return any(files.stat(f"{folder}/{LIBRARY}") is not None for folder in real_folders)
