"""Does Python find the installed frameworks, what they require and what they load, where they lie?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import (
    ERROR,
    WARNING,
    Action,
    Command,
    Export,
    Facts,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    Skip,
    Unknown,
    _,
    check,
)
from npudoctor.checks.python._pip import install_accepted, pip_reinstall
from npudoctor.checks.python._pythonpath import remove_from_pythonpath
from npudoctor.facts.python.backends import (
    GROUP,
    SWITCH,
    Backend,
    find_backends,
    find_missing_import,
    find_missing_part,
    find_unusable_plugins,
)
from npudoctor.facts.python.frameworks import (
    PACKAGES,
    closed_needs,
    closure_of,
    is_job_distribution,
    is_trainer,
    job_distributions,
    require_readable_needs,
)
from npudoctor.facts.python.installed_modules import (
    is_another,
    is_editable,
    is_inside,
    is_not_built,
    is_of_an_egg,
    lacks_libraries,
    list_recorded_files,
    module_of,
    modules_of,
    top_level_modules,
)
from npudoctor.facts.python.interrupted import find_stop_codes
from npudoctor.facts.python.start_up_code import find_undetermined, find_unreadable_pth, start_up_code
from npudoctor.host.python.installed_files import InstalledFile, site_of
from npudoctor.host.python.interpreter import Distribution, normalize_name
from npudoctor.host.python.modules import Module
from npudoctor.host.startup.site_folders import is_site
from npudoctor.host.startup.startup_code import StartupStatement
from npudoctor.knowledge.distributions import list_built_in_names
from npudoctor.knowledge.requirements import list_imported_modules


@check(
    "framework-modules",
    scope=Scope.JOB,
    tags={"mindspore", "paddle", "pytorch", "tensorflow"},
    needs=("framework", *sorted(list_built_in_names())),
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
    """Python finds the installed frameworks and their autoloaded modules.

    ## What it does

    Follows imports through the search path of the examined interpreter as Python would: first the working
    directory and PYTHONPATH, then `.pth` files, zip files and editable installs. Nothing is imported. If code
    in a `.pth` file decides, nothing is reported as missing.

    - `framework-modules.source-gone`: the sources of an editable install, or of a development link
      (`.egg-link`), are gone.
    - `framework-modules.not-built`: the first match is a source tree without its compiled module.
    - `framework-modules.hidden`: another module or package with that name is found first, such as
      `google/__init__.py` before `google.protobuf`. Not reported if it has the same parts or continues the
      search (`__path__`); in a zip file, such as an old egg, it is reported if it needs a library. An error
      if an installed framework is known to need the hidden module for its import. A folder of the job, such
      as `datasets/`, that hides one of the trainers' stack is a warning: the job may import neither.
    - `framework-modules.backend-gone`: an installed package registers a back end with torch 2.5 and later
      (entry point `torch.backends`), but its module or function does not exist, or something that the module
      imports unconditionally.
    - `framework-modules.plugin-unusable`: TensorFlow or Paddle loads every library in a folder, and one file
      in it is not an intact library.
    - `framework-modules.start-up-code`: code that Python runs at startup (sitecustomize, usercustomize, a
      line of code in a `.pth` file) ends Python, judging by its text: `sys.exit()`, `os._exit()`,
      `raise SystemExit` at the top level. A warning if something before that line may prevent its execution,
      if the code raises another exception, which Python only reports, or if it replaces a framework
      (`sys.modules["torch"] = ...`). Also a `.pth` file that is not in UTF-8, with which Python does not
      start. If such a module does more and was not run, the result says so, and this does not affect the
      verdict.

    ## Why it matters

    pip lists all of it as installed. The import ends with `No module named ...`, or an error about
    something that nobody imported.

    ## Fix safety

    Shown only.

    ## References

    - Python packaging, "Entry points specification"; setuptools, "Development mode".
    - PyTorch, "Autoloading out-of-tree extensions"; PEP 420.
    """
    layout = host.interpreter.layout()
    closure = closure_of(host)
    dead_links = list(_find_dead_links(host))
    if not closure.roots and not dead_links:
        raise Skip(_("no framework is installed in {python}", python=host.interpreter.label))
    copies = {
        copy.folder: copy for copy in (*closure.roots, *(need.installed for need in closure.needs)) if copy
    }
    for closed_need in closed_needs(host):  # there is no list of its files
        copies.pop(closed_need.copy.folder, None)
    yield Facts({"distributions": len(copies)})
    yield from dead_links
    yield from filter(None, (_judge(host, copy) for copy in copies.values()))
    yield from filter(None, (_judge_backend(host, backend) for backend in find_backends(host)))
    yield from (_report_unusable_plugin(framework, path) for framework, path in find_unusable_plugins(host))
    yield from filter(
        None, (_report_start_up_code(place, statement) for place, statement in start_up_code(host))
    )
    yield from (_report_unreadable_pth(host, path) for path in find_unreadable_pth(host, layout))
    require_readable_needs(host)
    unclear = find_undetermined(host)
    if unclear is not None:  # mostly harmless code of the site, so it does not affect the verdict
        raise Unknown(unclear, advisory=True)


def _judge(host: Host, copy: Distribution) -> Optional[Finding]:
    """Return a finding about the first module that Python does not find where it was installed; None if all
    are."""
    listed = list_recorded_files(host, copy)
    names = top_level_modules(listed)
    if not names:
        # No recorded files: an editable install, or a package in its own source tree.
        name, modules = module_of(copy.name), modules_of(host)
        module = modules.find(name)
        if module is None or module.file is None:
            if not is_editable(host, copy) or not modules.is_missing(name):
                return None
            is_mild = all(need.lenient for need in closure_of(host).of(copy.name))
            is_mild = is_mild and not is_job_distribution(host, copy.name)
            return _report_missing_source(host, copy.name, copy.version, copy.folder, name, is_mild)
        is_wheel = copy.folder.endswith(".dist-info") and not is_editable(host, copy)
        if not is_wheel and is_not_built(host, copy, module):
            return _report_not_built(host, copy, module)
        if not lacks_libraries(host, copy, module):
            return None
        copies = host.interpreter.distributions(copy.name)
        other = next((other for other in copies if site_of(other) != site_of(copy)), copy)
        return _report_hidden(host, other, name, module, False)
    findings = (_judge_place(host, copy, name, listed) for name in names)
    return next(filter(None, findings), None)


def _judge_place(host: Host, copy: Distribution, name: str, listed: list[InstalledFile]) -> Optional[Finding]:
    """Judge where Python finds a module that the list of files (RECORD) names."""
    modules, site = modules_of(host), site_of(copy)
    module = modules.find(name)
    if module is None:
        return _find_namespace_cover(host, copy, name)
    is_from_egg = is_of_an_egg(host, copy, module)
    if is_inside(host, module, site) and not is_from_egg:
        return None
    if is_not_built(host, copy, module):
        return _report_not_built(host, copy, module, is_package_installed=True)
    is_hidden = lacks_libraries(host, copy, module)
    folder = (module.file or "").rpartition("/")[0]
    folder = folder.rpartition("/")[0] if module.folders else folder
    is_searched = folder in host.interpreter.layout().search_path
    if not is_hidden:
        # source-shadowing says so of those that it knows by name.
        is_shadowing = name in PACKAGES and (
            not is_searched or folder in host.variables.path_list("PYTHONPATH")
        )
        is_hidden = not is_shadowing and is_another(host, module, name, listed, site)
    if is_hidden:
        is_of_the_job = is_trainer(host, copy) and not is_searched
        return _report_hidden(host, copy, name, module, _is_spared(host, copy, name, is_of_the_job))
    return _report_hidden(host, copy, name, module, True) if is_from_egg else None


def _is_spared(host: Host, copy: Distribution, name: str, is_of_the_job: bool = False) -> bool:
    """Whether no installed framework is known to import the module when it is imported itself.

    `is_of_the_job`: what hides it lies where the job starts, such as a folder datasets/ of its own, and it is
    one of the trainers' stack: whether the job imports that is unknown.
    """
    roots = closure_of(host).roots
    needed_modules = (
        list_imported_modules(host.knowledge, normalize_name(root.name), root.version) for root in roots
    )
    is_mild = is_of_the_job or not is_job_distribution(host, copy.name)
    return is_mild and not any(name in modules for modules in needed_modules)


def _find_namespace_cover(host: Host, copy: Distribution, name: str) -> Optional[Finding]:
    """Return a finding if a regular package hides this part of a namespace package, whose files exist.
    package-files reports missing files."""
    modules = modules_of(host)
    top = modules.find_top(name.partition(".")[0])
    path = f"{site_of(copy)}/{name.replace('.', '/')}/__init__.py"
    # A regular package ends the search for namespace portions (PEP 420): google/__init__.py of one package
    # hides google.protobuf of another.
    if "." not in name or top is None or top.file is None or modules.is_dynamic(name):
        return None
    if host.files.stat(path) is None:
        return None
    return _report_hidden(host, copy, name, top, _is_spared(host, copy, name))


def _find_dead_links(host: Host) -> Iterator[Finding]:
    """Yield findings for links of `setup.py develop` to sources that no longer exist."""
    modules = None
    for site in filter(is_site, host.interpreter.layout().search_path):
        # `setup.py develop` of setuptools leaves NAME.egg-link in site-packages.
        links = {name for name in host.files.names(site) if name.endswith(".egg-link")}
        for name in (member.name for member in job_distributions(host)) if links else ():
            spelled = {f"{name}.egg-link", f"{name.replace('-', '_')}.egg-link"} & links
            if not spelled or host.interpreter.installed(name) is not None:
                continue
            modules = modules or modules_of(host)
            if modules.is_missing(module_of(name)):
                path = f"{site}/{sorted(spelled)[0]}"
                yield _report_missing_source(host, name, "", path, module_of(name), False)


def _report_missing_source(
    host: Host, name: str, version: str, path: str, module: str, is_mild: bool
) -> Finding:
    """Report an editable install whose sources no longer exist. `version` is "" if unknown."""
    text = _("{name} {version} is an editable install (pip install -e), but module {module} cannot be found")
    if not version:
        text = _("{name} is an editable install (pip install -e), but module {module} cannot be found")
    title = _("install {name} itself in place of the link, or put the sources back", name=name)
    requirement = f"{normalize_name(name)}=={version}"
    return Finding(
        "framework-modules.source-gone",
        text.format(name=name, version=version, module=module),
        severity=WARNING if is_mild else ERROR,
        evidence=(path,),
        action=Action.CONFIG,
        # Without metadata the version is unknown: choose one that its users accept.
        fix=pip_reinstall(host, title, requirement) if version else install_accepted(host, name, title),
    )


def _report_not_built(
    host: Host, copy: Distribution, module: Module, is_package_installed: bool = False
) -> Finding:
    """Report a source tree that Python loads in place of the built package. `is_package_installed`: the built
    package is installed too, so reinstalling it changes nothing."""
    reinstall_fix = pip_reinstall(
        host,
        _("build it, remove its folder from the search path, or install {name} itself", name=copy.name),
        copy.requirement,
    )
    fix = reinstall_fix
    if is_package_installed:
        # A command exists only for PYTHONPATH; .pth files and the working directory need a person.
        text = _(
            "move {path} aside, or remove its parent folder from the search path", path=module.folders[0]
        )
        manual_fix = Fix(text, steps=(), risk=Risk.MANUAL, needs_root=False)
        fix = remove_from_pythonpath(host, module.folders[0].rpartition("/")[0]) or manual_fix
    return Finding(
        "framework-modules.not-built",
        _(
            "{path} is an unbuilt source tree, but Python loads it as {name} {version}",
            path=module.folders[0],
            name=copy.name,
            version=copy.version,
        ),
        evidence=(copy.folder, *_find_leading_pth(host, module)),
        action=Action.CONFIG,
        fix=fix,
        echo_of=("source-shadowing.package", *find_stop_codes(host)),
    )


def _report_hidden(host: Host, copy: Distribution, name: str, winner: Module, is_mild: bool) -> Finding:
    """Report another module of that name that is found first. `is_mild`: a warning."""
    path = winner.file or ""
    return Finding(
        "framework-modules.hidden",
        _(
            "{path} hides {module} of {name} {version}, but is not part of it",
            path=path,
            module=name,
            name=copy.name,
            version=copy.version,
        ),
        severity=WARNING if is_mild else ERROR,
        evidence=(copy.folder, *_find_leading_pth(host, winner)),
        action=Action.CONFIG,
        fix=_move_aside_fix(_("move it aside, or remove its folder from the search path"), path),
    )


def _find_leading_pth(host: Host, module: Module) -> tuple[str, ...]:
    """Return the .pth files that add the module's folder to the search path."""
    folder = (module.folders[0] if module.folders else module.file or "").rpartition("/")[0]
    paths = (
        f"{site}/{name}"
        for site in filter(is_site, host.interpreter.layout().search_path)
        for name in host.files.names(site)
        if name.endswith(".pth")
    )
    entries = ((path, host.files.stat(path)) for path in paths)  # Python skips what is no file
    files = (path for path, entry in entries if entry is not None and entry.is_file)
    return tuple(path for path in files if folder in (host.files.text(path) or ""))


