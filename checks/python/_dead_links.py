"""Packages of which all files are links that lead to nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npudoctor import Action, Finding, Host, _
from npudoctor.checks.python._pip import pip_reinstall
from npudoctor.facts.python.pip_obstacles import has_dead_links_for_metadata
from npudoctor.host.fs.disk import LINK
from npudoctor.host.python.interpreter import Distribution
from npudoctor.host.python.metadata import find_distributions

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
            yield _report(host, site, dead, len(copies))


def _report(host: Host, site: str, dead: Sequence[Distribution], count: int) -> Finding:
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
