"""What CANN and the driver say of each other: interfaces, branches, and which CANN is meant."""

from __future__ import annotations

import re
from typing import Optional

from npudoctor import Host
from npudoctor.core.driver_version import bracket_groups
from npudoctor.core.errors import CannotTell
from npudoctor.facts.cann.installations import Install, installs_of
from npudoctor.host.devices.cann_info import record, settings
from npudoctor.host.devices.driver import Package
from npudoctor.host.fs.files import Files

_REQUIRED = re.compile(r"required_driver_(\w+)_version\Z")
_BRANCH = re.compile(r"(V\d+R\d+)C(\d+)")
_PARTS = ("runtime", "acllib", "fwkacllib")


def first_install(host: Host) -> Optional[Install]:
    """The CANN in use: the one that the variables name, else the first that is found."""
    installs = installs_of(host)
    return installs[0] if installs else None


def required_interfaces(files: Files, install: Install) -> dict[str, str]:
    """The driver interfaces that its runtime asks for: name to version or range."""
    for part in _PARTS:
        for place in (f"{install.path}/{part}", f"{install.path}/share/info/{part}"):
            told = settings(_text(files, f"{place}/version.info"))
            wanted = {match[1]: value for name, value in told.items() if (match := _REQUIRED.match(name))}
            if wanted:
                return wanted
    return {}


def branches_agree(files: Files, install: Install, driver: Package) -> Optional[bool]:
    """Whether one side lists the other's branch as one that it suits; None where a side says nothing."""
    told = record(files, (install.path, install.real))
    sides = (told, driver.settings)
    own = [_BRANCH.match(side.get("innerversion", "")) for side in sides]
    lists = [bracket_groups(side.get("compatible_version", "")) for side in sides]
    if None in own or not all(lists):
        return None
    return _listed(lists[0], own[1]) or _listed(lists[1], own[0])


def _listed(listed: list[tuple[str, ...]], branch: Optional[re.Match[str]]) -> bool:
    """Whether a branch is in one of the groups: one branch, or the first and the last of many."""
    if branch is None:
        return False
    for group in listed:
        ends = [match for match in map(_BRANCH.match, group) if match]
        if ends and ends[0][1] == branch[1] and int(ends[0][2]) <= int(branch[2]) <= int(ends[-1][2]):
            return True
    return False


def _text(files: Files, path: str) -> str:
    """A file that only tells a number: what cannot be read tells none."""
    try:
        return files.text(path, 1 << 20) or ""
    except CannotTell:
        return ""
