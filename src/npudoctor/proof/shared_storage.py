"""Whether what lies at a place may be used from other machines, whose processes nobody sees here.

Neither /proc nor a lease knows of those: of a file that a client of NFS has open, its server knows
nothing (version 3), and another client less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _
from npudoctor.core.mounts import MOUNTINFO, Mount, mount_of, parse_mountinfo
from npudoctor.facts.leftovers.sessions import KERNEL
from npudoctor.host import CannotTell, Host

# Of one machine at a time; what is not known may be of many.
OWN = frozenset("bcachefs btrfs ext2 ext3 ext4 f2fs overlay ramfs tmpfs xfs zfs".split())
EXPORTS = "/var/lib/nfs/etab"  # what the kernel's server gives to whom, as exportfs keeps it
# exportfs escapes blanks as mount(8) does.
_OCTAL = pattern(r"\\([0-7]{3})")


def why_shared(host: Host, path: str) -> str:
    """Why a place (an absolute path free of links) may be used from other machines; "" when it is not."""
    mounts = parse_mountinfo(host.running_files.text(MOUNTINFO) or "")
    mount = mount_of(mounts, path)
    if mount is None or mount.kind not in OWN:
        return _(
            "{path} is on {kind}, which other machines may use", path=path, kind=mount.kind if mount else "?"
        )
    try:
        exported = next(
            (point for point in _find_exports(host) if _is_exported_with(host, path, point, mounts)), None
        )
    except CannotTell as error:
        return error.reason
    return "" if exported is None else _("{path} is exported to other machines over NFS", path=exported)


def _find_exports(host: Host) -> Iterator[str]:
    """Yield what this machine exports by NFS; CannotTell where that is unknown."""
    servers = {
        process.name
        for process in host.processes.by_pid().values()
        if (process.name == "nfsd" and process.parent == KERNEL) or process.name.startswith("ganesha")
    }
    if not servers:
        return
    # Ganesha has a configuration of its own, which includes other files.
    text = host.running_files.text(EXPORTS) if servers == {"nfsd"} else None
    if text is None:
        raise CannotTell(_("could not determine what this machine exports over NFS"))
    for line in text.split("\n"):
        if line.strip():
            yield _OCTAL.sub(lambda match: chr(int(match[1], 8)), line.split()[0].strip('"'))


def _is_exported_with(host: Host, path: str, point: str, mounts: Mapping[str, Mount]) -> bool:
    """Return whether a place is exported with what lies at `point`, by its path or by another mount of it."""
    if f"{path}/".startswith(f"{point.rstrip('/')}/"):
        return True
    if point not in mounts or point == "/":
        return False
    there, here = host.running_files.stat(point), host.running_files.stat(path)
    return there is None or here is None or there.dev == here.dev
