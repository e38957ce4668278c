"""Does the installed Ascend driver suit the CANN in use?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Optional, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Compared,
    Facts,
    Finding,
    Host,
    Scope,
    Skip,
    Unknown,
    _,
    check,
)
from npudoctor.checks.device._container_options import ask_for_paths
from npudoctor.core.driver_version import accepts
from npudoctor.core.frozen import replace
from npudoctor.facts.cann.driver_compatibility import branches_agree, required_interfaces
from npudoctor.facts.cann.installations import Install, install_in_use
from npudoctor.host import CannotTell
from npudoctor.host.devices.driver import LIBRARY, Package, find_package, has_library
from npudoctor.knowledge.drivers import DriverDeclaration, find_declaration

# What the container guides mount of the driver (vllm-ascend, "Installation" with Docker).
MOUNTS = (
    "/usr/local/Ascend/driver/lib64",
    "/usr/local/Ascend/driver/version.info",
    "/etc/ascend_install.info",
)


@check(
    "cann-driver",
    scope=Scope.NODE,
    tags={"ascend"},
    needs=("cann",),
    codes={
        "cann-driver.missing": ERROR,
        "cann-driver.no-library": ERROR,
        "cann-driver.incompatible": ERROR,
        "cann-driver.interface-too-old": WARNING,
        "cann-driver.not-listed": WARNING,
        "cann-driver.newer-than-table": INFO,
        "cann-driver.other-branch": INFO,
        "cann-driver.not-mounted": INFO,
        "cann-driver.site-table": WARNING,
    },
    compares=(Compared("cann", "CANN"),),  # where cann-install was not asked
)
def cann_driver(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The Ascend driver matches the CANN in use.

    ## What it does

    Reads the driver's `version.info` (where `/etc/ascend_install.info` says, else in /usr/local/Ascend) and
    compares it with the CANN in use. Nothing is run.

    - `cann-driver.interface-too-old`: CANN's runtime requires a newer driver interface
      (`required_driver_<name>_version`); CANN's own installer warns of it too.
    - `cann-driver.incompatible`: the release notes say that the pair does not work.
    - `cann-driver.not-listed`: no release note lists the pair, but newer drivers are listed. Information
      where older ones are listed too, unless neither package's own list has the other's branch. A driver
      newer than all listed ones, or a CANN newer than the table, is only noted
      (`cann-driver.newer-than-table`).
    - `cann-driver.other-branch`: the table has no row for this CANN, and neither package lists the other's
      branch. The meaning of those lists is inferred, so this is information.
    - `cann-driver.missing`, `cann-driver.no-library`: a job is to use NPUs here, and the driver or its
      libascend_hal.so is missing. In a container, the fix says what to mount. `cann-driver.not-mounted`: the
      library is there but version.info is not, so nothing can be compared.
    - `cann-driver.site-table`: rows that this site added to the table cannot be used.

    ## Why it matters

    With a driver that is too old a job fails at its first line (`Can't get ascend_hal device count`, EE1015)
    or at the first operator that needs the newer interface.

    ## References

    - Release notes of CANN and of the MindX and MindIE products; each row of the table names its own.
    - CANN's installer: the comparison of `required_driver_*` with the driver's version.info.
    """
    install = install_in_use(host)
    if install is None:
        raise Skip(_("CANN is not installed on this machine"))
    try:
        driver = find_package(host.files, "driver")
    except CannotTell as error:
        # A user other than root, and a container, need not be able to read version.info.
        raise Unknown(
            error.reason, advisory=not host.identity.is_root or host.system.is_container()
        ) from error
    if driver is None:
        # No version.info of a driver is here.
        if host.options.root is not None:
            # Images do not ship the driver: it is mounted from the host when the container starts.
            raise Skip(_("no Ascend driver is installed in the image: the driver belongs to the host"))
        if not host.wants_npus():
            raise Skip(_("no Ascend driver is installed, and no NPU is expected on this machine"))
        in_container = host.system.is_container()
        if _has_library(host):
            text = _("the driver's version.info is missing: its version cannot be compared with CANN's")
            if in_container:
                text = _("the driver's version.info is not mounted into this container")
            fix = ask_for_paths(MOUNTS[1:]) if in_container else None
            yield Finding("cann-driver.not-mounted", text, action=Action.CONFIG, fix=fix)
            raise Unknown(_("could not determine the driver's version"), advisory=True)
        text = _("CANN is installed, but no Ascend driver is")
        if in_container:
            text = _("the Ascend driver is not mounted into this container")
        yield Finding(
            "cann-driver.missing",
            text,
            action=Action.CONFIG,
            fix=ask_for_paths(MOUNTS) if in_container else None,
            echo_of=("accelerator.missing",),
        )
        return
    yield from _report_missing_library(host, driver)
    yield from _compare(host, install, driver)


