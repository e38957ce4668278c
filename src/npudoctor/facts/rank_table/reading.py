"""The rank table that a job names: where it is, and what is in it once it is there and completed."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _, strerror
from npudoctor.facts.job.working_directory import working_directory
from npudoctor.host.fs.files import Files
from npudoctor.host.host import Host

VARIABLE = "RANK_TABLE_FILE"
OLDER = "MINDSPORE_HCCL_CONFIG_PATH"  # MindSpore 1.x looks here first
LIMIT = 32 << 20  # some hundred thousand ranks
LOOK_SECONDS = 1.0

MISSING, UNREADABLE, NOT_JSON, TOO_LARGE = "missing", "unreadable", "not-json", "too-large"


@dataclass(frozen=True)
class RankTableFile:
    """One look at the file. `fault`: why it is no table: one of the four words above, with `why`; else "".

    `link`: the path names a symbolic link. `more`: something follows the table. `digest`: SHA-256 of its
    bytes, in hex; "" where it is no table.
    """

    table: Mapping[str, object]
    fault: str = ""
    why: str = ""
    link: bool = False
    more: bool = False
    digest: str = ""

    @property
    def initializing(self) -> bool:
        """Whether the file says that it is still being written."""
        return self.table.get("status") == "initializing"


def named_path(host: Host, variable: str) -> Optional[str]:
    """The absolute path that a variable names; None when it is not set.

    CannotTell for a relative one where the working directory is gone.
    """
    value = host.variables.get(variable, "")
    if not value or value.startswith("/"):
        return value or None
    folder = working_directory(host)
    if folder is None:
        raise CannotTell(_("the working directory is gone: {path} cannot be found", path=value))
    return f"{folder.rstrip('/')}/{value}"


def wait_for_table(host: Host, path: str) -> RankTableFile:
    """Read the file until it is a completed table, at most for as long as the user said (--wait)."""
    until = host.clock.monotonic() + host.options.wait
    table_file = read_table(host, path)
    while (
        table_file.initializing or table_file.fault in (MISSING, NOT_JSON)
    ) and host.clock.monotonic() < until:
        host.clock.wait_until(min(until, host.clock.monotonic() + LOOK_SECONDS))
        table_file = read_table(host, path)
    return table_file


def read_table(host: Host, path: str) -> RankTableFile:
    """The file as it is now, read without any cache."""
    # Not host.files: that remembers what it has read.
    files = Files(host.disk)
    try:
        entry = files.stat(path)
        if entry is None:
            return RankTableFile({}, MISSING)
        if not entry.is_file:
            return RankTableFile({}, UNREADABLE, _("it is not a regular file"))
        content = files.read(path, LIMIT + 1)
    except CannotTell as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in (errno.EACCES, errno.EPERM):
            return RankTableFile({}, UNREADABLE, strerror(error.__cause__.errno))
        raise
    # Removed since it was looked at.
    if content is None:
        return RankTableFile({}, MISSING)
    if len(content) > LIMIT:
        return RankTableFile(
            {}, TOO_LARGE, _("{path} is larger than {count} MiB", path=path, count=LIMIT >> 20)
        )
    # torch_npu refuses a rank table that is a symbolic link.
    path_entry = files.lstat(path)
    return parse_table(content, link=path_entry is not None and path_entry.is_link)


def parse_table(content: bytes, link: bool = False) -> RankTableFile:
    """What the bytes of a table say, as HCCL's own parser reads them: UTF-8 with or without a byte order
    mark.
    """
    try:
        text = content.decode("utf-8-sig").lstrip(" \t\r\n")
    except UnicodeDecodeError as error:
        return RankTableFile({}, NOT_JSON, _("byte {number} is not UTF-8", number=error.start), link)
    if not text:
        return RankTableFile({}, NOT_JSON, _("it is empty"), link)
    from json import JSONDecodeError

    from npudoctor.core.parsing import TooMuch, next_json

    try:
        # Numbers are kept from growing: in a rank table they are mistakes anyway.
        table, end = next_json(text, parse_int=float, parse_constant=_refuse)
    except JSONDecodeError as error:
        around = text[max(0, error.pos - 1) : error.pos + 2]
        if "//" in around or "/*" in around or text[error.pos : error.pos + 1] == "#":
            why = _("line {line} has a comment, which JSON does not allow", line=error.lineno)
        else:
            why = _("line {line}, column {column} is not JSON", line=error.lineno, column=error.colno)
        return RankTableFile({}, NOT_JSON, why, link)
    except TooMuch as error:
        return RankTableFile({}, NOT_JSON, str(error), link)
    except ValueError as error:
        return RankTableFile({}, NOT_JSON, _("{value} is not JSON", value=error), link)
    if not isinstance(table, dict):
        return RankTableFile({}, NOT_JSON, _("it does not begin with a brace"), link)
    import hashlib

    digest = hashlib.sha256(content).hexdigest()
    return RankTableFile(table, link=link, more=bool(text[end:].strip(" \t\r\n")), digest=digest)


def _refuse(constant: str) -> float:
    """Called by the JSON parser for NaN and Infinity, which are not in the standard (RFC 8259)."""
    raise ValueError(constant)
