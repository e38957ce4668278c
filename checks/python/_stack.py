"""What the checks of versions share: the CANN in use, what to say of a pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from npudoctor import INFO, Action, Finding, Host, _
from npudoctor.checks.python._pip import pip_install as pip_install
from npudoctor.facts.cann import set_env as cann_env
from npudoctor.facts.cann.installations import Install, installs_of
from npudoctor.facts.cann.tree import releases_of
from npudoctor.facts.system.broken_rows import broken_rows as broken_rows
from npudoctor.host.python.interpreter import Distribution
from npudoctor.knowledge.compatibility import Compatibility, Pair, PairJudgement
from npudoctor.knowledge.frameworks import product_of
from npudoctor.knowledge.versions import public

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version


def cann_in_use(host: Host) -> Optional[Install]:
    """The CANN that the variables name, else the first that is found; in an image the latter."""
    return next(iter(installs_of(host)), None)


def product(host: Host, install: Install) -> Optional[str]:
    """Its product version, by the table where it only tells its component's."""
    if install.version or not install.component:
        return install.version
    return product_of(host.knowledge, install.component)


def without_cann(name: str) -> str:
    """Why a check that compares a framework with CANN was skipped after all else was compared."""
    return _("CANN is not installed here, so {name} was not compared with it").format(name=name)


def unclear(host: Host) -> tuple[str, ...]:
    """The cause, where it is not clear which CANN is in use: what is compared with one may suit the other."""
    image = host.options.root is not None
    differ = not image and cann_env.releases_contradict(host.files, host.variables)
    install = cann_in_use(host)
    mixed = install is not None and len(releases_of(host.files, install.path)) > 1
    causes = (("cann-env.mixed-installs", differ), ("cann-install.mixed-latest", mixed))
    return tuple(code for code, so in causes if so)


def pair_finding(check: str, name: str, release: str, cann: str, judged: PairJudgement) -> Optional[Finding]:
    """What the answer about a release beside a CANN is worth saying; None when they suit."""
    code, severity = f"{check}.cann-not-listed", None
    text = _("{name} {release} beside CANN {cann} is in no row of our table; the nearest: {rows}")
    if judged.answer is Compatibility.INCOMPATIBLE:
        code, text = f"{check}.cann-incompatible", _("{name} {release} does not go with CANN {cann}: {rows}")
    elif judged.answer is Compatibility.NEWER:
        code = f"{check}.newer-than-table"
        text = _(
            "{name} {release} is newer than our table of {as_of}, where {rows} comes last before it: "
            "whether it goes with CANN {cann} is not known"
        )
        if judged.newer_cann:
            text = _(
                "CANN {cann} is newer than our table of {as_of}, which ends with {rows}: "
                "whether {name} {release} goes with it is not known"
            )
    elif judged.answer is Compatibility.BESIDE:
        severity = INFO
    elif judged.answer is not Compatibility.BETWEEN:
        return None
    words = {"name": name, "release": release, "cann": cann, "as_of": judged.as_of}
    return Finding(
        code,
        text.format(rows=", ".join(dict.fromkeys(map(_row, judged.rows))), **words),
        severity=severity,
        evidence=tuple(dict.fromkeys(f"{_row(row)}: {row.source}, {row.as_of}" for row in judged.rows)),
        action=Action.NONE if judged.answer in (Compatibility.NEWER, Compatibility.BESIDE) else Action.CONFIG,
    )


def _row(row: Pair) -> str:
    text = _("{release} with CANN {cann}") if row.compatible else _("{release} not with CANN {cann}")
    return text.format(release=row.release, cann=", ".join(row.cann))


def accepts(wanted: SpecifierSet, version: str) -> bool:
    """Whether a requirement is met, builds of one release (2.7.1+cpu, 2.7.1+cu126) being alike."""
    from packaging.version import Version

    return bool(plain(wanted).contains(Version(Version(version).public), prereleases=True))


def plain(wanted: SpecifierSet) -> SpecifierSet:
    """A requirement without the builds that it names: ==2.7.1 of ==2.7.1+cpu."""
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(",".join(str(one).partition("+")[0] for one in wanted))


def built_alike(wanted: SpecifierSet, by: Optional[Distribution] = None) -> SpecifierSet:
    """A requirement with the build that it names, ==2.9.0+cpu; where it names a release only, of the build
    of who wants it: torchvision 0.24.0+cpu, which says ==2.9.0, loads beside torch 2.9.0+cpu alone."""
    from packaging.specifiers import SpecifierSet

    local = by.version.partition("+")[2] if by is not None else ""
    named = exact(wanted)
    if not local or named is None or any("+" in str(one) for one in wanted):
        return wanted
    return SpecifierSet(f"=={named}+{local}")


def exact(wanted: SpecifierSet) -> Optional[Version]:
    """The one release that a requirement names, by == or ===; None where it names none, or a range."""
    for one in wanted:
        if one.operator in ("==", "===") and not one.version.endswith(".*"):
            return public(one.version)
    return None


def at(found: Distribution) -> str:
    """A line of evidence: which copy was looked at."""
    return f"{found.name} {found.version}: {found.folder}"
