"""Does the installed SciPy suit the installed MindSpore?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Optional, Union

from npudoctor import (
    ERROR,
    WARNING,
    Action,
    Facts,
    Finding,
    Fix,
    Host,
    Scope,
    Severity,
    Skip,
    Unknown,
    _,
    check,
)
from npudoctor.checks.python._pip import install_accepted, pinned_requirements, pip_fix
from npudoctor.core.frozen import dataclass, replace
from npudoctor.facts.python.closure import KnownFailure
from npudoctor.facts.python.frameworks import failure_beside
from npudoctor.facts.system.broken_rows import broken_rows
from npudoctor.host.python.interpreter import Distribution, Layout
from npudoctor.host.python.requirements import parse_version, read_requirement
from npudoctor.knowledge import tables

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

MINDSPORE = ("mindspore", "mindspore-ascend", "mindspore-gpu")
# MindSpore's FAQ r1.3 to r1.9, "Performance Tuning": weight initialization is very slow with SciPy 1.4.
SLOW = (1, 4)


@dataclass(frozen=True)
class ScipyRequirement:
    """What one MindSpore requires of SciPy, and the source of that."""

    mindspore: Distribution
    specifier: SpecifierSet
    source: str


@check(
    "scipy-version",
    scope=Scope.JOB,
    tags={"mindspore"},
    needs=("mindspore", "mindspore-ascend", "mindspore-gpu"),
    codes={
        "scipy-version.unsuitable": ERROR,
        "scipy-version.slow-initialisation": ERROR,
        "scipy-version.missing": ERROR,
        "scipy-version.site-table": WARNING,
    },
)
def scipy_version(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The installed MindSpore accepts the installed SciPy.

    ## What it does

    Compares the SciPy of the examined interpreter with what the installed MindSpore (mindspore,
    mindspore-ascend or mindspore-gpu) requires in its own metadata; if that contains no requirements at all,
    with a table of the published wheels. If neither is known, the result is "cannot tell". SciPy itself is
    unsuitable if it was built for a later NumPy series than the installed one: SciPy 1.18 with NumPy 1.26, to
    which MindSpore 2.7 to 2.9 are limited. Nothing is imported.

    - `unsuitable`: MindSpore does not accept the installed SciPy, or NumPy does not match it. An error if a
      row of our table names the error that this was seen to cause, otherwise a warning.
    - `slow-initialisation`: SciPy 1.4, with which the initialization of the weights takes very long.
    - `missing`: SciPy is not installed, and MindSpore requires it.
    - `site-table`: rows that this site added to that table cannot be used.

    ## Why it matters

    With SciPy 1.4.x training starts, but the initialization of the weights takes very long without a message;
    MindSpore's own FAQ describes this. Any other unsuitable SciPy fails at import or, worse, later.

    ## Fix safety

    Shown only: another SciPy may be incompatible with other packages in that environment.

    ## References

    - MindSpore FAQ, "Performance Tuning", r1.3 to r1.9: slow weight initialization.
    - The metadata (`Requires-Dist`) of the wheels on PyPI.
    """
    layout = host.interpreter.layout()
    installed = [copy for name in MINDSPORE for copy in host.interpreter.distributions(name)[:1]]
    if not installed:
        raise Skip(_("MindSpore is not installed in {python}", python=host.interpreter.label))
    scipy = next(iter(host.interpreter.distributions("scipy")), None)
    yield from broken_rows(host, "scipy-version", "mindspore")
    for mindspore in installed:
        requirement = _read_requirement(host, mindspore, layout)
        yield Facts(
            {
                "mindspore": mindspore.label,
                "scipy": scipy.version if scipy else None,
                "required": str(requirement.specifier) if requirement else None,
            }
        )
        finding = _judge(host, scipy, requirement) if requirement else None
        if finding is None and scipy is not None:
            finding = _judge_numpy(host, scipy, mindspore)
        if finding is not None:
            yield finding
            return
    if scipy is None:
        raise Skip(_("SciPy is not installed, and MindSpore does not require it"))


