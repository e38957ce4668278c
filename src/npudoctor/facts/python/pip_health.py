"""Whether pip can be started: that of the interpreter under examination, or that of another Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.facts.python.installed_modules import list_recorded_files
from npudoctor.host.host import Host
from npudoctor.host.process.commands import FOLDERS, CommandResult
from npudoctor.host.python.installed_files import find_damage, site_of
from npudoctor.host.python.interpreter import Distribution, Interpreter
from npudoctor.host.startup.site_folders import read_home
from npudoctor.host.variables import Variables

# What is installed already is to be installed: that runs all of an installation but its end, asks no index
# and changes nothing. `--help` is too little: pip 23.0 shows it under Python 3.12, but reads no metadata.
_TRIAL = ("install", "--isolated", "--no-cache-dir", "--no-index", "--no-deps")
# Shares of what a check may take; half a second is usual. Where there is no answer in time the files decide.
_OWN_SHARE, _OTHERS_SHARE = 0.4, 0.4
OTHERS = 2  # pips of other Pythons that are tried


def is_pip_well(host: Host) -> bool:
    """Return whether pip of this interpreter works; judged once, and only for a line that is shown.

    Its metadata says little: pip's folder may be gone or cut, or too old for this Python (pip 9 under 3.12).
    """
    return host.once("pip is well", lambda: _judge(host))


def is_pip_covered(host: Host) -> bool:
    """Return whether a pip in PYTHONPATH that lacks parts of itself hides this interpreter's own: `-I` leaves
    that out. Vendored packages, of which a .gitignore dropped folders, have one."""
    return host.once("pip is covered", lambda: _is_covered(host))


def _is_covered(host: Host) -> bool:
    if host.options.root is not None:  # an image is entered without the caller's variables
        return False
    copies = host.interpreter.distributions("pip")
    folders = host.variables.path_list("PYTHONPATH")
    return len(copies) > 1 and site_of(copies[0]) in folders and not _is_whole(host, copies[0])


def find_other_pip(host: Host) -> Optional[str]:
    """Return another Python whose pip installs into this interpreter (`pip --python`, since 22.3), tried."""
    return host.once("another pip", lambda: _find_other_pip(host))


def _judge(host: Host) -> bool:
    copies = host.interpreter.distributions("pip")
    copies = copies[1:] if is_pip_covered(host) else copies
    if not copies or not _is_whole(host, copies[0]):
        return False
    answer = _try_to_start(host, copies[0])
    return not _is_too_old(host, copies[0].version) if answer is None else answer


def _is_whole(host: Host, copy: Distribution) -> bool:
    """Whether what pip starts with is there. Debian's has no list of its files."""
    folder = f"{site_of(copy)}/pip"
    if host.files.stat(folder) is None:
        # In a zip file or another folder of the search path, as an image for tests has it: no statement.
        return not list_recorded_files(host, copy)
    try:
        damage = find_damage(host.files, copy, list_recorded_files(host, copy))
    except CannotTell:
        return False  # who may not read pip cannot start it
    return not (damage.missing or damage.short or damage.closed)


def _is_too_old(host: Host, version: str) -> bool:
    """Whether pip is too old: before 23.1.2 it asks pkgutil for what Python 3.12 removed."""
    python = host.interpreter.layout().version
    return python is not None and _numbers(python) >= (3, 12) and _numbers(version) < (23, 1, 2)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def _try_to_start(host: Host, copy: Distribution) -> Optional[bool]:
    """Whether it starts; None without an answer: in an image, of what root may not run, or not in time."""
    if not _may_start(host, (host.interpreter.program,)):
        return None
    # -I leaves out the user's own folder, and pip with it if it lies there.
    isolated = () if "/.local/lib/" in copy.folder else ("-I",)
    # A Python that the system keeps for itself (PEP 668) refuses all but a dry run.
    dry = ("--dry-run",) if _numbers(copy.version) >= (23,) else ()
    words = (*isolated, "-B", "-m", "pip", *_TRIAL, *dry, "pip")
    answer = _start(host, host.interpreter.program, words, _OWN_SHARE)
    return answer.ok if answer.ended == "exited" else None


def _may_start(host: Host, pythons: Sequence[str]) -> bool:
    """Whether these may be started, and what they import on their own."""
    if host.options.root is not None or not host.interpreter.layout().asked:
        return False
    return not host.identity.is_root or all(_may_import_all(host, python) for python in pythons)


def _start(host: Host, python: str, words: tuple[str, ...], share: float) -> CommandResult:
    """Try it; `share` of what a check may take."""
    variables = {**host.variables}
    if host.identity.is_root:
        variables = {"PATH": host.commands.join_trusted(FOLDERS), "HOME": "/"}
    # pip reads the machine's settings in spite of --isolated, and these may say `upgrade` and `find-links`.
    variables.update({"LC_ALL": "C", "PIP_CONFIG_FILE": "/dev/null"})
    return host.commands.run((python, *words), timeout=share * host.options.timeout, variables=variables)


def _may_import_all(host: Host, python: str) -> bool:
    """Whether all that a start of a Python may import is root's, by its own search path."""
    interpreter = host.interpreter
    if python not in (interpreter.path, interpreter.program):
        # Only read: which folders it has is not asked of a program that root may not run.
        interpreter = Interpreter(
            python, "path", files=host.files, commands=None, variables=Variables({}), as_root=True
        )
    try:
        layout = interpreter.layout()
    except CannotTell:
        return False
    folders = [folder for folder in layout.search_path if folder.startswith("/")]
    is_known = bool(folders) and not layout.unread
    return is_known and host.commands.may_run(python) and all(map(host.commands.may_load_from, folders))


def _find_other_pip(host: Host) -> Optional[str]:
    installed = next((copy.name for copy in host.interpreter.all_installed() if copy.headers), None)
    if installed is None:
        return None  # nothing to try it with
    words = ("-I", "-B", "-m", "pip", "--python", host.interpreter.path, *_TRIAL, installed)
    # As in the line that is shown, pip runs in the interpreter under examination.
    listed = dict.fromkeys(_list_other_pythons(host))
    others = [each for each in islice(listed, OTHERS) if _may_start(host, (each, host.interpreter.program))]
    slow = []
    for python in others:
        answer = _start(host, python, words, _OTHERS_SHARE / len(others))
        if answer.ok:
            return python
        if answer.ended == "timeout":
            slow.append(python)
    # On a busy machine none may answer in time: that is no reason to say that there is no pip.
    return slow[0] if slow else None


def _list_other_pythons(host: Host) -> Iterator[str]:
    """The one that a virtual environment was made of, then those of the caller's PATH."""
    home = read_home(host.files, host.interpreter.path)
    if home is not None:
        yield f"{home}/python3"
    for folder in host.variables.path_list("PATH"):
        if folder.startswith("/"):
            entry = host.files.stat(f"{folder}/python3")
            if entry is not None and entry.is_file:
                yield f"{folder}/python3"
