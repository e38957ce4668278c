"""Who runs npudoctor, and what the machine calls its users."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Optional

from npudoctor.core.frozen import dataclass

if TYPE_CHECKING:
    from npudoctor.host.fs.files import PathStatus


@dataclass(frozen=True)
class Identity:
    """The rights of this run. `owners`: uids that root named by --owner, whose things it may remove.

    `groups`: all groups that it is in.
    """

    euid: int
    user: str
    home: str
    owners: frozenset[int] = frozenset()
    groups: frozenset[int] = frozenset()

    @property
    def is_root(self) -> bool:
        return self.euid == 0

    def may_remove(self, uid: int) -> bool:
        """Whether a thing of this owner is ours to remove, once it is proven dead."""
        return uid == self.euid or (self.is_root and uid in self.owners)

    def may_write(self, entry: PathStatus) -> bool:
        """Whether the mode of a file or folder lets this user write it; access lists are not seen."""
        bits = 0o3 if entry.is_dir else 0o2
        return self.is_root or entry.mode >> self._shift(entry) & bits == bits

    def kept_from(self, entry: PathStatus, bit: int) -> bool:
        """Whether the mode surely keeps this user from reading (4) or entering (1); where the bits of the
        group may be the mask of an access list, nothing is sure."""
        if self.is_root:
            return False
        shift = self._shift(entry)
        listed = shift != 6 and entry.mode >> 3 & bit == bit
        return not listed and entry.mode >> shift & bit != bit

    def _shift(self, entry: PathStatus) -> int:
        """Where in a mode the bits for this user are: the owner's, the group's, or everybody's."""
        return 6 if entry.uid == self.euid else 3 if entry.gid in self.groups else 0


@dataclass(frozen=True)
class Account:
    """A user as a process becomes him. `groups`: all groups that he is in."""

    name: str
    uid: int
    gid: int
    home: str
    groups: tuple[int, ...] = ()


def current_identity(owners: frozenset[int] = frozenset()) -> Identity:
    """The effective user of this process; "/" is the home where neither HOME nor the machine names one."""
    euid = os.geteuid()
    groups = frozenset((os.getegid(), *os.getgroups()))
    home = os.path.expanduser("~")  # which a uid without a name and a relative HOME leave as it is
    return Identity(euid, user_name(euid), home if home.startswith("/") else "/", owners, groups)


def user_name(uid: int) -> str:
    """The name of a user, or the number where the machine has no name for it."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def account_of(user: str) -> Optional[Account]:
    """The account of a user, by name or as a number; None when the machine knows no such user."""
    import pwd

    try:
        entry = pwd.getpwuid(int(user)) if user.isascii() and user.isdecimal() else pwd.getpwnam(user)
    except (KeyError, OverflowError, ValueError):  # a null byte is no part of a name
        return None
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir, groups)


def user_id(name: str) -> Optional[int]:
    """The uid of a user, by name or as a number; None when the machine knows no such user."""
    import pwd

    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return int(name) if name.isascii() and name.isdecimal() else None
