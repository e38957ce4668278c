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
    """The arguments of pip in this interpreter, or of uv where it has no pip; for an image, run inside it."""
    path = host.interpreter.path
    argv: Argv = (path, "-m", "pip", *arguments)
    if uses_uv(host):
        argv = ("uv", "pip", arguments[0], "--python", path, *arguments[1:])
    return _enter_root(host, argv)


def pip_first(host: Host) -> Sequence[Argv]:
    """The lines that must be run before, where the interpreter has no pip and there is no uv."""
    if has_pip(host) or has_uv(host):
        return ()
    return (_enter_root(host, (host.interpreter.path, "-m", "ensurepip")),)


def uses_uv(host: Host) -> bool:
    """Return whether uv installs, as the interpreter has no pip."""
    return not has_pip(host) and has_uv(host)


def needs_root(host: Host) -> bool:
    """Return whether only root can run that line, which enters an image."""
    return host.options.root is not None


def has_pip(host: Host) -> bool:
    """Return whether the interpreter has pip; presumed where nothing of a Python's own files can be seen."""
    # Where nothing of the standard library is seen, pip may be where we do not see it, too.
    whole = _is_virtual(host) or _library(host) is not None
    return not whole or host.interpreter.version_of("pip") is not None


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
    there is no pip, no uv and no ensurepip.
    """
    library = _library(host)
    if library is None:
        return False
    # PEP 668 exempts virtual environments.
    if not _is_virtual(host) and host.files.stat(f"{library}/{MANAGED}") is not None:
        return True
    bringing = host.files.stat(f"{library}/ensurepip/__init__.py") is not None
    return not (bringing or has_pip(host) or has_uv(host))


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


def _enter_root(host: Host, argv: Argv) -> Argv:
    return argv if host.options.root is None else ("chroot", host.options.root, *argv)


def _is_virtual(host: Host) -> bool:
    return host.files.stat(f"{host.interpreter.path.rsplit('/', 2)[0]}/pyvenv.cfg") is not None


def _library(host: Host) -> Optional[str]:
    """The folder of the standard library; None where it is not on the search path as files."""
    folders = [folder for folder in host.interpreter.layout().search_path if folder.startswith("/")]
    return next((folder for folder in folders if host.files.stat(f"{folder}/os.py") is not None), None)
