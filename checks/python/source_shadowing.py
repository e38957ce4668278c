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
from npudoctor.host.python.interpreter import normal
from npudoctor.host.users.access import is_closed

# Where the distribution is called otherwise.
DISTRIBUTIONS = {"paddle": "paddlepaddle"}
# What frameworks import of the standard library, and people call their own files.
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
# A Python that multiprocessing starts by `spawn` or `forkserver` loads them, in its working directory first,
# before it knows a line of the job: of CPython 3.8 to 3.13.
SPAWNED = ("multiprocessing", "pickle", "select", "selectors", "signal", "socket", "subprocess")
# Distributions of the years before Python had the module itself: over its own, Python's other modules, or the
# frameworks, do not import. Each was tried with torch and Paddle, in a folder of PYTHONPATH.
BACKPORTS = ("enum", "typing", "dataclasses", "uuid", "contextvars", "pathlib", "asyncio")


@dataclass(frozen=True)
class Front:
    """A folder that stands before the installed packages. `certain`: for every job of this shell."""

    path: str
    entry: Optional[str]

    @property
    def certain(self) -> bool:
        """Whether PYTHONPATH names it; else it is the working directory, which only some jobs search."""
        return self.entry is not None


# As the trial says it, which has no folder of the job before the standard library.
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
    - `source-shadowing.closed-entry`: PYTHONPATH names a folder that this user may not read, or whose file
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
    here = working_directory(host)
    search_path = host.interpreter.layout().search_path
    entries = variables.path_list("PYTHONPATH")
    fronts = [Front(path, entry) for entry in entries for path in pythonpath([entry], here)]
    place = here if host.options.first_folder is None else host.options.first_folder or None
    searched = place is not None and not variables.get("PYTHONSAFEPATH")
    if not fronts and not searched:
        raise Skip(_("PYTHONPATH is not set, and the working directory is not searched"))
    yield Facts({"pythonpath": entries, "working_directory": here})
    absolute = [folder for folder in search_path if folder.startswith("/")]
    own = [folder for folder in absolute if folder not in (*entries, *(front.path for front in fronts))]
    hidden: set[str] = set()
    shut = [front for front in fronts if is_closed(host.files, front.path)]
    if shut:
        yield _closed_entries([front.path for front in shut])
    fronts = [front for front in fronts if front not in shut]
    for front in fronts:
        names = _list_modules(host, front)
        yield from _find_hidden(host, front, {name: names[name] for name in names if name not in hidden}, own)
        hidden |= names.keys()
    if place is None or not searched or is_closed(host.files, place):
        return
    if place not in [host.files.real(front.path) for front in fronts]:
        front = Front(place, None)  # it stands before PYTHONPATH
        yield from _find_hidden(host, front, _list_modules(host, front), absolute)


def _closed_entries(paths: Sequence[str]) -> Finding:
    return Finding(
        "source-shadowing.closed-entry",
        _(
            "PYTHONPATH names folders that this user cannot read, and Python skips them: {paths}",
            paths=", ".join(dict.fromkeys(paths)),
        ),
    )


def _list_modules(host: Host, front: Front) -> dict[str, str]:
    """What the folder would give to an import, by name."""
    names = dict.fromkeys((*PACKAGES, *STANDARD, *BACKPORTS))
    paths = {name: module_file(host.files, front.path, name) for name in names}
    return {name: path for name, path in paths.items() if path is not None}


def _find_hidden(
    host: Host, front: Front, names: Mapping[str, str], behind: Sequence[str]
) -> Iterator[Finding]:
    # An install folder holds metadata, or the interpreter itself searches it.
    if names and (
        (front.certain and any(name.endswith(("-info", ".egg")) for name in host.files.names(front.path)))
        or host.files.real(front.path) in [host.files.real(folder) for folder in behind]
    ):
        version = tuple(int(part) for part in (host.interpreter.layout().version or "").split(".")[:2])
        backports = set(BACKPORTS)
        if version < (3, 10):
            backports.discard("pathlib")
        backports.discard("asyncio")
        if host.interpreter.installed("torch") is not None:
            backports.add("asyncio")  # of the frameworks torch alone imports it
        names = {name: path for name, path in names.items() if front.certain and name in backports}
    for name, path in names.items():
        yield from _compare_copies(host, front, path, name, behind)


