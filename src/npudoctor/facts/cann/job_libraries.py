"""Which libraries of a job are missing or come from the wrong place; the LD_LIBRARY_PATH it should have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from npudoctor.facts.cann.installations import Install
from npudoctor.facts.cann.libraries import CannLibraries
from npudoctor.facts.job.library_path import intended_folder
from npudoctor.facts.job.process import machine_of
from npudoctor.host import Host
from npudoctor.host.libraries.loader import Loader

PATH = "LD_LIBRARY_PATH"


class JobLibraries:
    """The libraries of a simulated process, by what is wrong with them.

    `missing`: not found or broken, each once. `stubs`: stand-ins for builds. `other_cann`: taken from another
    installation, with that installation. `outside`: libraries of CANN that come from no installation.
    """

    def __init__(self, host: Host, active: Install, loader: Loader, entries: Sequence[str]) -> None:
        self._host, self._entries = host, entries
        self.libraries = CannLibraries(host, active, machine_of(host))
        # Of equal names the first need counts; reversed twice to keep it, and the order.
        self.missing = list({library.name: library for library in reversed(loader.missing)}.values())[::-1]
        self.stubs = [library for library in loader.loaded if self.libraries.is_stub(library.path)]
        self.other_cann = [
            (library, other)
            for library in loader.loaded
            for other in [self.libraries.other_install(library.path)]
            if other is not None and library not in self.stubs
        ]
        self.outside = [
            library
            for library in loader.loaded
            # What comes from the working directory is reported as that.
            if (library.via != PATH or library.entry.startswith("/"))
            and library not in self.stubs
            and self.libraries.is_outside(library.path, library.name)
        ]

    def first_folders(self) -> list[str]:
        """The folders of the CANN in use that must come first in LD_LIBRARY_PATH; none where an RPATH
        decides.
        """
        return self._folders(library.name for library in self.outside if library.via not in ("RPATH", "path"))

    def is_of_other_cann(self, entry: str) -> bool:
        """Whether an entry of LD_LIBRARY_PATH is a folder of another installation."""
        return entry.startswith("/") and self.libraries.other_install(f"{entry.rstrip('/')}/x") is not None

    def corrected_path(self) -> tuple[list[str], list[str]]:
        """The entries that LD_LIBRARY_PATH should have, and those that this leaves out.

        Entries that stay keep their order; folders that are missing are appended.
        """
        intended = [intended_folder(self._host, entry) for entry in self._entries]
        entries = []
        for entry in intended:
            # Relative entries lead wherever the job is started: they are left out.
            if not entry.startswith(("/", "$")):
                continue
            # is_stub() and other_install() judge the folder of a file: any name in it will do.
            is_stub = bool(self.stubs) and self.libraries.is_stub(f"{entry.rstrip('/')}/x")
            if not is_stub and not self.is_of_other_cann(entry):
                entries.append(entry)
        left_out = [entry for entry in dict.fromkeys(intended) if entry not in ("", ".", *entries)]
        first = self.first_folders()
        entries = [*first, *(entry for entry in entries if entry not in first)]
        real = self._host.files.real
        real_folders = {real(entry) for entry in entries if entry.startswith("/")}
        names = [library.name for library in self.missing]
        names += [library.name for library in self.stubs]
        names += [library.name for library, _other in self.other_cann]
        added = [folder for folder in self._folders(names) if real(folder) not in real_folders]
        return list(dict.fromkeys((*entries, *added))), left_out

    def _folders(self, names: Iterable[str]) -> list[str]:
        return list(dict.fromkeys(folder for name in names for folder in self.libraries.folders_for(name)))
