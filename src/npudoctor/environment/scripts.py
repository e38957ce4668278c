"""What the scripts of CANN and of ATB set: by running them where that is safe, else by our tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Optional

from npudoctor.core.messages import _
from npudoctor.environment import tables
from npudoctor.environment.diff import EnvironmentDiff, apply_diff, drop_entries
from npudoctor.environment.owners import ATB, NAMING, CannOwners
from npudoctor.environment.sourced import diff_of_script, is_trusted
from npudoctor.facts.cann import nnal
from npudoctor.facts.cann.installations import Install, set_env_script
from npudoctor.host import CannotTell, Host

# Where CANN's programs lie, which its scripts may start by their paths.
PROGRAMS = ("bin", "script", "tools")


class CannScripts:
    """The scripts of one installation; `notes` say where a script was there and our tables had to be used."""

    def __init__(self, host: Host, owners: CannOwners) -> None:
        self._host, self._owners = host, owners
        self._cann: Optional[EnvironmentDiff] = None
        self.notes: list[str] = []

    def diff_of_cann(self) -> EnvironmentDiff:
        """What CANN's own script sets."""
        if self._cann is None:
            self._cann = self._run() or self.diff_of_tables()
        return self._cann

    def diff_of_tables(self) -> EnvironmentDiff:
        """What it should set by our tables, for what it does not set."""
        return tables.expected_diff(self._host, self._owners.active)

    def _run(self) -> Optional[EnvironmentDiff]:
        active = self._owners.active
        script = set_env_script(self._host.files, active)
        if script is None:
            return None
        if not (is_trusted(self._host, script) and _is_trusted_tree(self._host, active)):
            text = _(
                "{script} was not run because other users can write to it or its folder; the built-in tables "
                "are used instead"
            )
        else:
            delta = diff_of_script(self._host, script)
            # Whether a script set what names this very CANN.
            if delta is not None and (
                self._owners.active.real
                in (self._owners.root_of(name, delta.values.get(name, "")) for name in NAMING)
            ):
                return delta
            text = _("{script} was run, but its result is unusable; the built-in tables are used instead")
        self.notes.append(text.format(script=script))
        return None

    def add_atb(self, variables: dict[str, str], words: Sequence[str]) -> dict[str, str]:
        """The variables with those of ATB; of its two C++ ABIs only the required one stays."""
        digit = 0 if words[-1].endswith("=0") else 1
        folder = f"{words[0].rpartition('/')[0]}/latest/atb/cxx_abi_{digit}"
        delta = diff_of_script(self._host, words[0], f"--cxx_abi={digit}")
        # The script chooses an ABI by the torch that it finds; it must be the required one.
        if delta is None or self._owners.resolve(delta.values.get(ATB, "")) != self._owners.resolve(folder):
            delta = tables.expected_atb_diff(folder)
        other = drop_entries(variables, lambda entry: nnal.abi_of(entry) == 1 - digit)
        return apply_diff(other, delta, self._owners)


def _is_trusted_tree(host: Host, install: Install) -> bool:
    """The same for the folders with the programs of an installation; for root, for all that they contain."""
    may_look_in = host.commands.may_load_from if host.identity.is_root else partial(is_trusted, host)
    try:
        # The script may start programs by either name of the tree.
        for top in dict.fromkeys((install.path, install.real)):
            if not may_look_in(top):
                return False
            for name in host.files.names(top):
                for place in (f"{top}/{name}", *(f"{top}/{name}/{part}" for part in PROGRAMS)):
                    entry = host.files.stat(place)
                    if entry is not None and entry.is_dir and not may_look_in(place):
                        return False
    except CannotTell:
        return False
    return True
