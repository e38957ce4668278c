"""Does the loader find the libraries of CANN and of the driver, and are they the right ones?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Export,
    Facts,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    Severity,
    Skip,
    _,
    check,
)
from npudoctor.core.errors import CannotTell
from npudoctor.facts.cann.installations import ENDINGS, Install, installs_of, named_root, set_env_script
from npudoctor.facts.cann.libraries import HAL, OF_DRIVER, CannLibraries
from npudoctor.facts.job import process as job
from npudoctor.facts.job.expected_accelerator import frameworks_on_cann, npu_expected
from npudoctor.facts.job.library_path import intended_folder, is_open_to_all, relative_entries
from npudoctor.facts.job.process import machine_of
from npudoctor.facts.job.working_directory import working_directory
from npudoctor.host.libraries.loader import Loaded, Loader, Missing

# What every training job on an NPU loads, whatever its framework.
BASIC = ("libascendcl.so", "libhccl.so", "libge_runner.so", "libascend_hal.so")
PATH = "LD_LIBRARY_PATH"
SHOWN = 6
MIXED = ("cann-env.mixed-installs", "cann-env.other-install-first")
WITHOUT_DRIVER = ("cann-driver.missing", "cann-driver.no-library", "accelerator.missing")
VITAL = ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH")  # what names nowhere in these is an error by itself


@check(
    "library-path",
    scope=Scope.JOB,
    tags={"ascend"},
    needs=("cann",),
    codes={
        "library-path.not-found": ERROR,
        "library-path.driver-not-found": ERROR,
        "library-path.broken": ERROR,
        "library-path.stub-first": ERROR,
        "library-path.other-cann": ERROR,
        "library-path.outside-cann": WARNING,
        "library-path.working-directory": WARNING,
    },
)
def library_path(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The loader finds the libraries of the CANN in use and of the driver.

    ## What it does

    Reads what the interpreter, the installed framework for Ascend (torch_npu, MindSpore, the Paddle
    plug-in) and libascendcl, libhccl, libge_runner, libascend_hal need, and looks for each library as the
    loader does: RPATH, LD_LIBRARY_PATH in its order, RUNPATH, /etc/ld.so.cache, the default folders, with
    what is loaded already; a library for another machine is passed over. Nothing is run, `ldd` neither.
    It applies where CANN is installed.

    - `library-path.not-found`: a library that the job loads is not found.
    - `library-path.driver-not-found`: the same for one of the driver, known by its name where it is nowhere.
    - `library-path.broken`: the loader comes upon a file that is no library, and stops.
    - `library-path.stub-first`: a stand-in for builds (`devlib`, `stub`) is found before the real one.
    - `library-path.other-cann`: a library is taken from another CANN than the one in use; a warning unless
      their versions are known and differ, only said when such a folder stands behind and changes nothing.
    - `library-path.outside-cann`: a library that the CANN in use has is taken from a folder that belongs to
      no CANN: a copy, what is left of a removed release, an environment's own. What Python packages bring
      themselves is theirs. Of which release it is cannot be told: a warning.
    - `library-path.working-directory`: an empty entry of LD_LIBRARY_PATH is the working directory, a relative
      one a folder below it, and so is one with a `~` that was in quotes. CANN's own 8.x script leaves an
      empty one, so it is only said; it is a warning where a library is taken from there, or where everybody
      may put one there.

    An entry that is missing, or there twice, changes nothing and is not mentioned. Errors are warnings where
    nothing is installed that runs on CANN; where no NPU is expected or found they are only said, and what is
    nowhere on the machine is not missed.

    ## Why it matters

    `ImportError: libhccl.so: cannot open shared object file`, the same for libascend_hal.so: scripts of CANN
    up to 8.3 do not add the driver's folders. With a stand-in aclInit fails with 100039 or 500000; with
    libraries and operators of two releases a job fails later and less clearly.

    ## Fix safety

    One `export` line that keeps the order of all that stays and appends what is missing. Nothing is written;
    it is never applied by `npudoctor fix`, as no program can change the shell that called it.

    ## References

    - CANN, "Environment variables", and set_env.sh of the toolkit.
    - ld.so(8), dlopen(3).
    """
    entries = host.variables.path_list("LD_LIBRARY_PATH")
    installs = installs_of(host)
    if not installs:
        raise Skip(_("CANN is not installed on this machine, and no variable points to one"))
    if not (npu_expected(host) or entries or any(host.variables.get(name) for name in ENDINGS)):
        raise Skip(_("no NPU is expected on this machine, and no variable points to CANN"))
    active = installs[0]
    loader, names = _simulated(host)
    yield _facts(loader, active, entries, names)
    yield from _judge(host, active, loader, entries)


