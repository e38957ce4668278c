"""Which damage to installed packages makes an import fail, by following what the frameworks import.

Only where something is wrong: following torch alone reads a thousand sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.facts.python.frameworks import installed_job_distributions
from npudoctor.facts.python.installed_modules import (
    is_editable,
    list_optional_files,
    list_recorded_files,
    module_at,
    module_of,
    modules_of,
)
from npudoctor.facts.python.interrupted import COMPANIONS, list_stopped
from npudoctor.host.host import Host
from npudoctor.host.python.bindings import list_static_bindings
from npudoctor.host.python.import_walk import BrokenImport, ImportWalk
from npudoctor.host.python.installed_files import DistributionDamage, find_left_out, site_of
from npudoctor.host.python.interpreter import Distribution, normalize_name

# What a job imports of packages that load their parts when these are asked for.
_PARTS = {
    "transformers": ("transformers.modeling_utils", "transformers.trainer"),
    "trl": ("trl.trainer.sft_trainer",),
    "diffusers": ("diffusers.models",),
    "lightning": ("lightning.pytorch",),
}
# A module with these has names that its text does not mention.
_ANY_NAME = pattern(r"import[ \t]*\(?[ \t]*\*|^def __getattr__|\bexec\(", re.MULTILINE)
_QUOTED = pattern(r"[\"']([^\W\d]\w*)[\"']")
_SHORTENED = 400  # sources of one run that are read; people shorten a few, a mixed tree has hundreds


@dataclass(frozen=True)
class FailingImport:
    """An import that fails, and whose file is to blame. `path`: that file, "" where no list names it."""

    copy: Distribution
    path: str
    broken: BrokenImport


def find_failing_imports(
    host: Host, damages: Sequence[tuple[Distribution, DistributionDamage]]
) -> Iterator[FailingImport]:
    """Yield imports of the frameworks that fail for lack of a module that an image may leave out, of a name
    that a source has lost with its end, or of a module of a package without a list of its files."""
    gone: dict[str, tuple[Distribution, str]] = {}
    shortened: dict[str, tuple[Distribution, str]] = {}
    unlisted: dict[str, tuple[Distribution, str]] = {}
    offered: dict[str, frozenset[str]] = {}
    stopped = {stopped.name for stopped in list_stopped(host) if stopped.state != "whole"}
    for copy, damage in damages:
        site = site_of(copy)
        # What is to be said of these is known.
        if damage.missing or normalize_name(copy.name) in stopped:
            continue
        for path in find_left_out(host.files, site, list_optional_files(host, copy)):
            gone[module_at(path)] = copy, f"{site}/{path}"
        recorded = list_recorded_files(host, copy)
        for file, now in zip(recorded, damage.sizes):
            if 0 < now < file.size and file.path.endswith(".py") and len(shortened) < _SHORTENED:
                names = _list_names(modules_of(host).text(f"{site}/{file.path}"))
                if names is not None:
                    module = module_at(file.path)
                    shortened[module], offered[module] = (copy, f"{site}/{file.path}"), names
        if not recorded and not is_editable(host, copy):
            unlisted[module_of(copy.name).partition(".")[0]] = copy, ""
    if not gone and not shortened and not unlisted:
        return
    walk = ImportWalk(modules_of(host), gone, offered, unlisted)
    for broken in walk.find_broken(_list_roots(host)):
        top = broken.missing.partition(".")[0]
        blamed = (shortened if broken.name else gone).get(broken.missing) or unlisted.get(top)
        # What imports a part of itself from elsewhere is another copy, such as a clone on PYTHONPATH.
        if blamed is not None and not _is_another_copy(broken, site_of(blamed[0])):
            yield FailingImport(*blamed, broken)


def _is_another_copy(broken: BrokenImport, site: str) -> bool:
    top = broken.missing.partition(".")[0]
    return f"/{top}/" in broken.importer and not broken.importer.startswith(f"{site}/")


def _list_roots(host: Host) -> list[str]:
    """The modules that jobs import, in their order."""
    roots: dict[str, None] = {}
    for distribution in installed_job_distributions(host):
        for statement in distribution.imports:  # import a.b; from a.b import c
            module = statement.split()[1].rstrip(",;")
            roots.update(dict.fromkeys((module, *_PARTS.get(module, ()))))
    companions = filter(None, map(host.interpreter.installed, COMPANIONS))
    roots.update(dict.fromkeys(module_of(copy.name) for copy in companions))
    return [*roots]


def _list_names(text: str) -> Optional[frozenset[str]]:
    """The names that a source may have; None if its text does not tell."""
    names = list_static_bindings(text)
    if names is None or _ANY_NAME.search(text):
        return None
    # What it binds at run time it mostly names in quotes: globals()["relu"].
    return names.union(_QUOTED.findall(text))
