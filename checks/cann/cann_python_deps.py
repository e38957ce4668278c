"""Are the Python packages there that CANN's own Python code needs?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Facts,
    Finding,
    Fix,
    Host,
    Scope,
    Severity,
    Skip,
    _,
    check,
)
from npudoctor.core.cann_version import is_at_least
from npudoctor.facts.cann.installations import Install, installs_of
from npudoctor.facts.cann.python_needs import CannRequirement, requirements_of_cann
from npudoctor.facts.cann.python_packages import find_metadata, own_site
from npudoctor.facts.cann.set_env import releases_contradict
from npudoctor.facts.job.expected_accelerator import frameworks_on_cann
from npudoctor.facts.python.frameworks import is_required
from npudoctor.host import CannotTell
from npudoctor.host.python.requirements import parse_version


@check(
    "cann-python-deps",
    scope=Scope.JOB,
    tags={"ascend"},
    needs=("cann",),
    codes={
        "cann-python-deps.missing": ERROR,
        "cann-python-deps.unsuitable": WARNING,
        "cann-python-deps.numpy-2": ERROR,
        "cann-python-deps.site-table": WARNING,
    },
)
def cann_python_deps(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The Python packages that CANN needs are installed.

    ## What it does

    Takes the requirements in te's own metadata, as the CANN in use ships it, and the vendor's list. Looks for
    these packages in the interpreter that will run the job. The check applies where a framework that runs on
    CANN is installed. Nothing is imported.

    - `missing`: an error for a package that te requires and the vendor's list names, a warning for one that
      only te requires, information for one that only the list names. Without te's metadata only the list
      decides: a warning, or information for a package that only tools need.
    - `unsuitable`: the package is installed in a version that te does not accept.
    - `numpy-2`: NumPy 2 is installed with a CANN whose Python code cannot use it: all releases before 8.3.
      For later ones it is unknown, and nothing is reported.
    - `site-table`: rows that this site added to npudoctor's list cannot be used.

    ## Why it matters

    No wheel of torch_npu or MindSpore requires these packages, so pip does not install them. The error
    messages do not name the missing package: `EH9999: Inner Error!`, `[Init][Env]init env failed!`,
    `error code is 500001`.

    ## Fix safety

    Shown only: the installed packages may conflict with others in that environment.

    ## References

    - Ascend/pytorch, issue 7; vllm-project/vllm-ascend, issue 2210 and pull request 472.
    - The metadata (`Requires-Dist`) of te in CANN 8.1.RC1.
    """
    installs = installs_of(host)
    if not installs:
        raise Skip(_("CANN is not installed on this machine"))
    if not frameworks_on_cann(host):
        raise Skip(_("no framework that runs on CANN is in {python}", python=host.interpreter.label))
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.facts.system.broken_rows import broken_rows

    yield from broken_rows(host, "cann-python-deps", "cann_packages")
    needs = requirements_of_cann(host, installs[0])
    version_by_name = {need.name: _version(host, need.name) for need in needs}
    yield Facts({"cann": installs[0].path, "required": {need.name: str(need.specifier) for need in needs}})
    yield from _report_missing(
        host, installs[0], [need for need in needs if version_by_name[need.name] is None]
    )
    limit = _judge_numpy(host, installs[0], version_by_name.get("numpy") or _version(host, "numpy"))
    if limit is not None:
        yield limit
    numpy_reported = limit is not None
    for need in needs:
        version = version_by_name[need.name]
        if version is None or need.weight is INFO or (numpy_reported and need.name == "numpy"):
            continue
        if not _is_suitable(host, need):
            yield Finding(
                "cann-python-deps.unsuitable",
                _(
                    "{name} {version} is installed in {python}, but the CANN in use requires {required}",
                    name=need.name,
                    version=version,
                    python=host.interpreter.label,
                    required=need.line,
                ),
                evidence=_evidence([need]),
                action=Action.CONFIG,
                fix=_install_fix(host, [need.line]),
                echo_of=("numpy-version.unsuitable",) if need.name == "numpy" else (),
            )