def _simulated(host: Host) -> tuple[Loader, list[str]]:
    """The job's process, with the frameworks that are installed and what every job loads."""
    loader = job.loader(host)
    installed = job.frameworks(host)
    for framework in installed:
        for module in framework.modules:
            loader.open(module)
        plugin = job.ascend_plugin(host, framework) if framework.name == "mindspore" else None
        if plugin:
            loader.open(plugin)
    loader.need(BASIC, _("every job"))
    return loader, [framework.name for framework in installed]


def _facts(loader: Loader, active: Install, entries: list[str], names: list[str]) -> Facts:
    paths = {one.name: one.path for one in loader.loaded}
    return Facts(
        {
            "install": active.path,
            "frameworks": names,
            "loaded": {name: paths.get(name) for name in BASIC},
            "missing": sorted({one.name for one in loader.missing}),
            "entries": len(entries),
            "doubled": len(entries) - len(set(entries)),
        }
    )


class LibraryJudge:
    """One process under judgement; `folders` are those that the remedy must bring."""

    def __init__(self, host: Host, active: Install, loader: Loader, entries: Sequence[str]) -> None:
        self.host, self.active, self.loader, self.entries = host, active, loader, list(entries)
        self.libraries = CannLibraries(host, active, machine_of(host))
        self.wanted = npu_expected(host)
        # As cann-env: nothing fails where no NPU is to be used, or nothing that runs on CANN is installed.
        self.severity = INFO if not self.wanted else ERROR if frameworks_on_cann(host) else WARNING
        self.missing = list({one.name: one for one in reversed(loader.missing)}.values())[::-1]
        self.stubs = [one for one in loader.loaded if self.libraries.is_stub(one.path)]
        self.foreign = [
            (one, other)
            for one in loader.loaded
            for other in [self.libraries.other_install(one.path)]
            if other is not None and one not in self.stubs
        ]
        # What comes from the working directory is told as that.
        absolute = (one for one in loader.loaded if one.via != PATH or one.entry.startswith("/"))
        self.outside = [
            one for one in absolute if one not in self.stubs and self.libraries.is_outside(one.path, one.name)
        ]
        self.folders = self._needed_folders()

    def _needed_folders(self) -> list[str]:
        names: list[str] = [one.name for one in self.missing]
        names += [one.name for one in self.stubs]
        names += [one.name for one, _other in self.foreign]
        return list(dict.fromkeys(folder for name in names for folder in self.libraries.folders_for(name)))

    def broken(self) -> Iterator[Finding]:
        for one in self.missing:
            if one.broken:
                text = _("the loader stops at {name}: {why}")
                yield self._finding(
                    "library-path.broken", text.format(name=one.name, why=one.broken), [_want(one)], fix=None
                )

    def not_found(self) -> Iterator[Finding]:
        missing = [one for one in self.missing if not one.broken]
        cann = [one for one in missing if self.libraries.cann_folder(one.name)]
        driver = [one for one in missing if one not in cann and self.libraries.driver_folder(one.name)]
        nowhere = [one for one in missing if one not in cann and one not in driver]
        if cann:
            text = _("the loader does not find {names}, which the CANN at {install} has")
            code = "library-path.not-found"
            yield self._missing(code, text, cann, self.fix(), ("cann-env.not-sourced", *self._gone()))
        if driver:
            text = _("the loader does not find {names} of the driver: its folders are not on LD_LIBRARY_PATH")
            echo_of = ("library-path.not-found",) if cann and self._one_line_brings_both() else ()
            yield self._missing("library-path.driver-not-found", text, driver, self.fix(), echo_of)
        lost = [one for one in nowhere if one.name in OF_DRIVER]
        rest = [one for one in nowhere if one not in lost]
        if lost and self.wanted:
            yield self._lost(lost)
        if rest and self.wanted:
            text = _("the loader does not find {names}, and neither CANN nor the driver has it")
            # A framework's own files are named by path: they are there, and passed over.
            own = [one.name for one in rest if not one.name.startswith("/")]
            echo_of = (
                ("cann-install.wrong-machine",) if all(map(self.libraries.is_for_other_machine, own)) else ()
            )
            echo_of = echo_of if own else ("conflicting-packages.other-machine",)
            echo_of = (
                ("cann-install.not-readable",) if any(map(self.libraries.is_unreadable, own)) else echo_of
            )
            yield self._missing("library-path.not-found", text, rest, None, echo_of)

    def _lost(self, lost: list[Missing]) -> Finding:
        """The driver is not there, or only a part of it."""
        text = _(
            "{names} of the driver is not on this machine: only part of the driver is installed or mounted"
        )
        echo_of: tuple[str, ...] = ()
        if any(one.name == HAL for one in lost):
            echo_of = WITHOUT_DRIVER
            text = _(
                "{names} of the driver is not on this machine: the driver is not installed or not mounted"
            )
        return self._missing("library-path.driver-not-found", text, lost, None, echo_of)

    def stub_first(self) -> Iterator[Finding]:
        real = [one for one in self.stubs if self.libraries.folder_of(one.name)]
        stubs = real or self.stubs
        if not stubs or not (real or self.wanted):
            return
        text = _("{names} is a stub for builds, found before the real library in {folder}")
        if not real:
            text = _("{names} is a stub for builds, and the real library is not on this machine")
        words = {"names": _names(stubs), "folder": self.libraries.folder_of(stubs[0].name)}
        evidence = [f"{one.name}: {one.path}" for one in stubs]
        fix = self.fix() if real else None
        yield self._finding("library-path.stub-first", text.format(**words), evidence, fix=fix)

    def other_cann(self) -> Iterator[Finding]:
        code = "library-path.other-cann"
        if self.foreign:
            other = self.foreign[0][1]
            differ = bool(other.version and self.active.version) and other.version != self.active.version
            text = _("{names} is taken from {other}, but the CANN in use is {install}")
            names = _names([one for one, _other in self.foreign])
            words = {"names": names, "other": other.label, "install": self.active.label}
            evidence = [f"{one.name}: {one.path}" for one, _other in self.foreign]
            severity = self.severity if differ else min(WARNING, self.severity)
            message = text.format(**words)
            yield self._finding(code, message, evidence, severity=severity, fix=self.fix(), echo_of=MIXED)
            return
        behind = [entry for entry in self.entries if self._of_another(entry)]
        if behind:
            text = _("LD_LIBRARY_PATH also contains folders of another CANN; no library is loaded from them")
            yield self._finding(code, text, behind, severity=INFO, fix=self.fix())

    def outside_cann(self) -> Iterator[Finding]:
        """A copy, what is left of a removed release, an environment's own: of which CANN, nobody knows."""
        if self.outside:
            text = _("{names} is taken from {folder}, which is not part of the CANN in use ({install})")
            words = {"names": _names(self.outside), "folder": self.outside[0].path.rpartition("/")[0]}
            evidence = [f"{one.name}: {one.path} ({one.via})" for one in self.outside]
            message = text.format(install=self.active.label, **words)
            fix = self.fix() if self._in_front() else None
            severity = min(WARNING, self.severity)
            yield self._finding("library-path.outside-cann", message, evidence, severity=severity, fix=fix)

    def _in_front(self) -> list[str]:
        """The folders of the CANN in use that must come first; nothing comes before an RPATH."""
        names = [one.name for one in self.outside if one.via not in ("RPATH", "path")]
        return list(dict.fromkeys(folder for name in names for folder in self.libraries.folders_for(name)))

    def working_directory(self) -> Iterator[Finding]:
        """Of each kind of entry that is no absolute path, as the loader takes it, one finding."""
        for kind, entries in relative_entries(self.entries).items():
            yield self._relative(kind, entries, working_directory(self.host))

    def _relative(self, kind: str, entries: list[str], here: Optional[str]) -> Finding:
        only, is_taken, is_open = _words(kind)
        taken = [one for one in self.loader.loaded if one.via == PATH and one.entry in entries]
        text, severity = (is_taken, WARNING) if taken else (only, INFO)
        if not taken and here and any(is_open_to_all(self.host, f"{here}/{entry}") for entry in entries):
            text, severity = is_open, WARNING
        return self._finding(
            "library-path.working-directory",
            text.format(entries=", ".join(entries), names=_names(taken), here=here),
            [f"{one.name}: {one.path}" for one in taken],
            severity=severity,
            fix=self.fix(),
        )

    def fix(self) -> Fix:
        """One line for all that is wrong: what stays keeps its order, what is missing is appended. What it
        leaves out is said."""
        intended = [intended_folder(self.host, entry) for entry in self.entries]
        kept = [entry for entry in intended if entry.startswith(("/", "$")) and not self._wrong(entry)]
        out = [entry for entry in dict.fromkeys(intended) if entry not in ("", ".", *kept)]
        front = self._in_front()
        kept = [*front, *(entry for entry in kept if entry not in front)]
        known = {self.host.files.real(entry) for entry in kept if entry.startswith("/")}
        more = [folder for folder in self.folders if self.host.files.real(folder) not in known]
        title = _("set LD_LIBRARY_PATH without {entries}") if out else _("set LD_LIBRARY_PATH")
        return Fix(
            title.format(entries=", ".join(out)),
            steps=(Export(PATH, ":".join(dict.fromkeys((*kept, *more)))),),
            undo=Export(PATH, ":".join(self.entries)).lines() if self.entries else (f"unset {PATH}",),
            risk=Risk.MANUAL,
            needs_root=False,
        )

    def _wrong(self, entry: str) -> bool:
        return self._of_another(entry) or (
            bool(self.stubs) and self.libraries.is_stub(f"{entry.rstrip('/')}/x")
        )

    def _of_another(self, entry: str) -> bool:
        return entry.startswith("/") and self.libraries.other_install(f"{entry.rstrip('/')}/x") is not None

    def _gone(self) -> tuple[str, ...]:
        """The cause, where entries name the same CANN that is gone as a variable does."""
        named = {named_root(name, self.host.variables.get(name, "")) for name in VITAL}
        gone = [root for root in named if root.startswith("/") and self.host.files.stat(root) is None]
        lost = any(entry.startswith(f"{root}/") for root in gone for entry in self.entries)
        return ("cann-env.no-such-path",) if lost else ()

    def _one_line_brings_both(self) -> bool:
        """Whether what brings CANN's folders brings the driver's: our line, but not every script of CANN."""
        return any(map(self.host.variables.get, ENDINGS)) or self._script_brings_driver()

    def _script_brings_driver(self) -> bool:
        if self.active.before_6:  # written by hand, for both
            return True
        script = set_env_script(self.host.files, self.active)
        try:
            return "driver/lib64" in (self.host.files.text(script) or "") if script else False
        except CannotTell:
            return False

    def _missing(
        self, code: str, text: str, missing: list[Missing], fix: Optional[Fix], echo_of: tuple[str, ...]
    ) -> Finding:
        message = text.format(names=_names(missing), install=self.active.label)
        return self._finding(code, message, [_want(one) for one in missing], fix=fix, echo_of=echo_of)

    def _finding(
        self,
        code: str,
        message: str,
        evidence: Sequence[str],
        *,
        fix: Optional[Fix],
        severity: Optional[Severity] = None,
        echo_of: tuple[str, ...] = (),
    ) -> Finding:
        return Finding(
            code,
            message,
            severity=severity or self.severity,
            evidence=tuple(evidence[:SHOWN])
            + ((f"... (+{len(evidence) - SHOWN})",) if evidence[SHOWN:] else ()),
            action=Action.NONE if (severity or self.severity) is INFO else Action.CONFIG,
            fix=fix,
            echo_of=echo_of,
        )


