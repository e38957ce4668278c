"""What library-path says of a process that the loader built, and the one line that sets it right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor import ERROR, INFO, WARNING, Action, Export, Finding, Fix, Host, Risk, Severity, _
from npudoctor.checks.cann._library_path_entries import by_kind, meant, open_to_all, words
from npudoctor.checks.cann._library_path_places import HAL, OF_DRIVER, Places
from npudoctor.core.errors import CannotTell
from npudoctor.facts.cann.installations import ENDINGS, Install, named_root, set_env_script
from npudoctor.facts.job.expected_accelerator import frameworks_on_cann, npu_expected
from npudoctor.facts.job.process import machine_of
from npudoctor.facts.job.working_directory import working_directory
from npudoctor.host.libraries.loader import Loaded, Loader, Missing

PATH = "LD_LIBRARY_PATH"
SHOWN = 6
MIXED = ("cann-env.mixed-installs", "cann-env.other-install-first")
WITHOUT_DRIVER = ("cann-driver.missing", "cann-driver.no-library", "accelerator.missing")
VITAL = ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH")  # what names nowhere in these is an error by itself


class Judge:
    """One process under judgement; `folders` are those that the remedy must bring."""

    def __init__(self, host: Host, active: Install, loader: Loader, entries: Sequence[str]) -> None:
        self.host, self.active, self.loader, self.entries = host, active, loader, list(entries)
        self.places = Places(host, active, machine_of(host))
        self.wanted = npu_expected(host)
        # As cann-env: nothing fails where no NPU is to be used, or nothing that runs on CANN is installed.
        self.severity = INFO if not self.wanted else ERROR if frameworks_on_cann(host) else WARNING
        self.missing = list({one.name: one for one in reversed(loader.missing)}.values())[::-1]
        self.stubs = [one for one in loader.loaded if self.places.is_stub(one.path)]
        self.foreign = [
            (one, other)
            for one in loader.loaded
            for other in [self.places.foreign(one.path)]
            if other is not None and one not in self.stubs
        ]
        # What comes from the working directory is told as that.
        absolute = (one for one in loader.loaded if one.via != PATH or one.entry.startswith("/"))
        self.outside = [
            one for one in absolute if one not in self.stubs and self.places.is_outside(one.path, one.name)
        ]
        self.folders = self._needed_folders()

    def _needed_folders(self) -> list[str]:
        names: list[str] = [one.name for one in self.missing]
        names += [one.name for one in self.stubs]
        names += [one.name for one, _other in self.foreign]
        return list(dict.fromkeys(folder for name in names for folder in self.places.brought_with(name)))

    def broken(self) -> Iterator[Finding]:
        for one in self.missing:
            if one.broken:
                text = _("the loader stops at {name}: {why}")
                yield self._finding(
                    "library-path.broken", text.format(name=one.name, why=one.broken), [_want(one)], fix=None
                )

    def not_found(self) -> Iterator[Finding]:
        missing = [one for one in self.missing if not one.broken]
        cann = [one for one in missing if self.places.in_cann(one.name)]
        driver = [one for one in missing if one not in cann and self.places.in_driver(one.name)]
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
            echo_of = ("cann-install.wrong-machine",) if all(map(self.places.for_other_machine, own)) else ()
            echo_of = echo_of if own else ("conflicting-packages.other-machine",)
            echo_of = ("cann-install.not-readable",) if any(map(self.places.closed, own)) else echo_of
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
        real = [one for one in self.stubs if self.places.somewhere(one.name)]
        stubs = real or self.stubs
        if not stubs or not (real or self.wanted):
            return
        text = _("{names} is a stub for builds, found before the real library in {folder}")
        if not real:
            text = _("{names} is a stub for builds, and the real library is not on this machine")
        words = {"names": _names(stubs), "folder": self.places.somewhere(stubs[0].name)}
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
        return list(dict.fromkeys(folder for name in names for folder in self.places.brought_with(name)))

    def working_directory(self) -> Iterator[Finding]:
        """Of each kind of entry that is no absolute path, as the loader takes it, one finding."""
        for kind, entries in by_kind(self.entries).items():
            yield self._relative(kind, entries, working_directory(self.host))

    def _relative(self, kind: str, entries: list[str], here: Optional[str]) -> Finding:
        only, is_taken, is_open = words(kind)
        taken = [one for one in self.loader.loaded if one.via == PATH and one.entry in entries]
        text, severity = (is_taken, WARNING) if taken else (only, INFO)
        if not taken and here and any(open_to_all(self.host, f"{here}/{entry}") for entry in entries):
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
        intended = [meant(self.host, entry) for entry in self.entries]
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
        return self._of_another(entry) or (bool(self.stubs) and self.places.is_stub(f"{entry.rstrip('/')}/x"))

    def _of_another(self, entry: str) -> bool:
        return entry.startswith("/") and self.places.foreign(f"{entry.rstrip('/')}/x") is not None

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


def judge(host: Host, active: Install, loader: Loader, entries: Sequence[str]) -> Iterator[Finding]:
    """All that there is to say."""
    one = Judge(host, active, loader, entries)
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