def _judge_backend(host: Host, backend: Backend) -> Optional[Finding]:
    # torch 2.5 and later imports all entry points of the group torch.backends ("Autoloading out-of-tree
    # extensions").
    missing, lacking = find_missing_part(host, backend), None
    text = _("import torch fails: {folder} registers {missing} as a back end, but it does not exist")
    if missing is None:
        missing = lacking = find_missing_import(host, backend)
        text = _("import torch fails: the back end {module} imports {missing}, which is missing")
    if missing is None:
        return None
    return Finding(
        "framework-modules.backend-gone",
        text.format(folder=backend.folder, module=backend.module, missing=missing),
        evidence=(f"{backend.folder}/entry_points.txt: {GROUP}",),
        action=Action.CONFIG,
        fix=Fix(
            _("reinstall or uninstall the package that registers it, or run this"),
            steps=(Export(SWITCH, "0"),),
            undo=Export(SWITCH, "1").lines(),
            risk=Risk.MANUAL,
            needs_root=False,
        ),
        echo_of=(
            "package-files.missing",
            "package-requirements.missing" if lacking else "torch-npu.cann-missing",
        ),
    )


def _report_unusable_plugin(framework: str, path: str) -> Finding:
    return Finding(
        "framework-modules.plugin-unusable",
        _(
            "import {framework} fails: it loads every library in {folder}, "
            "and {path} is not an intact library",
            framework=framework,
            folder=path.rpartition("/")[0],
            path=path,
        ),
        action=Action.CONFIG,
        fix=_move_aside_fix(_("move it aside, or reinstall its package"), path),
        echo_of=("package-files.cut-short",),
    )


