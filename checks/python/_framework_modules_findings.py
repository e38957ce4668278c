"""What framework-modules says, and the lines that set it right."""

from __future__ import annotations

from npudoctor import ERROR, WARNING, Action, Command, Finding, Fix, Host, Risk, _
from npudoctor.checks.python._pip import out_of_pythonpath, pip_fix
from npudoctor.checks.python._requirements import install
from npudoctor.host.python.interpreter import Distribution, normal
from npudoctor.host.python.modules import Module
from npudoctor.host.python.site_folders import is_site


def source_gone(host: Host, name: str, version: str, path: str, module: str, mild: bool) -> Finding:
    """An editable install of sources that are gone."""
    text = _("{name} {version} is installed as a link to its sources, and no module {module} is there")
    if not version:
        text = _("{name} was installed as a link to its sources, and no module {module} is there")
    title = _("install {name} itself in place of the link, or put the sources back").format(name=name)
    again = ("install", "--force-reinstall", "--no-deps", f"{normal(name)}=={version}")
    return Finding(
        "framework-modules.source-gone",
        text.format(name=name, version=version, module=module),
        severity=WARNING if mild else ERROR,
        evidence=(path,),
        action=Action.CONFIG,
        # Where no metadata says which it was, those who require it do.
        fix=pip_fix(host, title, again) if version else install(host, name, title),
    )


def not_built(host: Host, found: Distribution, module: Module, beside: bool = False) -> Finding:
    """A source tree in the place of the package. `beside`: the package itself is installed as well, so that
    installing it once more changes nothing."""
    text = _("{path} is a source tree that was not built, and Python takes it for {name} {version}")
    title = _("build it, or take its folder out of the search path; or install {name} itself")
    wanted = f"{normal(found.name)}=={found.version}"
    again = ("install", "--force-reinstall", "--no-deps", wanted)
    fix = _out_of_path(host, module) if beside else pip_fix(host, title.format(name=found.name), again)
    return Finding(
        "framework-modules.not-built",
        text.format(path=module.folders[0], name=found.name, version=found.version),
        evidence=(found.folder, *_leading_to(host, module)),
        action=Action.CONFIG,
        fix=fix,
        echo_of=("source-shadowing.package",),
    )


def _out_of_path(host: Host, module: Module) -> Fix:
    """The line where a variable leads to it; .pth files and the working directory are for a person."""
    title = _("move {path} aside, or take the folder it is in out of the search path")
    text = title.format(path=module.folders[0])
    by_hand = Fix(text, steps=(), risk=Risk.MANUAL, needs_root=False)
    return out_of_pythonpath(host, module.folders[0].rpartition("/")[0]) or by_hand


def hidden(host: Host, found: Distribution, name: str, winner: Module, mild: bool) -> Finding:
    """Something else of that name."""
    text = _("{path} is found before {module} of {name} {version}, and is something else")
    path = winner.file or ""
    steps = (Command(("mv", path, f"{path}.aside")),)
    return Finding(
        "framework-modules.hidden",
        text.format(path=path, module=name, name=found.name, version=found.version),
        severity=WARNING if mild else ERROR,
        evidence=(found.folder, *_leading_to(host, winner)),
        action=Action.CONFIG,
        fix=Fix(
            _("move it aside, or take its folder out of the search path"),
            steps=steps,
            risk=Risk.MANUAL,
            needs_root=False,
        ),
    )


def _leading_to(host: Host, module: Module) -> tuple[str, ...]:
    """The .pth files that name the folder of a module."""
    folder = (module.folders[0] if module.folders else module.file or "").rpartition("/")[0]
    files = (
        f"{site}/{name}"
        for site in filter(is_site, host.interpreter.layout().search_path)
        for name in host.files.names(site)
        if name.endswith(".pth")
    )
    return tuple(path for path in files if folder in (host.files.text(path) or ""))
