"""Are te and hccl, which the interpreter imports, those of the CANN in use?"""

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
    Unknown,
    _,
    change_variable,
    check,
)
from npudoctor.core.cann_version import train
from npudoctor.facts.cann.installations import Install, installs_of
from npudoctor.facts.cann.python_packages import (
    MARKS,
    PackageCopy,
    find_closed_copy,
    find_copies,
    is_closed_to_job,
    own_site,
    ships_package,
    wheels,
)
from npudoctor.facts.cann.set_env import find_first_site, python_folders
from npudoctor.facts.job.expected_accelerator import frameworks_on_cann
from npudoctor.facts.job.working_directory import job_user
from npudoctor.host import CannotTell
from npudoctor.host.users import access

# What keeps te out of sight, in the words of cann-env.
ENV = ("not-sourced", "no-such-path", "missing-entry", "other-install-first")


@check(
    "te-topi",
    scope=Scope.JOB,
    tags={"ascend"},
    needs=("cann",),
    codes={
        "te-topi.other-version": ERROR,
        "te-topi.missing": WARNING,
        "te-topi.not-readable": WARNING,
        "te-topi.other-build": INFO,
        "te-topi.shadowed-copy": INFO,
    },
)
def te_topi(host: Host) -> Iterator[Union[Finding, Facts]]:
    """te and hccl match the CANN in use.

    ## What it does

    Finds every te and hccl on the examined interpreter's search path, PYTHONPATH included, in Python's own
    order. Compares the number in `te/version.py` and `hccl/sys_version.py` with `Version=` of CANN's
    compiler, because the version that pip shows never changes. The check applies where a framework that runs
    on CANN is installed.

    - `other-version`: the imported copy belongs to another release (its major.minor differs).
    - `other-build`: the imported copy is another build of the same release, which is only noted.
    - `missing`: CANN ships te, but the interpreter does not find it. In an image, PYTHONPATH is unknown, so
      CANN's own copy is accepted.
    - `not-readable`: the job's user cannot read or enter a copy, so Python skips it.
    - `shadowed-copy`: a copy of another release comes after the right one in the search path. It does no harm
      as long as PYTHONPATH stays as it is.

    ## Why it matters

    te compiles operators together with CANN's libraries. After an upgrade of CANN, an old te remains in the
    interpreter's own folder: `TVM/te/cce error`, `"te" wheel package version does not match`.

    ## Fix safety

    The line installs the wheels that the toolkit ships, from their files and nowhere else: pip asks no index,
    changes no dependency, and ignores variables and the user's pip.conf. The version number of these wheels
    never changes, so pip would keep the old wheel without `--force-reinstall`. From CANN 8.1 on topi is not
    installed: it is part of te.

    `npudoctor fix te-topi --risk caution` runs the line as the owner of the interpreter. It runs the line as
    root only where interpreter, packages and wheels belong to root and no other user can write them. It runs
    only while the wheels are the files that were checked. Stop the jobs of this interpreter first.
    `npudoctor undo` reinstalls the old wheels where the CANN that they came from is still installed; else the
    fix cannot be undone. For an interpreter without pip, for one that uv manages, and for an image, the line
    is only shown.

    For a copy that PYTHONPATH names, the line puts CANN's own folder in front.

    ## References

    - MindSpore, run_check/_check_version.py: how te is compared.
    - CANN, "Software Installation Guide": the Python packages of the toolkit.
    """
    installs = installs_of(host)
    if not installs:
        raise Skip(_("CANN is not installed on this machine"))
    if not frameworks_on_cann(host):
        raise Skip(_("no framework that runs on CANN is in {python}", python=host.interpreter.label))
    active = installs[0]
    exported = host.variables.path_list("PYTHONPATH") if host.options.root is None else []
    # Python skips an entry of PYTHONPATH that it may not read, without a message.
    exported = [
        entry for entry in exported if not entry.startswith("/") or not access.is_closed(host.files, entry)
    ]
    folders = [*exported, *host.interpreter.layout().search_path]
    copies_of = {}
    for name in MARKS:
        open_folders = [folder for folder in folders if not is_closed_to_job(host, name, folder)]
        # PYTHONPATH of an image is unknown. If it has no other copy, CANN's own counts: set_env.sh would make
        # Python find that one.
        own_folder = own_site(host.files, active, name) if host.options.root is not None else None
        copies_of[name] = find_copies(host.files, name, open_folders) or find_copies(
            host.files, name, [own_folder] if own_folder else []
        )
    versions = {name: [[copy.folder, copy.version] for copy in copies_of[name]] for name in copies_of}
    yield Facts({"cann": active.path, "component": active.component, **versions})
    # The version that pip shows for te never changes (0.4.0): only the component number can be compared.
    if train(active.component) is None:
        raise Unknown(
            _("the CANN at {install} does not state its component version", install=active.label),
            advisory=True,
        )
    closed = {name: path for name in MARKS for path in [find_closed_copy(host, name, folders)] if path}
    for name, path in closed.items():
        yield _report_not_readable(host, active, name, path)
    if not copies_of["te"] and "te" not in closed and ships_package(host.files, active, "te"):
        yield _report_missing(host, active)
    elif not closed and not any(copies_of.values()):
        raise Skip(_("the CANN at {install} has neither te nor hccl", install=active.label))  # fmt: skip
    for module_copies in filter(None, copies_of.values()):
        yield from _compare(host, active, module_copies)


