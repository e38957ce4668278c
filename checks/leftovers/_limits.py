"""What --user and --job mean to a check of things that dead processes left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from npudoctor import Host, Skip, _
from npudoctor.facts.leftovers.owners import selected_owner

if TYPE_CHECKING:
    from npudoctor.proof.leftovers import Leftovers


def limited(host: Host) -> Callable[..., bool]:
    """Whether something with these uids is asked for; Skip where one job is: nothing here names a job."""
    if host.options.only_job is not None:
        raise Skip(_("what dead processes left names no Slurm job: limit it by --user"))
    owner = selected_owner(host)
    return lambda *uids: owner is None or owner in uids


def of_owner(seen: Leftovers, wanted: Callable[..., bool]) -> Leftovers:
    """What cache servers left, of those who are asked for: everything was judged, as one proves the other."""
    from npudoctor.proof.leftovers import Leftovers

    return Leftovers(
        orphans=tuple(one for one in seen.orphans if wanted(one.segment.uid, one.segment.cuid)),
        attached=tuple(one for one in seen.attached if wanted(one.segment.uid, one.segment.cuid)),
        unproven_segments=tuple(
            one for one in seen.unproven_segments if wanted(one.segment.uid, one.segment.cuid)
        ),
        sockets=tuple(one for one in seen.sockets if wanted(one.file.entry.uid)),
        displaced=tuple(one for one in seen.displaced if wanted(one.entry.uid)),
        unproven_sockets=tuple(one for one in seen.unproven_sockets if wanted(one.file.entry.uid)),
        spills=tuple(one for one in seen.spills if wanted(one.folder.entry.uid)),
        unproven_spills=tuple(one for one in seen.unproven_spills if wanted(one.log.entry.uid)),
        unlogged=tuple(one for one in seen.unlogged if wanted(one.entry.uid)),
        passed=tuple(one for one in seen.passed if wanted(one.uid)),
    )
