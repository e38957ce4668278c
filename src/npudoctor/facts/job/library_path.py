"""Entries of LD_LIBRARY_PATH that are not absolute paths: how the loader reads them, what was intended."""

from __future__ import annotations

from collections.abc import Sequence

from npudoctor.facts.job.working_directory import job_user, working_directory
from npudoctor.host import CannotTell, Host
from npudoctor.host.users.access import nearest_folder

# The write bit of others.
EVERYBODY = 0o002


def relative_entries(entries: Sequence[str]) -> dict[str, list[str]]:
    """The entries that are not absolute, each once, by kind: "empty" (also "."), "tilde" and "relative"."""
    kinds: dict[str, list[str]] = {}
    for entry in dict.fromkeys(entries):
        if not entry.startswith(("/", "$")):
            kind = "empty" if entry in ("", ".") else "tilde" if entry.startswith("~") else "relative"
            kinds.setdefault(kind, []).append(entry)
    return kinds


def intended_folder(host: Host, entry: str) -> str:
    """The folder that an entry probably stands for; the entry itself where none is known.

    A ~ that no shell expanded is the home of the job's user; a relative folder that exists where the job is
    started is that folder. An empty entry was hardly intended.
    """
    if entry == "~" or entry.startswith("~/"):
        return f"{job_user(host).home.rstrip('/')}{entry[1:]}"
    # The loader searches an empty or relative entry below the working directory of the process (ld.so(8)).
    here = working_directory(host)
    if entry in ("", ".") or entry.startswith(("/", "$", "~")) or here is None:
        return entry
    return host.files.real(f"{here}/{entry}") or entry


def is_open_to_all(host: Host, folder: str) -> bool:
    """Whether everybody may put a library into the folder, or create the folder where it is missing."""
    try:
        entry = nearest_folder(host.files, folder).entry
    except CannotTell:
        return False
    return bool(entry.permissions & EVERYBODY)
