"""Does the installed MindSpore accept the CANN in use?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import ERROR, INFO, WARNING, Action, Facts, Finding, Fix, Host, Scope, Skip, Unknown, _, check
from npudoctor.checks.python._pip import pip_install
from npudoctor.core.cann_version import numbers
from npudoctor.core.frozen import dataclass
from npudoctor.facts.cann import set_env
from npudoctor.facts.cann.framework_pair import pair_finding
from npudoctor.facts.cann.in_use import cann_in_use, product_version
from npudoctor.facts.cann.installations import Install
from npudoctor.facts.cann.tree import releases_of
from npudoctor.facts.system.broken_rows import broken_rows
from npudoctor.host import CannotTell
from npudoctor.host.python.interpreter import Distribution
from npudoctor.host.python.requirements import parse_version
from npudoctor.knowledge.compatibility import Compatibility, judge_pair
from npudoctor.knowledge.frameworks import (
    component_of,
    find_accepted_components,
    find_newest_accepting,
    mindspore_pairs,
    pairs_of,
)

# Where a release keeps its own check, newest first, and the list in it.
OWN_CHECKS = ("mindspore/run_check/_check_version.py", "mindspore/_check_version.py")
OWN_CLASS = "class AscendEnvChecker("


@dataclass(frozen=True)
class AcceptedComponents:
    """The component versions of CANN that a MindSpore accepts (major.minor or full), and the source."""

    numbers: tuple[str, ...]
    source: str


@check(
    "mindspore-cann",
    scope=Scope.JOB,
    tags={"ascend", "mindspore"},
    needs=("mindspore", "mindspore-ascend"),
    codes={
        "mindspore-cann.not-accepted": ERROR,
        "mindspore-cann.cann-incompatible": ERROR,
        "mindspore-cann.cann-not-listed": WARNING,
        "mindspore-cann.newer-than-table": INFO,
        "mindspore-cann.site-table": WARNING,
    },
)
def mindspore_cann(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The installed MindSpore accepts the CANN in use.

    ## What it does

    Compares the version in CANN's `compiler/version.info` with the versions that MindSpore accepts: its own
    list, read from `mindspore/run_check/_check_version.py` without importing it, else the list in our table
    of published wheels. Before 8.2 that version is not the product version: CANN 8.1.RC1 says 7.7. For
    releases without a known list, the CANN that their release notes name is compared. A MindSpore for GPU or
    CPU only is not judged. Rows of this site take precedence.

    - `mindspore-cann.not-accepted`: an error if CANN is older than all versions that this MindSpore accepts,
      otherwise a warning, because MindSpore itself only warns and continues.
    - `mindspore-cann.cann-not-listed`: no row contains this pair.
    - `mindspore-cann.cann-incompatible`: a row, such as one that this site added, forbids the pair.
    - `mindspore-cann.newer-than-table`: MindSpore or CANN is newer than the newest row.
    - `mindspore-cann.site-table`: rows that this site added cannot be used.

    ## Why it matters

    MindSpore is built against the graph engine and the operators of certain releases of CANN. It says
    "MindSpore version ... and Ascend AI software package version ... does not match" and fails later, in the
    first operator or in the compilation of the graph.

    ## Fix safety

    Shown only: another MindSpore may be incompatible with the model or with other installed packages.

    ## References

    - MindSpore, `mindspore/run_check/_check_version.py`, class AscendEnvChecker.
    - mindspore-ai/mindspore, issue 236: 2.0.0 beside CANN 5.0.4, "Load dynamic library:
      libmindspore_ascend.so.2 failed. libcann_kb.so: cannot open shared object file".
    - MindSpore, release list; `npudoctor list --knowledge` says which rows are loaded.
    """
    mindspore = _find_mindspore(host)
    if mindspore is None:
        raise Skip(_("no MindSpore for Ascend is installed in {python}", python=host.interpreter.label))
    install = cann_in_use(host)
    if install is None:
        raise Skip(_("CANN is not installed on this machine"))
    cann, component = product_version(host, install), _component(host, install)
    accepted = _read_own_list(host, mindspore)
    row = None if accepted else find_accepted_components(host.knowledge, mindspore.version)
    if row is not None:
        source = _("built-in table of {as_of}: {source}", as_of=row["as_of"], source=row["source"])
        accepted = AcceptedComponents(row.texts("accepts"), source)
    yield Facts(
        {
            "mindspore": mindspore.version,
            "cann": cann,
            "component": component,
            "accepted": list(accepted.numbers) if accepted else None,
        }
    )
    yield from broken_rows(host, "mindspore-cann", "mindspore")
    finding = _judge(host, mindspore, install, accepted)
    if finding is not None:
        yield finding


