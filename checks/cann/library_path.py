"""Does the loader find the libraries of CANN and of the driver, and are they the right ones?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Facts,
    Finding,
    Fix,
    Host,
    Scope,
    Severity,
    Skip,
    _,
    change_variable,
    check,
)
from npudoctor.core.errors import CannotTell
from npudoctor.facts.cann.installations import ENDINGS, Install, installs_of, named_root, set_env_script
from npudoctor.facts.cann.job_libraries import PATH, JobLibraries
from npudoctor.facts.cann.libraries import HAL, OF_DRIVER
from npudoctor.facts.job import process as job
from npudoctor.facts.job.expected_accelerator import frameworks_on_cann, npu_expected
from npudoctor.facts.job.library_path import is_open_to_all, relative_entries
from npudoctor.facts.job.working_directory import working_directory
from npudoctor.host.libraries.loader import LoadedLibrary, Loader, MissingLibrary

# What every training job on an NPU loads, whatever its framework.
BASIC = ("libascendcl.so", "libhccl.so", "libge_runner.so", "libascend_hal.so")
# Libraries named in one message, and lines of evidence.
SHOWN = 6
# If variables mix two releases, cann-env reports the cause and these findings follow from it.
MIXED = ("cann-env.mixed-installs", "cann-env.other-install-first")
# Findings about a driver that is not installed or not mounted, which explain a missing libascend_hal.so.
WITHOUT_DRIVER = ("cann-driver.missing", "cann-driver.no-library", "accelerator.missing")
VITAL = ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH")  # a wrong path in one of these is an error by itself


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
    """The loader finds the CANN and driver libraries.

    ## What it does

    Reads which libraries the interpreter, the installed framework for Ascend (torch_npu, MindSpore, the
    Paddle plug-in) and libascendcl, libhccl, libge_runner, libascend_hal need. Looks for each library as the
    loader does: RPATH, LD_LIBRARY_PATH in its order, RUNPATH, /etc/ld.so.cache, the default folders, and what
    is already loaded. A library for another machine is skipped. Nothing is run, not even `ldd`. The check
    applies where CANN is installed.

    - `library-path.not-found`: the loader does not find a library that the job loads.
    - `library-path.driver-not-found`: the same for a library of the driver. If the machine does not have it,
      its name identifies it as the driver's.
    - `library-path.broken`: the loader finds a file that is not a library, and stops.
    - `library-path.stub-first`: a stub for builds (`devlib`, `stub`) is found before the real library.
    - `library-path.other-cann`: a library is loaded from a CANN other than the one in use; a warning unless
      their versions are known and differ. Information when such a folder comes later and changes nothing.
    - `library-path.outside-cann`: a library that the CANN in use has is loaded from a folder that belongs to
      no CANN: a copy, a leftover of a removed release, or the environment's own. Libraries that Python
      packages bring for themselves are not reported. The library's release is unknown, so this is a warning.
    - `library-path.working-directory`: an empty entry of LD_LIBRARY_PATH is the working directory. A relative
      entry is a folder below it, and so is an entry with a quoted `~`. CANN's own 8.x script leaves an empty
      entry, so this is information; a warning where a library is loaded from there, or where everyone may
      put one there.

    An entry that does not exist or appears twice changes nothing and is not reported. Errors become warnings
    where nothing that runs on CANN is installed. Where no NPU is expected or found they become information,
    and a library that the machine does not have is not reported.

    ## Why it matters

    `ImportError: libhccl.so: cannot open shared object file`, or the same for libascend_hal.so: CANN's
    scripts up to 8.3 do not add the driver's folders. With a stub library, aclInit fails with 100039 or
    500000. With libraries and operators of two releases, a job fails later and less clearly.

    ## Fix safety

    One `export` line keeps the order of all remaining entries and appends what is missing. Nothing is
    written. `npudoctor fix` never applies the line, because no program can change the shell that called it.

    ## References

    - CANN, "Environment variables", and set_env.sh of the toolkit.
    - ld.so(8), dlopen(3).
    """
    entries = host.variables.path_list(PATH)
    installs = installs_of(host)
    if not installs:
        raise Skip(_("CANN is not installed on this machine, and no variable points to one"))
    if not (npu_expected(host) or entries or any(host.variables.get(name) for name in ENDINGS)):
        raise Skip(_("no NPU is expected on this machine, and no variable points to CANN"))
    loader, frameworks = _simulate(host)
    paths = {library.name: library.path for library in loader.loaded}
    yield Facts(
        {
            "install": installs[0].path,
            "frameworks": frameworks,
            "loaded": {name: paths.get(name) for name in BASIC},
            "missing": sorted({library.name for library in loader.missing}),
            "entries": len(entries),
            "doubled": len(entries) - len(set(entries)),
        }
    )
    yield from LibraryJudge(host, installs[0], loader, entries).findings()


def _simulate(host: Host) -> tuple[Loader, list[str]]:
    """Simulate the job's process: the installed frameworks and the libraries that every job loads. Returns
    the loader and the frameworks' names."""
    loader = job.loader(host)
    frameworks = job.frameworks(host)
    for framework in frameworks:
        for module in framework.modules:
            loader.dlopen(module)
        plugin = job.ascend_plugin(host, framework) if framework.name == "mindspore" else None
        if plugin:
            loader.dlopen(plugin)
    loader.load_for(BASIC, _("every job"))
    return loader, [framework.name for framework in frameworks]


