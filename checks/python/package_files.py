"""Are the files of the installed frameworks, and of what they require, there and whole?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Command,
    Facts,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    Skip,
    _,
    check,
)
from npudoctor.checks.python._pip import install_one_of, pip_reinstall
from npudoctor.core.lazy import pattern
from npudoctor.facts.python.backends import find_backends
from npudoctor.facts.python.frameworks import FRAMEWORKS, closed_needs, closure_of, require_readable_needs
from npudoctor.facts.python.installed_modules import list_recorded_files, modules_of
from npudoctor.facts.python.spoiled_files import SpoiledFiles
from npudoctor.host.fs.archives import members
from npudoctor.host.python.installed_files import (
    RECORD_LIMIT,
    Damage,
    find_damage,
    is_whole,
    share_there,
    site_of,
)
from npudoctor.host.python.interpreter import Distribution, normal

# What jobs import besides frameworks, and what is often installed over one another.
BESIDE = (
    *("opencv-python", "opencv-python-headless", "opencv-contrib-python", "opencv-contrib-python-headless"),
    *(
        "transformers",
        "tokenizers",
        "accelerate",
        "datasets",
        "deepspeed",
        "peft",
        "triton",
        "scipy",
        "numpy",
    ),
)
SHOWN = 3
# "Unable to find torch_shm_manager" is the first word of `import torch` without it; whether it can be
# executed, or what it holds, only some jobs ask.
PROGRAMS = {"torch": "torch/bin/torch_shm_manager"}
# Of MindSpore's plug-ins, as an import on the CPU uses them; seen of 2.7.0 and 2.10.0.
_ALWAYS = pattern(r"/plugin/(?:cpu/)?libmindspore_(?:ops_cpu|ops_host|cpu_res_manager)\.so")
_OPENED = pattern(r"/plugin/(?:ascend/)?libmindspore_(?:ascend|ops_ascend|ascend_res_manager)\.so")


@check(
    "package-files",
    scope=Scope.JOB,
    tags={"mindspore", "paddle", "pytorch", "tensorflow"},
    needs=("packages",),
    codes={
        "package-files.missing": ERROR,
        "package-files.cut-short": ERROR,
        "package-files.spoiled": ERROR,
        "package-files.changed": WARNING,
        "package-files.stale-code": ERROR,
        "package-files.unreadable": ERROR,
        "package-files.interrupted": ERROR,
        "package-files.two-versions": ERROR,
    },
)
def package_files(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The installed frameworks' files are complete and intact.

    ## What it does

    Compares the modules and libraries (`.py`, `.so`) that the RECORD of each framework and of everything that
    it requires lists with the files on disk, with one stat for each file. Also looks for the program without
    which torch cannot be imported. Headers, byte code, tests and data are left out.

    - `package-files.missing`: files are missing, and no zip file in the search path contains them. A warning
      if only plug-in libraries are missing, which some images leave out, otherwise an error; the same holds
      for `package-files.cut-short` and `package-files.spoiled`. Also an error for plug-in libraries that
      MindSpore opens on every machine: those of the CPU, and truncated ones of Ascend.
    - `package-files.cut-short`: a file is empty, or a library ends before its own headers say.
    - `package-files.spoiled`: the content of the file cannot be loaded: zeros after a crash, a Git LFS
      pointer, a source with a different size that does not compile, truncated byte code that Python considers
      valid for its source, a folder in its place. The check reads sources with a different size, the
      packages' own files, the ends of many others, the headers and tables of every library, and samples of
      the code of the largest libraries and of those with a different size. A package that imports parts of
      itself that do not exist belongs to another version.
    - `package-files.changed`: in a package that a framework requires, `__init__.py` or the only module has a
      different size than was installed; or a library of the same size has different content and was written
      after the installation.
    - `package-files.stale-code`: byte code that Python does not compare with the source (PEP 552, unchecked)
      was compiled from a different source, and Python runs this byte code. A warning if the source itself is
      not the installed one.
    - `package-files.unreadable`: this user may not read files of a framework or of a package that it
      requires, for example because root installed them with a strict umask.
    - `package-files.interrupted`: pip was stopped while it replaced a package, whose old files remain under a
      name like `~orch`. Information if the package itself is complete.
    - `package-files.two-versions`: one folder contains metadata of two versions. An error if the files have
      the sizes of the version that pip and the frameworks do not assume.

    Other existing files with a different size are not reported: people patch modules and strip libraries.

    ## Why it matters

    pip trusts its own metadata, and so does everyone who runs `pip list`. After a full disk, a killed
    installation or the removal of one of two opencv packages, the import fails, or ends Python with SIGBUS.

    ## Fix safety

    Shown only: it installs the same version once more, over what is there.

    ## References

    - Python packaging, "Recording installed projects".
    - pip, "Ignoring invalid distribution".
    """
    copies = _distributions(host)
    # Folder and name of what pip has moved aside and never removed: ~orch.
    folders = [folder for folder in host.interpreter.layout().search_path if folder.endswith("-packages")]
    half_removed = [
        (folder, name)
        for folder in folders
        for name in host.files.names(folder)
        if name.startswith("~") and not name.endswith("-info") and _whose(name) is not None
    ]
    if not copies and not half_removed:
        raise Skip(_("no framework is installed in {python}", python=host.interpreter.label))
    seen, closed = 0, {one.copy.folder for one in closed_needs(host)}
    for copy in copies:
        if copy.folder in closed:  # there is no list of its files
            continue
        harm = find_damage(host.files, copy, list_recorded_files(host, copy))
        seen += harm.listed
        missing = [*_not_elsewhere(host, copy, harm.missing), *_programs_gone(host, copy)]
        if missing:
            text = _("{name}: {count} of {all} modules and libraries are missing, such as {path}")
            yield _finding(host, "package-files.missing", text, copy, missing, harm.listed)
        if harm.short:
            text = _("{name}: {count} of {all} modules and libraries are truncated, such as {path}")
            yield _finding(host, "package-files.cut-short", text, copy, harm.short, harm.listed)
        yield from _two_versions(host, copy)
        yield from _look_into(host, copy, harm)
    yield Facts({"distributions": len(copies), "files": seen})
    for site, name in half_removed:
        yield _report_interrupted(host, site, name)
    require_readable_needs(host)


