"""Entries of LD_LIBRARY_PATH that are no absolute paths: how the loader takes them, and what was meant."""

from __future__ import annotations

from npudoctor import Host, _
from npudoctor.core.errors import CannotTell
from npudoctor.facts.job.working_directory import job_user, working_directory
from npudoctor.host.fs.access import nearest

EVERYBODY = 0o002


def by_kind(entries: list[str]) -> dict[str, list[str]]:
    """Those that are relative, each once: empty ones, relative ones, and those with a ~."""
    kinds: dict[str, list[str]] = {}
    for entry in dict.fromkeys(entries):
        if not entry.startswith(("/", "$")):
            kind = "empty" if entry in ("", ".") else "tilde" if entry.startswith("~") else "relative"
            kinds.setdefault(kind, []).append(entry)
    return kinds


def words(kind: str) -> tuple[str, str, str]:
    """What is said where it is only there, where a library is taken from it, and where everybody may put
    one there."""
    if kind == "empty":
        return (
            _("LD_LIBRARY_PATH has an empty entry, which is the working directory"),
            _("{names} is taken from the working directory: LD_LIBRARY_PATH has an empty entry"),
            _("LD_LIBRARY_PATH has an empty entry, and everybody can write to the working directory {here}"),
        )
    if kind == "relative":
        return (
            _("LD_LIBRARY_PATH has the relative entry {entries}, which is below the working directory"),
            _("{names} is taken from below the working directory: LD_LIBRARY_PATH has the entry {entries}"),
            _(
                "LD_LIBRARY_PATH has the relative entry {entries}: it is below {here}, where "
                "everybody can write"
            ),
        )
    return (
        _("LD_LIBRARY_PATH has the entry {entries}: the loader does not know ~, and no shell expanded it"),
        _("{names} is taken from a folder that is named ~: LD_LIBRARY_PATH has the entry {entries}"),
        _("LD_LIBRARY_PATH has the entry {entries}: ~ is a folder in {here}, where everybody can write"),
    )


def meant(host: Host, entry: str) -> str:
    """A ~ that no shell filled in is the home of the job's user; a relative folder that is there from where
    the job is started is that folder. An empty entry was hardly meant."""
    if entry == "~" or entry.startswith("~/"):
        return f"{job_user(host).home.rstrip('/')}{entry[1:]}"
    here = working_directory(host)
    if entry in ("", ".") or entry.startswith(("/", "$", "~")) or here is None:
        return entry
    return host.files.real(f"{here}/{entry}") or entry


def open_to_all(host: Host, folder: str) -> bool:
    """Whether everybody may put a library there, or make the folder that is not there."""
    try:
        entry = nearest(host.files, folder).entry
    except CannotTell:
        return False
    return bool(entry.permissions & EVERYBODY)
