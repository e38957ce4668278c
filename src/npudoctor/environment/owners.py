"""Which CANN a folder belongs to: the one in use, another one, one that is gone; or to the driver."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Optional

from npudoctor.facts.cann.installations import ENDINGS, Install, install_at, named_root, real_root
from npudoctor.facts.cann.set_env import TOOLCHAIN
from npudoctor.host import CannotTell, Host
from npudoctor.host.devices import driver as drivers

AICPU, ATB = "ASCEND_AICPU_PATH", "ATB_HOME_PATH"
# The variables that name a CANN, and what each adds to its path.
NAMING = {**ENDINGS, AICPU: "", TOOLCHAIN: "/toolkit"}


class CannOwners:
    """Says which CANN folders belong to; each is looked at once."""

    def __init__(self, host: Host, active: Install) -> None:
        self._files, self.active = host.files, active
        self._drivers = tuple(drivers.package_folders(host.files, "driver"))
        self._found: dict[str, Optional[Install]] = {}

    def resolve(self, path: str) -> Optional[str]:
        """The path without links; None where nothing is there, or it cannot be looked at."""
        try:
            return self._files.real(path) if path.startswith("/") else None
        except CannotTell:
            return None

    def is_right(self, name: str, value: str, right: str) -> bool:
        """Return whether a variable may stay as it is: it means the same as the `right` value, or somebody
        chose it.
        """
        if not value:
            return False
        # ATB's own variable names a folder of one ABI, and no CANN.
        if name == ATB:
            return self.resolve(value) == self.resolve(right)
        # Other variables of the script are a matter of taste, as levels of logs.
        if name not in NAMING:
            return True
        root = self.root_of(name, value)
        if root is None:  # operators alone may lie anywhere
            return name == "ASCEND_OPP_PATH" and self.resolve(value) is not None
        return root == self.active.real

    def drop_wrong(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The variables without those that name no CANN: what this release does not set cannot be
        corrected.
        """
        return {
            name: value
            for name, value in variables.items()
            if name not in NAMING or self.root_of(name, value) or self.is_right(name, value, "")
        }

    def root_of(self, name: str, value: str) -> Optional[str]:
        """The folder with the parts of the CANN that a variable names; None when it names none."""
        if name in ENDINGS:
            value = named_root(name, value)
        else:
            value = value.rstrip("/")
            ending = NAMING[name]
            value = value[: -len(ending)] if ending and value.endswith(ending) else value
        try:
            return real_root(self._files, value) if value.startswith("/") else None
        except CannotTell:
            return None

    def find_gone(self, variables: Mapping[str, str]) -> list[str]:
        """The folders that variables name as CANN's and that contain none."""
        values = ((name, variables.get(name, "")) for name in NAMING)
        wrong = [named_root(name, value) if name in ENDINGS else value.rstrip("/") for name, value in values
                 if value.startswith("/") and self.root_of(name, value) is None]  # fmt: skip
        return [path for path in wrong if self.resolve(path) is None]

    def is_foreign(self, folder: str) -> bool:
        """Return whether a folder belongs to another CANN than the one in use.

        An installation without a version does not count: other software has folders called runtime, too.
        """
        owner = self.owner(folder)
        return bool(owner and (owner.version or owner.component) and owner.real != self.active.real)

    def is_of_ascend(self, folder: str) -> bool:
        """Return whether a folder belongs to a CANN, to what is beside it, or to the driver."""
        return "/nnal/" in folder or self._is_of_driver(folder) or self.owner(folder) is not None

    def owner(self, folder: str) -> Optional[Install]:
        """The CANN that a folder belongs to; None where it belongs to none."""
        folder = folder.rstrip("/")
        if not folder.startswith("/") or "/nnal/" in folder or self._is_of_driver(folder):
            return None
        if folder not in self._found:
            install, above = None, folder
            while install is None and above.count("/") > 1:
                with suppress(CannotTell):
                    install = install_at(self._files, above)
                above = above.rpartition("/")[0]
            self._found[folder] = install
        return self._found[folder]

    def _is_of_driver(self, folder: str) -> bool:
        return any(f"{folder}/".startswith(f"{driver}/") for driver in self._drivers)
