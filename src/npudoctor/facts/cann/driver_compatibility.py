"""What CANN and the driver declare about each other: required interfaces, compatible branches."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Optional

from npudoctor.core.driver_version import bracket_groups
from npudoctor.core.errors import CannotTell
from npudoctor.core.lazy import pattern
from npudoctor.facts.cann.installations import Install
from npudoctor.host.devices.cann_info import parse_settings, read_record
from npudoctor.host.devices.driver import Package
from npudoctor.host.fs.files import Files

_REQUIRED = pattern(r"required_driver_(\w+)_version\Z")
# As V100R001C13: the parts up to R name the branch, C counts within it.
_BRANCH = pattern(r"(V\d+R\d+)C(\d+)")
# `runtime` from 5.1 on; acllib and fwkacllib are the packages of the flat layout before.
_PARTS = ("runtime", "acllib", "fwkacllib")


def required_interfaces(files: Files, install: Install) -> dict[str, str]:
    """The driver interfaces that the runtime of an installation requires: name to version or range."""
    for part in _PARTS:
        for place in (f"{install.path}/{part}", f"{install.path}/share/info/{part}"):
            text = None
            with suppress(CannotTell):
                text = files.text(f"{place}/version.info", 1 << 20)
            required = {
                match[1]: value
                for name, value in parse_settings(text or "").items()
                if (match := _REQUIRED.match(name))
            }
            # The first part that requires anything speaks for all: they are of one release.
            if required:
                return required
    return {}


def branches_agree(files: Files, install: Install, driver: Package) -> Optional[bool]:
    """Return whether one side lists the other's branch as compatible; None where a side states no branch or
    no list.
    """
    sides = (read_record(files, (install.path, install.real)), driver.settings)
    own = [_BRANCH.match(side.get("innerversion", "")) for side in sides]
    lists = [bracket_groups(side.get("compatible_version", "")) for side in sides]
    if None in own or not all(lists):
        return None
    return _is_listed(lists[0], own[1]) or _is_listed(lists[1], own[0])


def _is_listed(listed: list[tuple[str, ...]], branch: Optional[re.Match[str]]) -> bool:
    """Return whether a branch is in one of the groups. A group is one branch, or the first and the last of a
    range.
    """
    if branch is None:
        return False
    for group in listed:
        ends = [match for match in map(_BRANCH.match, group) if match]
        if ends and ends[0][1] == branch[1] and int(ends[0][2]) <= int(branch[2]) <= int(ends[-1][2]):
            return True
    return False
