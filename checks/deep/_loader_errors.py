"""What the loader says of a shared library that an import could not load."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Callable, Optional

from npudoctor import Fix, Host, _
from npudoctor.checks.deep import _remedies as remedies
from npudoctor.checks.deep._cause_words import Cause, distinct_words, user_of
from npudoctor.core.lazy import pattern
from npudoctor.facts.job.tracebacks import Raised
from npudoctor.facts.python.owners import FileOwner, owner_of, owner_of_library, path_of
from npudoctor.host import CannotTell

# Texts of glibc's dlerror() (elf/dl-load.c, dl-lookup.c, dl-version.c): "LIBRARY: TEXT: ERRNO".
_NOT_OPENED = pattern(r"(?P<library>\S+): cannot open shared object file: (?P<why>.+)")
# A symbol that no loaded library defines (elf/dl-lookup.c): the library was linked against another release.
_SYMBOL = pattern(r"(?P<library>\S+): undefined symbol: (?P<symbol>[^\s,]+)(?:, version (?P<version>\S+))?")
# A symbol version that the found library lacks (elf/dl-version.c), as GLIBCXX_3.4.30 of libstdc++.
_VERSION = pattern(
    r"(?P<library>\S+): version .(?P<version>[\w.+-]+). not found \(required by (?P<by>[^)]+)\)"
)
# The file is no valid ELF file: a Git LFS pointer, an interrupted copy, zeros after a crash.
_BROKEN = pattern(
    r"(?P<library>\S+): (?P<why>file too short|invalid ELF header|cannot read file data.*|ELF load command.*"
    r"|ELF file's .*|object file has no .*|only ET_DYN and ET_EXEC can be loaded|internal error.*)"
)
# A file for another processor or word size that was opened by its path; in a search it is skipped.
_CLASS = pattern(r"(?P<library>\S+): (?P<why>wrong ELF class: \w+|ELF file machine .*)")
# A library with the initial-exec TLS model takes room of a block that glibc reserves at program start.
_TLS = pattern(r"(?P<library>\S+): cannot allocate memory in static TLS block")
# Seen on noexec mounts and under SELinux; glibc 2.41 refuses an executable stack at dlopen().
_MAPPED = pattern(
    r"(?P<library>\S+): (?:failed to map segment from shared object"
    r"|cannot change memory protections|cannot enable executable stack[^:]*)(?:: (?P<why>.+))?"
)
# Every other text of dlerror(): the cause is then vague.
_ANY = pattern(r"(?P<library>\S+\.so[\w.]*): (?P<why>.+)")


def explain_library(host: Host, raised: Raised) -> Optional[Cause]:
    """Return the cause if the exception carries a message of the dynamic loader; None otherwise."""
    if not raised.is_a("ImportError", "OSError", "RuntimeError"):
        return None
    for message_pattern, explain in _EXPLAINERS:
        match = message_pattern.search(raised.message)
        if match is not None:
            library = match["by" if "by" in message_pattern.groupindex else "library"]
            owner = owner_of(host, library) if library.startswith("/") else owner_of_library(host, library)
            return explain(host, raised, match, owner)
    return None


def _label_file(library: str, owner: Optional[FileOwner]) -> str:
    return _("{path} of {package}", path=library, package=owner.label) if owner else library


def _about(library: str, owner: Optional[FileOwner]) -> tuple[str, ...]:
    name = library.rpartition("/")[2]
    words: tuple[str, ...] = distinct_words(library, name, owner.distribution.name if owner else "")
    return words


def _library_cause(
    raised: Raised, text: str, library: str, owner: Optional[FileOwner], fix: Optional[Fix] = None
) -> Cause:
    label = owner.label if owner else None
    return Cause(text, raised, _about(library, owner), fix, owner=label)


def _reinstall(host: Host, owner: Optional[FileOwner]) -> Optional[Fix]:
    fix: Optional[Fix] = remedies.reinstall(host, owner.distribution) if owner else None
    return fix


def _explain_not_opened(
    host: Host, raised: Raised, match: re.Match[str], owner: Optional[FileOwner]
) -> Cause:
    library, why = match["library"], match["why"].strip()
    consumer = owner_of(host, raised.path)
    user = consumer.label if consumer else user_of(host, raised)[0]
    if raised.path and raised.path != library:
        user = f"{user} ({raised.path})"
    entry = host.files.stat(path_of(owner)) if owner else None
    if not why.startswith("No such file"):
        text = _("{file} cannot be opened: {why}", file=_label_file(library, owner), why=why)
        return _library_cause(raised, text, library, owner)
    if owner is None:
        text = _("{user} needs the library {library}, which is not found", library=library, user=user)
        return Cause(text, raised, _about(library, None), vague=True)
    if entry is not None:
        # The library exists. The loader skips a file for another machine and reports it as not found.
        path, machine, own_machine = path_of(owner), None, host.interpreter.layout().machine
        with suppress(CannotTell):
            library_file = host.libraries.read(path)
            machine = library_file.machine if library_file else None
        if machine and own_machine and machine != own_machine:
            message = _(
                "{file} was built for {machine}, but this machine is {here}",
                file=_label_file(path, owner),
                machine=machine,
                here=own_machine,
            )
            return _library_cause(raised, message, path, owner, _reinstall(host, owner))
        message = _(
            "the loader does not search {folder} of {package}, where {library} is",
            library=library,
            folder=path.rpartition("/")[0],
            package=owner.label,
        )
        fix = remedies.manual_fix(
            _("run ldd on the file that needs it; reinstall {package}", package=owner.label)
        )
        return _library_cause(raised, message, path, owner, fix)
    text = _(
        "{path} of {package} is missing; {user} needs it",
        path=path_of(owner),
        package=owner.label,
        user=user,
    )
    return _library_cause(raised, text, library, owner, _reinstall(host, owner))


def _explain_symbol(_host: Host, raised: Raised, match: re.Match[str], owner: Optional[FileOwner]) -> Cause:
    library = match["library"]
    return _library_cause(
        raised,
        _(
            "{file} needs the symbol {symbol}, which no loaded library has: it was built for another release",
            file=_label_file(library, owner),
            symbol=match["symbol"],
        ),
        library,
        owner,
    )


def _explain_version(_host: Host, raised: Raised, match: re.Match[str], owner: Optional[FileOwner]) -> Cause:
    by, library = match["by"], match["library"]
    text = _(
        "{file} needs {version} from {library}, which is too old",
        file=_label_file(by, owner),
        version=match["version"],
        library=library,
    )
    words = distinct_words(match["version"], library.rpartition("/")[2], *_about(by, owner))
    return Cause(text, raised, words, owner=owner.label if owner else None)


def _explain_damage(host: Host, raised: Raised, match: re.Match[str], owner: Optional[FileOwner]) -> Cause:
    library = match["library"]
    text = _("{file} is damaged: {why}", file=_label_file(library, owner), why=match["why"])
    return _library_cause(raised, text, library, owner, _reinstall(host, owner))


def _explain_class(host: Host, raised: Raised, match: re.Match[str], owner: Optional[FileOwner]) -> Cause:
    library = match["library"]
    text = _(
        "{file} was built for another processor or word size: {why}",
        file=_label_file(library, owner),
        why=match["why"],
    )
    return _library_cause(raised, text, library, owner, _reinstall(host, owner))


def _explain_tls(_host: Host, raised: Raised, match: re.Match[str], owner: Optional[FileOwner]) -> Cause:
    library = match["library"]
    text = _(
        "the static TLS block has no room for the thread-local data of {file}",
        file=_label_file(library, owner),
    )
    return Cause(text, raised, ("static TLS", *_about(library, owner)))


def _explain_mapping(_host: Host, raised: Raised, match: re.Match[str], owner: Optional[FileOwner]) -> Cause:
    library = match["library"]
    error = match[0].partition(": ")[2]
    text = _("{file} cannot be mapped as executable: {error}", file=_label_file(library, owner), error=error)
    fix = None
    # EPERM is what mmap(PROT_EXEC) returns on a mount with noexec (mmap(2)).
    if library.startswith("/") and (match["why"] or "").startswith("Operation not permitted"):
        fix = remedies.manual_fix(
            _(
                "check whether {folder} is mounted with noexec: findmnt -T {folder} -o TARGET,OPTIONS",
                folder=library.rpartition("/")[0],
            )
        )
    return _library_cause(raised, text, library, owner, fix)


def _explain_other(_host: Host, raised: Raised, match: re.Match[str], owner: Optional[FileOwner]) -> Cause:
    library = match["library"]
    text = _("{file} cannot be loaded: {why}", file=_label_file(library, owner), why=match["why"])
    return Cause(text, raised, _about(library, owner), vague=True, owner=owner.label if owner else None)


# Each text of the loader and the function that explains it; the first that matches counts.
_EXPLAINERS: tuple[
    tuple[re.Pattern[str], Callable[[Host, Raised, re.Match[str], Optional[FileOwner]], Cause]], ...
] = (
    (_SYMBOL, _explain_symbol),
    (_VERSION, _explain_version),
    (_CLASS, _explain_class),
    (_BROKEN, _explain_damage),
    (_TLS, _explain_tls),
    (_MAPPED, _explain_mapping),
    (_NOT_OPENED, _explain_not_opened),
    (_ANY, _explain_other),
)
