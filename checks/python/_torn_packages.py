"""What a stopped pip, a torn copy or an emptied cache left of packages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from npudoctor import ERROR, INFO, WARNING, Action, Command, Finding, Fix, Host, _
from npudoctor.checks.python._pip import pip_reinstall
from npudoctor.core.frozen import replace
from npudoctor.facts.python.interrupted import HalfPackage, StoppedInstall, find_asking, list_stopped
from npudoctor.facts.python.pip_obstacles import has_dead_links_for_metadata
from npudoctor.host.fs.disk import LINK
from npudoctor.host.python.installed_files import DistributionDamage
from npudoctor.host.python.interpreter import Distribution, normalize_name
from npudoctor.host.python.metadata import find_distributions

if TYPE_CHECKING:
    from npudoctor.facts.python.failing_imports import FailingImport

SHOWN = 3


def find_dead_links(host: Host, folders: Sequence[str]) -> Iterator[Finding]:
    """Report them for each folder of packages; their metadata are such links too: nothing lists their files.

    uv installs links into its cache if it is told to (UV_LINK_MODE=symlink), and the cache was emptied or is
    not mounted.
    """
    for site in folders:
        copies = [Distribution(*fields) for fields in find_distributions(site, host.files.names(site))]
        # pip is judged where a line needs it.
        copies = [copy for copy in copies if copy.folder.endswith(".dist-info") and copy.name != "pip"]
        sizes = host.files.sizes(site, [f"{copy.folder[len(site) + 1 :]}/METADATA" for copy in copies])
        linked = [copy for copy, size in zip(copies, sizes) if size == LINK]
        dead = [copy for copy in linked if has_dead_links_for_metadata(host, copy)]
        if dead:
            yield _report_dead_links(host, site, dead, len(copies))


def _report_dead_links(host: Host, site: str, dead: Sequence[Distribution], count: int) -> Finding:
    title = _("bring back what the links lead to, or install the packages again in their place")
    return Finding(
        "package-files.missing",
        _(
            "{count} of {all} packages in {folder} are links to files that are gone, such as {name}",
            count=len(dead),
            all=count,
            folder=site,
            name=dead[0].label,
        ),
        evidence=tuple(copy.folder for copy in dead[:SHOWN]),
        action=Action.CONFIG,
        fix=pip_reinstall(host, title, *(copy.requirement for copy in dead)),
    )


def judge_imports(
    host: Host, damages: Sequence[tuple[Distribution, DistributionDamage]]
) -> Iterator[Finding]:
    """Report what the frameworks import in vain, once for each distribution to blame."""
    # Loaded here: package-files is asked of whole installations most of the time.
    from npudoctor.facts.python.failing_imports import find_failing_imports

    reported: set[str] = set()
    for failing in find_failing_imports(host, damages):
        if failing.copy.folder not in reported:
            reported.add(failing.copy.folder)
            yield _report_failing_import(host, failing)


def _report_failing_import(host: Host, failing: FailingImport) -> Finding:
    copy, broken = failing.copy, failing.broken
    text = _("{name}: {path} is missing, and {importer} imports it")
    if broken.name:
        text = _("{name}: {path} is truncated: it has no {missing}, which {importer} imports")
    elif broken.is_cut:
        text = _("{name}: {path} is truncated, and {importer} imports it")
    title = _("reinstall {name} over the damaged files", name=copy.label)
    return Finding(
        "package-files.cut-short" if broken.name or broken.is_cut else "package-files.missing",
        text.format(
            name=copy.label,
            path=failing.path or broken.path or _("module {module}", module=broken.missing),
            importer=broken.importer or _("the job"),
            missing=broken.name,
        ),
        evidence=(f"import {'.'.join(filter(None, [broken.missing, broken.name]))}",),
        action=Action.CONFIG,
        fix=pip_reinstall(host, title, copy.requirement if copy.version else normalize_name(copy.name)),
        echo_of=find_stop_code(host, copy.name),
    )


def report_half(host: Host, half: HalfPackage) -> Finding:
    # Of a folder without metadata the version is unknown: pip takes the newest.
    requirement = f"{half.name}=={half.version}" if half.version else half.name
    return Finding(
        "package-files.missing",
        _(
            "{folder} holds {count} modules and libraries of {name}, but no __init__.py: half a package",
            folder=half.folder,
            count=half.count,
            name=half.name,
        ),
        evidence=(half.folder,),
        action=Action.CONFIG,
        fix=pip_reinstall(host, _("reinstall {package}", package=half.name), requirement),
        echo_of=find_stop_code(host, half.name),
    )


def report_interrupted(host: Host, stopped: StoppedInstall) -> Finding:
    texts = {
        "whole": _("{path} was left by an interrupted pip; {package} itself is present"),
        "gone": _("{path} was left by an interrupted pip, and {package} itself is missing"),
        "unfinished": _("{path} was left by an interrupted pip, and {package} itself is incomplete"),
        "unrecorded": _(
            "{path} was left by an interrupted pip: the files of {package} are present, its metadata is not"
        ),
    }
    is_whole = stopped.state == "whole"
    # Without its metadata a package can be imported; whoever asks for its version fails.
    is_mild = stopped.state == "unrecorded" and find_asking(host, stopped.name) is None
    return Finding(
        "package-files.interrupted",
        texts[stopped.state].format(path=stopped.leftovers[0], package=stopped.name),
        severity=INFO if is_whole else WARNING if is_mild else ERROR,
        evidence=stopped.leftovers,
        action=Action.NONE if is_whole else Action.CONFIG,
        fix=None if is_whole else _reinstall_and_remove(host, stopped),
    )


def _reinstall_and_remove(host: Host, stopped: StoppedInstall) -> Fix:
    title = _("reinstall {package}, then remove what pip left", package=stopped.name)
    fix: Fix = pip_reinstall(host, title, stopped.requirement)
    # pip warns of an invalid distribution with every command as long as these are there.
    removal = Command(("rm", "-r", *stopped.leftovers))
    return replace(fix, steps=(*fix.steps, removal)) if fix.steps else fix


def find_stop_code(host: Host, name: str) -> tuple[str, ...]:
    """Return the code of the cause where pip was stopped while it replaced this package."""
    states = {stopped.name: stopped.state for stopped in list_stopped(host)}
    is_cause = states.get(normalize_name(name), "whole") != "whole"
    return ("package-files.interrupted",) if is_cause else ()
