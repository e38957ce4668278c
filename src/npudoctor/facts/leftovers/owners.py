"""Whose leftovers are asked for: everybody's, or by --user only one owner's."""

from __future__ import annotations

from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.messages import _
from npudoctor.host.host import Host
from npudoctor.host.users.accounts import user_names
from npudoctor.host.users.identity import user_id


def selected_owner(host: Host) -> Optional[int]:
    """The uid of --user; None when everybody's leftovers are meant. CannotTell for a user who does
    not exist.
    """
    name = host.options.only_user
    if name is None:
        return None
    listed_uid = next((uid for uid, user_name in user_names(host.files).items() if user_name == name), None)
    # /etc/passwd of the examined machine or image first; then the system, which may ask LDAP.
    uid = user_id(name) if listed_uid is None else listed_uid
    if uid is None:
        raise CannotTell(_("user {name} does not exist", name=name))
    return uid
