"""The rows about distributions that a job is made of: frameworks, and the trainers' stack upon them."""

from __future__ import annotations

from functools import cache

from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.knowledge.site import Knowledge
from npudoctor.knowledge.tables import KnowledgeRow, built_in_rows

TABLE, FRAMEWORKS, TRAINERS = "frameworks", "frameworks", "trainers"
_SEPARATORS = pattern(r"[-_.]+")


@dataclass(frozen=True)
class JobDistribution:
    """A distribution that a job imports by itself. `name`: by PEP 503. `imports`: as a job writes them.

    `after`: the distribution without which no more than `import MODULE` is expected to work. `trainer`: it is
    imported together with the others of its kind. `tried`: what it requires was seen to be needed.
    """

    name: str
    modules: tuple[str, ...]
    imports: tuple[str, ...]
    after: str = ""
    trainer: bool = False
    tried: bool = True


def list_job_distributions(knowledge: Knowledge) -> tuple[JobDistribution, ...]:
    """All of them, first the frameworks; of two rows about one distribution the site's."""
    by_name: dict[str, JobDistribution] = {}
    for section in (FRAMEWORKS, TRAINERS):
        for row in knowledge.rows(TABLE, section):
            member = _make(row, section == TRAINERS)
            by_name.setdefault(member.name, member)
    return tuple(by_name.values())


@cache
def list_built_in_names() -> frozenset[str]:
    """The names of our own rows, for what is judged without a machine, as two snapshots are."""
    return frozenset(
        row["distribution"] for section in (FRAMEWORKS, TRAINERS) for row in built_in_rows(TABLE, section)
    )


def _make(row: KnowledgeRow, trainer: bool) -> JobDistribution:
    values = row.values
    return JobDistribution(
        _SEPARATORS.sub("-", row["distribution"]).lower(),
        row.texts("modules"),
        row.texts("imports"),
        _SEPARATORS.sub("-", values.get("after", "")).lower(),
        trainer,
        bool(values.get("tried", not trainer)),
    )
