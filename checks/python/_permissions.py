"""What this user may not read of the installed packages, whose it is, and the line that its owner types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor import ERROR, WARNING, Action, Command, Finding, Fix, Host, Risk, _
from npudoctor.facts.python.installed_modules import module_of
from npudoctor.host import CannotTell
from npudoctor.host.fs.disk import CLOSED
from npudoctor.host.fs.files import PathStatus
from npudoctor.host.python.installed_files import site_of
from npudoctor.host.python.interpreter import Distribution
from npudoctor.host.users.identity import user_name

CODE = "package-files.unreadable"
SHOWN = 3
_NAMED = 6  # paths of one line; of more, the folders of the package


def report_closed_files(host: Host, copy: Distribution, paths: Sequence[str], listed: int) -> Finding:
    """Report modules and libraries of a package. `paths`: below its folder for packages."""
    site = site_of(copy)
    barriers = _find_barriers(host, site, paths)
    return Finding(
        CODE,
        _(
            "{name}: this user cannot read {count} of {all} modules and libraries, such as {path}",
            name=copy.label,
            count=len(paths),
            all=listed,
            path=f"{site}/{paths[0]}",
        ),
        severity=ERROR,  # said, as it becomes a warning where nothing needs the package
        evidence=_describe(host, barriers),
        action=Action.CONFIG,
        fix=_open_fix(host, barriers),
    )


def report_closed_metadata(host: Host, copy: Distribution, paths: Sequence[str]) -> Finding:
    """Report a package of which the metadata cannot be read; an error if its module cannot either."""
    site, module = site_of(copy), module_of(copy.name).replace(".", "/")
    names = [f"{module}.py", f"{module}/__init__.py"]
    closed = [name for name, size in zip(names, host.files.sizes(site, names)) if size == CLOSED]
    inner = [path[len(site) + 1 :] for path in paths]
    barriers = _find_barriers(host, site, [*inner, *closed])
    text = _(
        "{name}: this user cannot read its metadata, such as {path}; many packages ask for versions there"
    )
    if closed:
        text = _("{name}: this user can read neither its metadata nor its modules, such as {path}")
    return Finding(
        CODE,
        text.format(name=copy.label, path=f"{site}/{closed[0]}" if closed else paths[0]),
        severity=ERROR if closed else WARNING,
        evidence=_describe(host, barriers),
        action=Action.CONFIG,
        fix=_open_fix(host, barriers),
    )


def find_closed_metadata(host: Host, copy: Distribution) -> list[str]:
    """Return the files of a package's metadata that this user may not read."""
    names = ("METADATA", "RECORD")
    sizes = host.files.sizes(copy.folder, names)
    return [f"{copy.folder}/{name}" for name, size in zip(names, sizes) if size == CLOSED]


def report_closed_folders(host: Host) -> Iterator[Finding]:
    """Report the interpreter's own folders for packages that this user may not list or enter."""
    for folder in host.interpreter.layout().search_path:
        if folder.endswith("-packages") and _is_closed(host, folder):
            yield Finding(
                CODE,
                _("this user cannot read {folder}: Python finds none of its packages", folder=folder),
                evidence=_describe(host, [folder]),
                action=Action.CONFIG,
                fix=_open_fix(host, [folder]),
            )


def _find_barriers(host: Host, site: str, paths: Sequence[str]) -> list[str]:
    """Return the first folder on the way to each of these that this user may not list and enter, or the file
    itself."""
    closed_by_folder: dict[str, bool] = {}
    barriers: dict[str, None] = {}
    for path in paths:
        parts = path.split("/")
        folders = [f"{site}/{'/'.join(parts[:end])}" for end in range(1, len(parts))]
        barrier: Optional[str] = None
        for folder in folders:
            if folder not in closed_by_folder:
                closed_by_folder[folder] = _is_closed(host, folder)
            if closed_by_folder[folder]:
                barrier = folder
                break
        barriers[barrier or f"{site}/{path}"] = None
    if len(barriers) > _NAMED:
        return sorted({f"{site}/{path.partition('/')[0]}" for path in paths})
    return list(barriers)


def _is_closed(host: Host, folder: str) -> bool:
    try:
        host.files.names(folder)
        host.files.stat(f"{folder}/__init__.py")
    except CannotTell as unknown:
        return isinstance(unknown.__cause__, PermissionError)
    return False


def _describe(host: Host, paths: Sequence[str]) -> tuple[str, ...]:
    """Return lines of evidence: each path as ls shows it, with its owner."""
    return tuple(_describe_one(host, path) for path in paths[:SHOWN])


def _describe_one(host: Host, path: str) -> str:
    entry = _stat(host, path)
    if entry is None:
        return path
    return f"{path} owner={user_name(entry.uid)} mode={entry.permissions:04o}"


def _stat(host: Host, path: str) -> Optional[PathStatus]:
    try:
        return host.files.stat(path)
    except CannotTell:  # behind another folder that is closed
        return None


def _open_fix(host: Host, paths: Sequence[str]) -> Fix:
    """Return the line that makes them readable for all, typed by their owner or root."""
    by_path = {path: entry for path in paths for entry in (_stat(host, path),) if entry is not None}
    entries = list(by_path.values())
    owners = sorted({entry.uid for entry in entries})
    title = _("make the installed files readable for all users")
    if owners != [host.identity.euid]:
        names = " / ".join(user_name(uid) for uid in owners if uid) or "root"
        title = _("as {owner}, make the installed files readable for all users", owner=names)
    # The mode allows it to all, and yet the kernel refuses: an access control list names this user.
    listed = [path for path, entry in by_path.items() if _allows_all(entry)]
    # chmod -R follows the link that it is given: whoever may write here would have root open what he likes.
    listed = [path for path in listed if _is_where_it_seems(host, path)]
    rest = [path for path in paths if path not in listed and _is_where_it_seems(host, path)]
    lines: list[tuple[str, ...]] = [("setfacl", "-R", "-b", *listed)] if listed else []
    if rest:
        lines.append(("chmod", "-R", "a+rX", *rest))
    return Fix(
        title,
        steps=tuple(map(Command, lines)),
        risk=Risk.MANUAL,
        needs_root=owners != [host.identity.euid],
    )


def _allows_all(entry: PathStatus) -> bool:
    wanted = 0o555 if entry.is_dir else 0o444
    return entry.permissions & wanted == wanted


def _is_where_it_seems(host: Host, path: str) -> bool:
    """Return whether no link leads from the folder for packages to another place."""
    site, packages, inner = path.partition("-packages")
    site = f"{site}{packages}"
    try:
        entry = host.files.lstat(site)
        is_plain = entry is not None and not entry.is_link
        return is_plain and host.files.real(path) == f"{host.files.real(site)}{inner}"
    except CannotTell:
        return False
