"""Where the libraries of CANN and of the driver are, and which of them a library belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Optional

from npudoctor.facts.cann.installations import Install, install_at
from npudoctor.facts.cann.tree import elf_machine, is_closed
from npudoctor.host import CannotTell, Host
from npudoctor.host.devices import driver as drivers

# Below an installation, in the order of its own script; the last ones are of the 5.x era.
CANN_FOLDERS = (
    "lib64",
    "lib64/plugin/opskernel",
    "lib64/plugin/nnengine",
    "tools/aml/lib64",
    "tools/aml/lib64/plugin",
    "runtime/lib64",
    "compiler/lib64",
    "hccl/lib64",
    "fwkacllib/lib64",
    "acllib/lib64",
    "atc/lib64",
)
# As the install guide puts them into LD_LIBRARY_PATH.
DRIVER_FOLDERS = ("lib64", "lib64/common", "lib64/driver")
# In the search path that was written by hand up to the 5.x era.
ADD_ONS = "/usr/local/Ascend/add-ons"
# The driver's interface to user space, which every runtime needs.
HAL = "libascend_hal.so"
# What real drivers have in lib64/common and lib64/driver.
OF_DRIVER = {
    *(HAL, "libdcmi.so", "libdrvdsmi_host.so", "libtsdaemon.so", "libqueue_schedule.so"),
    *("libc_sec.so", "libmmpa.so", "libsecurec.so", "libkmc.so.20", "libsdp.so.20"),
    *("libaivault.so", "libaivaulttee.so"),
}
METADATA = (".dist-info", ".egg-info", ".egg")  # ends of names beside installed packages
STUBS = {"devlib", "stub", "stubs"}


class CannLibraries:
    """The libraries of one machine, by owner: the CANN in use, the driver, another CANN."""

    def __init__(self, host: Host, active: Install, machine: str) -> None:
        self._host, self._active, self._machine = host, active, machine
        self._owners: dict[str, Optional[Install]] = {}
        self._drivers = tuple(drivers.package_folders(host.files, "driver"))

    def cann_folder(self, name: str) -> Optional[str]:
        """The folder of the CANN in use that has this library; None where it has none."""
        return self._first((f"{self._active.path}/{folder}" for folder in CANN_FOLDERS), name)

    def driver_folder(self, name: str) -> Optional[str]:
        """The folder of the driver that has this library; None where it has none."""
        folders = [f"{driver}/{folder}" for driver in self._drivers for folder in DRIVER_FOLDERS]
        return self._first([*folders, ADD_ONS], name)

    def is_unreadable(self, name: str) -> bool:
        """Return whether the CANN in use has this library, and this user may not read it."""
        for folder in CANN_FOLDERS:
            try:
                self._host.files.read(f"{self._active.path}/{folder}/{name}", 1)
            except CannotTell as error:
                return is_closed(error)
        return False

    def is_for_other_machine(self, name: str) -> bool:
        """Return whether the CANN in use has this library only for another machine (x86_64, aarch64)."""
        paths = (f"{self._active.path}/{folder}/{name}" for folder in CANN_FOLDERS)
        machines = {elf_machine(self._host.files, path) for path in paths} - {None}
        return bool(machines) and self._machine not in machines

    def folder_of(self, name: str) -> Optional[str]:
        """The folder of the CANN in use, or of the driver, that has this library; None where neither
        has it.
        """
        return self.cann_folder(name) or self.driver_folder(name)

    def folders_for(self, name: str) -> list[str]:
        """The folders that its owner's script would add to the path for this library, as it needs others of
        its owner.
        """
        folder = self.cann_folder(name)
        if folder is not None:
            plugins = (f"{self._active.path}/lib64/plugin/{kind}" for kind in ("opskernel", "nnengine"))
            return [folder, *(plugin for plugin in plugins if self._host.files.stat(plugin))]
        folder = self.driver_folder(name)
        if folder is None:
            return []
        top = next((driver for driver in self._drivers if folder.startswith(f"{driver}/")), "")
        places = [f"{top}/{place}" for place in DRIVER_FOLDERS] if top else [folder]
        return [place for place in places if any(".so" in name for name in self._host.files.names(place))]

    def owner(self, path: str) -> Optional[Install]:
        """The installation of CANN that a library belongs to; None when it is no part of one."""
        folder = path.rpartition("/")[0]
        # These lie below an Ascend folder, too, and belong to no CANN.
        if self._is_in_nnal(path) or any(folder.startswith(f"{driver}/") for driver in self._drivers):
            return None
        if folder not in self._owners:
            install, above = None, folder
            # At least two folders deep: "/" and "/usr" are no installation.
            while install is None and above.count("/") > 1:
                # A folder above that cannot be looked into is no installation that we can name.
                with suppress(CannotTell):
                    install = install_at(self._host.files, above)
                above = above.rpartition("/")[0]
            self._owners[folder] = install
        return self._owners[folder]

    def other_install(self, path: str) -> Optional[Install]:
        """The other installation of CANN that a library belongs to; None when it is no part of one."""
        owner = self.owner(path)
        return owner if owner is not None and owner.real != self._active.real else None

    def is_outside(self, path: str, name: str) -> bool:
        """Return whether a library of the CANN in use is taken from a folder that belongs to no CANN, nor to
        the driver, nor to a Python package, which may bring its own copy.
        """
        if name in OF_DRIVER or "/" in name or self._is_in_nnal(path) or self.owner(path) is not None:
            return False
        real = self._host.files.real(path) or path
        cann_folder = self.cann_folder(name)
        if (
            cann_folder is None
            or self._host.files.real(f"{cann_folder}/{name}") == real
            or self.owner(real) is not None
        ):
            return False
        tops = [self._active.path, self._active.real, *self._drivers, ADD_ONS]
        # The folders into which packages are installed: not any folder of sources that PYTHONPATH names.
        for folder in self._host.interpreter.layout().search_path:
            if folder.startswith("/") and (
                folder.endswith("-packages")
                or any(file.endswith(METADATA) for file in self._host.files.names(folder))
            ):
                tops.append(folder)
        return not any(place.startswith(f"{top}/") for place in (path, real) for top in tops)

    def _is_in_nnal(self, path: str) -> bool:
        """Return whether it lies in NNAL, which brings ATB: a folder of that name alone proves nothing."""
        top, inside, _rest = path.partition("/nnal/")
        return bool(inside) and self._host.files.stat(f"{top}/nnal/atb") is not None

    def is_stub(self, path: str) -> bool:
        """Return whether a library is one of the stubs that CANN ships for builds."""
        return bool(STUBS & set(path.split("/"))) and self.owner(path) is not None

    def _first(self, folders: Iterator[str] | Sequence[str], name: str) -> Optional[str]:
        for folder in folders:
            try:
                library = self._host.libraries.read(f"{folder}/{name}")
            except CannotTell:
                continue
            # A tree may hold libraries for x86_64 and aarch64 side by side.
            if library is not None and library.machine == self._machine:
                return folder
        return None
