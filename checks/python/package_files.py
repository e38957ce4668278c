"""Are the files of the installed frameworks, and of what they require, there and whole?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Union

from npudoctor import (
    ERROR,
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
from npudoctor.checks.python._permissions import (
    find_closed_metadata,
    report_closed_files,
    report_closed_folders,
    report_closed_metadata,
)
from npudoctor.checks.python._pip import install_one_of, pip_reinstall
from npudoctor.checks.python._torn_packages import (
    find_dead_links,
    find_stop_code,
    judge_imports,
    report_half,
    report_interrupted,
)
from npudoctor.core.frozen import replace
from npudoctor.core.lazy import pattern
from npudoctor.facts.python.backends import find_backends
from npudoctor.facts.python.frameworks import (
    closure_of,
    is_job_distribution,
    is_trainer,
    require_readable_needs,
)
from npudoctor.facts.python.installed_modules import list_recorded_files, modules_of
from npudoctor.facts.python.interrupted import (
    COMPANIONS,
    find_asking,
    list_half_packages,
    list_stopped,
)
from npudoctor.facts.python.spoiled_files import SpoiledFiles
from npudoctor.host import CannotTell
from npudoctor.host.fs.archives import list_members
from npudoctor.host.python.installed_files import (
    RECORD_LIMIT,
    DistributionDamage,
    find_damage,
    is_complete_elf,
    read_installer,
    share_of_intact_files,
    site_of,
)
from npudoctor.host.python.interpreter import Distribution, normalize_name
from npudoctor.knowledge.distributions import list_built_in_names

SHOWN = 3
# "Unable to find torch_shm_manager" is the first word of `import torch` without it; whether it can be
# executed, or what it holds, only some jobs ask.
PROGRAMS = {"torch": "torch/bin/torch_shm_manager"}
# Of MindSpore's plug-ins, as an import on the CPU uses them; seen of 2.7.0 and 2.10.0.
_ALWAYS = pattern(r"/plugin/(?:cpu/)?libmindspore_(?:ops_cpu|ops_host|cpu_res_manager)\.so")
# MindSpore opens these on every machine to find out whether an NPU is there.
_OPENED = pattern(r"/plugin/(?:ascend/)?libmindspore_(?:ascend|ops_ascend|ascend_res_manager)\.so")
# What `find -name 'test*' -delete` takes of the trainers' stack, to make an image smaller: nothing there
# imports it; torch imports torch.testing.
_OF_TESTS = pattern(r"/test[^/]*(?:/|\.py\Z)")


@check(
    "package-files",
    scope=Scope.JOB,
    tags={"mindspore", "paddle", "pytorch", "tensorflow"},
    needs=("framework", *sorted({*COMPANIONS, *list_built_in_names()})),
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
    which torch cannot be imported. Headers and data are left out. Where files are gone that images leave out
    on purpose (tests, examples), where sources became shorter, or where a package has no RECORD, follows what
    the frameworks import unconditionally, in the text of the modules.

    - `package-files.missing`: files are missing, and no zip file in the search path contains them. A warning
      if only plug-in libraries are missing, which some images leave out, otherwise an error; the same holds
      for `package-files.cut-short` and `package-files.spoiled`. Also a warning if the sources only try to
      import what is missing and otherwise go on, as protobuf does without its library, or if the frameworks
      are known to be imported without this package; all other damage to such a package is a warning too,
      unless something tries to import it and expects only that it is not installed. Also an error for plug-in
      libraries that MindSpore opens on every machine: those of the CPU, and truncated ones of Ascend. Tests
      count only where a framework imports them, as `import torch` imports `torch.testing`. Also reported: a
      folder with the name of a framework that holds compiled modules but no `__init__.py`, whatever the
      metadata says; missing metadata (dist-info) where another package looks for it, as transformers does;
      and packages of which all files, with the metadata, are links that lead to nothing: uv links into its
      cache if UV_LINK_MODE says so, and the cache was emptied or is not mounted.
    - `package-files.cut-short`: a file is empty, or a library ends before its own headers say; a source that
      became shorter lacks a name that another module imports; METADATA is empty (a warning if no package
      looks for it).
    - `package-files.spoiled`: the content of the file cannot be loaded: zeros after a crash, a Git LFS
      pointer, a source with a different size that does not compile, truncated byte code that Python considers
      valid for its source, a folder in its place. The check reads sources with a different size, the
      packages' own files, sources and byte code that were written after the installation, the ends of many
      others, the headers and tables of every library, and samples of the code of the largest libraries and of
      those with a different size. A package that imports parts of itself that do not exist belongs to another
      version.
    - `package-files.changed`: in a package that a framework requires, `__init__.py` or the only module has a
      different size than was installed; or a library of the same size has different content and was written
      after the installation.
    - `package-files.stale-code`: byte code that Python does not compare with the source (PEP 552, unchecked)
      was compiled from a different source, and Python runs this byte code. A warning if the source itself is
      not the installed one.
    - `package-files.unreadable`: this user cannot read files or folders of a framework or of a package that
      it requires, for example because root installed them with a strict umask; the kernel is asked. A warning
      if only the metadata cannot be read: packages that ask for a version there do not find it.
    - `package-files.interrupted`: pip was stopped while it replaced or removed a package, whose old files
      remain under a name like `~orch`. The RECORD that pip moved aside says what is missing. Information if
      the package itself is complete. A warning if only its metadata is missing and no package looks for it.
    - `package-files.two-versions`: one folder contains metadata of two versions. An error if the files have
      the sizes of the version that pip and the frameworks do not assume, unless all of its files are there
      and every package that requires it accepts that version.

    Other existing files with a different size are not reported: people patch modules and strip libraries.

    ## Why it matters

    pip trusts its own metadata, and so does everyone who runs `pip list`. After a full disk, a killed
    installation or the removal of one of two opencv packages, the import fails, or ends Python with SIGBUS.

    ## Fix safety

    Shown only: it installs the same version once more, over what is there. What pip cannot replace, such as
    links that lead to nothing, is removed before, after the wheel has been fetched.

    ## References

    - Python packaging, "Recording installed projects".
    - pip, "Ignoring invalid distribution".
    """
    yield from report_closed_folders(host)
    copies = _distributions(host)
    stopped, half_packages = list_stopped(host), list_half_packages(host)
    if not copies and not stopped and not half_packages:
        raise Skip(_("no framework is installed in {python}", python=host.interpreter.label))
    if copies:
        folders = [name for name in host.interpreter.layout().search_path if name.endswith("-packages")]
        yield from find_dead_links(host, folders)
    closed_folders = []
    damages: list[tuple[Distribution, DistributionDamage]] = []
    for copy in copies:
        closed_paths = find_closed_metadata(host, copy)
        if closed_paths:  # there is no list of its files
            yield _soften(host, copy, report_closed_metadata(host, copy, closed_paths))
            closed_folders.append(copy.folder)
        else:
            damages.append((copy, find_damage(host.files, copy, list_recorded_files(host, copy))))
    yield from _judge_damages(host, damages)
    file_count = sum(damage.listed for _copy, damage in damages)
    yield Facts({"distributions": len(copies), "files": file_count})
    yield from (report_interrupted(host, install) for install in stopped)
    yield from (report_half(host, half) for half in half_packages)
    yield from judge_imports(host, damages)  # last, as it may read thousands of sources
    require_readable_needs(host)
    if closed_folders:
        folders_text = ", ".join(closed_folders)
        raise CannotTell(_("this user has no permission to read {folders}", folders=folders_text))