def _read_requirement(host: Host, mindspore: Distribution, layout: Layout) -> Optional[ScipyRequirement]:
    """Return what MindSpore requires of SciPy: by its metadata, and only if that has no requirements at all
    by our table. None if the metadata does not name SciPy. Raises Unknown if neither source knows."""
    if mindspore.header_values("Requires-Dist"):
        specifier = read_requirement(mindspore, "scipy", layout)
        source = _("metadata of {name}", name=mindspore.name)
        return None if specifier is None else ScipyRequirement(mindspore, specifier, source)
    # Not at the top of the file: `packaging.specifiers` takes 20 to 40 ms to import, and most runs compare no
    # version here.
    from packaging.specifiers import SpecifierSet

    rows = host.knowledge.rows("mindspore", "scipy")
    row = tables.find_required_scipy(str(parse_version(mindspore)), rows)
    if row is None:
        raise Unknown(
            _(
                "neither the metadata of {name} {version} nor the built-in table says which SciPy it "
                "requires",
                name=mindspore.name,
                version=mindspore.version,
            )
        )
    source = _("built-in table of {as_of}: {source}", as_of=row.as_of, source=row.source)
    return ScipyRequirement(mindspore, SpecifierSet(row.specifier), source)


def _judge(host: Host, scipy: Optional[Distribution], requirement: ScipyRequirement) -> Optional[Finding]:
    if scipy is None:
        text = _("MindSpore {mindspore} requires scipy{required}, but SciPy is not installed")
        return _finding(host, "scipy-version.missing", text, None, requirement)
    version = parse_version(scipy)
    if version.release[:2] == SLOW:
        text = _("SciPy {scipy} (1.4 series) makes weight initialization very slow in MindSpore {mindspore}")
        return _finding(host, "scipy-version.slow-initialisation", text, scipy, requirement)
    if not requirement.specifier.contains(version, prereleases=True):
        text = _("MindSpore {mindspore} requires scipy{required}, but SciPy {scipy} is installed")
        finding = _finding(host, "scipy-version.unsuitable", text, scipy, requirement)
        failure = failure_beside(host, requirement.mindspore, scipy)
        reasons = (failure.reason,) if failure else ()
        return replace(finding, severity=_failure_severity(failure), evidence=(*finding.evidence, *reasons))
    return None


def _failure_severity(failure: Optional[KnownFailure]) -> Severity:
    return ERROR if failure is not None and not failure.lenient else WARNING


def _judge_numpy(host: Host, scipy: Distribution, mindspore: Distribution) -> Optional[Finding]:
    """Report SciPy if it requires a later major series of NumPy than the installed one. A bound within the
    series only makes SciPy warn."""
    from packaging.version import Version

    numpy = next(iter(host.interpreter.distributions("numpy")), None)
    layout = host.interpreter.layout()
    specifier = read_requirement(scipy, "numpy", layout)
    if numpy is None or specifier is None:
        return None
    series = parse_version(numpy).major
    if not any(copy.operator == ">=" and Version(copy.version).major > series for copy in specifier):
        return None
    failure = failure_beside(host, scipy, numpy)
    title = _("install a SciPy that MindSpore accepts")
    accepted = [f"{name}{read_requirement(mindspore, name, layout) or ''}" for name in ("scipy", "numpy")]
    return Finding(
        "scipy-version.unsuitable",
        _(
            "SciPy {scipy} requires numpy{required}, but NumPy {numpy} is installed",
            scipy=scipy.version,
            required=specifier,
            numpy=numpy.version,
        ),
        severity=_failure_severity(failure),
        evidence=(
            *(copy.evidence for copy in (mindspore, scipy, numpy)),
            *([failure.reason] if failure else []),
        ),
        action=Action.CONFIG,
        fix=pip_fix(host, title, ("install", *pinned_requirements(host, "scipy", "numpy"), *accepted)),
        echo_of=("numpy-version.unsuitable",),
    )


def _finding(
    host: Host, code: str, text: str, scipy: Optional[Distribution], requirement: ScipyRequirement
) -> Finding:
    mindspore, specifier = requirement.mindspore, str(requirement.specifier)
    evidence = [copy.evidence for copy in (mindspore, scipy) if copy]
    words = {
        "scipy": scipy.version if scipy else "",
        "mindspore": mindspore.version,
        "required": specifier,
    }
    return Finding(
        code,
        text.format(**words),
        evidence=(*evidence, f"scipy{specifier}: {requirement.source}"),
        action=Action.CONFIG,
        fix=_install_fix(host, mindspore, requirement.specifier),
    )


def _install_fix(host: Host, mindspore: Distribution, specifier: SpecifierSet) -> Fix:
    # Metadata that accepts 1.4 does not make it fast: the fix avoids that series.
    if specifier.contains("1.4.1"):
        specifier &= "!=1.4.*"
    fix: Fix = install_accepted(
        host, "scipy", _("install a SciPy that MindSpore accepts"), [(mindspore, specifier)]
    )
    return fix
