"""Does Python find the installed frameworks, what they require and what they load, where they lie?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import ERROR, Facts, Finding, Host, Scope, Skip, Unknown, _, check
from npudoctor.checks.python import _framework_modules_findings as say
from npudoctor.checks.python._framework_backends import backends, plugins
from npudoctor.checks.python._installed_modules import (
    is_another,
    is_inside,
    module_of,
    modules_of,
    recorded_once,
    tops,
)
from npudoctor.checks.python._requirements import FRAMEWORKS, closure_of
from npudoctor.checks.python._start_up_code import start_up_code, undetermined
from npudoctor.checks.python.conflicting_packages import EXTENSIONS
from npudoctor.checks.python.source_shadowing import PACKAGES
from npudoctor.host.fs.archives import members
from npudoctor.host.python.installed_files import InstalledFile, site_of
from npudoctor.host.python.interpreter import Distribution, normal
from npudoctor.host.python.modules import Module
from npudoctor.host.python.site_folders import is_site
from npudoctor.knowledge.requirements import imported_modules

_EDITABLE = "__editable__"


@check(
    "framework-modules",
    scope=Scope.JOB,
    tags={"mindspore", "paddle", "pytorch", "tensorflow"},
    needs=("packages",),
    quick=False,
    codes={
        "framework-modules.source-gone": ERROR,
        "framework-modules.not-built": ERROR,
        "framework-modules.hidden": ERROR,
        "framework-modules.backend-gone": ERROR,
        "framework-modules.plugin-unusable": ERROR,
        "framework-modules.start-up-code": ERROR,
    },
)
def framework_modules(host: Host) -> Iterator[Union[Finding, Facts]]:
    """Python finds the installed frameworks, and what they load by themselves.

    ## What it does

    Follows imports through the search path of the examined interpreter as Python would, the working
    directory and PYTHONPATH first, through `.pth` files, zip files and editable installs. Nothing is
    imported. Where code of a `.pth` file decides, nothing is said to be missing.

    - `framework-modules.source-gone`: an editable install, or a development link (`.egg-link`), whose
      sources are gone.
    - `framework-modules.not-built`: what is found first is a source tree without its compiled module.
    - `framework-modules.hidden`: another module or package of that name is found first, such as
      `google/__init__.py` before `google.protobuf`. One with the same parts, or that leads on
      (`__path__`), is none; in a zip file, such as an old egg, one that needs a library is. An error where
      an installed framework is known to need it for its import.
    - `framework-modules.backend-gone`: an installed package announces a back end to torch 2.5 and later
      (entry point `torch.backends`), and its module or function is not there, or something that the module
      imports without a condition.
    - `framework-modules.plugin-unusable`: in a folder of which TensorFlow or Paddle loads every library lies
      one that is none.
    - `framework-modules.start-up-code`: what Python runs at its start (sitecustomize, usercustomize, a line
      of code in a `.pth` file) ends it, by its text: `sys.exit()`, `os._exit()`, `raise SystemExit` at the
      top level. A warning where something before that may keep it from being reached, where it raises another
      exception, which Python only reports, or where it puts something in the place of a framework
      (`sys.modules["torch"] = ...`). Where such a module does more and was not run, the row says so, and that
      decides nothing.

    ## Why it matters

    pip lists all of it as installed. The import ends with `No module named ...`, or an error about
    something that nobody imported.

    ## Fix safety

    Shown only.

    ## References

    - Python packaging, "Entry points specification"; setuptools, "Development mode".
    - PyTorch, "Autoloading out-of-tree extensions"; PEP 420.
    """
    whole = closure_of(host)
    strays = list(_strays(host))
    if not whole.roots and not strays:
        raise Skip(_("no framework is installed in {python}").format(python=host.interpreter.label))
    told = (*whole.roots, *(need.found for need in whole.needs))
    looked_at = {found.folder: found for found in told if found is not None}
    yield Facts({"distributions": len(looked_at)})
    yield from strays
    for found in looked_at.values():
        yield from _placed(host, found)
    yield from backends(host)
    yield from plugins(host)
    yield from start_up_code(host)
    strange = undetermined(host)
    if strange is not None:  # most are of a site that works, so that it decides nothing
        raise Unknown(strange, advisory=True)


def _placed(host: Host, found: Distribution) -> Iterator[Finding]:
    listed = recorded_once(host, found)
    names = tops(listed)
    if not names:
        yield from _without_own(host, found)
    for name in names:
        finding = _found(host, found, name, listed)
        if finding is not None:
            yield finding
            return


def _found(host: Host, found: Distribution, name: str, listed: list[InstalledFile]) -> Optional[Finding]:
    """What is wrong with where a module is found that came with a list of files."""
    modules, site = modules_of(host), site_of(found)
    module = modules.find(name)
    if module is not None and is_inside(host, module, site) and not _is_of_an_egg(host, found, module):
        return None
    if module is None:
        return _nothing(host, found, name)
    told: Optional[Finding] = None
    if _is_not_built(host, found, module):
        told = say.not_built(host, found, module, beside=True)
    elif _lacks_libraries(host, found, module) or (
        not _is_told(host, name, module) and is_another(host, module, name, listed, site)
    ):
        told = say.hidden(host, found, name, module, _is_spared(host, found, name))
    elif _is_of_an_egg(host, found, module):
        told = say.hidden(host, found, name, module, True)
    return told


def _is_of_an_egg(host: Host, found: Distribution, module: Module) -> bool:
    """Whether it lies in an old egg that does not say what it is; perhaps another version of the same."""
    egg, inside, _rest = (module.file or "").partition(".egg/")
    copies = host.interpreter.distributions(found.name)
    return bool(inside) and not any(site_of(copy) == f"{egg}.egg" for copy in copies)


def _is_spared(host: Host, found: Distribution, name: str) -> bool:
    """Whether no installed framework is known to need the module for its import."""
    roots = closure_of(host).roots
    known = (imported_modules(host.knowledge, normal(root.name), root.version) for root in roots)
    return normal(found.name) not in FRAMEWORKS and not any(name in modules for modules in known)


def _nothing(host: Host, found: Distribution, name: str) -> Optional[Finding]:
    """Of a part of a namespace that is on the disk: whether another package stands before the namespace.
    Missing files are package-files' to tell."""
    modules = modules_of(host)
    top = modules.top(name.partition(".")[0])
    path = f"{site_of(found)}/{name.replace('.', '/')}/__init__.py"
    if "." not in name or top is None or top.file is None or modules.is_open(name):
        return None
    told: Finding = say.hidden(host, found, name, top, _is_spared(host, found, name))
    return told if host.files.stat(path) is not None else None


