"""Is CANN installed whole, for this machine, and readable, and which of several is in use?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Optional, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Command,
    Compared,
    Facts,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    Severity,
    Skip,
    _,
    check,
)
from npudoctor.core.cann_version import is_at_least, train
from npudoctor.facts.cann import python_packages as cann_python
from npudoctor.facts.cann import set_env as cann_env
from npudoctor.facts.cann import tree as cann_tree
from npudoctor.facts.cann.installations import ENDINGS, Install, installs_of, named_root
from npudoctor.facts.cann.places import LATER, parents
from npudoctor.facts.job.expected_accelerator import frameworks_on_cann, npu_expected
from npudoctor.facts.job.working_directory import foreign_user, job_user
from npudoctor.host import CannotTell

CheckResults = Iterator[Union[Finding, Facts]]


@check(
    "cann-install",
    scope=Scope.NODE,
    tags={"ascend"},
    needs=("cann",),
    codes={
        "cann-install.missing": ERROR,
        "cann-install.not-readable": ERROR,
        "cann-install.dangling-latest": ERROR,
        "cann-install.mixed-latest": ERROR,
        "cann-install.kernels-missing": WARNING,
        "cann-install.kernels-other-version": WARNING,
        "cann-install.wrong-machine": ERROR,
    },
    compares=(Compared("installs.0.version", "CANN"),),  # the active one comes first
)
def cann_install(host: Host) -> CheckResults:
    """CANN is complete, readable and built for this machine.

    ## What it does

    Looks for CANN where variables and install records point, in /usr/local/Ascend, in the user's Ascend
    folder and in conda's, in the layout of every release from 20.0 to 9.x. Two names of one tree are one
    installation. The facts list all installations, which one is in use, and why.

    - `missing`: NPUs are used here, MindSpore, torch_npu or vllm-ascend is installed, and CANN is not. To
      train on the CPU of such a machine, pass `--expect none`.
    - `not-readable`: this user cannot read a part of CANN that a job needs.
    - `dangling-latest`: `latest` (or `cann`), or a part of it, is a dangling link; information where another
      CANN is in use.
    - `mixed-latest`: the parts of `latest` are in different releases; an error when te and the compiler
      belong to two releases, else a warning.
    - `kernels-missing`: no kernels (from 8.5: ops) package is installed on a machine with NPUs; for CANN 8.0
      and later.
    - `kernels-other-version`: the kernels package is not one that this release requires.
    - `wrong-machine`: an error when CANN's libraries are for another machine. Information when only its
      install record says so: it is inferred that `arch=` in the record must match this machine.

    ## Why it matters

    A half-upgraded CANN loads libraries of two releases and fails late, without a clear message. Without its
    kernels package, operators cannot run. Other users cannot load a CANN that root installed only for itself.

    ## Fix safety

    Shown only: a link is set to the one release that is left. Everything else is the installer's work.

    ## References

    - CANN, "Software Installation Guide": packages, `--install-for-all`, directories.
    - The info files of installed releases 6.0 to 9.2, and `required_package_opp_kernel_version` in them.
    - MindSpore, run_check/_check_version.py: "Ascend opp_kernel is not installed".
    """
    variables = {} if host.options.root is not None else host.variables
    try:
        installs = installs_of(host)
    except CannotTell as error:
        if not cann_tree.is_closed(error):
            raise
        is_cann_named = any(variables.get(name) for name in ENDINGS)
        yield _report_not_readable(error.reason, ERROR if is_cann_named else WARNING, job_user(host).user)
        return
    active = installs[0] if installs else None
    yield _facts(installs)
    yield from _find_dangling(host, variables, active)
    if active is None:
        missing = _find_missing(host)
        if missing is None:
            raise Skip(_("CANN is not installed on this machine"))
        yield missing
        return
    reason = cann_tree.why_closed(host.files, active, foreign_user(host))
    if reason is not None:
        yield _report_not_readable(reason, ERROR, job_user(host).user)
        return
    # Up to 8.3 `latest` is a folder with one relative link for each component, so a half upgrade mixes
    # releases.
    parts = cann_tree.releases_of(host.files, active.path)
    if len(parts) > 1:
        # te and the compiler of two releases do not work together; other parts may.
        copies = cann_python.find_copies(
            host.files, "te", [f"{active.path}/{site}" for site in cann_env.SITES]
        )
        trains = {train(copy.version) for copy in copies} | {train(active.component)}
        yield _report_mixed_releases(active, parts, ERROR if len(trains - {None}) > 1 else WARNING)
    yield from _judge_kernels(host, active)
    yield from _judge_machine(host, active)


def _find_missing(host: Host) -> Optional[Finding]:
    try:
        frameworks = frameworks_on_cann(host)
    except CannotTell:
        # Whether CANN is needed is then unknown, and a machine without CANN is no fault by itself.
        return None
    if not frameworks or not npu_expected(host):
        return None
    finding: Finding = Finding(
        "cann-install.missing",
        _(
            "CANN is not installed on this machine, and {framework} in {python} cannot run without it",
            framework=frameworks[0],
            python=host.interpreter.label,
        ),
        evidence=tuple(frameworks),
        action=Action.CONFIG,
        echo_of=("cann-install.dangling-latest",),
    )
    return finding


def _facts(installs: Sequence[Install]) -> Facts:
    rows = [
        {
            "path": install.path,
            "real": install.real,
            "version": install.version,
            "component": install.component,
            "arch": install.arch,
            "kind": install.kind,
        }
        for install in installs
    ]
    why = None
    if installs:
        why = installs[0].named_by or ("only one" if len(installs) == 1 else "first of the known places")
    return Facts({"installs": rows, "active": installs[0].path if installs else None, "why": why})


def _find_dangling(host: Host, variables: Mapping[str, str], active: Optional[Install]) -> Iterator[Finding]:
    named_roots = {named_root(name, variables[name]) for name in ENDINGS if variables.get(name)}
    home = job_user(host).home if host.options.root is None else "/root"
    # The links that installers make for the newest release: latest up to 8.3, cann from 8.5 on.
    usual_places = [f"{root}/{later}" for root in parents(host.files, variables, home) for later in LATER]
    by_severity: dict[Severity, dict[str, list[str]]] = {}
    for place in dict.fromkeys((*usual_places, *(path for path in named_roots if path.startswith("/")))):
        try:
            links = cann_tree.dangling_links(host.files, place)
        except CannotTell:
            continue  # a closed place that is not in use
        if links:
            by_severity.setdefault(_dangling_severity(place, links, named_roots, active), {})[place] = links
    for severity, places in by_severity.items():
        # latest often leads to another link that dangles: the first one is the cause.
        first = next(iter(places))
        links = [link for links in places.values() for link in links]
        text = _("{place} is a dangling link: the CANN it points to no longer exists")
        if links[0] != first:
            text = _("{place} contains dangling links: the CANN they point to no longer exists")
        yield Finding(
            "cann-install.dangling-latest",
            text.format(place=first),
            severity=severity,
            evidence=tuple(links),
            action=Action.CONFIG,
            fix=_relink(host, first) if places[first] == [first] else None,
        )


def _relink(host: Host, link: str) -> Optional[Fix]:
    """Return a fix that points the link to the one release next to it; None if there is none or several."""
    folder = link.rpartition("/")[0]
    neighbours = [install for install in installs_of(host) if install.path.rpartition("/")[0] == folder]
    if len(neighbours) != 1:
        return None
    path = neighbours[0].path
    # Replacing a link needs write permission on its folder: root, unless that folder is the user's own.
    directory = host.files.stat(folder or "/")
    return Fix(
        _("point {place} to {path}", place=link, path=path),
        steps=(Command(("ln", "-sfn", path, f"{host.options.root or ''}{link}")),),
        risk=Risk.MANUAL,
        needs_root=directory is None or directory.uid != job_user(host).euid,
    )


def _dangling_severity(
    place: str, links: list[str], named_roots: set[str], active: Optional[Install]
) -> Severity:
    """Return how bad a dangling link is: it matters if a job would use it, that is, if a variable names it,
    if it is in use, or if no other installation has one of the usual names."""
    is_all_lost = links == [place] or any(link.rpartition("/")[2] in cann_tree.VITAL for link in links)
    if active is None or place in named_roots or active.path == place:
        return ERROR if is_all_lost else WARNING
    is_usual_place = any(active.path.endswith(f"/{later}") for later in LATER)
    return INFO if is_usual_place or active.named_by else ERROR


def _judge_kernels(host: Host, active: Install) -> Iterator[Finding]:
    version = cann_tree.kernels_version(host.files, active)
    if version is None:
        if is_at_least(active.version, "8.0") and active.kind != "nnrt" and npu_expected(host):
            text = _("no kernels package is installed for the CANN at {install}")
            if is_at_least(active.version, "8.5"):
                text = _("no ops package was found for the CANN at {install}")
            later = _("MindSpore does not start without it; the effect on torch_npu is unknown")
            if is_at_least(active.version, "8.5"):
                later = _("the package locations of this release are known from documentation only")
            yield Finding(
                "cann-install.kernels-missing",
                text.format(install=active.label),
                # From 8.5 on the places of the packages are known from documents and image scripts only.
                severity=INFO if is_at_least(active.version, "8.5") else WARNING,
                evidence=(later,),
                action=Action.CONFIG,
            )
    elif version and cann_tree.kernels_match(host.files, active, version) is False:
        yield _report_other_kernels(active, version)


def _judge_machine(host: Host, active: Install) -> Iterator[Finding]:
    machine = _python_machine(host)
    if machine is None:
        return
    library = cann_tree.library_machine(host.files, active)
    if library is not None:
        if library != machine:
            yield _report_wrong_machine(active, library, machine, proven=True)
        return
    declared = cann_tree.machines_of(host.files, active)
    if declared and machine not in declared:
        yield _report_wrong_machine(active, ", ".join(sorted(declared)), machine, proven=False)


def _python_machine(host: Host) -> Optional[str]:
    """Return the machine of the interpreter: by its ELF header, else as it reports it; None if unknown."""
    path = host.interpreter.path
    machine = cann_tree.elf_machine(host.files, path) if path.startswith("/") else None
    if machine is None:
        try:
            machine = host.interpreter.layout().machine
        except CannotTell:
            # Nothing to compare CANN's machine with.
            return None
    return cann_tree.canonical_machine(machine) if machine else None


def _report_not_readable(reason: str, severity: Severity, user: str) -> Finding:
    return Finding(
        "cann-install.not-readable",
        _("{user} cannot read the CANN in use: {reason}", user=user, reason=reason),
        severity=severity,
        evidence=(_("an installation with --install-for-all can be read by every user"),),
        action=Action.CONFIG,
    )


def _report_mixed_releases(install: Install, parts: dict[str, list[str]], severity: Severity) -> Finding:
    return Finding(
        "cann-install.mixed-latest",
        _(
            "{path} mixes several releases: its parts are in {folders}",
            path=install.path,
            folders=", ".join(parts),
        ),
        severity=severity,
        evidence=tuple(f"{folder}: {', '.join(names)}" for folder, names in parts.items()),
        action=Action.CONFIG,
    )


def _report_other_kernels(install: Install, version: str) -> Finding:
    return Finding(
        "cann-install.kernels-other-version",
        _(
            "the kernels package is {version}, which does not match the CANN at {install}",
            version=version,
            install=install.label,
        ),
        evidence=(f"{install.path}/opp_kernel/version.info: Version={version}",)
        # 8.5 replaced opp_kernel by one package for each chip, such as Ascend-cann-910b-ops.
        if not is_at_least(install.version, "8.5")
        else (),
        action=Action.CONFIG,
        # In a mixed tree the requirement was read from a part that belongs to another release.
        echo_of=("cann-install.mixed-latest",),
    )


def _report_wrong_machine(install: Install, built_for: str, machine: str, proven: bool) -> Finding:
    evidence = _("its libraries are for {told}") if proven else _("its install record says arch={told}")
    return Finding(
        "cann-install.wrong-machine",
        _(
            "the CANN at {install} is for {told}, but this machine is {machine}",
            install=install.label,
            told=built_for,
            machine=machine,
        ),
        # That arch= in the install record must equal the machine is inferred from installed trees.
        severity=ERROR if proven else INFO,
        evidence=(evidence.format(told=built_for),),
        action=Action.CONFIG,
    )