def _judge(host: Host, active: Install, loader: Loader, entries: Sequence[str]) -> Iterator[Finding]:
    """All that there is to say."""
    one = LibraryJudge(host, active, loader, entries)
    for said in (
        one.not_found,
        one.broken,
        one.stub_first,
        one.other_cann,
        one.outside_cann,
        one.working_directory,
    ):
        yield from said()


def _names(ones: Sequence[Loaded | Missing]) -> str:
    names = list(dict.fromkeys(one.name for one in ones))
    more = _(" and {count} more").format(count=len(names) - SHOWN) if names[SHOWN:] else ""
    return ", ".join(names[:SHOWN]) + more


def _want(one: Missing) -> str:
    return _("{name}: needed by {by}").format(name=one.name, by=one.needed_by)


def _words(kind: str) -> tuple[str, str, str]:
    """What is said where it is only there, where a library is taken from it, and where everybody may put
    one there."""
    if kind == "empty":
        return (
            _("LD_LIBRARY_PATH has an empty entry, which is the working directory"),
            _("{names} is taken from the working directory: LD_LIBRARY_PATH has an empty entry"),
            _("LD_LIBRARY_PATH has an empty entry, and everybody can write to the working directory {here}"),
        )
    if kind == "relative":
        return (
            _("LD_LIBRARY_PATH has the relative entry {entries}, which is below the working directory"),
            _("{names} is taken from below the working directory: LD_LIBRARY_PATH has the entry {entries}"),
            _(
                "LD_LIBRARY_PATH has the relative entry {entries}: it is below {here}, where "
                "everybody can write"
            ),
        )
    return (
        _("LD_LIBRARY_PATH has the entry {entries}: the loader does not know ~, and no shell expanded it"),
        _("{names} is taken from a folder that is named ~: LD_LIBRARY_PATH has the entry {entries}"),
        _("LD_LIBRARY_PATH has the entry {entries}: ~ is a folder in {here}, where everybody can write"),
    )
