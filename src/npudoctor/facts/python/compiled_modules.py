"""Compiled modules that Python takes for what a framework requires, and that cannot be loaded here.

The name tells for which Python it is, the header for which machine, the libraries that it needs for which C
library: pip installs what its tag says, and `pip download --platform` or a copied folder what it likes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.facts.job import process as job
from npudoctor.facts.python.frameworks import closure_of, is_job_distribution, is_trainer
from npudoctor.facts.python.installed_modules import list_recorded_files, modules_of, top_level_modules
from npudoctor.host.host import Host
from npudoctor.host.libraries.elf import MAGIC
from npudoctor.host.libraries.extensions import HEADER, elf_machine, machine_of, tag_of_interpreter
from npudoctor.host.libraries.loader import Loader
from npudoctor.host.python.import_walk import ImportWalk
from npudoctor.host.python.installed_files import site_of
from npudoctor.host.python.interpreter import Distribution

# foo.so, foo.abi3.so, foo.cpython-311-x86_64-linux-gnu.so
_MODULE = pattern(r"(?P<stem>[^\W\d]\w*)\.(?:(?P<tag>abi3|cpython-(?P<python>\d+)(?P<rest>[^.]*))\.)?so")
# Of each distribution: a wheel is for another machine as a whole.
_OPENED = 2
_MOST = 400
# Which torch and others load from the folders of other packages before.
_PRELOADED = pattern(r"lib(?:cu|nv|nccl|torch|c10|caffe2|shm|mindspore|paddle|phi|tensorflow)")
_LOADS_ITSELF = pattern(r"\bctypes\b|\bCDLL\b")


@dataclass(frozen=True)
class UnfitModule:
    """A compiled module that fails when it is imported, as the import of `copy` or of a part of it does.

    `kind`: "python", "machine", "c-library": it is built for another one, `built`; "version": for a newer
    glibc, which has the version `built`; "library": the loader does not find the library `built`. `by`: which
    file needs that. `needed`: a framework needs the import, as far as is known.
    """

    copy: Distribution
    path: str
    kind: str
    built: str
    by: str = ""
    needed: bool = True


def list_unfit_modules(host: Host) -> list[UnfitModule]:
    """One for each distribution that a framework requires and that cannot be imported for it; computed once
    for all checks."""
    return host.once("compiled modules", lambda: [*_find_unfit(host)])


def _find_unfit(host: Host) -> Iterator[UnfitModule]:
    closure = closure_of(host)
    copies = [*closure.roots, *(need.installed for need in closure.needs)]
    judge = _ModuleJudge(host)
    for copy in {copy.folder: copy for copy in copies if copy is not None}.values():
        paths = [file.path for file in list_recorded_files(host, copy) if file.path.endswith(".so")]
        groups = _group(paths)
        names = sorted(groups, key=lambda name: (name.count("."), name))
        opened = {*names[:1], *names[len(names) // 2 :][: _OPENED - 1]}
        if not any(judge.find_unfit(copy, groups[name]) for name in opened):
            continue
        unfit_by_name = {
            name: unfit for name in names[:_MOST] if (unfit := judge.find_unfit(copy, groups[name]))
        }
        unfit = _find_imported(host, copy, unfit_by_name)
        if unfit is not None:
            yield unfit


def _group(paths: Iterable[str]) -> dict[str, list[str]]:
    """The files of each compiled module, by its name; other libraries are left out."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        folder, _slash, file = path.rpartition("/")
        match = _MODULE.fullmatch(file)
        if match and not folder.endswith(".libs") and (match["tag"] or not file.startswith("lib")):
            groups.setdefault(".".join(filter(None, [*folder.split("/"), match["stem"]])), []).append(path)
    return groups


def _find_imported(
    host: Host, copy: Distribution, unfit_by_name: dict[str, UnfitModule]
) -> Optional[UnfitModule]:
    """The first of these that the distribution's own modules import unconditionally: many packages go on
    without their compiled parts."""
    tops = top_level_modules(list_recorded_files(host, copy))
    roots = [top for top in tops if not top.startswith("_")] or tops
    for broken in ImportWalk(modules_of(host), unfit_by_name).find_broken(roots):
        unfit = unfit_by_name.get(broken.missing)
        if unfit is None or (unfit.kind == "library" and _loads_itself(host, copy, roots)):
            continue
        from npudoctor.facts.python.fallbacks import is_done_without  # asked where something is wrong alone

        # A requirement may be a lenient one because it works with this version; that is no word about none.
        needed = not is_done_without(host, copy, is_gone=True)
        return UnfitModule(copy, unfit.path, unfit.kind, unfit.built, unfit.by, needed)
    return None


def _loads_itself(host: Host, copy: Distribution, roots: Sequence[str]) -> bool:
    """Return whether a package may load the libraries that its modules need before, by its text."""
    modules = modules_of(host)
    texts = (modules.text(f"{site_of(copy)}/{root.replace('.', '/')}/__init__.py") for root in roots)
    return any(_LOADS_ITSELF.search(text) for text in texts)