def _programs_gone(host: Host, copy: Distribution) -> list[str]:
    """Programs that an import looks for, and that its list of files has."""
    path, record = PROGRAMS.get(normal(copy.name), ""), f"{copy.folder}/RECORD"
    if (
        not path
        or host.files.stat(f"{site_of(copy)}/{path}") is not None
        or not list_recorded_files(host, copy)
    ):
        return []
    return [path] if f"\n{path}," in f"\n{host.files.text(record, RECORD_LIMIT)}" else []


def _two_versions(host: Host, copy: Distribution) -> Iterator[Finding]:
    """Other versions of it in its own folder, which an interrupted upgrade leaves."""
    others = [other for other in host.interpreter.distributions(copy.name) if other.folder != copy.folder]
    for other in others:
        if site_of(other) == site_of(copy) and other.version != copy.version:
            # An error where the files are those of the version that nobody believes in.
            message = _(
                "{name} is installed twice in one folder, as {first} and as {other}: an upgrade was "
                "interrupted"
            )
            own_share, other_share = share_there(host.files, copy), share_there(host.files, other)
            if other_share > own_share:
                message = _(
                    "{name} is recorded as {first}, but its files are those of {other}: an upgrade was "
                    "interrupted"
                )
            yield Finding(
                "package-files.two-versions",
                message.format(name=copy.name, first=copy.version, other=other.version),
                severity=ERROR if other_share > own_share else WARNING,
                evidence=(copy.folder, other.folder),
                action=Action.CONFIG,
                fix=install_one_of(host, copy, other),
            )


