"""The lines by which a person changes what is installed in the interpreter under examination."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor.host.host import Host
from npudoctor.host.process.commands import FOLDERS
from npudoctor.host.python.interpreter import Distribution

Argv = tuple[str, ...]
MANAGED = "EXTERNALLY-MANAGED"  # beside the standard library: pip refuses to change this Python (PEP 668)


def pip_argv(host: Host, *arguments: str) -> Argv:
    """pip of that very interpreter, or uv where it has none; for an image, run inside it."""
    path = host.interpreter.path
    argv: Argv = (path, "-m", "pip", *arguments)
    if by_uv(host):
        argv = ("uv", "pip", arguments[0], "--python", path, *arguments[1:])
    return _enter_root(host, argv)


def pip_first(host: Host) -> Sequence[Argv]:
    """The line that must go before, where the interpreter has no pip and there is no uv."""
    if has_pip(host) or has_uv(host):
        return ()
    return (_enter_root(host, (host.interpreter.path, "-m", "ensurepip")),)


def by_uv(host: Host) -> bool:
    """Whether it is uv that installs."""
    return not has_pip(host) and has_uv(host)


def needs_root(host: Host) -> bool:
    """Whether only root can run that line: to enter an image."""
    return host.options.root is not None


def has_pip(host: Host) -> bool:
    """Whether the interpreter has pip; presumed where nothing is seen of what comes with a Python."""
    whole = _virtual(host) or _library(host) is not None
    return not whole or host.interpreter.version_of("pip") is not None


def has_uv(host: Host) -> bool:
    """Whether uv is on the PATH of who would type the line; of an image: on that of a login in it."""
    if host.options.root is not None:
        folders = ["/usr/local/bin", "/usr/bin", "/root/.local/bin"]
    else:
        folders = host.variables.path_list("PATH")
    entries = (host.files.stat(f"{folder}/uv") for folder in folders if folder.startswith("/"))
    return any(entry is not None and entry.is_file for entry in entries)


def installs_nothing(host: Host) -> bool:
    """Whether no line would install anything: the system keeps this Python for itself, or there is neither
    pip, uv nor what brings pip."""
    library = _library(host)
    if library is None:
        return False
    if not _virtual(host) and host.files.stat(f"{library}/{MANAGED}") is not None:
        return True
    bringing = host.files.stat(f"{library}/ensurepip/__init__.py") is not None
    return not (bringing or has_pip(host) or has_uv(host))


def entry_of(host: Host, distribution: Distribution) -> Optional[str]:
    """The entry of PYTHONPATH that shows this copy; None where it lies in the interpreter's own folders.

    What pip installs lies behind it, and would not be seen.
    """
    folder = distribution.folder.rpartition("/")[0]
    if host.options.root is not None or folder not in host.variables.path_list("PYTHONPATH"):
        return None
    own = host.files.real(host.interpreter.path.rsplit("/", 2)[0])
    real = host.files.real(folder) or folder
    in_own_python = (
        own is not None and real.startswith(f"{own.rstrip('/')}/lib") and real.endswith("-packages")
    )
    return None if in_own_python else folder


def installer(host: Host, inputs: Sequence[str]) -> Optional[int]:
    """The uid of who may have pip put files into the folder for packages of this interpreter: root or who
    asks. None where it is another's, or where root would run what others could have written.

    `inputs` are the files that pip is given.
    """
    site = own_site(host)
    entry = host.files.stat(site) if site else None
    pip = [
        distribution.folder.rpartition("/")[0] for distribution in host.interpreter.distributions("pip")[:1]
    ]
    if entry is None or not pip or entry.uid not in (0, host.identity.euid):
        return None
    if host.identity.is_root and not _roots(host, (site or "", pip[0], *inputs)):
        return None
    return entry.uid


def _roots(host: Host, paths: Sequence[str]) -> bool:
    """Whether root may start pip: all that its start could import is root's, and these paths, too."""
    commands = host.commands
    search_path = (folder for folder in host.interpreter.layout().search_path if folder.startswith("/"))
    return (
        commands.why_untrusted(pip_argv(host), {"PATH": commands.join_trusted(FOLDERS)}) is None
        and all(map(commands.is_trusted, paths))
        and all(commands.may_load_from(folder) for folder in search_path)
    )


def own_site(host: Host) -> Optional[str]:
    """The folder in which pip puts packages, as a user's own is left out."""
    prefix = host.interpreter.path.rsplit("/", 2)[0].rstrip("/")
    folders = host.interpreter.layout().search_path
    return next(
        (folder for folder in folders if folder.startswith(f"{prefix}/lib") and folder.endswith("-packages")),
        None,
    )


def in_users_site(host: Host, folder: str) -> bool:
    """Whether it is the folder for packages of one user, which no isolated start of Python knows."""
    return folder.endswith("/site-packages") and "/.local/lib/" in folder


def _enter_root(host: Host, argv: Argv) -> Argv:
    return argv if host.options.root is None else ("chroot", host.options.root, *argv)


def _virtual(host: Host) -> bool:
    return host.files.stat(f"{host.interpreter.path.rsplit('/', 2)[0]}/pyvenv.cfg") is not None


def _library(host: Host) -> Optional[str]:
    """The folder of the standard library; None where it is not on the search path as files."""
    folders = [folder for folder in host.interpreter.layout().search_path if folder.startswith("/")]
    return next((folder for folder in folders if host.files.stat(f"{folder}/os.py") is not None), None)
