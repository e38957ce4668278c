"""Does the virtual environment still have the Python that it was made of?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import ERROR, WARNING, Action, Command, Facts, Finding, Fix, Host, Risk, Scope, Skip, _, check
from npudoctor.core.errors import CannotTell
from npudoctor.core.lazy import pattern
from npudoctor.facts.python.linked_environment import LinkedEnvironment, find_linked_environment
from npudoctor.host.startup.site_folders import PYTHON_LIB

# $0 and $1 are arguments of sh -c, so that no path needs quoting. pip itself is left out: venv brings its
# own.
_LIST = 'python3 -m pip list --not-required --exclude pip --format freeze --path "$0" > "$1"'
# Of these arguments the first is the link. A script in its place starts the program by its own path. It is
# written under a name that nobody can have guessed: a link of that name in /tmp would be followed.
_SCRIPT = (
    r'new=$(mktemp "$0.XXXXXX") && printf "#!/bin/sh\nexec \"%s\" \"\$@\"\n" "$1" > "$new" && '
    r'chmod 755 "$new" && mv -f "$new" "$0"'
)
_OF_SYSTEM = ("/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/")  # a distribution's own programs start these
_PROGRAM = pattern(r"python[\d.]*\Z")
# Scripts that pip installs: their first line has the absolute path of the environment's Python, which is
# wrong after the environment is moved.
_LAUNCHERS = ("torchrun", "msrun", "vllm", "accelerate", "deepspeed", "fleetrun", "paddle")
_FIRST = pattern(r"#![ \t]*(/\S+)")
_LONG = pattern(
    r"""#!/bin/sh\n'''exec' (?:"([^"\n]+)"|(\S+)) "\$0\""""
)  # pip's form for paths longer than the kernel reads in a first line, or with blanks


