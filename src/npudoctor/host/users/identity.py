"""Who runs npudoctor, and the accounts of users as the system resolves them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Optional

from npudoctor.core.frozen import dataclass

if TYPE_CHECKING:
    from npudoctor.host.fs.files import PathStatus


@dataclass(frozen=True)
class Identity:
    """The user of this run. `owners`: uids that root named by --owner, whose leftovers it may remove.

    `groups`: the gids of all groups that the process is in.
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
        """Whether this run may remove a leftover of this owner, once it is proven stale."""
        return uid == self.euid or (self.is_root and uid in self.owners)

    def may_write(self, entry: PathStatus) -> bool:
        """Whether the mode of a file or folder lets this user write to it; ACLs are not considered."""
        # Entries of a folder can be made only with the right to search it (x), too.
        bits = 0o3 if entry.is_dir else 0o2
        return self.is_root or entry.mode >> self._shift(entry) & bits == bits

    def is_denied(self, entry: PathStatus, bit: int) -> bool:
        """Whether the mode certainly denies this user reading (`bit` 4) or entering (1).

        A group bit that is set may be the mask of an ACL that allows this user: then False.
        """
        if self.is_root:
            return False
        shift = self._shift(entry)
        may_be_acl_mask = shift != 6 and entry.mode >> 3 & bit == bit
        return not may_be_acl_mask and entry.mode >> shift & bit != bit

    def _shift(self, entry: PathStatus) -> int:
        """By how much to shift a mode for the bits of this user: the owner's, the group's or the others'."""
        return 6 if entry.uid == self.euid else 3 if entry.gid in self.groups else 0


@dataclass(frozen=True)
class Account:
    """A user account, with all that a process needs to become this user. `groups`: all gids."""

    name: str
    uid: int
    gid: int
    home: str
    groups: tuple[int, ...] = ()


def current_identity(owners: frozenset[int] = frozenset()) -> Identity:
    """The effective user of this process; the home is "/" if neither HOME nor the account has one."""
    euid = os.geteuid()
    groups = frozenset((os.getegid(), *os.getgroups()))
    home = os.path.expanduser("~")  # stays "~" for a uid without an account, and may be relative by HOME
    return Identity(euid, user_name(euid), home if home.startswith("/") else "/", owners, groups)


def user_name(uid: int) -> str:
    """The name of a user, or the number if it has none."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def account_of(user: str) -> Optional[Account]:
    """The account of a user, by name or number; None if there is no such user."""
    import pwd

    try:
        entry = pwd.getpwuid(int(user)) if user.isascii() and user.isdecimal() else pwd.getpwnam(user)
    except (KeyError, OverflowError, ValueError):  # ValueError: a NUL in the name
        return None
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir, groups)


def user_id(name: str) -> Optional[int]:
    """The uid of a user, by name or number, whether or not a number has an account; None for other texts."""
    import pwd

    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return int(name) if name.isascii() and name.isdecimal() else None
