"""Where a job is started, and what Python would find there before what is installed."""

from __future__ import annotations

import posixpath
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.messages import _
from npudoctor.host.fs.files import Files
from npudoctor.host.host import Host
from npudoctor.host.libraries.needs import split_path
from npudoctor.host.users.accounts import home_of
from npudoctor.host.users.identity import Identity, user_name


def working_directory(host: Host) -> Optional[str]:
    """The working directory of the caller, or of the process that is examined, without links; None where it
    was removed.
    """
    return host.running_files.real(f"/proc/{host.options.env_of or 'self'}/cwd")


def job_user(host: Host) -> Identity:
    """Who runs the job: the caller, or the user of the process that is examined, with its HOME."""
    return host.once("user of the job", lambda: _job_user(host)) if host.options.env_of else host.identity


def foreign_user(host: Host) -> Optional[Identity]:
    """The user who runs the job where that is not us: what we may do, that user may not, so modes must tell.
    None where it is us.
    """
    who = job_user(host)
    return who if who.euid != host.identity.euid else None


def _job_user(host: Host) -> Identity:
    pid = host.options.env_of
    ids: dict[str, list[int]] = {"Uid": [], "Gid": [], "Groups": []}
    for line in (host.running_files.text(f"/proc/{pid}/status") or "").split("\n"):
        name, _colon, rest = line.partition(":")
        if name in ids:
            ids[name] = [int(word) for word in rest.split()]
    if len(ids["Uid"]) < 2 or len(ids["Gid"]) < 2:
        raise CannotTell(_("process {pid} does not exist", pid=pid))
    # proc(5): real, effective, saved set, file system; the second one decides.
    uid = ids["Uid"][1]
    groups = frozenset((ids["Gid"][1], *ids["Groups"]))
    value = host.variables.get("HOME", "")
    # Programs follow HOME where it is set; else the list of users.
    home = value if value.startswith("/") else home_of(host.files, uid) or "/"
    return Identity(uid, user_name(uid), home, frozenset(), groups)


def module_file(files: Files, folder: str, name: str) -> Optional[str]:
    """The file that `import name` would load from a folder; None when it would look further.

    A folder without __init__.py does not count: an installed package behind it wins. Neither does one that
    this user may not enter: Python skips it.
    """
    for path in (f"{folder}/{name}/__init__.py", f"{folder}/{name}.py"):
        try:
            entry = files.stat(path)
        except CannotTell as error:
            if not isinstance(error.__cause__, PermissionError):
                raise
            continue
        if entry is not None and entry.is_file:
            return path
    return None


def pythonpath(entries: list[str], here: Optional[str]) -> list[str]:
    """The folders that PYTHONPATH names; an empty or a relative entry is below the working directory
    `here`.
    """
    folders = []
    for entry in entries:
        if entry.startswith("/"):
            folders.append(entry)
        elif here is not None:
            folders.append(posixpath.normpath(f"{here}/{entry}"))
    return folders


def absolute_search_paths(host: Host) -> dict[str, str]:
    """PYTHONPATH and LD_LIBRARY_PATH with relative entries made absolute, so that they mean the same in a
    program that changes its directory.

    Only variables that change; empty where none does, or the working directory was removed.
    """
    here = working_directory(host)
    changed: dict[str, str] = {}
    if here is None:
        return changed
    for name, separators in (("PYTHONPATH", ":"), ("LD_LIBRARY_PATH", ":;")):
        value = host.variables.get(name, "")
        entries = split_path(value, separators)
        # $ORIGIN and the like are the loader's to expand.
        if any(entry[:1] not in ("/", "$") for entry in entries):
            changed[name] = ":".join(
                entry if entry[:1] in ("/", "$") else posixpath.join(here, entry) if entry else here
                for entry in entries
            )
    return changed
