"""@check turns a generator of findings into a Check, and refuses a declaration that is not well formed."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.core.model import THINGS, Compared, Facts, Finding, Scope, Severity, Status

BUILT_IN = "built-in"
CheckOutput = Union[Finding, Facts]

if TYPE_CHECKING:  # who only lists checks loads nothing that looks at a machine
    from npudoctor.host import Host

    CheckFunction = Callable[[Host], Iterator[CheckOutput]]

MOST_COMPARED = 50  # facts of one check that fleets compare
LONGEST = 100  # characters of a name or a path of one
# Ids and tags are words of the command line and of URLs of the documentation.
_NAME = pattern(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\Z")
# Distributions in normal form (PEP 503), which is lower case.
_NEED = pattern(r"(?:\$[A-Za-z_][A-Za-z0-9_]*\*?|[a-z0-9]+(?:[-_.]+[a-z0-9]+)*)\Z")


class Skip(Exception):
    """The check does not apply here; the text says why. Findings made before it are kept."""


class CheckFailure(Exception):
    """The check did not end by itself; the text says why.

    Its file could not be loaded, or differs from the index; or the process of its own in which it runs
    crashed, or did not answer in time.
    """

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Unknown(CannotTell):
    """The check applies but could not look; the text says why. Findings made before it are kept."""


@dataclass(frozen=True)
class Check:
    """One check: its identity, declared once, and its question.

    `title`: the first sentence of the manual, without its full stop. `needs`: it applies only where one of
    these is (npudoctor.checking.needs). `advisory`: its answer is not needed for a verdict. `quick`: asked in
    the quick profile too, as it starts no tool of a vendor (npu-smi, hccn_tool, nvidia-smi). `always`: asked
    under every scope and profile. `compares`: those of its facts that fleets compare. `origin`: built-in, or
    where from.
    """

    id: str
    scope: Scope
    codes: Mapping[str, Severity]
    ask: CheckFunction
    title: str
    page: Callable[[], str] = str
    tags: tuple[str, ...] = ()
    group: str = ""
    needs: tuple[str, ...] = ()
    advisory: bool = False
    quick: bool = True
    always: bool = False
    compares: tuple[Compared, ...] = ()
    origin: str = BUILT_IN

    @property
    def manual(self) -> str:
        """The docstring; it reads the check's file where that has not been read yet."""
        return self.page()

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that selects it: id, group, tags, codes."""
        return (self.id, self.group, *self.tags, *self.codes)


def check(
    id: str,
    *,
    scope: Scope,
    codes: Mapping[str, Severity],
    tags: Collection[str] = (),
    needs: Sequence[str] = (),
    advisory: bool = False,
    quick: bool = True,
    always: bool = False,
    compares: Sequence[Compared] = (),
) -> Callable[[CheckFunction], Check]:
    """Declare a check; ValueError when id, codes, tags, needs or docstring are not as they must be.

    `needs`: "$NAME", "$PREFIX*", a thing (cann, driver, npu, gpu, framework, packages) or a distribution;
    where none of them is, the check is skipped without being asked. `compares`: which of the facts that it
    yields should be alike on all nodes of a job.
    """
    problem = declaration_error(id, codes, tags, needs, compares)
    if problem:
        raise ValueError(f"check {id!r}: {problem}")

    def declare(question: CheckFunction) -> Check:
        manual = (question.__doc__ or "").strip()
        code = getattr(question, "__code__", None)
        # Where Python drops all docstrings (PYTHONOPTIMIZE=2), it is read from its file.
        if not manual and code is not None and sys.flags.optimize >= 2:
            import ast

            with suppress(OSError, SyntaxError, ValueError), open(code.co_filename, "rb") as file:
                for node in ast.walk(ast.parse(file.read())):
                    if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
                        manual = (ast.get_docstring(node, clean=False) or "").strip()
                        break
        if not manual:
            raise ValueError(f"check {id!r}: the docstring is the manual, and there is none")
        return Check(
            id=id,
            scope=scope,
            codes=dict(codes),
            ask=question,
            title=title_of(manual),
            page=lambda: manual,
            tags=tuple(sorted(tags)),
            needs=tuple(needs),
            advisory=advisory,
            quick=quick,
            always=always,
            compares=tuple(compares),
        )

    return declare


def title_of(manual: str) -> str:
    """The first sentence of a manual, without its full stop."""
    return manual.strip().split("\n", 1)[0].strip().rstrip(".")


def is_name(text: str) -> bool:
    """Return whether it may be an id or a tag."""
    return _NAME.match(text) is not None


def declaration_error(
    id: str,
    codes: Mapping[str, Severity],
    tags: Collection[str],
    needs: Sequence[str] = (),
    compares: Sequence[Compared] = (),
) -> Optional[str]:
    """Why a declaration is not well formed; None when it is."""
    if not _NAME.match(id):
        return "an id is lower-case words joined by hyphens"
    if not codes:
        return "it declares no code, so it could never speak"
    for code in codes:
        prefix, dot, rest = code.partition(".")
        # A code tells its check, so that reports of different versions can be compared.
        if prefix != id or not dot or not _NAME.match(rest):
            return f"the code {code!r} must read {id}.some-words"
    for tag in tags:
        if not _NAME.match(tag):
            return f"the tag {tag!r} must be lower-case words joined by hyphens"
    # A text would pass as a sequence of letters.
    if not isinstance(needs, (tuple, list)):
        return "needs is a tuple of texts"
    if not isinstance(compares, (tuple, list)) or len(compares) > MOST_COMPARED:
        return f"compares is a tuple of at most {MOST_COMPARED} Compared"
    return next(filter(None, (*map(_wrong_need, needs), *map(_wrong_comparison, compares))), None)


def parse_compared(row: object) -> Compared:
    """The Compared of a row that `Compared.row` made, from wherever it comes: ValueError for
    anything else.
    """
    if not isinstance(row, dict) or not {"path"} <= row.keys() <= {"path", "name", "complete", "own"}:
        raise ValueError(f"{row!r} says nothing to compare")
    own = row.get("own", [])
    if not isinstance(own, list):
        raise ValueError(f"{own!r} is no list of entries")
    compared = Compared(row["path"], row.get("name", ""), bool(row.get("complete")), tuple(own))
    wrong = _wrong_comparison(compared)
    if wrong:
        raise ValueError(wrong)
    return compared


def _wrong_comparison(compared: Any) -> Optional[str]:
    """Why a Compared is not well formed; None when it is. Hints are not enough: nobody type-checks checks of
    others and reports of nodes.
    """
    if not isinstance(compared, Compared):
        return f"{compared!r} is no Compared"
    texts: Any = (compared.path, compared.name, *compared.own)
    short = all(isinstance(text, str) and len(text) <= LONGEST for text in texts)
    if not short or len(texts) > MOST_COMPARED or isinstance(compared.own, str):
        return f"{compared!r} does not hold short texts"
    if compared.name and not compared.path:
        return f"{compared.name!r} needs a path to one of the facts"
    return None


def _wrong_need(need: object) -> Optional[str]:
    """Why a need is not well formed; None when it is. A need that nothing can ever meet would silence its
    check for ever.
    """
    if not isinstance(need, str) or not _NEED.match(need):
        forms = ('"$NAME"', '"$PREFIX*"', *THINGS)
        return f"the need {need!r} is none of {', '.join(forms)}, and no distribution in lower case"
    thing_meant = (
        None if need in THINGS else next((thing for thing in THINGS if _is_misspelled(need, thing)), None)
    )
    return thing_meant and f"the need {need!r} is no distribution: {thing_meant!r} is meant"


def _is_misspelled(need: str, thing: str) -> bool:
    """Return whether one letter is wrong, missing or too many, or two are exchanged."""
    at = next(
        (at for at, (letter, expected) in enumerate(zip(need, thing)) if letter != expected),
        min(map(len, (need, thing))),
    )
    tail, other = need[at:], thing[at:]
    # One letter is missing or too many.
    if len(tail) != len(other):
        return tail[1:] == other or tail == other[1:]
    if tail[1:] == other[1:]:
        return len(thing) > 3  # between short words it is no slip: npm is not npu
    # Two neighbours are exchanged.
    return tail[2:] == other[2:] and tail[:2] == other[1::-1]