def _distributions(host: Host) -> list[Distribution]:
    """The frameworks, what they require, and what is often beside them; each once."""
    whole = closure_of(host)
    copies = [*whole.roots, *(need.installed for need in whole.needs)]
    copies += [host.interpreter.installed(name) for name in BESIDE]
    if host.interpreter.installed("torch"):
        # Who announces a back end to torch is loaded with torch.
        for backend in find_backends(host):
            name = backend.folder.rpartition("/")[2].partition("-")[0]
            named = host.interpreter.distributions(name)
            copies += [copy for copy in named if copy.folder == backend.folder][:1]
    return list({copy.folder: copy for copy in copies if copy is not None}.values())


def _not_elsewhere(host: Host, copy: Distribution, missing: Sequence[str]) -> list[str]:
    """Those that Python would miss: it takes byte code for a source, and looks into zip files."""
    if not missing:
        return []
    inside: set[str] = set()
    for place in host.interpreter.layout().search_path:
        if place.startswith("/") and not modules_of(host).names(place):
            inside |= members(host.files, place)
    looking, site = _look_at(host, copy), site_of(copy)
    return [
        path
        for path in missing
        if path not in inside
        and not (
            path.endswith(".py")
            and host.files.stat(f"{site}/{path}c") is not None
            and not looking.is_foreign_code(f"{path}c")
        )
    ]


def _look_into(host: Host, copy: Distribution, harm: Damage) -> Iterator[Finding]:
    deep = normal(copy.name) in FRAMEWORKS
    files, looking = list_recorded_files(host, copy), _look_at(host, copy)
    spoiled = [
        path
        for path in looking.find_spoiled(files, harm.sizes, deep)
        if path not in harm.short and path not in harm.missing
    ]
    changed = [] if deep or spoiled else looking.find_changed(files, harm.sizes)
    changed = [path for path in changed if path not in harm.short]
    if changed:
        text = _("{name}: {path} is not the file that was installed: its size differs")
        yield _finding(host, "package-files.changed", text, copy, changed, harm.listed)
    installer = f"{copy.folder}/INSTALLER"
    entry = host.files.stat(installer)
    by = host.files.text(installer, 64) if entry is not None and entry.is_file else None
    # Others do not leave its files as its list says: conda writes its own folders into them.
    if looking.other and not spoiled and (by or "").strip() in ("pip", "uv"):
        text = _("{name}: {path} is not the file that was installed: same size, different content")
        yield _finding(host, "package-files.changed", text, copy, looking.other, harm.listed)
    if spoiled:
        text = _("{name}: {path} exists but cannot be loaded: it holds zeros, half a file, or something else")
        yield _finding(host, "package-files.spoiled", text, copy, spoiled, harm.listed)
    unreadable = [*harm.closed, *looking.unreadable]
    if unreadable:
        yield _unreadable(copy, unreadable, harm)
    if looking.stale:
        yield _stale(host, copy, looking.stale, harm)


def _unreadable(copy: Distribution, paths: Sequence[str], harm: Damage) -> Finding:
    site = site_of(copy)
    tops = sorted({f"{site}/{path.partition('/')[0]}" for path in paths})
    return Finding(
        "package-files.unreadable",
        _(
            "{name}: this user may not read {count} of {all} modules and libraries, such as {path}",
            name=copy.label,
            count=len(paths),
            all=harm.listed,
            path=f"{site}/{paths[0]}",
        ),
        evidence=tuple(f"{site}/{path}" for path in paths[:SHOWN]),
        action=Action.CONFIG,
        fix=Fix(
            _("as the owner, make the installed files readable for all users"),
            steps=(Command(("chmod", "-R", "a+rX", *tops)),),
            risk=Risk.MANUAL,
        ),
    )


