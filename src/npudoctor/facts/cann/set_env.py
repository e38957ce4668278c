"""What an installation's own set_env.sh would set, era by era, and which installation a variable names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Optional

from npudoctor.core.cann_version import is_at_least
from npudoctor.core.errors import CannotTell
from npudoctor.facts.cann.installations import Install, install_at
from npudoctor.facts.cann.places import ENDINGS, named_root, parents
from npudoctor.host.fs.files import Files

# Set by set_env.sh of releases that have a folder `toolkit`.
TOOLCHAIN = "TOOLCHAIN_HOME"
# Where Python finds te and hccl, and where it finds the operators' implementations, by age.
SITES = ("python/site-packages", "fwkacllib/python/site-packages")
# The older releases have the two parts of the path in the other order.
OPERATORS = ("opp/built-in/op_impl/ai_core/tbe", "opp/op_impl/built-in/ai_core/tbe")
COMPILERS = ("compiler/ccec_compiler/bin", "tools/ccec_compiler/bin", "fwkacllib/ccec_compiler/bin")


def variables_of(files: Files, install: Install) -> dict[str, str]:
    """The variables that name an installation, with their values; before 5.1 scripts were written by hand."""
    values = {"ASCEND_OPP_PATH": f"{install.path}/opp"}
    if not install.before_6:
        values = {"ASCEND_HOME_PATH": install.path, **values}
        # set_env.sh sets ASCEND_TOOLKIT_HOME from that release on.
        if is_at_least(install.version, "8.1"):
            values["ASCEND_TOOLKIT_HOME"] = install.path
        if exists(files, f"{install.path}/toolkit"):
            values[TOOLCHAIN] = f"{install.path}/toolkit"
    return values


def python_folders(files: Files, install: Install) -> list[str]:
    """The folders of an installation that PYTHONPATH gets, in order; only those that exist."""
    return [
        path for path in (_find_first(files, install, SITES), _find_first(files, install, OPERATORS)) if path
    ]


def compilers(files: Files, install: Install) -> list[str]:
    """The folders with the operator compiler that PATH gets; one of them is enough."""
    folders = (f"{install.path}/{folder}" for folder in COMPILERS)
    return [folder for folder in folders if exists(files, folder)]


def missing_folders(files: Files, folders: list[str], entries: list[str]) -> list[str]:
    """Those of the folders that no entry names, links resolved."""
    have = {real_path(files, entry) for entry in entries if entry.startswith("/")}
    return [folder for folder in folders if real_path(files, folder) not in have]


def named_installs(files: Files, variables: Mapping[str, str]) -> dict[str, Install]:
    """The installation that each variable names, by variable; without variables that name none."""
    installs = {}
    for name in ENDINGS:
        install = install_at(files, named_root(name, variables.get(name, "")), name)
        if install is not None:
            installs[name] = install
    # TOOLCHAIN_HOME names a folder in the installation, not the installation.
    value = variables.get(TOOLCHAIN, "").rstrip("/")
    if value.endswith("/toolkit"):
        install = install_at(files, value[: -len("/toolkit")], TOOLCHAIN)
        if install is not None:
            installs[TOOLCHAIN] = install
    return installs


def has_latest_below(files: Files, value: str) -> bool:
    """Return whether a path names the folder above the releases instead of a release: `latest` is in it."""
    try:
        return value.startswith("/") and install_at(files, f"{value.rstrip('/')}/latest") is not None
    except CannotTell:
        return False


def releases_contradict(files: Files, variables: Mapping[str, str]) -> bool:
    """Return whether variables name installations of different releases, so that the one in use is a
    guess.
    """
    installs = named_installs(files, variables).values()
    return len({install.component for install in installs if install.component}) > 1


def find_first_site(files: Files, entries: list[str]) -> Optional[tuple[str, Install]]:
    """The first entry that is the site-packages of an installation, and that installation."""
    return _find_entry(files, entries, SITES)


def find_first_compiler(files: Files, entries: list[str]) -> Optional[tuple[str, Install]]:
    """The same for the operator compiler: the first entry of PATH that has it, and its installation."""
    return _find_entry(files, entries, COMPILERS)


def atb_script(files: Files, variables: Mapping[str, str], home: str) -> Optional[str]:
    """The script that sets the variables of nnal's ATB; None where that is not installed."""
    paths = (f"{root}/nnal/atb/set_env.sh" for root in parents(files, variables, home))
    return next((path for path in paths if exists(files, path)), None)


def exists(files: Files, path: str) -> bool:
    """Return whether something is at this path and may be looked at."""
    return real_path(files, path) is not None


def real_path(files: Files, path: str) -> Optional[str]:
    """The path without links; None when it is missing or cannot be looked at."""
    try:
        return files.real(path)
    except CannotTell:
        return None


def _find_first(files: Files, install: Install, folders: tuple[str, ...]) -> Optional[str]:
    paths = (f"{install.path}/{folder}" for folder in folders)
    return next((path for path in paths if exists(files, path)), None)


def _find_entry(files: Files, entries: list[str], endings: tuple[str, ...]) -> Optional[tuple[str, Install]]:
    matches = ((entry, install) for entry in entries for install in _installs_of_entry(files, entry, endings))
    return next(matches, None)


def _installs_of_entry(files: Files, entry: str, endings: tuple[str, ...]) -> Iterator[Install]:
    path = entry.rstrip("/")
    for ending in endings:
        if path.startswith("/") and path.endswith(f"/{ending}") and exists(files, path):
            try:
                install = install_at(files, path[: -len(ending) - 1])
            except CannotTell:
                continue
            if install is not None:
                yield install