def _judge_damages(
    host: Host, damages: Sequence[tuple[Distribution, DistributionDamage]]
) -> Iterator[Finding]:
    """Judge each package, and give those that lack files one line: what cut a tree cut many of them, and who
    reinstalls one after the other asks as many times."""
    lacking = [list(_judge_sizes(host, copy, damage)) for copy, damage in damages]
    torn = [
        copy
        for (copy, _damage), findings in zip(damages, lacking)
        if copy.version and any(finding.severity == ERROR for finding in findings)
    ]
    together = _reinstall_all(host, torn) if len(torn) > 1 else None
    for (copy, damage), findings in zip(damages, lacking):
        for finding in findings:
            is_torn = together is not None and copy in torn and finding.severity == ERROR
            # One by one: it may read all sources of the package, and a deadline must not lose the first.
            yield _soften(host, copy, replace(finding, fix=together) if is_torn else finding)
        for judged in (
            _judge_metadata(host, copy),
            _find_two_versions(host, copy),
            _judge_contents(host, copy, damage),
        ):
            yield from (_soften(host, copy, finding) for finding in judged)


def _soften(host: Host, copy: Distribution, finding: Finding) -> Finding:
    """Return the finding, as a warning where the imports are known to work without this package."""
    # Both follow imports, which a whole installation never needs: loaded only where something is damaged.
    from npudoctor.facts.python.fallbacks import is_done_without

    is_gone = finding.code == "package-files.missing"
    is_mild = finding.severity is ERROR and is_done_without(host, copy, is_gone)
    return replace(finding, severity=WARNING) if is_mild else finding


def _judge_sizes(host: Host, copy: Distribution, damage: DistributionDamage) -> Iterator[Finding]:
    missing = [*_filter_missing(host, copy, damage.missing), *_find_missing_programs(host, copy)]
    if missing:
        text = _("{name}: {count} of {all} modules and libraries are missing, such as {path}")
        yield _finding(host, "package-files.missing", text, copy, missing, damage.listed)
    if damage.short:
        text = _("{name}: {count} of {all} modules and libraries are truncated, such as {path}")
        yield _finding(host, "package-files.cut-short", text, copy, damage.short, damage.listed)


