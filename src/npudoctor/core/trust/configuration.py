"""What the programs that reach the nodes read and obey, for root: configuration can name programs to run.

ClusterShell's groups have upcalls, ssh has ProxyCommand and Match exec, Slurm loads plug-ins. All of it is
judged before anything is started.
"""

from __future__ import annotations

import os
import pwd
import shlex
from collections.abc import Iterable, Iterator
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.messages import _
from npudoctor.core.trust import guard
from npudoctor.core.trust.paths import why_untrusted
from npudoctor.core.trust.rule import why_not_entry

# The last two are folders, of which every file is read.
_CLUSTERSHELL = ("groups.conf", "topology.conf", "defaults.conf", "clush.conf", "groups.conf.d", "groups.d")
_DEEPEST = 16  # files that include each other, as ssh itself says


def require_trusted(engine: Optional[str] = None, option_files: Iterable[str] = ()) -> None:
    """Raise CannotTell, for root, where another user could write what chooses nodes, or what this engine
    obeys.

    `engine`: "ssh" or "slurm". `option_files`: files that options name for it.
    """
    if not guard.is_needed():
        return
    _require_trusted_paths(option_files)
    _require_trusted_paths(_clustershell_files())
    if engine is not None:
        # A file that is not there yet, too: srun waits a minute for it, and obeys whoever makes it.
        slurm = filter(None, (os.environ.get("SLURM_CONF"),))
        _require_trusted_paths(_ssh_files() if engine == "ssh" else slurm)


def _require_trusted_paths(paths: Iterable[str]) -> None:
    """CannotTell for the first path that another user could write; for a missing one, could make, now or
    while a program waits for it.
    """
    for path in paths:
        place = os.path.abspath(path)
        missing = not os.path.lexists(place)
        # The nearest folder that exists decides who could make the rest.
        while not os.path.lexists(place):
            place = os.path.dirname(place)
        reason = why_untrusted(place, 0)
        if reason is None and missing:
            above = os.stat(place)
            reason = why_not_entry(place, above.st_uid, above.st_mode, (0,), place=True)
        if reason is not None:
            raise CannotTell(
                _("{path} can specify programs that root would run: {why}", path=path, why=reason)
            )


def _clustershell_files() -> Iterator[str]:
    """The files of ClusterShell's configuration, besides those below Python's own prefix."""
    home = os.path.expanduser("~")
    folders = [f"{home}/.local/etc/clustershell"]
    folders.append(f"{os.environ.get('XDG_CONFIG_HOME', f'{home}/.config')}/clustershell")
    if "CLUSTERSHELL_CFGDIR" in os.environ:
        folders.append(os.environ["CLUSTERSHELL_CFGDIR"])
    for folder in (*folders, "/etc/clustershell"):
        for name in _CLUSTERSHELL:
            path = f"{folder}/{name}"
            if os.path.isdir(path):
                yield from (f"{path}/{inner}" for inner in sorted(os.listdir(path)))
            if os.path.lexists(path):
                yield path


def _ssh_files() -> Iterator[str]:
    """The files of ssh's configuration. ssh takes root's home from the list of users, and not from HOME.

    A generator, so that the second file is not read where the first is refused.
    """
    home = pwd.getpwuid(os.geteuid()).pw_dir
    for path in (f"{home}/.ssh/config", "/etc/ssh/ssh_config"):
        yield from _ssh_includes(path, os.path.dirname(path), home, _DEEPEST)


def _ssh_includes(path: str, folder: str, home: str, deep: int) -> Iterator[str]:
    """A file of ssh's configuration and those that it includes, `deep` levels down; relative ones are below
    `folder`.
    """
    import glob

    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read(1 << 20).splitlines()
    # ssh, too, goes on without a configuration that cannot be read.
    except OSError:
        return
    yield path
    for line in lines if deep else ():
        # ssh_config(5): keyword and argument are separated by blanks, or by one "=".
        keyword, _blank, rest = line.strip().replace("=", " ", 1).partition(" ")
        if keyword.lower() != "include":
            continue
        try:
            names = shlex.split(rest)
        # An unclosed quote: ssh ends with an error at this line.
        except ValueError:
            continue
        for name in names:
            pattern = home + name[1:] if name.startswith("~/") else os.path.join(folder, name)
            for included in sorted(glob.glob(pattern)):
                yield from _ssh_includes(included, folder, home, deep - 1)
