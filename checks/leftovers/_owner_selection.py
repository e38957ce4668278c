"""What --user and --job mean to a check of things that dead processes left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from npudoctor import Host, Skip, _
from npudoctor.facts.leftovers.owners import selected_owner

if TYPE_CHECKING:
    from npudoctor.proof.leftovers import Leftovers


def select_owner(host: Host) -> Callable[..., bool]:
    """Return a function that says whether one of its uids is selected by --user. Raises Skip with --job,
    because nothing that a dead process left names a job."""
    if host.options.only_job is not None:
        raise Skip(_("leftovers of dead processes carry no Slurm job ID: select by --user"))
    owner = selected_owner(host)
    return lambda *uids: owner is None or owner in uids


def select_leftovers(leftovers: Leftovers, selected: Callable[..., bool]) -> Leftovers:
    """Return the leftovers of the selected owners. Everything was judged before, because the evidence for one
    object may belong to another owner."""
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.proof.leftovers import Leftovers

    return Leftovers(
        orphans=tuple(item for item in leftovers.orphans if selected(item.segment.uid, item.segment.cuid)),
        attached=tuple(item for item in leftovers.attached if selected(item.segment.uid, item.segment.cuid)),
        unproven_segments=tuple(
            item for item in leftovers.unproven_segments if selected(item.segment.uid, item.segment.cuid)
        ),
        sockets=tuple(item for item in leftovers.sockets if selected(item.file.entry.uid)),
        displaced=tuple(item for item in leftovers.displaced if selected(item.entry.uid)),
        unproven_sockets=tuple(item for item in leftovers.unproven_sockets if selected(item.file.entry.uid)),
        spills=tuple(item for item in leftovers.spills if selected(item.folder.entry.uid)),
        unproven_spills=tuple(item for item in leftovers.unproven_spills if selected(item.log.entry.uid)),
        unlogged=tuple(item for item in leftovers.unlogged if selected(item.entry.uid)),
        passed=tuple(item for item in leftovers.passed if selected(item.uid)),
    )