def _compare_copies(
    host: Host, front: Front, path: str, name: str, behind: Sequence[str]
) -> Iterator[Finding]:
    for folder in behind:
        installed = module_file(host.files, folder, name)
        if installed is not None:
            if host.files.real(installed) != host.files.real(path):
                text = _("{found} hides {name} in {folder}: a job that is started in this folder may load it")
                spawned = not front.certain and _is_spawned(host, name)
                if spawned:
                    text = _(
                        "{found} hides {name} in {folder}: Python processes that multiprocessing starts "
                        "load it"
                    )
                fatal = spawned or _is_imported(host, name)
                if front.certain:
                    text = _("{found} hides {name} in {folder}: PYTHONPATH contains its folder")
                place = installed[: installed.rindex(f"/{name}")]
                yield Finding(
                    "source-shadowing.package" if name in PACKAGES else "source-shadowing.standard-library",
                    text.format(found=path, name=name, folder=place),
                    severity=ERROR if fatal else WARNING if front.certain else INFO,
                    evidence=(_("found first: {path}", path=path), _("hidden: {path}", path=installed)),
                    action=Action.CONFIG,
                    fix=_without(host, front) or (_move_aside(name, path) if fatal else None),
                    echo_of=() if fatal else TRIED,
                )
            return


def _move_aside(name: str, path: str) -> Optional[Fix]:
    """The line that takes one file of the job's own out of the way, where an import fails by it.

    Its byte code in __pycache__ counts no more then. A folder may be a project: its owner decides.
    """
    if path.rpartition("/")[2].startswith("__init__."):
        return None
    step = Command(("mv", "-n", path, f"{path}.aside"))
    back = Command(("mv", "-n", f"{path}.aside", path)).lines()
    title = _("rename the file and update the code that imports it")
    return Fix(title, steps=(step,), undo=tuple(back), risk=Risk.MANUAL, needs_root=False)


def _is_imported(host: Host, name: str) -> bool:
    """Whether an installed framework imports it, as far as can be told: each does a module of STANDARD."""
    try:
        whole = closure_of(host)
    except CannotTell:
        return False
    packages = {normal(root.name) for root in whole.roots} | {
        need.name for need in whole.needs if need.installed
    }
    distribution = DISTRIBUTIONS.get(name, normal(name))
    return bool(whole.roots) and (name in (*STANDARD, *BACKPORTS) or distribution in packages)


def _is_spawned(host: Host, name: str) -> bool:
    """Whether ranks that multiprocessing starts load it; with a framework its launcher starts them."""
    try:
        return name in SPAWNED and not closure_of(host).roots
    except CannotTell:
        return False


def _without(host: Host, front: Front) -> Optional[Fix]:
    """PYTHONPATH without this folder, by whatever name, an empty entry too; nothing for the working
    directory, which nobody named."""
    if front.entry is None:
        return None
    entries = host.variables.path_list("PYTHONPATH")
    here, folder = working_directory(host), host.files.real(front.path)
    names = [
        path for entry in entries for path in pythonpath([entry], here) if not is_closed(host.files, path)
    ]
    same = {path for path in names if host.files.real(path) == folder}
    kept = (entry for entry in entries if same.isdisjoint(pythonpath([entry], here)))
    rest = ":".join(entry for entry in kept if entry != front.entry)
    return Fix(
        _("remove {entry} from PYTHONPATH", entry=front.entry or _("the empty entry")),
        steps=(Export("PYTHONPATH", rest) if rest else Command(("unset", "PYTHONPATH")),),
        undo=Export("PYTHONPATH", ":".join(entries)).lines(),
        risk=Risk.MANUAL,
        needs_root=False,
    )