def _is_told(host: Host, name: str, module: Module) -> bool:
    """Whether source-shadowing says so, which knows some by name."""
    folder = (module.file or "").rpartition("/")[0]
    folder = folder.rpartition("/")[0] if module.folders else folder
    own = folder in host.interpreter.layout().search_path
    return name in PACKAGES and (not own or folder in host.variables.path_list("PYTHONPATH"))


def _without_own(host: Host, found: Distribution) -> Iterator[Finding]:
    """Of one whose files lie elsewhere: an editable install, or one in its own source tree."""
    module, modules = module_of(found.name), modules_of(host)
    place = modules.find(module)
    if place is None or place.file is None:
        if _is_editable(host, found) and modules.is_missing(module):
            mild = all(need.lenient for need in closure_of(host).of(found.name))
            mild = mild and normal(found.name) not in FRAMEWORKS
            yield say.source_gone(host, found.name, found.version, found.folder, module, mild)
    elif not _is_wheel(host, found) and _is_not_built(host, found, place):
        yield say.not_built(host, found, place)
    elif _lacks_libraries(host, found, place):
        copies = host.interpreter.distributions(found.name)
        other = next((copy for copy in copies if site_of(copy) != site_of(found)), found)
        yield say.hidden(host, other, module, place, False)


def _is_wheel(host: Host, found: Distribution) -> bool:
    """Whether it was installed as files of its own, of which no list is left."""
    return found.folder.endswith(".dist-info") and not _is_editable(host, found)


def _is_editable(host: Host, found: Distribution) -> bool:
    start = f"{_EDITABLE}.{normal(found.name).replace('-', '_')}-"
    return any(name.startswith(start) for name in modules_of(host).names(site_of(found)))


def _is_not_built(host: Host, found: Distribution, module: Module) -> bool:
    """Whether a package of sources lacks the compiled module without which it cannot be imported."""
    if not module.folders or module.file is None or module.archived:
        return False
    needed = EXTENSIONS.get(normal(found.name), ())
    above = module.folders[0].rpartition("/")[0]
    names = modules_of(host).names
    built = any(
        name.startswith(f"{stem}.") and name.endswith((".so", ".pyd"))
        for folder, stem in needed
        for name in names(f"{above}/{folder}")
    )
    return bool(needed) and not built


def _lacks_libraries(host: Host, found: Distribution, module: Module) -> bool:
    """Whether it lies in a zip file, such as an old egg, from which no library can be loaded, and has no
    source there that would unpack the one it needs."""
    needed = EXTENSIONS.get(normal(found.name), ())
    archive = next((path for path in _archives(host) if (module.file or "").startswith(f"{path}/")), None)
    if not module.archived or not needed or archive is None:
        return False
    inside = members(host.files, archive)
    return not any(f"{folder}/{stem}{end}" in inside for folder, stem in needed for end in (".py", ".pyc"))


def _archives(host: Host) -> Iterator[str]:
    for place in host.interpreter.layout().search_path:
        entry = host.files.stat(place) if place.startswith("/") else None
        if entry is not None and entry.is_file:
            yield place


def _strays(host: Host) -> Iterator[Finding]:
    """Links of `setup.py develop` to sources that are gone, with their metadata."""
    modules = None
    for site in filter(is_site, host.interpreter.layout().search_path):
        links = {name for name in host.files.names(site) if name.endswith(".egg-link")}
        for name in FRAMEWORKS:
            spelled = {f"{name}.egg-link", f"{name.replace('-', '_')}.egg-link"} & links
            if not spelled or host.interpreter.installed(name) is not None:
                continue
            modules = modules or modules_of(host)
            if modules.is_missing(module_of(name)):
                path = f"{site}/{sorted(spelled)[0]}"
                yield say.source_gone(host, name, "", path, module_of(name), False)