def _stale(host: Host, copy: Distribution, stale: Sequence[str], harm: Damage) -> Finding:
    """An error where the sources are those that were installed: nobody means them not to be run."""
    site, sizes = site_of(copy), dict(zip(list_recorded_files(host, copy), harm.sizes))
    original = {file.path for file, now in sizes.items() if file.size == now}
    folders = sorted({f"{site}/{path}".rpartition("/")[0] for path in stale})
    return Finding(
        "package-files.stale-code",
        _(
            "{name}: Python runs stale byte code in place of {path} and never compares the two",
            name=copy.label,
            path=f"{site}/{stale[0]}",
        ),
        severity=ERROR if original.issuperset(stale) else WARNING,
        evidence=tuple(f"{site}/{path}" for path in stale[:SHOWN]),
        action=Action.CONFIG,
        fix=Fix(
            _("recompile the sources"),
            steps=(Command((host.interpreter.program, "-m", "compileall", "-q", "-f", "-l", *folders)),),
            risk=Risk.MANUAL,
            needs_root=False,
        ),
    )


def _look_at(host: Host, copy: Distribution) -> SpoiledFiles:
    elsewhere = ("PYTHONPYCACHEPREFIX", "PYTHONOPTIMIZE")  # other byte code is read
    cached = not any(map(host.variables.get, elsewhere))
    written = host.files.stat(f"{copy.folder}/RECORD")
    at = written.mtime_ns // 10**9 if written is not None else None
    return SpoiledFiles(host.files, site_of(copy), host.interpreter.layout().version, cached, at)


def _finding(
    host: Host, code: str, text: str, copy: Distribution, paths: Sequence[str], listed: int
) -> Finding:
    site = site_of(copy)
    grave = {path for path in paths if code != "package-files.changed" and _is_grave(host, site, path)}
    paths = sorted(paths, key=lambda path: path not in grave)
    title = _("reinstall {name} over the damaged files", name=copy.label)
    fix: Fix = pip_reinstall(host, title, copy.requirement)
    return Finding(
        code,
        text.format(name=copy.label, count=len(paths), all=listed, path=f"{site}/{paths[0]}"),
        severity=ERROR if grave else WARNING,
        evidence=tuple(f"{site}/{path}" for path in paths[:SHOWN]),
        action=Action.CONFIG,
        fix=fix,
    )


def _is_grave(host: Host, site: str, path: str) -> bool:
    """Whether the import, or any job, fails of it: plug-ins are used only where their devices are. One that
    is cut kills whoever opens it, and which devices are there MindSpore finds out by opening."""
    if "/plugin" not in path or _ALWAYS.search(path):
        return True
    entry = host.files.stat(f"{site}/{path}") if _OPENED.search(path) else None
    return entry is not None and entry.size > 0 and not is_whole(host.files, f"{site}/{path}")


def _whose(name: str) -> Optional[str]:
    """The framework, or what is often beside one, that lies under this name: ~orch is torch."""
    tail = normal(name.lstrip("~-"))
    known = (*FRAMEWORKS, *BESIDE, "paddle", "mindspore", "tensorflow")
    return next((name for name in known if len(tail) > 2 and normal(name).endswith(tail)), None)


def _report_interrupted(host: Host, site: str, name: str) -> Finding:
    package = _whose(name) or name
    there = host.files.stat(f"{site}/{package.replace('-', '_')}/__init__.py") is not None
    text = _("{path} was left by an interrupted pip, and {package} itself is missing")
    if there:
        text = _("{path} was left by an interrupted pip; {package} itself is present")
    fix: Optional[Fix] = None
    if not there:
        copy = host.interpreter.installed(package)
        needed = f"{package}=={copy.version}" if copy else package
        fix = pip_reinstall(host, _("reinstall {package}", package=package), needed)
    return Finding(
        "package-files.interrupted",
        text.format(path=f"{site}/{name}", package=package),
        severity=INFO if there else ERROR,
        action=Action.NONE if there else Action.CONFIG,
        fix=fix,
    )
