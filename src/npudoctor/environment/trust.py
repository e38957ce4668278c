"""Whether a script may be run to learn what it sets: only what nobody but root and we could have written."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from npudoctor.facts.cann.installations import Install
from npudoctor.host import CannotTell, Host

# Where its programs lie, which its scripts may start by their paths.
PROGRAMS = ("bin", "script", "tools")


def is_trusted(host: Host, path: str) -> bool:
    """Whether the file and every folder and link on the way to it are root's or ours, and nobody else may
    write to them; where we are root, root's."""
    if host.identity.is_root:
        return host.commands.trusted(path)
    owners = {0, host.identity.euid}
    try:
        way = host.files.way(path)
    except (CannotTell, ValueError):
        return False
    return bool(way) and all(
        entry.uid in owners
        and (entry.is_link or (entry.is_dir and entry.sticky) or not entry.permissions & 0o022)
        for entry in way
    )


def is_trusted_tree(host: Host, install: Install) -> bool:
    """The same of the folders with the programs of an installation; for root, of all that they hold."""
    may_look_in = host.commands.may_load_from if host.identity.is_root else partial(is_trusted, host)
    try:
        return all(map(may_look_in, _folders(host, install)))
    except CannotTell:
        return False


def _folders(host: Host, install: Install) -> Iterator[str]:
    for top in dict.fromkeys((install.path, install.real)):
        yield top
        for name in host.files.names(top):
            for place in (f"{top}/{name}", *(f"{top}/{name}/{part}" for part in PROGRAMS)):
                entry = host.files.stat(place)
                if entry is not None and entry.is_dir:
                    yield place