def _version(host: Host, name: str) -> Optional[str]:
    return host.interpreter.version_of(name)


def _report_missing(host: Host, active: Install, missing: Sequence[CannRequirement]) -> Iterator[Finding]:
    groups: dict[tuple[tuple[str, ...], Severity], list[CannRequirement]] = {}
    for need in missing:
        # The finding that explains it: PYTHONPATH lacks CANN's own folder, which contains the package; NumPy
        # and SciPy have checks of their own.
        cause: tuple[str, ...]
        site = own_site(host.files, active, "te")
        if site and find_metadata(host.files, site, need.name.replace("-", "_")):
            cause = ("cann-env.not-sourced", "cann-env.missing-entry")
        elif need.name in ("numpy", "scipy"):
            cause = (f"{need.name}-version.missing",)
        else:
            # If a framework requires the package too, package-requirements reports the error with more
            # detail.
            cause = (
                ("package-requirements.missing",)
                if need.weight < ERROR and is_required(host, need.name)
                else ()
            )
        groups.setdefault((cause, need.weight), []).append(need)
    for (echo_of, weight), needs in sorted(groups.items(), key=lambda group: -group[0][1]):
        yield Finding(
            "cann-python-deps.missing",
            _(
                "{names} not installed in {python}, but the CANN in use requires it",
                names=", ".join(need.name for need in needs),
                python=host.interpreter.label,
            ),
            severity=weight,
            evidence=_evidence(needs),
            action=Action.CONFIG,
            fix=_install_fix(host, [need.line for need in needs]),
            echo_of=echo_of,
        )


def _judge_numpy(host: Host, active: Install, version: Optional[str]) -> Optional[Finding]:
    """Return the finding if this release of CANN cannot use the installed NumPy. Rows of the site come
    first."""
    # Not at the top of the file: `packaging.specifiers` takes 20 to 40 ms to import, and most runs compare no
    # version here.
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion, Version

    rows = host.knowledge.rows("cann_packages", "numpy")
    row = next((row for row in rows if is_at_least(active.version, row["below"]) is False), None)
    if row is None or version is None:
        return None
    try:
        if SpecifierSet(row["specifier"]).contains(Version(version), prereleases=True):
            return None
    except InvalidVersion:
        # A version outside of PEP 440 cannot be compared.
        return None
    # If variables name two releases of CANN, NumPy may match the other one.
    contradiction = host.options.root is None and releases_contradict(host.files, host.variables)
    return Finding(
        "cann-python-deps.numpy-2",
        _(
            "NumPy {numpy} is installed, but the CANN at {install} requires numpy{required}",
            numpy=version,
            install=active.label,
            required=row["specifier"],
        ),
        evidence=(row["source"],),
        action=Action.CONFIG,
        fix=_install_fix(host, [f"numpy{row['specifier']}"]),
        echo_of=("numpy-version.unsuitable", *(("cann-env.mixed-installs",) if contradiction else ())),
    )


def _is_suitable(host: Host, need: CannRequirement) -> bool:
    """Whether the installed version meets the requirement. A version that PEP 440 does not know passes,
    because the package is installed and cannot be compared."""
    try:
        version = parse_version(host.interpreter.distributions(need.name)[0])
        # prereleases=True: packaging leaves pre-releases out by default, but one that is installed counts.
        return bool(need.specifier.contains(version, prereleases=True))
    except CannotTell:
        return True


def _evidence(needs: Sequence[CannRequirement]) -> tuple[str, ...]:
    return tuple(f"{need.line}: {need.source}" for need in needs)


def _install_fix(host: Host, lines: Sequence[str]) -> Fix:
    from npudoctor.checks.python._pip import pip_install

    fix: Fix = pip_install(host, _("install the packages that CANN requires"), *lines)
    return fix
