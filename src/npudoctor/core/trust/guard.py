"""What root's own start may load: nothing that another user could have written or exchanged.

Python looks for modules where variables, the working directory, a user's folder and .pth files lead it; as
root all that is another user's hand. One look at the start: what was imported already, or was run by Python
before our first line, is judged, and the search path is cleaned; from then on each module is judged before it
is executed.

It imports nothing before the path is clean, `__future__` included: that could be the other user's.
"""

import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Callable, Optional


# Imported by site.py at every start, if they are found.
_CUSTOMISATIONS = ("sitecustomize", "usercustomize")
_SITES = ("site-packages", "dist-packages")

left_out: "list[str]" = []  # of the search path: what lies there is not loaded, and said


class Untrusted(ImportError):
    """Root must not load it; the text is one line that says why."""


def is_needed() -> bool:
    """Return whether we have the powers of root.

    A "/" that is not root's is seen from a user namespace, in which all others' files look alike and our
    power is an ordinary user's.
    """
    return os.geteuid() == 0 and os.stat("/").st_uid == 0


def secure(folders: "Iterable[str]") -> None:
    """Let nothing of another user be loaded from here on; also search these folders for modules, as far as
    they are safe.

    Untrusted where our own files are another user's, or Python has already run something of another user's.
    """
    counts: Callable[[str], bool] = os.path.exists
    if is_needed():
        # "" and relative entries are the working directory, whoever owns it.
        sys.path[:] = [path for path in sys.path if path.startswith("/")]
        from npudoctor.core import messages

        messages.activate(messages.language_of(os.environ))
        guard = _Guard()
        guard.judge_start()
        left_out[:] = [path for path in sys.path if not guard.counts(path)]
        sys.path[:] = [path for path in sys.path if path not in left_out]
        sys.meta_path.insert(0, guard)
        counts = guard.counts
    if folders:
        from npudoctor.core.packages import extend

        extend(folders, counts)


class _Guard:
    """The first finder of modules: asks the others, and judges what they find."""

    def __init__(self) -> None:
        from npudoctor.core.trust.paths import PathTrust

        self._ways: PathTrust = PathTrust(0)
        # Folders of modules: where one is safe, only the module's own file must be looked at.
        self._folders: dict[str, bool] = {}

    def find_spec(
        self, name: str, path: "Optional[Sequence[str]]" = None, target: "Optional[ModuleType]" = None
    ) -> "Optional[ModuleSpec]":
        """The module as another finder finds it; Untrusted where root must not load it."""
        for finder in sys.meta_path:
            # A second guard, as after two calls, must not ask itself.
            spec = None if type(finder) is _Guard else finder.find_spec(name, path, target)
            if spec is not None:
                for file in _files_of(spec):
                    if not self._is_plain(file):
                        why = self._why_not(file)
                        if why is not None:
                            raise Untrusted(why)
                return spec
        return None

    def judge_start(self) -> None:
        """Raise Untrusted where what was imported already, or what Python runs at its start, could be another
        user's.

        Python runs customisations and .pth files. Such code can remove itself from what is loaded, but not
        from its folder.
        """
        for name, module in list(sys.modules.items()):
            spec = getattr(module, "__spec__", None)
            file = getattr(module, "__file__", None)
            for path in _files_of(spec) if spec is not None else (file,) if file else ():
                why = None if self._is_plain(path) else self._why_not(path)
                if why is not None:
                    ours = name.partition(".")[0] in ("npudoctor", "__main__", "os")
                    raise Untrusted(_own_files_text(why) if ours else _start_up_text(path, why))
        # With -S site.py does not run: no .pth file and no customisation was executed.
        if sys.flags.no_site:
            return
        site: Any = sys.modules["site"]
        by_variable = () if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "").split(":")
        # With -s, or where real and effective user differ, ENABLE_USER_SITE is False or None.
        own = (site.getusersitepackages(),) if site.ENABLE_USER_SITE else ()
        for folder in dict.fromkeys((*by_variable, *own, *site.getsitepackages())):
            try:
                names = os.listdir(folder)
            except OSError:
                continue
            for name in names:
                stem = name.partition(".")[0]
                in_site = os.path.basename(folder) in _SITES and name.endswith(".pth")
                if in_site or (stem in _CUSTOMISATIONS and name == f"{stem}.py"):
                    why = self._why_not(f"{folder}/{name}")
                    if why is not None:
                        raise Untrusted(_start_up_text(f"{folder}/{name}", why))

    def counts(self, path: str) -> bool:
        """Return whether root may search a folder for modules, or read a file that leads to some."""
        why_not = self._ways.why_not_folder if os.path.isdir(path) else self._ways.why_not
        return os.path.exists(path) and why_not(path) is None

    def _why_not(self, file: str) -> "Optional[str]":
        """Why root must not load a file with code: the file, and its folder, into which others must not put
        byte code. For a module in an archive: the archive.
        """
        place, inside = os.path.abspath(file), False
        while not os.path.lexists(place):
            place, inside = os.path.dirname(place), True
        if os.path.isdir(place):
            return None if inside else self._ways.why_not_folder(place)
        why = self._ways.why_not(place)
        if why is None and not inside:
            why = self._ways.why_not_folder(os.path.dirname(place))
        return why

    def _is_plain(self, file: str) -> bool:
        """Return whether a file is certainly safe, as most are: root's, in a folder that is safe."""
        folder = file.rpartition("/")[0]
        try:
            good = self._folders[folder]
        except KeyError:
            good = folder == os.path.abspath(folder)
            if good:
                # Nobody else can put anything there, nor make it where byte code has no folder yet.
                above = not os.path.lexists(folder) and folder.endswith("/__pycache__")
                place = os.path.dirname(folder) if above else folder
                good = os.path.isdir(place) and self._ways.why_not_folder(place) is None
            self._folders[folder] = good
        if not good:
            return False
        try:
            entry = os.lstat(file)
        except OSError:
            return True  # byte code that is not there
        # File type and the write bits of group and others in one comparison.
        return entry.st_uid == 0 and entry.st_mode & 0o170022 == stat.S_IFREG


def _files_of(spec: "ModuleSpec") -> "Sequence[str]":
    """What is executed for a module: its file and byte code; for a namespace package its folders."""
    origin = spec.origin
    if origin is not None and origin.startswith("/"):
        cached = spec.cached
        return (origin,) if cached is None else (origin, cached)
    return () if origin in ("built-in", "frozen") else list(spec.submodule_search_locations or ())


def _own_files_text(why: str) -> str:
    from shlex import quote

    from npudoctor.core.messages import _

    program = os.path.abspath(sys.argv[0])
    # The one file needs no installation, only a place that root alone can write to.
    if program.endswith(".pyz") and os.path.isfile(program):
        commands = f"install -m 755 {quote(program)} /usr/local/bin/npudoctor"
    else:
        commands = "cd / && python3 -I -m venv /opt/npudoctor && /opt/npudoctor/bin/pip install npudoctor"
    return _(
        "npudoctor does not run as root, because another user could change it: {why}. Install it for "
        "root: {commands}",
        why=why,
        commands=commands,
    )


def _start_up_text(file: str, why: str) -> str:
    from shlex import join

    from npudoctor.core.messages import _

    program = os.path.abspath(sys.argv[0])
    start = ("-m", "npudoctor") if program.endswith("/npudoctor/__main__.py") else (program,)
    return _(
        "Python ran {file} as root, but another user could change it: {why}. Run this instead: {command}",
        file=file,
        why=why,
        command=join((sys.executable, "-I", *start, *sys.argv[1:])),
    )
