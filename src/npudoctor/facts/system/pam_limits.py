"""What limits.conf and limits.d give to the sessions that PAM opens from now on: limits.conf(5)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.host.fs.files import Files

CONF, FOLDER = "/etc/security/limits.conf", "/etc/security/limits.d"
# openSUSE keeps its defaults in the second folder.
STACKS = ("/etc/pam.d", "/usr/lib/pam.d")
# Services that start no session of a job.
NO_LOGIN = ("atd", "cron", "crond", "runuser", "runuser-l", "su", "su-l", "sudo", "sudo-i")
UNLIMITED = 1 << 62


@dataclass(frozen=True)
class PamLimit:
    """A soft and a hard limit, each None where nothing sets it; `path`: the file that sets the soft one."""

    soft: Optional[int] = None
    hard: Optional[int] = None
    path: str = ""


def read_sources(files: Files) -> dict[str, str]:
    """The texts of the files that pam_limits reads, by path."""
    paths = [CONF, *(f"{FOLDER}/{name}" for name in files.names(FOLDER) if name.endswith(".conf"))]
    texts = ((path, files.text(path)) for path in paths)
    return {path: text for path, text in texts if text is not None}


def pam_limit(texts: Mapping[str, str], item: str, user: str, groups: Collection[str] = ()) -> PamLimit:
    """The limit that a session of this user gets for an item. The narrowest domain counts; of equal ones the
    last.

    The star and groups are for everybody but root. Ranges of ids are not supported, and match nobody.
    """
    narrowest: dict[str, tuple[int, int, str]] = {}
    # pam_limits reads limits.conf first, then limits.d in the order of the C locale.
    for path in sorted(texts, key=lambda path: (path != CONF, path)):
        for line in texts[path].splitlines():
            words = line.partition("#")[0].split()
            # pam_limits ignores lines of another form.
            if len(words) != 4 or words[2] != item or words[1] not in ("soft", "hard", "-"):
                continue
            domain, kind, _item, text = words
            if text in ("unlimited", "infinity", "-1"):
                value = UNLIMITED
            elif text.isascii() and text.isdigit():
                value = int(text)
            else:
                continue
            rank = _rank(domain, user, groups)
            if rank is None:
                continue
            for limit in ("soft", "hard") if kind == "-" else (kind,):
                if limit not in narrowest or rank <= narrowest[limit][0]:
                    narrowest[limit] = (rank, value, path)
    soft, hard = narrowest.get("soft"), narrowest.get("hard")
    return PamLimit(soft and soft[1], hard and hard[1], soft[2] if soft else "")


def _rank(domain: str, user: str, groups: Collection[str]) -> Optional[int]:
    """How narrowly a domain matches the user, 0 being the narrowest; None when it does not match."""
    if domain == user:
        return 0
    # limits.conf(5): group and wildcard limits are not applied to the root user.
    if user == "root":
        return None
    if domain.startswith("@"):
        return 1 if domain[1:] in groups else None
    return 2 if domain == "*" else None


def do_logins_apply_limits(files: Files) -> bool:
    """Return whether a service by which one logs in has pam_limits in its stack."""
    for folder in STACKS:
        for name in files.names(folder):
            if name in NO_LOGIN:
                continue
            lines = (files.text(f"{folder}/{name}") or "").splitlines()
            if any("pam_limits.so" in line.partition("#")[0] for line in lines):
                return True
    return False
