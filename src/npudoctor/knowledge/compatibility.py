"""Judges whether a release and a version of CANN are compatible, by rows that name pairs of them."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING

from npudoctor.core.frozen import dataclass, field
from npudoctor.knowledge.versions import Order, cann_order, cann_span, names_cann, public_version

if TYPE_CHECKING:
    from packaging.version import Version


class Compatibility(enum.Enum):
    """The answer about a pair of versions.

    - COMPATIBLE, INCOMPATIBLE: a row declares it.
    - NEWER: one of them is newer than all rows.
    - BETWEEN: no row has the pair, although there are rows about older and newer versions.
    - BESIDE: as BETWEEN, and the neighbouring releases are compatible with this CANN.
    - STRANGE: a version that cannot be parsed, or there are no rows.
    """

    COMPATIBLE = "compatible"
    INCOMPATIBLE = "incompatible"
    BETWEEN = "between"
    BESIDE = "beside"
    NEWER = "newer"
    STRANGE = "strange"


@dataclass(frozen=True)
class Pair:
    """A row: a release (PEP 440), the versions of CANN that it goes with or does not, and where that is
    written."""

    release: str
    cann: tuple[str, ...]
    source: str
    as_of: str
    compatible: bool = True


@dataclass(frozen=True)
class PairJudgement:
    """The answer, and the rows that decided it; for BETWEEN and NEWER the nearest ones.

    `newer_cann`: of NEWER, whether it is the CANN that came after our rows; else it is the release.
    """

    answer: Compatibility
    rows: tuple[Pair, ...] = field(default=())
    newer_cann: bool = False

    @property
    def as_of(self) -> str:
        """When the newest of these rows was written."""
        return max((row.as_of for row in self.rows), default="")


def judge_pair(rows: Sequence[Pair], release: str, cann: str) -> PairJudgement:
    """Judge a release together with a version of CANN."""
    version, order = public_version(release), cann_order(cann)
    if version is None or order is None or not rows:
        return PairJudgement(Compatibility.STRANGE)
    exact = tuple(row for row in rows if public_version(row.release) == version)
    for compatible, answer in ((False, Compatibility.INCOMPATIBLE), (True, Compatibility.COMPATIBLE)):
        matching = tuple(row for row in exact if row.compatible is compatible and _names_cann(row, cann))
        if matching:
            return PairJudgement(answer, matching)
    compatible_rows = [row for row in rows if row.compatible]
    newest = max(compatible_rows, key=lambda row: _named_span(row)[1])
    if order > _named_span(newest)[1]:
        return PairJudgement(Compatibility.NEWER, (newest,), newer_cann=True)
    exact = tuple(row for row in exact if row.compatible)
    return (
        _judge_listed(compatible_rows, exact, cann)
        if exact
        else _judge_unlisted(compatible_rows, release, cann)
    )


def _judge_listed(compatible_rows: Sequence[Pair], exact: tuple[Pair, ...], cann: str) -> PairJudgement:
    """Judge a release whose rows name other versions of CANN.

    BESIDE if the releases before and after it (for the newest, the one before) are compatible with this CANN.
    """
    version = _version_of(exact[0].release)
    ordered = sorted(compatible_rows, key=lambda row: _version_of(row.release))
    below = _rows_of_same_release([row for row in ordered if _version_of(row.release) < version], -1)
    above = _rows_of_same_release([row for row in ordered if _version_of(row.release) > version], 0)
    if below and all(any(_names_cann(row, cann) for row in side) for side in (below, above) if side):
        return PairJudgement(Compatibility.BESIDE, (*below, *above))
    return PairJudgement(Compatibility.BETWEEN, exact)


def _judge_unlisted(rows: Sequence[Pair], release: str, cann: str) -> PairJudgement:
    """Judge a release without a row: newer than all rows or than its own line, or between two rows.

    What is newer needs no older CANN than what came before it. A final release is not newer than its line
    when only candidates of it are listed: it takes its place between what came before and after.
    """
    ordered = sorted(rows, key=lambda row: _version_of(row.release))
    version = _version_of(release)
    below = [row for row in ordered if _version_of(row.release) < version]
    above = ordered[len(below) :]
    line = [
        row for row in below if version.is_postrelease and _version_of(row.release).release == version.release
    ]
    if not above or (line and _version_of(above[0].release).release != version.release):
        before = _rows_of_same_release(below, -1)
        return PairJudgement(
            Compatibility.BETWEEN if _is_older(cann, before) else Compatibility.NEWER, before
        )
    nearest = (*_rows_of_same_release(below, -1), *_rows_of_same_release(above, 0))
    newest = max(_named_span(row)[1] for row in nearest)
    is_beside = bool(below) and not _is_older(cann, nearest) and (cann_order(cann) or ()) <= newest
    return PairJudgement(Compatibility.BESIDE if is_beside else Compatibility.BETWEEN, nearest)


def _is_older(cann: str, rows: Sequence[Pair]) -> bool:
    """Whether a CANN is older than all that these rows name."""
    oldest = min(_named_span(row)[0] for row in rows)
    return (cann_order(cann) or ()) < oldest and not any(_names_cann(row, cann) for row in rows)


def _rows_of_same_release(rows: Sequence[Pair], index: int) -> tuple[Pair, ...]:
    """The rows about the release of the row at this place."""
    return (
        tuple(row for row in rows if public_version(row.release) == public_version(rows[index].release))
        if rows
        else ()
    )


def _version_of(release: str) -> Version:
    """The version of a release; what is none comes before all."""
    from packaging.version import Version

    return public_version(release) or Version("0.dev0")


def _names_cann(row: Pair, cann: str) -> bool:
    return any(names_cann(name, cann) for name in row.cann)


def _named_span(row: Pair) -> tuple[Order, Order]:
    """The oldest and the newest CANN that a row names; a row that names none comes first."""
    spans = [span for span in map(cann_span, row.cann) if span] or [((), ())]
    return min(first for first, _last in spans), max(last for _first, last in spans)
