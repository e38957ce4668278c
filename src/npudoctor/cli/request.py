"""What `explain` is asked, and the rows of ours and of the site from which it answers."""

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
    """The words of the command, the variables, and when it began. `seconds`: how long it may take, None for
    the default; `since`: only what was written since then is read; `begins`: of files, by what they are, the
    place from which on."""

    words: tuple[str, ...]
    variables: Mapping[str, str]
    started: float
    seconds: Optional[float] = None
    since: Optional[float] = None
    begins: Mapping[Identity, int] = field(default_factory=dict)


def read_rows(
    prepare: Callable[[Knowledge], tuple[T, Sequence[BrokenEntry]]], variables: Mapping[str, str]
) -> T:
    """What is made of our rows and the site's; on stderr those of the site that cannot be used."""
    with closing(LocalDisk()) as disk:
        rows, broken = prepare(Knowledge(knowledge_directory(variables), Files(disk).why_remote))
    for row in broken:
        output.complain(
            _("this site's compatibility rows cannot be used: {path}: {why}", path=row.path, why=row.reason)
        )
    return rows