def _find_mindspore(host: Host) -> Optional[Distribution]:
    """Return the MindSpore that can use NPUs: mindspore-ascend up to 1.10, mindspore from 2.0 on; None for
    others."""
    for name in ("mindspore", "mindspore-ascend"):
        for copy in host.interpreter.distributions(name)[:1]:
            if name == "mindspore-ascend" or parse_version(copy).major >= 2:
                return copy
    return None


def _component(host: Host, install: Install) -> Optional[str]:
    return install.component or component_of(host.knowledge, install.version or "")


def _read_own_list(host: Host, mindspore: Distribution) -> Optional[AcceptedComponents]:
    site = mindspore.folder.rpartition("/")[0]
    for name in OWN_CHECKS:
        try:
            text = host.files.text(f"{site}/{name}")
        except CannotTell:
            text = None  # the table knows it too
        listed = parse_own_list(text or "")
        if listed:
            return AcceptedComponents(tuple(listed), f"{site}/{name}")
    return None


def parse_own_list(source: str) -> list[str]:
    """Return the versions in the list of MindSpore's own check; empty if the source has no such list."""
    # Such as: self.version = ["7.8", "8.2", "8.3"] in AscendEnvChecker of MindSpore 2.7.1.
    for after in source.partition(OWN_CLASS)[2].split("self.version")[1:]:
        sign, _bracket, rest = after.partition("[")
        if sign.strip() == "=":
            return re.findall(r"[\"'](\d[\d.]*)[\"']", rest.partition("]")[0])
    return []


def _judge(
    host: Host, mindspore: Distribution, install: Install, accepted: Optional[AcceptedComponents]
) -> Optional[Finding]:
    cann, component = product_version(host, install) or "", _component(host, install)
    parse_version(mindspore)
    pair = judge_pair(pairs_of(host.knowledge, "mindspore", "cann", "mindspore"), mindspore.version, cann)
    if pair.answer is Compatibility.COMPATIBLE:
        return None
    # A row that forbids the pair, such as one that the site added, beats MindSpore's own list.
    if pair.answer is not Compatibility.INCOMPATIBLE and accepted is not None and component is not None:
        return _judge_component(host, mindspore, install, accepted)
    if pair.answer is not Compatibility.INCOMPATIBLE:
        pair = judge_pair(mindspore_pairs(host.knowledge), mindspore.version, cann)
    if pair.answer is Compatibility.STRANGE:
        raise Unknown(
            _(
                "the version of the CANN at {path} cannot be compared: {version}",
                path=install.path,
                version=cann or _("none"),
            )
        )
    return pair_finding("mindspore-cann", "MindSpore", mindspore.version, cann, pair)


def _judge_component(
    host: Host, mindspore: Distribution, install: Install, accepted: AcceptedComponents
) -> Optional[Finding]:
    component = _component(host, install) or ""
    own_numbers = numbers(component)
    listed = [numbers(number) for number in accepted.numbers]
    if any(own_numbers[: len(number)] == number for number in listed):
        return None
    # If it is unclear which CANN is in use, MindSpore may match the other one: those findings are the cause.
    mixed_variables = host.options.root is None and set_env.releases_contradict(host.files, host.variables)
    mixed_releases = len(releases_of(host.files, install.path)) > 1
    causes = (("cann-env.mixed-installs", mixed_variables), ("cann-install.mixed-latest", mixed_releases))
    remedy: Optional[Fix]
    release = find_newest_accepting(host.knowledge, component, host.interpreter.layout().version)
    if release is None or mindspore.name != "mindspore":
        remedy = None
    else:
        title = _("install a MindSpore that accepts this CANN")
        fix: Fix = pip_install(host, title, f"mindspore=={release}")
        remedy = fix
    return Finding(
        "mindspore-cann.not-accepted",
        _(
            "MindSpore {mindspore} does not accept CANN {cann}, whose compiler is {component}; "
            "it accepts {accepted}",
            mindspore=mindspore.version,
            cann=product_version(host, install) or install.path,
            component=component,
            accepted=", ".join(accepted.numbers),
        ),
        # MindSpore itself warns and goes on. An older CANN lacks operators that it was built against.
        severity=ERROR if own_numbers < min(listed) else WARNING,
        evidence=(
            mindspore.evidence,
            _("installed: {install}", install=install.label),
            f"{', '.join(accepted.numbers)}: {accepted.source}",
        ),
        action=Action.CONFIG,
        fix=remedy,
        echo_of=tuple(code for code, mixed in causes if mixed),
    )
