"""What nnal-atb says of ATB's library in one process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from npudoctor import ERROR, INFO, WARNING, Action, Command, Finding, Fix, Host, Risk, Severity, _
from npudoctor.facts.cann import nnal
from npudoctor.facts.cann.installations import Install
from npudoctor.facts.job.expected_accelerator import npu_expected
from npudoctor.facts.job.working_directory import job_user
from npudoctor.host.libraries.loader import Loaded, Loader

ATB = "libatb.so"
MARKS = ("_ZN3atb", "_ZNK3atb", "_ZTIN3atb", "_ZTVN3atb")
SHOWN = 4


class Judge:
    """ATB in one process. `wanter` is the library that needs it; `hard`: its import fails without."""

    def __init__(
        self, host: Host, install: Optional[Install], loader: Loader, wanter: str, *, hard: bool, used: bool
    ) -> None:
        self.host, self.install, self.loader, self.wanter = host, install, loader, wanter
        self.severity = INFO if not npu_expected(host) else ERROR if hard else WARNING if used else INFO
        self.hard, self.used = hard, used
        self.script = next(nnal.scripts(host.files, install, job_user(host).home), None)
        self.atb = next((one for one in loader.loaded if one.name == ATB), None)
        c10 = next((one for one in loader.loaded if one.name == "libc10.so"), None)
        self.torch_abi = nnal.built_with(host.libraries, c10.path) if c10 else None

    def findings(self) -> Iterator[Finding]:
        """All that there is to say."""
        if self.atb is None:
            if self.script or self.hard or self.used:
                yield self._not_found()
            return
        yield from self._abis(self.atb)
        yield from self._version(self.atb)
        yield from self._undefined(self.atb)

    def _not_found(self) -> Finding:
        text = _("the loader does not find libatb.so, which {by} needs: {script} was not sourced")
        if self.script is None:
            text = _("the loader does not find libatb.so, which {by} needs, and NNAL is not installed")
        return self._finding(
            "nnal-atb.not-found",
            text.format(by=self.wanter, script=self.script),
            echo_of=self._causes(),
        )

    def _causes(self) -> tuple[str, ...]:
        """What it echoes. No error echoes cann-env's warning: folded under it, it would not decide."""
        if self.script is None:
            return ()
        sourced = () if self.severity is ERROR else ("cann-env.atb-not-sourced",)
        return ("cann-env.not-sourced", *sourced)

    def _abis(self, atb: Loaded) -> Iterator[Finding]:
        mine, torch = nnal.abi_of(atb.path), self.torch_abi
        evidence = (f"{ATB}: {atb.path}",)
        if mine is not None and torch is not None and mine != torch:
            text = _("libatb.so has C++ ABI {mine}, but torch was built with ABI {torch}")
            severity = min(WARNING, self.severity)
            message = text.format(mine=mine, torch=torch)
            yield self._finding("nnal-atb.other-abi", message, severity=severity, evidence=evidence)
            return
        both = {nnal.abi_of(entry) for entry in self.host.variables.path_list("LD_LIBRARY_PATH")} >= {0, 1}
        if both:
            text = _("both C++ ABIs of ATB are on LD_LIBRARY_PATH; the first one, ABI {mine}, is used")
            yield self._finding(
                "nnal-atb.both-abis", text.format(mine=mine), severity=INFO, evidence=evidence, fix=False
            )

    def _version(self, atb: Loaded) -> Iterator[Finding]:
        version = nnal.version_of(self.host.files, atb.path)
        cann = self.install.version if self.install else None
        if version and cann and version.lower() != cann.lower():
            text = _("NNAL is {nnal}, but the CANN in use is {cann}")
            yield self._finding(
                "nnal-atb.other-version",
                text.format(nnal=version, cann=cann),
                severity=min(WARNING, self.severity),
                evidence=(f"{ATB}: {atb.path}",),
                fix=False,
            )

    def _undefined(self, atb: Loaded) -> Iterator[Finding]:
        mine = self.host.libraries.symbols(self.wanter)
        wanted = {name for name in (mine.wanted if mine else ()) if name.startswith(MARKS)}
        for one in (atb, *self.loader.loaded):
            found = self.host.libraries.symbols(one.path) if wanted else None
            wanted -= found.defined if found else frozenset()
        if wanted:
            text = _("libatb.so lacks {count} symbols that {by} needs, such as {name}: NNAL does not suit it")
            names = sorted(wanted)
            evidence = (f"{ATB}: {atb.path}", *names[:SHOWN])
            message = text.format(count=len(names), by=self.wanter, name=names[0])
            yield self._finding("nnal-atb.undefined-symbols", message, evidence=evidence, fix=False)

    def _finding(
        self,
        code: str,
        message: str,
        *,
        severity: Optional[Severity] = None,
        evidence: tuple[str, ...] = (),
        echo_of: tuple[str, ...] = (),
        fix: bool = True,
    ) -> Finding:
        weight = severity or self.severity
        return Finding(
            code,
            message,
            severity=weight,
            evidence=evidence,
            action=Action.NONE if weight is INFO else Action.CONFIG,
            fix=self._source() if fix else None,
            echo_of=echo_of,
        )

    def _source(self) -> Optional[Fix]:
        if self.script is None:
            return None
        abi = () if self.torch_abi is None else (f"--cxx_abi={self.torch_abi}",)
        return Fix(
            _("source the script of ATB"),
            steps=(Command(("source", self.script, *abi)),),
            risk=Risk.MANUAL,
            needs_root=False,
        )