def _report_missing_library(host: Host, driver: Package) -> Iterator[Finding]:
    if host.options.root is not None or not host.wants_npus() or _has_library(host):
        return
    in_container = host.system.is_container()
    text = _("the driver at {folder} has no {library}: its installation is damaged")
    if in_container:
        text = _("the driver at {folder} has no {library}: its lib64 is not mounted into this container")
    yield Finding(
        "cann-driver.no-library",
        text.format(folder=driver.folder, library=LIBRARY),
        action=Action.CONFIG,
        fix=ask_for_paths(MOUNTS[:1]) if in_container else None,
        echo_of=("accelerator.missing",),
    )


def _has_library(host: Host) -> bool:
    """Whether libascend_hal.so is in the driver's folders or on LD_LIBRARY_PATH."""
    return has_library(host.files, host.variables.path_list("LD_LIBRARY_PATH"))


def _compare(host: Host, install: Install, driver: Package) -> Iterator[Union[Finding, Facts]]:
    required = required_interfaces(host.files, install)
    declared = None
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.facts.system.broken_rows import broken_rows

    yield from broken_rows(host, "cann-driver", "cann_driver")
    if install.version and driver.version:
        rows = host.knowledge.rows("cann_driver", "driver")
        declared = find_declaration(rows, install.version, driver.version)
    yield Facts(
        {
            "cann": install.version or install.component,
            "driver": driver.version,
            "declared": declared.verdict if declared else None,
            "recommended": list(declared.recommended) if declared else [],
        }
    )
    agree = branches_agree(host.files, install, driver)
    findings = [
        *_find_old_interfaces(install, driver, required),
        *_judge_release(install, driver, declared, agree),
    ]
    # What the branch lists (V100R001Cxx in compatible_version) mean is inferred from installed packages, so
    # this is information only.
    if declared is None and agree is False:
        text = _(
            "neither {cann} nor the driver {driver} lists the other's branch; no release note "
            "mentions the pair"
        )
        findings.append(_finding("cann-driver.other-branch", text, install, driver))
    yield from findings
    if not findings and declared is None and agree is None and not required:
        text = _("could not determine which driver {cann} needs, or which version the driver has")
        raise Unknown(text.format(cann=install.label), advisory=True)


def _find_old_interfaces(install: Install, driver: Package, required: Mapping[str, str]) -> Iterator[Finding]:
    for name, needed in required.items():
        provided = driver.settings.get(f"{name}_version")
        # CANN's own installer compares the same lines (required_driver_*_version) and only warns.
        if provided and accepts(provided, needed) is False:
            message = _(
                "{cann} requires the driver interface {name} {wanted}, but the driver {driver} has {mine}"
            )
            yield _finding(
                "cann-driver.interface-too-old",
                message,
                install,
                driver,
                name=name,
                wanted=needed,
                mine=provided,
            )


def _judge_release(
    install: Install, driver: Package, declared: Optional[DriverDeclaration], agree: Optional[bool]
) -> Iterator[Finding]:
    if declared is None or declared.verdict == "compatible":
        return
    words = {"nearest": ", ".join(declared.nearest), "as_of": declared.as_of}
    if declared.verdict == "incompatible":
        text = _("the driver {driver} is incompatible with {cann}; declared compatible: {nearest}")
        yield _finding("cann-driver.incompatible", text, install, driver, declared, **words)
    elif declared.verdict == "not-listed":
        text = _("no release note lists the driver {driver} for {cann}; the nearest listed: {nearest}")
        finding = _finding("cann-driver.not-listed", text, install, driver, declared, **words)
        # An older and a newer driver are listed for this CANN: one between them most likely works too.
        between = len(declared.nearest) > 1 and agree is not False
        yield replace(finding, severity=INFO) if between else finding
    else:
        text = _("the driver {driver} is newer than every driver that the table of {as_of} lists for {cann}")
        if declared.verdict == "newer-cann":
            text = _("{cann} is newer than the table of {as_of}, whose latest entry is {nearest}")
        yield _finding("cann-driver.newer-than-table", text, install, driver, declared, **words)


def _finding(
    code: str,
    text: str,
    install: Install,
    driver: Package,
    declared: Optional[DriverDeclaration] = None,
    **words: str,
) -> Finding:
    evidence = [
        f"{install.path}: {install.version or install.component}",
        f"{driver.info_path}: {driver.version}",
    ]
    if declared is not None:
        evidence.append(
            _("built-in table of {as_of}: {source}", as_of=declared.as_of, source=declared.source)
        )
        if declared.recommended:
            evidence.append(_("recommended: {drivers}", drivers=", ".join(declared.recommended)))
    label = f"CANN {install.version}" if install.version else f"CANN {install.component}"
    return Finding(
        code,
        text.format(cann=label, driver=driver.version, **words),
        evidence=tuple(evidence),
        action=Action.CONFIG if code != "cann-driver.newer-than-table" else Action.NONE,
    )