def _move_aside_fix(title: str, path: str) -> Fix:
    step = Command(("mv", path, f"{path}.aside"))
    return Fix(title, steps=(step,), risk=Risk.MANUAL, needs_root=False)


def _report_unreadable_pth(host: Host, path: str) -> Finding:
    return Finding(
        "framework-modules.start-up-code",
        _("{python} does not start: {path} is not in UTF-8", python=host.interpreter.label, path=path),
        evidence=(path,),
        action=Action.CONFIG,
        fix=Fix(
            _("move these files away, or save them in UTF-8: Python cannot decode them"),
            steps=(Command(("mv", path, f"{path}.not-utf8")),),
            risk=Risk.MANUAL,
            needs_root=False,
        ),
    )


def _report_start_up_code(place: str, statement: StartupStatement) -> Optional[Finding]:
    module = statement.module.partition(".")[0]
    if statement.kind == "replaces" and module not in PACKAGES:
        return None
    text = _("{place} replaces the module {module} at Python startup: {words}")
    if statement.kind == "ends":
        text = _("Python exits at startup: {place} runs {words}")
    elif statement.kind == "raises":
        text = _("{place} runs {words} at Python startup: nothing after it is executed")
    return Finding(
        "framework-modules.start-up-code",
        text.format(place=place, words=statement.text, module=module),
        # Python only prints another exception in start-up code and goes on (site.py); SystemExit and
        # os._exit() end it.
        severity=ERROR if statement.kind == "ends" and statement.is_certain else WARNING,
        action=Action.CONFIG,
        fix=Fix(
            _("remove that line from {path}, or move the file aside", path=place.rpartition(":")[0]),
            risk=Risk.MANUAL,
            needs_root=False,
        ),
    )