class _ModuleJudge:
    """Judges compiled modules for the examined interpreter, in one simulated process: what the first have
    loaded the others find."""

    def __init__(self, host: Host) -> None:
        self._host = host
        layout = host.interpreter.layout()
        self._tag = tag_of_interpreter(host.files, layout.search_path)
        self._version = "".join(layout.version.split(".")[:2]) if layout.version else ""
        self._machine = machine_of(host.files, host.interpreter.path) or layout.machine
        self._loader: Optional[Loader] = None
        self._brought: Optional[set[str]] = None
        self._judged: dict[str, Optional[UnfitModule]] = {}

    def find_unfit(self, copy: Distribution, paths: Sequence[str]) -> Optional[UnfitModule]:
        """What is wrong with a compiled module, given its files for whatever Python; None if nothing is, or
        nobody can tell."""
        if paths[0] not in self._judged:
            try:
                self._judged[paths[0]] = self._judge(copy, [f"{site_of(copy)}/{path}" for path in paths])
            # package-files says what is damaged, or closed for this user.
            except CannotTell:
                self._judged[paths[0]] = None
        return self._judged[paths[0]]

    def _judge(self, copy: Distribution, paths: Sequence[str]) -> Optional[UnfitModule]:
        fitting = [path for path in paths if self._is_looked_for(path)]
        if not fitting:
            # mypyc's and Cython's wheels have the source beside it, which Python takes then.
            stem = paths[0].rpartition("/")[2].partition(".")[0]
            names = modules_of(self._host).names(paths[0].rpartition("/")[0])
            others = {stem, f"{stem}.py", f"{stem}.pyc"} & {*names}
            return None if others else self._judge_name(copy, paths[0])
        path = fitting[0]
        entry = self._host.files.stat(path)
        head = self._host.files.read(path, HEADER) if entry is not None and entry.is_file else None
        if not head or not head.startswith(MAGIC):
            return None
        built = elf_machine(head)
        if self._machine and built and built != self._machine:
            return UnfitModule(copy, path, "machine", built)
        # loaded-libraries follows what the frameworks themselves load.
        if is_job_distribution(self._host, copy.name) and not is_trainer(self._host, copy):
            return None
        return self._judge_needs(copy, path)

    def _is_looked_for(self, path: str) -> bool:
        """Return whether this Python looks for a file of this name (importlib.machinery)."""
        match = _MODULE.fullmatch(path.rpartition("/")[2])
        tag = match["tag"] if match else None
        if tag is None or tag == "abi3":
            return True
        if self._tag is not None:
            return tag == self._tag
        return match is None or not self._version or match["python"] == self._version

    def _judge_name(self, copy: Distribution, path: str) -> Optional[UnfitModule]:
        match = _MODULE.fullmatch(path.rpartition("/")[2])
        tag, python = (match["tag"], match["python"]) if match else ("", "")
        own, _dash, platform = (self._tag or f"cpython-{self._version}").partition("-")[2].partition("-")
        other, _dash, other_platform = tag.partition("-")[2].partition("-")
        machine, _dash, c_library = other_platform.rpartition("-")
        if other != own:
            return UnfitModule(copy, path, "python", f"{python[0]}.{other[1:]}")
        if machine == platform.rpartition("-")[0]:
            return UnfitModule(copy, path, "c-library", "musl" if c_library == "musl" else "glibc")
        built = machine_of(self._host.files, path)
        # Of the same machine it is a name that somebody gave: whether another file stands for it is unknown.
        return UnfitModule(copy, path, "machine", built) if built and built != self._machine else None

    def _judge_needs(self, copy: Distribution, path: str) -> Optional[UnfitModule]:
        """Whether the loader finds what a module needs, in the versions that it needs."""
        loader = self._loader = self._loader or job.python_itself(self._host)
        missing_before, loaded_before = len(loader.missing), len(loader.loaded)
        loader.dlopen(path)
        for missing in loader.missing[missing_before:]:
            if missing.name == "libc.so.6":  # Python itself needs it: we look in other places than its loader
                return None
            if missing.name.startswith("libc.musl-") or missing.name == "libc.so":
                return UnfitModule(copy, path, "c-library", "musl", missing.needed_by)
            if not self._is_brought(missing.name) and not missing.broken:
                return UnfitModule(copy, path, "library", missing.name, missing.needed_by)
        for loaded in loader.loaded[loaded_before:]:
            for name, versions in loaded.library.required_versions:
                provider = loader.find_loaded(name)
                offered = provider.library.defined_versions if provider is not None else ()
                for version in versions if offered else ():
                    # Of the C library only: libstdcxx judges libstdc++.
                    if version.startswith("GLIBC_2.") and version not in offered:
                        return UnfitModule(copy, path, "version", version, loaded.path)
        return None

    def _is_brought(self, name: str) -> bool:
        """Return whether a library may be loaded by the code of a package before it is needed."""
        if _PRELOADED.match(name):
            return True
        if self._brought is None:
            closure = closure_of(self._host)
            copies = {copy.folder: copy for copy in closure.roots}
            copies.update(
                {
                    need.installed.folder: need.installed
                    for need in closure.needs
                    if need.installed is not None
                }
            )
            self._brought = {
                file.path.rpartition("/")[2]
                for copy in copies.values()
                for file in list_recorded_files(self._host, copy)
                if ".so" in file.path
            }
        return name in self._brought
