"""Rows on what a release really needs, where its metadata requires more or less than that."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Optional

from npudoctor.knowledge.site import Knowledge
from npudoctor.knowledge.tables import KnowledgeRow

if TYPE_CHECKING:
    from packaging.requirements import Requirement


def find_lenient_row(knowledge: Knowledge, user: str, version: str, name: str) -> Optional[KnowledgeRow]:
    """The row that says that this release imports without what it requires; names by PEP 503."""
    for row in knowledge.rows("requirements", "lenient"):
        if user in row.texts("users") and name in row.texts("needs") and _covers(row, version):
            return row
    return None


def is_proven_to_work(knowledge: Knowledge, user: str, version: str, name: str, installed: str) -> bool:
    """Whether a row says that this release works with this version of what it requires, or an older one."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name
    from packaging.version import InvalidVersion

    rows = [row for row in knowledge.rows("requirements", "older") if user in row.texts("users")]
    try:
        requirements = [
            Requirement(text) for row in rows if _covers(row, version) for text in row.texts("works")
        ]
        return any(
            requirement.name == canonicalize_name(name) and requirement.specifier.contains(installed)
            for requirement in requirements
        )
    # A site's row may name anything; it then proves nothing.
    except (InvalidRequirement, InvalidVersion):
        return False


def find_failing_row(
    knowledge: Knowledge, user: str, version: str, name: str, installed: str
) -> Optional[KnowledgeRow]:
    """The row that says with which error this release was seen to fail beside this version of another one.

    None where no row does: what metadata alone says proves no failure. Names by PEP 503.
    """
    for row in knowledge.rows("requirements", "fails"):
        if user in row.texts("users") and row["beside"].startswith(name) and _covers(row, version):
            from packaging.requirements import InvalidRequirement, Requirement
            from packaging.version import InvalidVersion

            with suppress(InvalidRequirement, InvalidVersion):
                requirement = Requirement(row["beside"])
                if requirement.name == name and requirement.specifier.contains(installed, prereleases=True):
                    return row
    return None


def find_enforced_row(knowledge: Knowledge, user: str, version: str, name: str) -> Optional[KnowledgeRow]:
    """The row that says that this release looks at the version of another one when it is imported, and ends
    where its metadata refuses it; names by PEP 503.
    """
    for row in knowledge.rows("requirements", "enforced"):
        if user in row.texts("users") and name in row.texts("needs") and _covers(row, version):
            return row
    return None


def list_unstated_requirements(
    knowledge: Knowledge, user: str, version: str
) -> list[tuple[Requirement, KnowledgeRow]]:
    """What this release needs and its metadata does not say, each with its row."""
    from packaging.requirements import Requirement

    rows = [row for row in knowledge.rows("requirements", "needs") if user in row.texts("users")]
    return [
        (Requirement(text), row) for row in rows if _covers(row, version) for text in row.texts("requires")
    ]


def list_stand_ins(knowledge: Knowledge) -> dict[str, dict[str, bool]]:
    """By name, the distributions that bring the same modules, and whether their versions are alike."""
    by_name: dict[str, dict[str, bool]] = {}
    for row in knowledge.rows("requirements", "stand_ins"):
        by_name.setdefault(row["name"], {}).update(dict.fromkeys(row.texts("by"), row["alike"]))
    return by_name


def list_overruling(knowledge: Knowledge) -> list[tuple[str, str]]:
    """Pairs of distributions: the pins of the first count where the second has others."""
    rows = knowledge.rows("requirements", "overruling")
    return [(row["name"], user) for row in rows for user in row.texts("over")]


def list_imported_modules(knowledge: Knowledge, user: str, version: str) -> set[str]:
    """The modules of others without which this release cannot be imported."""
    rows = [row for row in knowledge.rows("requirements", "imported") if user in row.texts("users")]
    return {module for row in rows if _covers(row, version) for module in row.texts("modules")}


def _covers(row: KnowledgeRow, version: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        return bool(SpecifierSet(row["versions"]).contains(Version(version), prereleases=True))
    except (InvalidSpecifier, InvalidVersion):  # a site's own row may say anything
        return False
