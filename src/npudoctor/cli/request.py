"""The request of `explain`, and the tables of npudoctor and of the site for its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Callable, Optional, TypeVar

from npudoctor.cli.arguments.settings import knowledge_directory
from npudoctor.cli.terminal import output
from npudoctor.core.frozen import dataclass, field
from npudoctor.core.messages import _
from npudoctor.host.fs.files import Files, LocalDisk
from npudoctor.knowledge.site import BrokenEntry, Knowledge

if TYPE_CHECKING:
    from npudoctor.explain.reading.opening import Identity

T = TypeVar("T")


@dataclass(frozen=True)
class ExplainRequest:
    """The input of `explain`. `words`: logs, directories or codes; `started`: on the monotonic clock.

    `seconds`: the time limit, None for the default; `since`: seconds since the epoch, older logs are ignored;
    None: all are read; `begins`: by device and inode of a file, the offset at which to start.
    """

    words: tuple[str, ...]
    variables: Mapping[str, str]
    started: float
    seconds: Optional[float] = None
    since: Optional[float] = None
    begins: Mapping[Identity, int] = field(default_factory=dict)


def read_rows(
    prepare: Callable[[Knowledge], tuple[T, Sequence[BrokenEntry]]], variables: Mapping[str, str]
) -> T:
    """The table that `prepare` makes of our rows and the site's; warns about invalid rows of the site."""
    with closing(LocalDisk()) as disk:
        rows, broken = prepare(Knowledge(knowledge_directory(variables), Files(disk).why_remote))
    for row in broken:
        output.complain(
            _("this site's compatibility rows cannot be used: {path}: {why}", path=row.path, why=row.reason)
        )
    return rows