def _reinstall_all(host: Host, copies: Sequence[Distribution]) -> Fix:
    names = ", ".join(copy.label for copy in copies[:SHOWN])
    title = _("reinstall {name} over the damaged files", name=names)
    if len(copies) > SHOWN:
        title = _("reinstall {count} packages, such as {names}", count=len(copies), names=names)
    fix: Fix = pip_reinstall(host, title, *(copy.requirement for copy in copies))
    return fix


def _find_missing_programs(host: Host, copy: Distribution) -> list[str]:
    """Return programs without which the import fails, if RECORD lists them and they are missing."""
    path, record = PROGRAMS.get(normalize_name(copy.name), ""), f"{copy.folder}/RECORD"
    if (
        not path
        or host.files.stat(f"{site_of(copy)}/{path}") is not None
        or not list_recorded_files(host, copy)
    ):
        return []
    return [path] if f"\n{path}," in f"\n{host.files.text(record, RECORD_LIMIT)}" else []


def _judge_metadata(host: Host, copy: Distribution) -> Iterator[Finding]:
    """Report metadata that is empty or gone where a package looks for it when it is imported. Images leave it
    out on purpose, and most packages never look."""
    if copy.headers and copy.folder.endswith(("-info", "EGG-INFO")):
        return
    asking = find_asking(host, normalize_name(copy.name))
    path = f"{copy.folder}/METADATA"
    entry = host.files.stat(path) if copy.folder.endswith(".dist-info") else None
    if copy.folder.endswith(".dist-info") and (entry is None or entry.size):
        return
    if entry is None and asking is None:
        return
    code, text = "package-files.cut-short", _("{name}: {path} is empty")
    if asking is not None and entry is not None:
        text = _("{name}: {path} is empty, and {asking} looks for its version")
    elif asking is not None:
        code = "package-files.missing"
        text = _("{name}: its metadata (dist-info) is missing, and {asking} looks for its version")
    title = _("reinstall {name}", name=copy.label)
    yield Finding(
        code,
        text.format(name=copy.label, path=path, asking=asking),
        severity=WARNING if asking is None else ERROR,
        evidence=(copy.folder,),
        action=Action.CONFIG,
        fix=pip_reinstall(host, title, copy.requirement if copy.version else normalize_name(copy.name)),
        echo_of=find_stop_code(host, copy.name),
    )


def _find_two_versions(host: Host, copy: Distribution) -> Iterator[Finding]:
    """Report metadata of other versions in the same folder, left by an interrupted upgrade."""
    other_versions = [
        other for other in host.interpreter.distributions(copy.name) if other.folder != copy.folder
    ]
    for other in other_versions:
        if site_of(other) == site_of(copy) and other.version != copy.version:
            # An error if the files match the version that pip and the frameworks do not assume. How it came
            # about is not known: an upgrade was killed, or one copy was put over another (cp -r, COPY).
            own_share, other_share = (share_of_intact_files(host.files, version) for version in (copy, other))
            needs = closure_of(host).of(copy.name)
            is_whole, is_wanted = other_share == 1.0, all(need.is_met_by(other) for need in needs)
            message = _("{name} is installed twice in one folder, as {first} and as {other}")
            if other_share > own_share:
                message = _("{name} is recorded as {first}, but its files are rather those of {other}")
            yield Finding(
                "package-files.two-versions",
                message.format(name=copy.name, first=copy.version, other=other.version),
                severity=ERROR if other_share > own_share and not (is_whole and is_wanted) else WARNING,
                evidence=(_describe_share(copy, own_share), _describe_share(other, other_share)),
                action=Action.CONFIG,
                fix=install_one_of(host, copy, other),
            )


def _describe_share(copy: Distribution, share: float) -> str:
    if not share:
        return copy.folder
    return _(
        "{folder}: {percent} % of the modules and libraries that it lists are there in their size",
        folder=copy.folder,
        percent=int(share * 100),
    )


def _distributions(host: Host) -> list[Distribution]:
    """Return the frameworks, their requirements and their usual companions, each once."""
    closure = closure_of(host)
    copies = [*closure.roots, *(need.installed for need in closure.needs)]
    copies += [host.interpreter.installed(name) for name in COMPANIONS]
    if host.interpreter.installed("torch"):
        # A package that registers a back end (entry point torch.backends) is imported together with torch.
        for backend in find_backends(host):
            name = backend.folder.rpartition("/")[2].partition("-")[0]
            named_copies = host.interpreter.distributions(name)
            copies += [copy for copy in named_copies if copy.folder == backend.folder][:1]
    return list({copy.folder: copy for copy in copies if copy is not None}.values())