@check(
    "virtual-environment",
    scope=Scope.JOB,
    tags={"mindspore", "paddle", "pytorch"},
    codes={
        "virtual-environment.base-missing": ERROR,
        "virtual-environment.other-python": ERROR,
        "virtual-environment.settings-missing": ERROR,
        "virtual-environment.not-executable": ERROR,
        "virtual-environment.linked-from-outside": ERROR,
        "virtual-environment.launcher-without-python": WARNING,
    },
)
def virtual_environment(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The virtual environment still has its original Python.

    ## What it does

    Looks at the environment of the examined interpreter, at the one that VIRTUAL_ENV names, and at those of
    PATH that come before it.

    - `virtual-environment.base-missing`: its python3 is a link to a Python that is gone. A shell then runs
      the next python3 of PATH without a message.
    - `virtual-environment.other-python`: its packages are in `lib/python3.11`, but its python3 is now another
      release, which does not look there.
    - `virtual-environment.settings-missing`: its pyvenv.cfg is gone, and its python3 is a link: it runs as
      the Python that the link points to, with only the packages of that Python.
    - `virtual-environment.not-executable`: its python3 is a file that no user can execute.
    - `virtual-environment.linked-from-outside`: the interpreter is a link from elsewhere to the python3 of an
      environment. Python looks for pyvenv.cfg beside the link, so that it runs as the Python that the
      environment was made of, without the framework of the environment.
    - `virtual-environment.launcher-without-python`: the first line of torchrun, msrun, vllm or another
      launcher in it names a Python that does not exist, because the environment was moved. `python3 -m`
      works.

    ## Why it matters

    An environment holds a link to the Python of the system or of conda. When that is upgraded in place or
    removed, `import torch` says that there is no module torch, and pip list shows nothing.

    ## Fix safety

    Shown only. If a Python of the release of its packages is on PATH, the environment is pointed to that
    Python and keeps its packages; otherwise a new environment is created next to it, with the same packages.
    No package is deleted.

    ## References

    - Python, `venv`: "environments are disposable".
    """
    # A folder with a pyvenv.cfg is a virtual environment (PEP 405).
    folders = [folder for folder in _find_candidates(host) if _is_environment(host, folder)]
    settings_findings = [
        finding for folder in _find_candidates(host) for finding in _find_missing_settings(host, folder)
    ]
    linked = find_linked_environment(host)
    if not folders and not settings_findings and linked is None:
        raise Skip(_("no virtual environment is in use"))
    yield Facts({"environments": folders})
    yield from settings_findings
    if linked is not None:
        yield _report_link(host, linked)
    for folder in folders:
        program = _program(host, folder)
        finding = (
            _find_missing_base(host, folder)
            or _find_not_executable(host, program)
            or _find_other_python(host, folder)
        )
        if finding is not None:
            yield finding
        yield from _find_broken_launchers(host, folder)


def _find_candidates(host: Host) -> Iterator[str]:
    """Return the folders that may be environments: the examined interpreter's, VIRTUAL_ENV, and those earlier
    on PATH."""
    own = host.interpreter.path.rsplit("/", 2)[0]
    folders = [own]
    if host.options.root is None and host.interpreter.chosen_by != "option":
        entries = [entry for entry in host.variables.path_list("PATH") if entry.startswith("/")]
        before = entries[: entries.index(f"{own}/bin")] if f"{own}/bin" in entries else entries
        folders += [
            host.variables.get("VIRTUAL_ENV", ""),
            *(entry.rstrip("/").rsplit("/", 1)[0] for entry in before),
        ]
    return (folder for folder in dict.fromkeys(folders) if folder.startswith("/"))


def _find_broken_launchers(host: Host, folder: str) -> Iterator[Finding]:
    """Report launchers whose first line names a Python that no longer exists, one finding for each Python."""
    names_by_python: dict[str, list[str]] = {}
    for name in _LAUNCHERS:
        try:
            python = _launcher_python(host, f"{folder}/bin/{name}")
            if python is not None and host.files.stat(python) is None:
                names_by_python.setdefault(python, []).append(name)
        except CannotTell:
            # A launcher that cannot be read is not judged.
            continue
    for python, names in names_by_python.items():
        yield Finding(
            "virtual-environment.launcher-without-python",
            _(
                "{names} in {folder} cannot be started: the first line names {python}, which is gone",
                names=", ".join(names),
                folder=f"{folder}/bin",
                python=python,
            ),
            severity=WARNING,
            action=Action.CONFIG,
            fix=Fix(
                _(
                    "start the module instead, as in {line}, or install its package again",
                    line=f"{folder}/bin/python3 -m torch.distributed.run",
                ),
                risk=Risk.MANUAL,
                needs_root=False,
            ),
            echo_of=("virtual-environment.base-missing",),
        )


def _is_environment(host: Host, folder: str) -> bool:
    """Whether the folder is a virtual environment. A folder that cannot be read is no environment of this
    user."""
    try:
        return host.files.stat(f"{folder}/pyvenv.cfg") is not None
    except CannotTell:
        return False


def _program(host: Host, folder: str) -> str:
    path = host.interpreter.path
    return path if path.startswith(f"{folder}/bin/") else f"{folder}/bin/python3"


def _find_missing_base(host: Host, folder: str) -> Optional[Finding]:
    program = _program(host, folder)
    entry = host.files.lstat(program)
    if entry is None or not entry.is_link or host.files.stat(program) is not None:
        return None
    return Finding(
        "virtual-environment.base-missing",
        _(
            "the Python of the virtual environment {folder} is gone: {program} is a dangling link",
            folder=folder,
            program=program,
        ),
        evidence=_settings_lines(host, folder),
        action=Action.CONFIG,
        fix=_recreate_fix(host, folder),
    )


def _find_other_python(host: Host, folder: str) -> Optional[Finding]:
    """Report packages in lib/python3.X of another release. Only the examined interpreter's release is
    known."""
    if not host.interpreter.path.startswith(f"{folder}/bin/"):
        return None
    version = host.interpreter.layout().version or ""
    minor = ".".join(version.split(".")[:2])
    libs = [name for name in host.files.names(f"{folder}/lib") if PYTHON_LIB.match(name)]
    filled = [name for name in libs if len(host.files.names(f"{folder}/lib/{name}/site-packages")) > 1]
    if not minor or not filled or f"python{minor}" in filled:
        return None
    return Finding(
        "virtual-environment.other-python",
        _(
            "{python} is Python {version} now, but the packages of its environment are in {path}",
            python=host.interpreter.path,
            version=version,
            path=f"{folder}/lib/{filled[0]}",
        ),
        evidence=_settings_lines(host, folder),
        action=Action.CONFIG,
        fix=_recreate_fix(host, folder),
    )


def _settings_lines(host: Host, folder: str) -> tuple[str, ...]:
    lines = (host.files.text(f"{folder}/pyvenv.cfg") or "").splitlines()
    return tuple(
        f"{folder}/pyvenv.cfg: {line.strip()}" for line in lines if line.startswith(("home", "version"))
    )


def _recreate_fix(host: Host, folder: str) -> Fix:
    """Return the fix: keep the packages if a Python of their release is on PATH, else create a new
    environment next to this one.

    Nothing is deleted except links that the next command recreates: packages from a folder or an index that
    no longer exists could not be installed again.
    """
    libs = [name for name in host.files.names(f"{folder}/lib") if PYTHON_LIB.match(name)]
    filled = [name for name in libs if len(host.files.names(f"{folder}/lib/{name}/site-packages")) > 1]
    python = host.files.real(host.interpreter.path) or "python3"  # the real file, outside of the environment
    new = f"{folder}-new"
    steps: tuple[tuple[str, ...], ...] = ((python, "-m", "venv", new),)
    title = _("create a new environment next to it, install the packages there, and use the new one")
    other = _find_on_path(host, folder, filled[0]) if filled else None
    if other is not None:
        title = _("point the environment at {python}; its packages stay", python=other)
        links = [f"{folder}/bin/{name}" for name in host.files.names(f"{folder}/bin") if _PROGRAM.match(name)]
        steps = (("rm", "-f", *links), (other, "-m", "venv", "--upgrade", folder))
    elif filled:
        title = _("list its packages, install them into a new environment next to it, and use the new one")
        site, list_path = f"{folder}/lib/{filled[0]}/site-packages", f"{folder}.packages.txt"
        steps = (
            # --not-required leaves out dependencies: another Python may need other releases of them.
            ("sh", "-c", _LIST, site, list_path),
            *steps,
            (f"{new}/bin/python3", "-m", "pip", "install", "-r", list_path),
        )
    return Fix(title, steps=tuple(map(Command, steps)), risk=Risk.MANUAL, needs_root=False)


def _find_on_path(host: Host, folder: str, name: str) -> Optional[str]:
    """Return the path of a Python with this name (python3.11) outside of the environment; None if there is
    none."""
    if host.options.root is not None:
        return None
    folders = dict.fromkeys((*host.variables.path_list("PATH"), "/usr/local/bin", "/usr/bin"))
    for directory in folders:
        path = f"{directory}/{name}"
        if directory.startswith("/") and directory.rstrip("/") != f"{folder}/bin":
            entry = host.files.stat(path)
            # pyenv's shims are scripts: an environment that links to one is broken for good.
            if entry is not None and entry.is_file and host.files.read(path, 2) != b"#!":
                return path
    return None


def _find_missing_settings(host: Host, folder: str) -> Iterator[Finding]:
    """Report a folder that has everything of an environment except its pyvenv.cfg."""
    program = f"{folder}/bin/python3"
    try:
        entry = host.files.lstat(program)
        is_lost = entry is not None and entry.is_link and host.files.stat(f"{folder}/pyvenv.cfg") is None
        if not is_lost or host.files.stat(f"{folder}/bin/activate") is None:
            return
        real, environment = host.files.real(program), host.files.real(folder)
        packages = list(_packages(host, folder))
    except CannotTell:
        # A folder that is closed to this user is not judged.
        return
    if real is None or real.startswith(f"{environment}/") or not packages:
        return
    yield Finding(
        "virtual-environment.settings-missing",
        _(
            "{folder}/pyvenv.cfg is missing: its Python now acts as {real} and does not search {packages}",
            folder=folder,
            real=real,
            packages=packages[0],
        ),
        action=Action.CONFIG,
        fix=Fix(
            _("recreate the environment's pyvenv.cfg; its packages stay"),
            steps=(Command((real, "-m", "venv", "--without-pip", folder)),),
            risk=Risk.MANUAL,
            needs_root=False,
        ),
    )


def _report_link(host: Host, linked: LinkedEnvironment) -> Finding:
    path = host.interpreter.path
    link = host.files.lstat(path)
    # Within the double quotes of the script these would be read by the shell.
    is_plain = not set('"$`\\%').intersection(linked.program)
    is_replaced = is_plain and link is not None and link.is_link and not path.startswith(_OF_SYSTEM)
    undo = Command(("ln", "-sfn", linked.program, path)).lines() if is_replaced else ()
    return Finding(
        "virtual-environment.linked-from-outside",
        _(
            "{python} is a link to {program}, but Python does not follow it to the environment {folder}: it "
            "does not find {frameworks}",
            python=path,
            program=linked.program,
            folder=linked.folder,
            frameworks=", ".join(copy.label for copy in linked.frameworks[:3]),
        ),
        evidence=tuple(copy.evidence for copy in linked.frameworks[:3]),
        action=Action.CONFIG,
        fix=Fix(
            _(
                "start jobs by {program}, or put a script that does so in the place of the link",
                program=linked.program,
            ),
            steps=(Command(("sh", "-c", _SCRIPT, path, linked.program)),) if is_replaced else (),
            undo=undo,
            risk=Risk.MANUAL,
            needs_root=False,
        ),
    )


def _packages(host: Host, folder: str) -> Iterator[str]:
    """Yield its site-packages folders; a lib folder that contains the standard library (os.py) is not an
    environment's."""
    for name in host.files.names(f"{folder}/lib"):
        library = f"{folder}/lib/{name}"
        is_own = PYTHON_LIB.match(name) is not None and host.files.stat(f"{library}/os.py") is None
        if is_own and host.files.stat(f"{library}/site-packages") is not None:
            yield f"{library}/site-packages"


def _find_not_executable(host: Host, program: str) -> Optional[Finding]:
    """Report a Python that nobody may execute: a shell silently runs the next one on PATH."""
    entry = host.files.stat(program)
    if entry is None or not entry.is_file or entry.mode & 0o111:
        return None
    return Finding(
        "virtual-environment.not-executable",
        _(
            "no user may execute {program}: its mode is {mode}",
            program=program,
            mode=f"{entry.mode & 0o7777:04o}",
        ),
        action=Action.CONFIG,
        fix=Fix(
            _("make it executable"),
            steps=(Command(("chmod", "a+x", host.files.real(program) or program)),),
            risk=Risk.MANUAL,
            needs_root=False,
        ),
    )


def _launcher_python(host: Host, script: str) -> Optional[str]:
    entry = host.files.stat(script)
    if entry is None or not entry.is_file:
        return None
    text = (host.files.read(script, 512) or b"").decode("utf-8", "surrogateescape")
    match = _LONG.match(text)
    if match is not None:
        return match[1] or match[2]
    match = _FIRST.match(text)
    return match[1] if match is not None else None
