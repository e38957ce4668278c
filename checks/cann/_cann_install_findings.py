"""The words of cann-install: one function a code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor import ERROR, INFO, WARNING, Action, Command, Finding, Fix, Host, Risk, Severity, _
from npudoctor.core.cann_version import at_least
from npudoctor.facts.cann.installations import Install
from npudoctor.facts.job.working_directory import job_user


def missing(frameworks: Sequence[str], python: str) -> Finding:
    text = _("CANN is not installed on this machine, and {framework} in {python} cannot run without it")
    return Finding(
        "cann-install.missing",
        text.format(framework=frameworks[0], python=python),
        evidence=tuple(frameworks),
        action=Action.CONFIG,
        echo_of=("cann-install.dangling-latest",),
    )


def not_readable(reason: str, severity: Severity, user: str) -> Finding:
    text = _("the CANN in use cannot be read by {user}: {reason}")
    return Finding(
        "cann-install.not-readable",
        text.format(user=user, reason=reason),
        severity=severity,
        evidence=(_("an installation with --install-for-all can be read by every user"),),
        action=Action.CONFIG,
    )


def dangling(place: str, links: Sequence[str], severity: Severity, fix: Optional[Fix]) -> Finding:
    text = _("{place} is dangling: the CANN it points to is gone")
    if links[0] != place:
        text = _("parts of {place} are dangling: the CANN they point to is gone")
    return Finding(
        "cann-install.dangling-latest",
        text.format(place=place),
        severity=severity,
        evidence=tuple(links),
        action=Action.CONFIG,
        fix=fix,
    )


def relink(host: Host, place: str, other: Install) -> Fix:
    """By root, unless the folder in which the link lies is the user's own."""
    folder = host.files.stat(place.rpartition("/")[0] or "/")
    return Fix(
        _("point {place} to {path}").format(place=place, path=other.path),
        steps=(Command(("ln", "-sfn", other.path, f"{host.options.root or ''}{place}")),),
        risk=Risk.MANUAL,
        needs_root=folder is None or folder.uid != job_user(host).euid,
    )


def mixed(install: Install, parts: dict[str, list[str]], severity: Severity) -> Finding:
    text = _("{path} mixes several releases: its parts are in {folders}")
    return Finding(
        "cann-install.mixed-latest",
        text.format(path=install.path, folders=", ".join(parts)),
        severity=severity,
        evidence=tuple(f"{folder}: {', '.join(names)}" for folder, names in parts.items()),
        action=Action.CONFIG,
    )


def kernels_missing(install: Install) -> Finding:
    text = _("no kernels package is installed for the CANN at {install}")
    if at_least(install.version, "8.5"):
        text = _("no ops package was found for the CANN at {install}")
    later = _("MindSpore does not start without it; the effect on torch_npu is unknown")
    if at_least(install.version, "8.5"):
        later = _("the package locations of this release are known from documentation only")
    return Finding(
        "cann-install.kernels-missing",
        text.format(install=install.label),
        severity=INFO if at_least(install.version, "8.5") else WARNING,
        evidence=(later,),
        action=Action.CONFIG,
    )


def kernels_other(install: Install, version: str) -> Finding:
    text = _("the kernels package is {version}, which does not suit the CANN at {install}")
    return Finding(
        "cann-install.kernels-other-version",
        text.format(version=version, install=install.label),
        evidence=(f"{install.path}/opp_kernel/version.info: Version={version}",)
        if not at_least(install.version, "8.5")
        else (),
        action=Action.CONFIG,
        # What it asks for was read in a part of another release.
        echo_of=("cann-install.mixed-latest",),
    )


def wrong_machine(install: Install, told: str, machine: str, proven: bool) -> Finding:
    text = _("the CANN at {install} is for {told}, and this machine is {machine}")
    evidence = _("its libraries are for {told}") if proven else _("its install record says arch={told}")
    return Finding(
        "cann-install.wrong-machine",
        text.format(install=install.label, told=told, machine=machine),
        severity=ERROR if proven else INFO,
        evidence=(evidence.format(told=told),),
        action=Action.CONFIG,
    )
