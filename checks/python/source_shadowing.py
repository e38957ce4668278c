"""Does a folder of the job's own hide an installed package, or a module of Python itself?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Optional, Union

from npudoctor import (
    ERROR,
    INFO,
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
    _,
    check,
)
from npudoctor.core.frozen import dataclass
from npudoctor.facts.job.working_directory import module_file, pythonpath, working_directory
from npudoctor.facts.python.frameworks import PACKAGES, closure_of
from npudoctor.host import CannotTell
from npudoctor.host.python.interpreter import normalize_name
from npudoctor.host.users.access import is_closed

# Modules whose distribution has another name.
DISTRIBUTIONS = {"paddle": "paddlepaddle"}
# Modules of the standard library that frameworks import and whose names people give to their own files.
STANDARD = (
    *("calendar", "code", "collections", "copy", "dataclasses", "email", "enum", "functools", "html", "http"),
    *(
        "inspect",
        "json",
        "logging",
        "multiprocessing",
        "numbers",
        "operator",
        "pickle",
        "platform",
        "profile",
    ),
    *(
        "queue",
        "random",
        "secrets",
        "select",
        "selectors",
        "signal",
        "socket",
        "statistics",
        "string",
        "struct",
        "subprocess",
    ),
    *("tempfile", "threading", "token", "tokenize", "types", "typing", "uuid", "warnings"),
)
# A child that multiprocessing starts by spawn or forkserver imports these from its working directory first,
# before it gets sys.path of the job. Seen with CPython 3.8 to 3.13.
SPAWNED = ("multiprocessing", "pickle", "select", "selectors", "signal", "socket", "subprocess")
# Backports of modules that Python now contains. If one hides Python's own, other modules or the frameworks
# fail to import. Each was tried with torch and Paddle, in a folder of PYTHONPATH.
BACKPORTS = ("enum", "typing", "dataclasses", "uuid", "contextvars", "pathlib", "asyncio")


@dataclass(frozen=True)
class FrontFolder:
    """A folder that is searched before the installed packages. `entry`: the entry of PYTHONPATH that names
    it, None for the working directory."""

    path: str
    entry: Optional[str]

    @property
    def is_certain(self) -> bool:
        """Whether PYTHONPATH names it; else it is the working directory, which only some jobs search."""
        return self.entry is not None


# Codes of trial-python for the same fault.
TRIED = ("trial-python.cannot-start", "trial-python.module-missing")


@check(
    "source-shadowing",
    scope=Scope.JOB,
    tags={"mindspore", "pytorch"},
    codes={
        "source-shadowing.package": ERROR,
        "source-shadowing.standard-library": ERROR,
        "source-shadowing.closed-entry": INFO,
    },
)
def source_shadowing(host: Host) -> Iterator[Union[Finding, Facts]]:
    """No folder of the job hides an installed package.

    ## What it does

    Looks where Python looks first: in the folders of PYTHONPATH, and in the working directory; for
    `npudoctor run` in the folder of the script that the command names. A file or a package there
    (`torch/__init__.py`, `random.py`) hides the installed one of that name, or the standard library's.
    Folders that contain metadata of installed distributions are install folders themselves, including CANN's,
    and are only searched for old backports: `enum34`, `typing`, `dataclasses`, `pathlib`, `asyncio`, `uuid`,
    `contextvars`. A folder without `__init__.py` hides nothing.

    - `source-shadowing.package`: a framework, or a package that frameworks need, is hidden.
    - `source-shadowing.standard-library`: a module of Python that frameworks import is hidden.
    - `source-shadowing.closed-entry`: PYTHONPATH names a folder that this user cannot read, or whose file
      server is gone. Python skips it without a message, and so do all checks; what it contains can only be
      reported as missing, by name.

    The first two findings are an error if an installed framework imports what is hidden. If no framework is
    installed, they are an error in the working directory for modules that a Python started by multiprocessing
    loads first (`socket.py`). Otherwise they are a warning if PYTHONPATH names the folder (an empty entry
    names the working directory), and information in the working directory: only `python script.py` in the
    folder of that script, `python -m`, `python -c` and notebooks search it.

    ## Why it matters

    The error reports a missing attribute or a circular import inside the framework, never the file that was
    found instead. In a checkout of numpy, the import of numpy fails.

    ## Fix safety

    Shown only: an `export` for the shell that starts the job, or the `mv -n` of a single file in the working
    directory that hides a module of Python; a folder is never moved.

    ## References

    - Python, "The initialization of the sys.path module search path".
    """
    variables = host.variables
    start_folder = working_directory(host)
    search_path = host.interpreter.layout().search_path
    entries = variables.path_list("PYTHONPATH")
    fronts = [FrontFolder(path, entry) for entry in entries for path in pythonpath([entry], start_folder)]
    place = start_folder if host.options.first_folder is None else host.options.first_folder or None
    # Python 3.11 and later leave out the script's folder and the working directory if PYTHONSAFEPATH is set.
    is_place_searched = place is not None and not variables.get("PYTHONSAFEPATH")
    if not fronts and not is_place_searched:
        raise Skip(_("PYTHONPATH is not set, and the working directory is not searched"))
    yield Facts({"pythonpath": entries, "working_directory": start_folder})
    absolute = [folder for folder in search_path if folder.startswith("/")]
    installed_folders = [
        folder for folder in absolute if folder not in (*entries, *(front.path for front in fronts))
    ]
    hidden: set[str] = set()
    closed = [front for front in fronts if is_closed(host.files, front.path)]
    if closed:
        yield _report_closed_entries([front.path for front in closed])
    fronts = [front for front in fronts if front not in closed]
    for front in fronts:
        names = _list_modules(host, front)
        yield from _find_hidden(
            host, front, {name: names[name] for name in names if name not in hidden}, installed_folders
        )
        hidden |= names.keys()
    if place is None or not is_place_searched or is_closed(host.files, place):
        return
    if place not in [host.files.real(front.path) for front in fronts]:
        front = FrontFolder(place, None)  # searched before PYTHONPATH
        yield from _find_hidden(host, front, _list_modules(host, front), absolute)


def _report_closed_entries(paths: Sequence[str]) -> Finding:
    return Finding(
        "source-shadowing.closed-entry",
        _(
            "PYTHONPATH names folders that this user cannot read, and Python skips them: {paths}",
            paths=", ".join(dict.fromkeys(paths)),
        ),
    )


def _list_modules(host: Host, front: FrontFolder) -> dict[str, str]:
    """Return the files that an import would find in the folder, by module name."""
    names = dict.fromkeys((*PACKAGES, *STANDARD, *BACKPORTS))
    paths = {name: module_file(host.files, front.path, name) for name in names}
    return {name: path for name, path in paths.items() if path is not None}


def _find_hidden(
    host: Host, front: FrontFolder, names: Mapping[str, str], later_folders: Sequence[str]
) -> Iterator[Finding]:
    # Only backports are judged in an install folder: one with metadata, or one that the interpreter itself
    # searches.
    if names and (
        (front.is_certain and any(name.endswith(("-info", ".egg")) for name in host.files.names(front.path)))
        or host.files.real(front.path) in [host.files.real(folder) for folder in later_folders]
    ):
        version = tuple(int(part) for part in (host.interpreter.layout().version or "").split(".")[:2])
        backports = set(BACKPORTS)
        if version < (3, 10):
            backports.discard("pathlib")
        backports.discard("asyncio")
        if host.interpreter.installed("torch") is not None:
            backports.add("asyncio")  # of the frameworks torch alone imports it
        names = {name: path for name, path in names.items() if front.is_certain and name in backports}
    for name, path in names.items():
        yield from _compare_copies(host, front, path, name, later_folders)


def _compare_copies(
    host: Host, front: FrontFolder, path: str, name: str, later_folders: Sequence[str]
) -> Iterator[Finding]:
    for folder in later_folders:
        installed = module_file(host.files, folder, name)
        if installed is not None:
            if host.files.real(installed) != host.files.real(path):
                text = _("{found} hides {name} in {folder}: a job that is started in this folder may load it")
                is_spawned = not front.is_certain and _is_spawned(host, name)
                if is_spawned:
                    text = _(
                        "{found} hides {name} in {folder}: Python processes that multiprocessing starts "
                        "load it"
                    )
                is_fatal = is_spawned or _is_imported(host, name)
                if front.is_certain:
                    text = _("{found} hides {name} in {folder}: PYTHONPATH contains its folder")
                place = installed[: installed.rindex(f"/{name}")]
                yield Finding(
                    "source-shadowing.package" if name in PACKAGES else "source-shadowing.standard-library",
                    text.format(found=path, name=name, folder=place),
                    severity=ERROR if is_fatal else WARNING if front.is_certain else INFO,
                    evidence=(_("found first: {path}", path=path), _("hidden: {path}", path=installed)),
                    action=Action.CONFIG,
                    fix=_uncover_fix(host, front, name, path, is_fatal),
                    echo_of=() if is_fatal else TRIED,
                )
            return


def _uncover_fix(host: Host, front: FrontFolder, name: str, path: str, is_fatal: bool) -> Optional[Fix]:
    """Return the line after which Python finds the installed module."""
    from npudoctor.checks.python._pythonpath import frameworks_only_in  # with all of pip's lines

    if front.entry is not None and frameworks_only_in(host, front.path):
        # Not without the folder: a framework would be gone. What it hides is moved aside, a package too, as
        # nobody keeps a project where frameworks are installed.
        path = path.rpartition("/")[0] if path.rpartition("/")[2].startswith("__init__.") else path
        return _move_path_fix(_("move {path} aside: its folder has the framework", path=path), path)
    return _remove_entry_fix(host, front) or (_move_aside_fix(name, path) if is_fatal else None)


def _move_aside_fix(name: str, path: str) -> Optional[Fix]:
    """Return the line that moves one file of the job aside; None for a package folder.

    Its byte code in __pycache__ has no effect without the source. A folder may be a project, so its owner
    decides.
    """
    if path.rpartition("/")[2].startswith("__init__."):
        return None
    return _move_path_fix(_("rename the file and update the code that imports it"), path)


def _move_path_fix(title: str, path: str) -> Fix:
    step = Command(("mv", "-n", path, f"{path}.aside"))
    undo = Command(("mv", "-n", f"{path}.aside", path)).lines()
    return Fix(title, steps=(step,), undo=tuple(undo), risk=Risk.MANUAL, needs_root=False)


def _is_imported(host: Host, name: str) -> bool:
    """Whether an installed framework imports the module. Every framework imports the modules of STANDARD."""
    try:
        closure = closure_of(host)
    except CannotTell:
        # Without the list of frameworks nothing is known to import it: the finding stays mild.
        return False
    packages = {normalize_name(root.name) for root in closure.roots} | {
        need.name for need in closure.needs if need.installed
    }
    distribution = DISTRIBUTIONS.get(name, normalize_name(name))
    return bool(closure.roots) and (name in (*STANDARD, *BACKPORTS) or distribution in packages)


def _is_spawned(host: Host, name: str) -> bool:
    """Whether ranks started by multiprocessing load the module. With a framework, its launcher starts the
    ranks."""
    try:
        return name in SPAWNED and not closure_of(host).roots
    except CannotTell:
        return False


def _remove_entry_fix(host: Host, front: FrontFolder) -> Optional[Fix]:
    """Return the line that removes the folder from PYTHONPATH under all of its names, also as an empty entry;
    None for the working directory."""
    if front.entry is None:
        return None
    entries = host.variables.path_list("PYTHONPATH")
    start_folder, folder = working_directory(host), host.files.real(front.path)
    names = [
        path
        for entry in entries
        for path in pythonpath([entry], start_folder)
        if not is_closed(host.files, path)
    ]
    same_paths = {path for path in names if host.files.real(path) == folder}
    remaining = (entry for entry in entries if same_paths.isdisjoint(pythonpath([entry], start_folder)))
    rest = ":".join(entry for entry in remaining if entry != front.entry)
    return Fix(
        _("remove {entry} from PYTHONPATH", entry=front.entry or _("the empty entry")),
        steps=(Export("PYTHONPATH", rest) if rest else Command(("unset", "PYTHONPATH")),),
        undo=Export("PYTHONPATH", ":".join(entries)).lines(),
        risk=Risk.MANUAL,
        needs_root=False,
    )
