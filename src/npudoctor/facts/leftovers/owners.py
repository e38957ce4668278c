"""Whose leftovers are asked for: everybody's, or by --user only one owner's."""

from __future__ import annotations

from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.messages import _
from npudoctor.host.host import Host
from npudoctor.host.users.accounts import user_names
from npudoctor.host.users.identity import user_id


def selected_owner(host: Host) -> Optional[int]:
    """The uid of --user; None when everybody is meant."""
    name = host.options.only_user
    if name is None:
        return None
    named = next((uid for uid, known in user_names(host.files).items() if known == name), None)
    uid = user_id(name) if named is None else named
    if uid is None:
        raise CannotTell(_("user {name} does not exist", name=name))
    return uid