def _compare(host: Host, active: Install, module_copies: Sequence[PackageCopy]) -> Iterator[Finding]:
    """Compare the copies of one module, in the order of the search path, with the CANN in use."""
    first = module_copies[0]
    if _is_other_train(active, first):
        yield _report_other_version(host, active, module_copies)
        return
    if first.version and first.version != active.component:
        text = _("{name} is build {version}, but the CANN at {install} is build {component}")
        yield Finding(
            "te-topi.other-build", _fill_text(text, active, first), evidence=_evidence(module_copies)
        )
    shadowed_copies = [copy for copy in module_copies[1:] if _is_other_train(active, copy)]
    if shadowed_copies:
        text = _("{folder} has a second {name}, from CANN {version}; Python finds the right one first")
        yield Finding(
            "te-topi.shadowed-copy",
            _fill_text(text, active, shadowed_copies[0]),
            evidence=_evidence(module_copies),
        )


def _is_other_train(active: Install, copy: PackageCopy) -> bool:
    # MindSpore's own check compares major.minor of te and hccl as well (run_check/_check_version.py).
    return copy.version is not None and train(copy.version) != train(active.component)


def _report_other_version(host: Host, active: Install, copies: Sequence[PackageCopy]) -> Finding:
    text = _("{name} in {folder} belongs to {version}, but the CANN at {install} is {component}")
    # The finding of cann-env or cann-install whose fix makes this one disappear too.
    copy = copies[0]
    cause: tuple[str, ...]
    site = None if host.options.root is not None else find_first_site(host.files, [copy.folder])
    if site is not None and site[1].real != active.real:
        cause = ("cann-env.other-install-first",)
    else:
        own = own_site(host.files, active, copy.name)
        if own and host.files.real(own) == host.files.real(copy.folder):
            cause = ("cann-install.mixed-latest",)
        else:
            cause = ("cann-env.not-sourced",) if own else ()
    return Finding(
        "te-topi.other-version",
        _fill_text(text, active, copies[0]),
        evidence=_evidence(copies),
        action=Action.CONFIG,
        fix=_fix(host, active, copies[0]),
        echo_of=cause,
    )


def _report_not_readable(host: Host, active: Install, name: str, path: str) -> Finding:
    return Finding(
        "te-topi.not-readable",
        _(
            "{name} in {path} is not readable by {user}: Python skips it",
            name=name,
            path=path,
            user=job_user(host).user,
        ),
        action=Action.CONFIG,
        fix=_make_readable(host, f"{path}/{name}"),
        echo_of=("cann-install.not-readable",),
    )


