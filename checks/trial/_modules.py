"""Modules of the standard library that a build of Python may lack, and the packages that bring them."""

from __future__ import annotations

from typing import NamedTuple, Optional

from npudoctor import Command, Fix, Host, Risk, _
from npudoctor.core.errors import CannotTell
from npudoctor.core.lazy import pattern


class SystemLibrary(NamedTuple):
    """The library that a module of the standard library is built with: its name, and the Debian and RPM
    packages with its headers."""

    name: str
    debian: str
    rpm: str


# Modules of the standard library that CPython's build skips, with one line of output, if the headers are
# missing.
LIBRARIES = {
    "zlib": SystemLibrary("zlib", "zlib1g-dev", "zlib-devel"),
    "_ctypes": SystemLibrary("libffi", "libffi-dev", "libffi-devel"),
    "_ssl": SystemLibrary("OpenSSL", "libssl-dev", "openssl-devel"),
    "_hashlib": SystemLibrary("OpenSSL", "libssl-dev", "openssl-devel"),
    "_lzma": SystemLibrary("liblzma", "liblzma-dev", "xz-devel"),
    "_bz2": SystemLibrary("bzip2", "libbz2-dev", "bzip2-devel"),
    "_sqlite3": SystemLibrary("SQLite", "libsqlite3-dev", "sqlite-devel"),
}
# Where uv and pyenv keep the Pythons that they install.
_OF_UV = pattern(r"/uv/python/cpython-[^/]+/\Z")
_OF_PYENV = pattern(r"/\.?pyenv/versions/([^/]+)/\Z")
OF_SYSTEM = ("/usr/bin/", "/bin/")  # where a distribution has its Python
_NO_MODULE = pattern(r"No module named '?([\w.]+)'?")
# dlopen()'s text in an ImportError: "libffi.so.8: cannot open shared object file: No such file or directory".
_LIBRARY = pattern(r"(\S*lib\S+\.so[\w.]*): (cannot open shared object file)?")
# The Debian package is called as the library and its version: libffi.so.8 is in libffi8.
_SONAME = pattern(r"(lib[\w+-]+)\.so\.([\d.]+)")
# Packages of Debian whose names do not follow from that of the library.
_DEBIAN = {"libz.so.1": "zlib1g", "libcrypto.so.3": "libssl3", "libcrypto.so.1.1": "libssl1.1"}


def absent_module(why: str) -> str:
    """Return the module that an ImportError reports as missing; "" if it says something else."""
    match = _NO_MODULE.search(why)
    return match[1] if match else ""


def failing_library(why: str) -> tuple[str, bool]:
    """Return the file name of the shared library in an ImportError ("" if none), and whether it is
    missing."""
    match = _LIBRARY.search(why)
    return (match[1].rpartition("/")[2], bool(match[2])) if match else ("", False)


def library_fix(host: Host, soname: str, is_damaged: bool) -> Optional[Fix]:
    """Return the line that installs the package of a shared library; None if the installer or package is
    unknown."""
    installer = _installer(host)
    match = _SONAME.fullmatch(soname)
    if installer == "apt-get" and (soname in _DEBIAN or match):
        stem, version = match.groups() if match else ("", "")
        dash = "-" if stem[-1:].isdecimal() else ""
        package = _DEBIAN.get(soname, f"{stem}{dash}{version}".lower())
    elif installer in ("dnf", "yum"):
        package = f"{soname}()(64bit)"  # RPM resolves what a package provides as its name
    else:
        return None
    verb = (
        ("install", "--reinstall") if installer == "apt-get" else ("reinstall" if is_damaged else "install",)
    )
    steps = (Command((installer, *verb, package)),)
    return Fix(_("install {package}", package=package), steps=steps, risk=Risk.MANUAL)


def is_system_python(host: Host) -> bool:
    """Whether the job's Python belongs to the distribution, whose builds lack no library."""
    path = host.interpreter.path  # of a virtual environment a link to what it was made of
    return (host.files.real(path) or path).startswith(OF_SYSTEM)


def module_fix(host: Host, absent: str) -> Optional[Fix]:
    """Return the fix that completes the distribution's Python, or that rebuilds another one with the
    library."""
    installer, path, is_system = _installer(host), host.interpreter.path, is_system_python(host)
    version = ".".join(_version(host).split(".")[:2])
    # Debian splits the standard library: most of its modules are in libpython3.N-stdlib.
    if is_system and installer == "apt-get" and version:
        package = f"libpython{version}-stdlib"
        steps = (Command(("apt-get", "install", "--reinstall", package)),)
        return Fix(_("install {package}", package=package), steps=steps, risk=Risk.MANUAL)
    if is_system and installer:
        steps = (Command((installer, "reinstall", "python3-libs")),)
        return Fix(_("install {package}", package="python3-libs"), steps=steps, risk=Risk.MANUAL)
    again, is_built_here = _reinstall_steps(host)
    library = LIBRARIES.get(absent)
    if library is None or (again and not is_built_here):
        title = _("reinstall {python}: its standard library is incomplete", python=path)
        return Fix(title, steps=again, risk=Risk.MANUAL, needs_root=False)
    package = library.debian if installer in ("apt-get", "") else library.rpm
    title = _("install {package}, then rebuild {python}", python=path, package=package)
    line = Command((installer, "install", package))
    return Fix(title, steps=(*((line,) if installer else ()), *again), risk=Risk.MANUAL)


def _reinstall_steps(host: Host) -> tuple[tuple[Command, ...], bool]:
    """Return the line by which whatever installed the job's Python installs it again, keeping its packages,
    and whether that compiles it on this machine; no line where that is unknown."""
    real, version = host.files.real(host.interpreter.path) or host.interpreter.path, _version(host)
    prefix = real.rsplit("/", 2)[0]
    if version and host.files.stat(f"{prefix}/conda-meta") is not None:
        words = ("conda", "install", "--yes", "--force-reinstall", "--prefix", prefix, f"python={version}")
        return (Command(words),), False
    if version and _OF_UV.search(f"{prefix}/"):
        return (Command(("uv", "python", "install", "--reinstall", version)),), False
    name = _OF_PYENV.search(f"{prefix}/")
    return ((Command(("pyenv", "install", "--force", name[1])),), True) if name else ((), True)


def _version(host: Host) -> str:
    try:
        return host.interpreter.layout().version or ""
    except CannotTell:
        return ""


def _installer(host: Host) -> str:
    """Return the package manager of this machine; "" if none is known."""
    for name in ("apt-get", "dnf", "yum"):
        if host.files.stat(f"/usr/bin/{name}") is not None:
            return name
    return ""
