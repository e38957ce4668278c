"""The lines by which a person changes what is installed in the interpreter under examination."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor.core.lazy import pattern
from npudoctor.facts.python.frameworks import closure_of
from npudoctor.facts.python.pip_health import find_other_pip, is_pip_covered, is_pip_well
from npudoctor.host.host import Host
from npudoctor.host.process.commands import FOLDERS
from npudoctor.host.python.installed_files import read_installer
from npudoctor.host.python.interpreter import Distribution

Argv = tuple[str, ...]
_PIP_METADATA = pattern(r"pip-[^-]+\.(?:dist|egg)-info")
MANAGED = "EXTERNALLY-MANAGED"  # beside the standard library: pip refuses to change this Python (PEP 668)


def pip_argv(host: Host, *arguments: str) -> Argv:
    """The arguments of a pip that works: of this interpreter, of uv, or of another Python; for an image, run
    inside it."""
    path = host.interpreter.path
    isolated: Argv = ("-I",) if is_pip_covered(host) else ()
    argv: Argv = (path, *isolated, "-m", "pip", *arguments)
    if uses_uv(host):
        argv = ("uv", "pip", arguments[0], "--python", path, *arguments[1:])
    elif arguments and not _has_or_gets_pip(host):
        other = find_other_pip(host)
        # A pip of PYTHONPATH would hide that one too; it was tried without.
        isolated = ("-I",) if host.variables.get("PYTHONPATH") else ()
        argv = (other, *isolated, "-m", "pip", "--python", path, *arguments) if other else argv
    return enter_root(host, argv)


def pip_first(host: Host) -> Sequence[Argv]:
    """The lines that must be run before, where the interpreter has no pip that works and there is no uv."""
    if is_pip_usable(host) or has_uv(host) or not _brings_pip(host):
        return ()
    remains = _list_remains(host)
    # ensurepip installs nothing where metadata says that pip is there.
    removal = [enter_root(host, ("rm", "-r", *remains))] if remains else []
    return (*removal, enter_root(host, (host.interpreter.path, "-m", "ensurepip")))


def _has_or_gets_pip(host: Host) -> bool:
    return is_pip_usable(host) or _brings_pip(host)


def _list_remains(host: Host) -> list[str]:
    """What is left of a pip that does not work, in the folder in which ensurepip installs."""
    site = own_site(host)
    names = host.files.names(site) if site else []
    return [f"{site}/{name}" for name in names if name == "pip" or _PIP_METADATA.fullmatch(name)]


def uses_uv(host: Host) -> bool:
    """Return whether uv installs, as the interpreter has no pip that works."""
    return not is_pip_usable(host) and has_uv(host)


def needs_root(host: Host) -> bool:
    """Return whether only root can run that line, which enters an image."""
    return host.options.root is not None


def is_pip_usable(host: Host) -> bool:
    """Return whether the interpreter's own pip works; presumed where nothing of a Python's own files can be
    seen."""
    # Where nothing of the standard library is seen, pip may be where we do not see it, too.
    is_whole = _is_virtual(host) or _library(host) is not None
    return not is_whole or is_pip_well(host)


def has_uv(host: Host) -> bool:
    """Return whether uv is on the PATH of whoever types the line; for an image: on that of a login in it."""
    if host.options.root is not None:
        # The PATH of an image is not known: the places of installers.
        folders = ["/usr/local/bin", "/usr/bin", "/root/.local/bin"]
    else:
        folders = host.variables.path_list("PATH")
    entries = (host.files.stat(f"{folder}/uv") for folder in folders if folder.startswith("/"))
    return any(entry is not None and entry.is_file for entry in entries)


def installs_nothing(host: Host) -> bool:
    """Return whether no line would install anything: the system keeps this Python for itself (PEP 668), or
    there is no pip that works, no uv and no ensurepip.
    """
    if _library(host) is None:
        return False
    if is_managed(host) and not overrules_management(host):
        return True
    return not (_has_or_gets_pip(host) or has_uv(host) or find_other_pip(host))


def is_managed(host: Host) -> bool:
    """Return whether the system keeps this Python for itself (PEP 668); virtual ones are exempt."""
    library = _library(host)
    return (
        library is not None and not _is_virtual(host) and host.files.stat(f"{library}/{MANAGED}") is not None
    )


def overrules_management(host: Host) -> bool:
    """Return whether pip or uv put the frameworks into this managed Python, as images do
    (--break-system-packages): then it also replaces them there.
    """
    roots = closure_of(host).roots
    return bool(roots) and all(read_installer(host.files, root) in ("pip", "uv") for root in roots)


def _brings_pip(host: Host) -> bool:
    """Whether `python -m ensurepip` installs pip; presumed of a Python of which no library is seen.

    In a Python that the system keeps for itself it refuses, and what is there of pip is the system's: that is
    not removed. Debian's has no mark before 12, but its own name for the folder.
    """
    library = _library(host)
    if not _is_virtual(host) and (is_managed(host) or (own_site(host) or "").endswith("/dist-packages")):
        return False
    return library is None or host.files.stat(f"{library}/ensurepip/__init__.py") is not None


def entry_of(host: Host, distribution: Distribution) -> Optional[str]:
    """The entry of PYTHONPATH that shows this copy; None where it lies in the interpreter's own folders.

    What pip installs lies behind it, and would not be found.
    """
    folder = distribution.folder.rpartition("/")[0]
    if host.options.root is not None or folder not in host.variables.path_list("PYTHONPATH"):
        return None
    own = host.files.real(host.interpreter.path.rsplit("/", 2)[0])
    real = host.files.real(folder) or folder
    # PYTHONPATH may name the interpreter's own site-packages; pip installs there.
    in_own_python = (
        own is not None and real.startswith(f"{own.rstrip('/')}/lib") and real.endswith("-packages")
    )
    return None if in_own_python else folder


def installer(host: Host, inputs: Sequence[str]) -> Optional[int]:
    """The uid that may have pip put files into this interpreter's folder for packages: root's or the
    caller's.

    None where it is another user's, or where root would run what others could have written. `inputs`: the
    files that pip is given.
    """
    site = own_site(host)
    entry = host.files.stat(site) if site else None
    pip = [
        distribution.folder.rpartition("/")[0] for distribution in host.interpreter.distributions("pip")[:1]
    ]
    # Files of pip would get the wrong owner.
    if entry is None or not pip or entry.uid not in (0, host.identity.euid):
        return None
    if host.identity.is_root and not _is_safe_for_root(host, (site or "", pip[0], *inputs)):
        return None
    return entry.uid


def _is_safe_for_root(host: Host, paths: Sequence[str]) -> bool:
    """Return whether root may start pip: all that its start could import is root's, and so are these
    paths.
    """
    commands = host.commands
    search_path = (folder for folder in host.interpreter.layout().search_path if folder.startswith("/"))
    return (
        commands.why_untrusted(pip_argv(host), {"PATH": commands.join_trusted(FOLDERS)}) is None
        and all(map(commands.is_trusted, paths))
        and all(commands.may_load_from(folder) for folder in search_path)
    )


def own_site(host: Host) -> Optional[str]:
    """The folder in which pip puts packages, without a user's own; None where there is none."""
    prefix = host.interpreter.path.rsplit("/", 2)[0].rstrip("/")
    folders = host.interpreter.layout().search_path
    return next(
        (folder for folder in folders if folder.startswith(f"{prefix}/lib") and folder.endswith("-packages")),
        None,
    )


def is_in_users_site(host: Host, folder: str) -> bool:
    """Return whether it is the folder for packages of one user, which an isolated start of Python does not
    search.
    """
    return folder.endswith("/site-packages") and "/.local/lib/" in folder


def enter_root(host: Host, argv: Argv) -> Argv:
    """Return the arguments of a line; for an image, run inside it."""
    return argv if host.options.root is None else ("chroot", host.options.root, *argv)


def _is_virtual(host: Host) -> bool:
    return host.files.stat(f"{host.interpreter.path.rsplit('/', 2)[0]}/pyvenv.cfg") is not None


def _library(host: Host) -> Optional[str]:
    """The folder of the standard library; None where it is not on the search path as files."""
    folders = [folder for folder in host.interpreter.layout().search_path if folder.startswith("/")]
    return next((folder for folder in folders if host.files.stat(f"{folder}/os.py") is not None), None)
