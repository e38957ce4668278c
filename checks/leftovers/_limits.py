"""What --user and --job mean to a check of things that dead processes left."""

from __future__ import annotations

from typing import Callable

from npudoctor import Host, Skip, _
from npudoctor.host.owners import wanted_owner


def limited(host: Host) -> Callable[..., bool]:
    """Whether something with these uids is asked for; Skip where one job is: nothing here names a job."""
    if host.options.only_job is not None:
        raise Skip(_("what dead processes left names no Slurm job: limit it by --user"))
    owner = wanted_owner(host)
    return lambda *uids: owner is None or owner in uids