def _filter_missing(host: Host, copy: Distribution, missing: Sequence[str]) -> list[str]:
    """Return the missing files that Python needs: it accepts byte code without a source, and looks into zip
    files."""
    if not missing:
        return []
    archive_members: set[str] = set()
    for place in host.interpreter.layout().search_path:
        if place.startswith("/") and not modules_of(host).names(place):
            archive_members |= list_members(host.files, place)
    scan, site = _scan_files(host, copy), site_of(copy)
    return [
        path
        for path in missing
        if path not in archive_members
        and not (
            path.endswith(".py")
            and host.files.stat(f"{site}/{path}c") is not None
            and not scan.is_foreign_code(f"{path}c")
        )
    ]


def _judge_contents(host: Host, copy: Distribution, damage: DistributionDamage) -> Iterator[Finding]:
    is_framework = is_job_distribution(host, copy.name)
    files, scan = list_recorded_files(host, copy), _scan_files(host, copy)
    spoiled = [
        path
        for path in scan.find_spoiled(files, damage.sizes, is_framework, damage.mtimes)
        if path not in damage.short and path not in damage.missing
    ]
    changed = [] if is_framework or spoiled else scan.find_changed(files, damage.sizes)
    changed = [path for path in changed if path not in damage.short]
    if changed:
        text = _("{name}: {path} is not the file that was installed: its size differs")
        yield _finding(host, "package-files.changed", text, copy, changed, damage.listed)
    # conda and others rewrite prefixes in files after RECORD was written, so only pip and uv are compared.
    if scan.other and not spoiled and read_installer(host.files, copy) in ("pip", "uv"):
        text = _("{name}: {path} is not the file that was installed: same size, different content")
        yield _finding(host, "package-files.changed", text, copy, scan.other, damage.listed)
    if spoiled:
        text = _("{name}: {path} exists but cannot be loaded: it holds zeros, half a file, or something else")
        yield _finding(host, "package-files.spoiled", text, copy, spoiled, damage.listed)
    unreadable = [*filter(scan.is_read, damage.closed), *scan.unreadable]
    if unreadable:
        yield report_closed_files(host, copy, unreadable, damage.listed)
    if scan.stale:
        yield _report_stale(host, copy, scan.stale, damage)


def _report_stale(
    host: Host, copy: Distribution, stale: Sequence[str], damage: DistributionDamage
) -> Finding:
    """Report byte code that hides its source: an error if the sources are the installed ones, else a
    warning."""
    site, sizes = site_of(copy), dict(zip(list_recorded_files(host, copy), damage.sizes))
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


def _scan_files(host: Host, copy: Distribution) -> SpoiledFiles:
    variables = ("PYTHONPYCACHEPREFIX", "PYTHONOPTIMIZE")  # other byte code is read
    is_cached = not any(map(host.variables.get, variables))
    record = host.files.stat(f"{copy.folder}/RECORD")
    recorded_at = record.mtime_ns // 10**9 if record is not None else None
    return SpoiledFiles(host.files, site_of(copy), host.interpreter.layout().version, is_cached, recorded_at)


def _finding(
    host: Host, code: str, text: str, copy: Distribution, paths: Sequence[str], listed: int
) -> Finding:
    site = site_of(copy)
    grave_paths = {path for path in paths if code != "package-files.changed" and _is_grave(host, site, path)}
    if code == "package-files.missing":
        if is_trainer(host, copy):
            grave_paths -= {path for path in paths if _OF_TESTS.search(path)}
        from npudoctor.facts.python.fallbacks import find_dispensable

        grave_paths -= find_dispensable(host, copy, sorted(grave_paths))
    paths = sorted(paths, key=lambda path: path not in grave_paths)
    title = _("reinstall {name} over the damaged files", name=copy.label)
    fix: Fix = pip_reinstall(host, title, copy.requirement)
    return Finding(
        code,
        text.format(name=copy.label, count=len(paths), all=listed, path=f"{site}/{paths[0]}"),
        severity=ERROR if grave_paths else WARNING,
        evidence=tuple(f"{site}/{path}" for path in paths[:SHOWN]),
        action=Action.CONFIG,
        fix=fix,
        echo_of=() if code == "package-files.changed" else find_stop_code(host, copy.name),
    )


def _is_grave(host: Host, site: str, path: str) -> bool:
    """Whether the import, or any job, fails without the file. Plug-ins matter only where their device is,
    except truncated ones of Ascend: MindSpore opens them on every machine to find out which devices exist."""
    if "/plugin" not in path or _ALWAYS.search(path):
        return True
    entry = host.files.stat(f"{site}/{path}") if _OPENED.search(path) else None
    return entry is not None and entry.size > 0 and not is_complete_elf(host.files, f"{site}/{path}")