class LibraryJudge:
    """Judges the libraries of one process, and builds the one line that corrects LD_LIBRARY_PATH for all
    findings."""

    def __init__(self, host: Host, active: Install, loader: Loader, entries: Sequence[str]) -> None:
        self.host, self.active, self.loader, self.entries = host, active, loader, list(entries)
        self.job = JobLibraries(host, active, loader, entries)
        self.libraries = self.job.libraries
        self.expects_npu = npu_expected(host)
        # As in cann-env: no job fails here if it uses no NPU, or if no framework for CANN is installed.
        self.severity = INFO if not self.expects_npu else ERROR if frameworks_on_cann(host) else WARNING

    def findings(self) -> Iterator[Finding]:
        yield from self._report_not_found()
        for library in self.job.missing:
            # ld.so skips a file of another machine, but stops at one that is no ELF file: it does not search
            # on.
            if library.broken:
                message = _("the loader cannot load {name}: {why}", name=library.name, why=library.broken)
                yield self._finding("library-path.broken", message, [_describe_need(library)], fix=None)
        yield from self._report_stubs()
        yield from self._report_other_cann()
        # A copy, a leftover of a removed release, or a conda environment's own: its release is unknown, so
        # this is at most a warning.
        outside = self.job.outside
        if outside:
            folder = outside[0].path.rpartition("/")[0]
            yield self._finding(
                "library-path.outside-cann",
                _(
                    "{names} is loaded from {folder}, which is not part of the CANN in use ({install})",
                    names=_names(outside),
                    folder=folder,
                    install=self.active.label,
                ),
                [f"{library.name}: {library.path} ({library.via})" for library in outside],
                severity=min(WARNING, self.severity),
                fix=self._fix() if self.job.first_folders() else None,
            )
        yield from self._report_relative()

    def _report_relative(self) -> Iterator[Finding]:
        """Report entries that are not absolute paths, one finding for each kind (empty, relative, ~)."""
        start_folder = working_directory(self.host)
        for kind, entries in relative_entries(self.entries).items():
            text_unused, text_used, text_open = _relative_texts(kind)
            used = [
                library for library in self.loader.loaded if library.via == PATH and library.entry in entries
            ]
            # CANN's own 8.x script leaves an empty entry if the variable was empty before, so an unused one
            # is no fault.
            text, severity = (text_used, WARNING) if used else (text_unused, INFO)
            if (
                not used
                and start_folder
                and any(is_open_to_all(self.host, f"{start_folder}/{entry}") for entry in entries)
            ):
                text, severity = text_open, WARNING
            yield self._finding(
                "library-path.working-directory",
                text.format(entries=", ".join(entries), names=_names(used), here=start_folder),
                _paths(used),
                severity=severity,
                fix=self._fix(),
            )

    def _report_not_found(self) -> Iterator[Finding]:
        missing = [library for library in self.job.missing if not library.broken]
        cann = [library for library in missing if self.libraries.cann_folder(library.name)]
        rest = [library for library in missing if library not in cann]
        driver = [library for library in rest if self.libraries.driver_folder(library.name)]
        rest = [library for library in rest if library not in driver]
        if cann:
            text = _("the loader does not find {names}, which the CANN at {install} has")
            code = "library-path.not-found"
            # If entries are below a CANN that a variable names and that no longer exists, cann-env reports
            # the cause.
            named_roots = {named_root(name, self.host.variables.get(name, "")) for name in VITAL}
            missing_roots = [
                root for root in named_roots if root.startswith("/") and self.host.files.stat(root) is None
            ]
            is_root_missing = any(
                entry.startswith(f"{root}/") for root in missing_roots for entry in self.entries
            )
            yield self._report_missing(
                code,
                text,
                cann,
                self._fix(),
                ("cann-env.not-sourced", *(("cann-env.no-such-path",) if is_root_missing else ())),
            )
        if driver:
            text = _("the loader does not find {names} of the driver: its folders are not on LD_LIBRARY_PATH")
            echo_of = ("library-path.not-found",) if cann and self._is_driver_covered() else ()
            yield self._report_missing("library-path.driver-not-found", text, driver, self._fix(), echo_of)
        if self.expects_npu:
            yield from self._report_absent(rest)

    def _report_absent(self, missing: list[MissingLibrary]) -> Iterator[Finding]:
        """Report libraries that neither CANN nor the driver on this machine has."""
        driver = [library for library in missing if library.name in OF_DRIVER]
        other_libraries = [library for library in missing if library not in driver]
        if driver:
            text = _(
                "{names} of the driver is not on this machine: "
                "only part of the driver is installed or mounted"
            )
            echo_of: tuple[str, ...] = ()
            if any(library.name == HAL for library in driver):
                echo_of = WITHOUT_DRIVER
                text = _(
                    "{names} of the driver is not on this machine: the driver is not installed or not mounted"
                )
            yield self._report_missing("library-path.driver-not-found", text, driver, None, echo_of)
        if other_libraries:
            text = _("the loader does not find {names}, and neither CANN nor the driver has it")
            causes: tuple[str, ...]
            # Names with a slash are a framework's own extension modules: they exist, but are for another
            # machine.
            names = [library.name for library in other_libraries if not library.name.startswith("/")]
            if not names:
                causes = ("conflicting-packages.other-machine",)
            elif any(map(self.libraries.is_unreadable, names)):
                causes = ("cann-install.not-readable",)
            else:
                is_other_machine = all(map(self.libraries.is_for_other_machine, names))
                causes = ("cann-install.wrong-machine",) if is_other_machine else ()
            yield self._report_missing("library-path.not-found", text, other_libraries, None, causes)

    def _report_stubs(self) -> Iterator[Finding]:
        shadowing = [stub for stub in self.job.stubs if self.libraries.folder_of(stub.name)]
        stubs = shadowing or self.job.stubs
        if not stubs or not (shadowing or self.expects_npu):
            return
        text = _("{names} is a build-time stub that the loader finds before the real library in {folder}")
        if not shadowing:
            text = _("{names} is a build-time stub, and the real library is not on this machine")
        message = text.format(names=_names(stubs), folder=self.libraries.folder_of(stubs[0].name))
        fix = self._fix() if shadowing else None
        yield self._finding("library-path.stub-first", message, _paths(stubs), fix=fix)

    def _report_other_cann(self) -> Iterator[Finding]:
        code, active = "library-path.other-cann", self.active
        if self.job.other_cann:
            libraries = [library for library, _other in self.job.other_cann]
            other = self.job.other_cann[0][1]
            differ = bool(other.version and active.version) and other.version != active.version
            text = _("{names} is loaded from {other}, but the CANN in use is {install}")
            message = text.format(names=_names(libraries), other=other.label, install=active.label)
            severity = self.severity if differ else min(WARNING, self.severity)
            yield self._finding(
                code, message, _paths(libraries), severity=severity, fix=self._fix(), echo_of=MIXED
            )
            return
        unused_entries = [entry for entry in self.entries if self.job.is_of_other_cann(entry)]
        if unused_entries:
            text = _("LD_LIBRARY_PATH also contains folders of another CANN; no library is loaded from them")
            yield self._finding(code, text, unused_entries, severity=INFO, fix=self._fix())

    def _fix(self) -> Fix:
        """Return the one line that corrects LD_LIBRARY_PATH; the title names the entries that it drops."""
        entries, left_out = self.job.corrected_path()
        title = _("set LD_LIBRARY_PATH without {entries}") if left_out else _("set LD_LIBRARY_PATH")
        before = ":".join(self.entries) if self.entries else None
        return change_variable(title.format(entries=", ".join(left_out)), PATH, ":".join(entries), before)

    def _is_driver_covered(self) -> bool:
        """Whether the fix for CANN's folders adds the driver's too: our own line does, not every
        set_env.sh."""
        if any(map(self.host.variables.get, ENDINGS)) or self.active.before_6:  # written by hand, for both
            return True
        script = set_env_script(self.host.files, self.active)
        try:
            # set_env.sh adds the driver's folders from 9.x on; up to 8.3 the user had to add them.
            return "driver/lib64" in (self.host.files.text(script) or "") if script else False
        except CannotTell:
            # A script that cannot be read is taken for one that does not add the folders: the driver keeps
            # its own finding.
            return False

    def _report_missing(
        self,
        code: str,
        text: str,
        missing: list[MissingLibrary],
        fix: Optional[Fix],
        echo_of: tuple[str, ...],
    ) -> Finding:
        message = text.format(names=_names(missing), install=self.active.label)
        return self._finding(code, message, list(map(_describe_need, missing)), fix=fix, echo_of=echo_of)

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
        severity = severity or self.severity
        more = (f"... (+{len(evidence) - SHOWN})",) if evidence[SHOWN:] else ()
        return Finding(
            code,
            message,
            severity=severity,
            evidence=(*evidence[:SHOWN], *more),
            action=Action.NONE if severity is INFO else Action.CONFIG,
            fix=fix,
            echo_of=echo_of,
        )


