"""For which Pythons a release of a framework was published, by our tables and a site's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor import INFO, WARNING, Action, Finding, Host, _
from npudoctor.host.python.interpreter import Distribution
from npudoctor.knowledge.frameworks import pythons_of
from npudoctor.knowledge.tables import Row

FRAMEWORKS = ("torch-npu", "mindspore", "mindspore-ascend", "vllm-ascend")


def not_listed(host: Host, version: str, built_for: Sequence[str]) -> Iterator[Finding]:
    """What was not published for this Python; a note where its modules are there for it all the same.

    `built_for`: the names of the distributions of which that is known.
    """
    minor = ".".join(version.split(".")[:2])
    for name in FRAMEWORKS:
        for copy in host.interpreter.distributions(name)[:1]:
            row = pythons_of(host.knowledge, name, copy.version)
            wanted = _words(row, minor)
            if row is None or wanted is None:
                continue
            text = _("{name} {version} is published for CPython {wanted}, and {python} is {mine}")
            words = {"name": copy.name, "version": copy.version, "wanted": wanted, "mine": version}
            yield Finding(
                "interpreter.python-not-listed",
                text.format(python=host.interpreter.path, **words),
                severity=INFO if name in built_for else WARNING,
                evidence=(_at(copy), f"{row['source']}, {row['as_of']}"),
                action=Action.NONE if name in built_for else Action.CONFIG,
                echo_of=("interpreter.other-abi",),
            )


def _words(row: Optional[Row], minor: str) -> Optional[str]:
    """The Pythons of a row in which this one is not; None where it is."""
    if row is None or not row.texts("python"):
        return None
    told = row["python"]
    if isinstance(told, str) and not told[:1].isdigit():
        from packaging.specifiers import SpecifierSet

        return None if SpecifierSet(told).contains(minor) else told
    listed = minor in row.texts("python")
    if row.values.get("compatible", True):
        return None if listed else ", ".join(row.texts("python"))
    return _("others than {pythons}").format(pythons=", ".join(row.texts("python"))) if listed else None


def _at(found: Distribution) -> str:
    return f"{found.name} {found.version}: {found.folder}"