def _make_readable(host: Host, path: str) -> Fix:
    """Return a fix that makes the copy readable. Shown only, because its owner may have closed it on
    purpose."""
    try:
        entry = host.files.lstat(path)
    except CannotTell:
        # An unknown owner is taken for another user, so the command is marked as root's.
        entry = None
    return Fix(
        _("let every user read {path}", path=path),
        steps=(Command(("chmod", "-R", "go+rX", f"{host.options.root or ''}{path}")),),
        risk=Risk.MANUAL,
        needs_root=entry is None or entry.uid != host.identity.euid,
    )


def _report_missing(host: Host, active: Install) -> Finding:
    site = own_site(host.files, active, "te")
    return Finding(
        "te-topi.missing",
        _(
            "{python} does not find te of the CANN at {install}",
            install=active.label,
            python=host.interpreter.label,
        ),
        action=Action.CONFIG,
        fix=_prepend_fix(host, active) if site else _wheels_fix(host, active, ["te"]),
        echo_of=tuple(f"cann-env.{word}" for word in ENV),
    )


def _fix(host: Host, active: Install, copy: PackageCopy) -> Optional[Fix]:
    exported = copy.folder in (host.variables.path_list("PYTHONPATH") if host.options.root is None else ())
    site = own_site(host.files, active, copy.name)
    if site and host.files.real(site) == host.files.real(copy.folder):
        return Fix(
            _(
                "reinstall the complete CANN at {install}: its own {name} belongs to another release",
                install=active.label,
                name=copy.name,
            ),
            risk=Risk.MANUAL,
            needs_root=False,
        )
    # PYTHONPATH comes before site-packages: a wheel that pip installs there would change nothing.
    if exported:
        return _prepend_fix(host, active) if site else None
    return _wheels_fix(host, active, [copy.name], copy) or (_prepend_fix(host, active) if site else None)


def _wheels_fix(
    host: Host, active: Install, names: Sequence[str], copy: Optional[PackageCopy] = None
) -> Optional[Fix]:
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.checks.python._pip import pip_wheels

    paths = wheels(host.files, active, names)
    if not paths:
        return None
    before = _wheels_before(host, names, copy, len(paths)) if copy else ()
    title = _("install the wheels that this CANN ships")
    fix: Fix = pip_wheels(host, title, paths, copy.folder if copy else "", before)
    return fix


def _wheels_before(host: Host, names: Sequence[str], copy: PackageCopy, many: int) -> Sequence[str]:
    """Return the wheels of the CANN that the copy came from, for undo; empty if that CANN is not installed or
    does not ship `many` wheels."""
    for install in installs_of(host)[1:]:
        if install.component == copy.version:
            paths = wheels(host.files, install, names)
            return paths if len(paths) == many else ()
    return ()


def _prepend_fix(host: Host, active: Install) -> Optional[Fix]:
    """Return the line that cann-env shows too: it prepends CANN's Python folders, te and the operators."""
    if host.options.root is not None:
        return None
    entries = [entry for entry in host.variables.path_list("PYTHONPATH") if entry]
    value = ":".join(dict.fromkeys((*python_folders(host.files, active), *entries)))
    title = _("prepend CANN's own folders to {name}", name="PYTHONPATH")
    return change_variable(title, "PYTHONPATH", value, host.variables.get("PYTHONPATH") or None)


def _fill_text(text: str, active: Install, copy: PackageCopy) -> str:
    words = {"install": active.label, "component": active.component, "folder": copy.folder}
    return text.format(name=copy.name, version=copy.version, **words)


def _evidence(copies: Sequence[PackageCopy]) -> tuple[str, ...]:
    return tuple(f"{copy.folder}/{MARKS[copy.name]}: {copy.version}" for copy in copies)