def _names(libraries: Sequence[LoadedLibrary | MissingLibrary]) -> str:
    names = list(dict.fromkeys(library.name for library in libraries))
    more = _(" and {count} more", count=len(names) - SHOWN) if names[SHOWN:] else ""
    return ", ".join(names[:SHOWN]) + more


def _paths(libraries: Sequence[LoadedLibrary]) -> list[str]:
    return [f"{library.name}: {library.path}" for library in libraries]


def _describe_need(library: MissingLibrary) -> str:
    return _("{name}: needed by {by}", name=library.name, by=library.needed_by)


def _relative_texts(kind: str) -> tuple[str, str, str]:
    """Return the messages for an entry that nothing is loaded from, one that a library is loaded from, and
    one below a world-writable folder."""
    if kind == "empty":
        return (
            _("LD_LIBRARY_PATH has an empty entry, which means the working directory"),
            _("{names} is loaded from the working directory: LD_LIBRARY_PATH has an empty entry"),
            _("LD_LIBRARY_PATH has an empty entry, and the working directory {here} is world-writable"),
        )
    if kind == "relative":
        return (
            _("LD_LIBRARY_PATH has the entry {entries}, which is relative to the working directory"),
            _(
                "{names} is loaded from a folder below the working directory: LD_LIBRARY_PATH has the entry "
                "{entries}"
            ),
            _("LD_LIBRARY_PATH has the relative entry {entries} below {here}, and everyone can write there"),
        )
    return (
        _("LD_LIBRARY_PATH has the entry {entries}: no shell expanded ~, and the loader does not expand it"),
        _("{names} is loaded from a folder named ~: LD_LIBRARY_PATH has the entry {entries}"),
        _("LD_LIBRARY_PATH has the entry {entries}: ~ is a folder in {here}, and everyone can write there"),
    )
