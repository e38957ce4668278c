"""Does the job find ATB of NNAL, and is it the one that suits CANN and torch?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Command,
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
from npudoctor.facts.cann import nnal
from npudoctor.facts.cann.installations import Install, install_in_use
from npudoctor.facts.job import process as job
from npudoctor.facts.job.expected_accelerator import npu_expected
from npudoctor.facts.job.process import Framework
from npudoctor.facts.job.working_directory import job_user
from npudoctor.host.libraries.loader import LoadedLibrary, Loader

# The library of NNAL (Ascend Transformer Boost) with the operators that torch_npu and vllm-ascend call.
ATB = "libatb.so"
# Mangled names of the namespace atb (Itanium C++ ABI): functions, const functions, type infos, vtables.
MARKS = ("_ZN3atb", "_ZNK3atb", "_ZTIN3atb", "_ZTVN3atb")
SHOWN = 4


@check(
    "nnal-atb",
    scope=Scope.JOB,
    tags={"ascend"},
    needs=("framework",),
    codes={
        "nnal-atb.not-found": ERROR,
        "nnal-atb.other-abi": WARNING,
        "nnal-atb.both-abis": INFO,
        "nnal-atb.other-version": WARNING,
        "nnal-atb.undefined-symbols": ERROR,
    },
)
def nnal_atb(host: Host) -> Iterator[Union[Finding, Facts]]:
    """NNAL's ATB is found and matches CANN and torch.

    ## What it does

    Finds which library of torch_npu or of the Paddle plug-in needs libatb.so, and which libatb.so the loader
    takes. Compares its release with that of the CANN in use. Compares its C++ ABI, read from its folder
    `cxx_abi_0` or `cxx_abi_1`, with that of torch, read from the symbols of libc10. Checks that it has all
    needed symbols of the namespace `atb`. Nothing is run or imported. The check applies where torch_npu or
    the Paddle plug-in is installed.

    - `nnal-atb.not-found`: an error where the import fails without ATB; a warning where vllm-ascend is
      installed; else information, and only where NNAL is installed, because torch_npu runs without it. Every
      finding is information where no NPU is expected.
    - `nnal-atb.other-abi`: ATB's script selected the other ABI because it could not import torch, or imported
      another torch.
    - `nnal-atb.both-abis`: ATB's script was sourced twice; the first ABI is used.
    - `nnal-atb.other-version`: NNAL and CANN are different releases.
    - `nnal-atb.undefined-symbols`: NNAL is older than the release that torch_npu was built for.

    ## Why it matters

    `libatb.so: cannot open shared object file`, or `undefined symbol: _ZN3atb15CreateOperation...`, at the
    import or at the first operator of ATB.

    ## Fix safety

    The line sources ATB's own script in the shell that starts the job. It is shown, never applied.

    ## References

    - vllm-ascend, "Installation": NNAL.
    - torch_npu, op_plugin/atb: what it says when libatb.so or a symbol is missing.
    """
    entries = host.variables.path_list("LD_LIBRARY_PATH")
    users = list(_find_users(host))
    if not users:
        raise Skip(_("nothing in {python} needs ATB", python=host.interpreter.label))
    has_vllm_ascend = host.interpreter.version_of("vllm-ascend") is not None
    any_atb = any_finding = False
    install = install_in_use(host)
    for framework, consumer in users:
        loader = job.loader(host)
        for module in framework.modules:
            loader.dlopen(module)
        loader.dlopen(consumer)
        # These are loaded at the import; libop_plugin_atb.so is opened at the first operator of ATB.
        is_required = consumer in framework.modules or consumer.endswith("/libtorch_npu.so")
        judge = AtbJudge(
            host, install, loader, consumer, is_required=is_required, has_vllm_ascend=has_vllm_ascend
        )
        path = judge.atb.path if judge.atb else None
        yield Facts(
            {"wanted_by": consumer, "library": path, "torch_abi": judge.torch_abi, "entries": len(entries)}
        )
        if path:
            yield Facts({"abi": nnal.abi_of(path), "version": nnal.version_of(host.files, path)})
        for finding in judge.findings():
            any_finding = True
            yield finding
        any_atb = any_atb or path is not None
    if not any_atb and not any_finding:
        raise Skip(_("{by} needs ATB only for some operators, and NNAL is not installed", by=users[0][1]))
    if install is None:
        raise Skip(_("CANN is not installed on this machine, so ATB was not compared with it"))


def _find_users(host: Host) -> Iterator[tuple[Framework, str]]:
    """Yield each framework with its first library that needs libatb.so."""
    for framework in job.frameworks(host, "torch_npu", "paddle_custom_device"):
        last = framework.modules[-1]
        folder = f"{last.rpartition('/')[0]}/lib"
        candidates = [last, f"{folder}/libtorch_npu.so", f"{folder}/libop_plugin_atb.so"]
        for path in candidates:
            library = host.libraries.read(path)
            if library is not None and ATB in library.needed:
                yield framework, path
                break


class AtbJudge:
    """Judges ATB in one process. `consumer`: the library that needs it. `is_required`: the import fails
    without it. `has_vllm_ascend`: vllm-ascend, which uses ATB, is installed."""

    def __init__(
        self,
        host: Host,
        install: Optional[Install],
        loader: Loader,
        consumer: str,
        *,
        is_required: bool,
        has_vllm_ascend: bool,
    ) -> None:
        self.host, self.install, self.loader, self.consumer = host, install, loader, consumer
        self.severity = (
            INFO if not npu_expected(host) else ERROR if is_required else WARNING if has_vllm_ascend else INFO
        )
        self.is_required, self.has_vllm_ascend = is_required, has_vllm_ascend
        self.script = next(nnal.scripts(host.files, install, job_user(host).home), None)
        self.atb = next((library for library in loader.loaded if library.name == ATB), None)
        # libc10.so is in every build of torch, and its symbols show the C++ ABI without an import.
        c10 = next((library for library in loader.loaded if library.name == "libc10.so"), None)
        self.torch_abi = nnal.cxx_abi_of(host.libraries, c10.path) if c10 else None

    def findings(self) -> Iterator[Finding]:
        """Yield the findings about ATB in this process."""
        if self.atb is None:
            # torch_npu runs without ATB: if NNAL is not installed either, nothing is missing.
            if self.script or self.is_required or self.has_vllm_ascend:
                yield self._report_not_found()
            return
        own_abi, torch = nnal.abi_of(self.atb.path), self.torch_abi
        evidence = (f"{ATB}: {self.atb.path}",)
        if own_abi is not None and torch is not None and own_abi != torch:
            severity = min(WARNING, self.severity)
            message = _(
                "libatb.so has C++ ABI {mine}, but torch was built with ABI {torch}",
                mine=own_abi,
                torch=torch,
            )
            yield self._finding("nnal-atb.other-abi", message, severity=severity, evidence=evidence)
        else:
            has_both_abis = {
                nnal.abi_of(entry) for entry in self.host.variables.path_list("LD_LIBRARY_PATH")
            } >= {
                0,
                1,
            }
            if has_both_abis:
                yield self._finding(
                    "nnal-atb.both-abis",
                    _(
                        "both C++ ABIs of ATB are on LD_LIBRARY_PATH; the first one, ABI {mine}, is used",
                        mine=own_abi,
                    ),
                    severity=INFO,
                    evidence=evidence,
                    fix=False,
                )
        yield from self._judge_version(self.atb)
        yield from self._find_undefined(self.atb)

    def _report_not_found(self) -> Finding:
        text = _("the loader does not find libatb.so, which {by} needs: {script} was not sourced")
        if self.script is None:
            text = _("the loader does not find libatb.so, which {by} needs, and NNAL is not installed")
        # An error must not be folded under cann-env's warning: it would no longer decide the verdict.
        echo_of: tuple[str, ...] = ()
        if self.script is not None:
            sourced = () if self.severity is ERROR else ("cann-env.atb-not-sourced",)
            echo_of = ("cann-env.not-sourced", *sourced)
        return self._finding(
            "nnal-atb.not-found",
            text.format(by=self.consumer, script=self.script),
            echo_of=echo_of,
        )

    def _judge_version(self, atb: LoadedLibrary) -> Iterator[Finding]:
        version = nnal.version_of(self.host.files, atb.path)
        cann = self.install.version if self.install else None
        if version and cann and version.lower() != cann.lower():
            yield self._finding(
                "nnal-atb.other-version",
                _("NNAL is {nnal}, but the CANN in use is {cann}", nnal=version, cann=cann),
                severity=min(WARNING, self.severity),
                evidence=(f"{ATB}: {atb.path}",),
                fix=False,
            )

    def _find_undefined(self, atb: LoadedLibrary) -> Iterator[Finding]:
        libraries = self.host.libraries
        symbols = {name for name in libraries.read_undefined(self.consumer) if name.startswith(MARKS)}
        for library in (atb, *self.loader.loaded) if symbols else ():
            symbols -= libraries.exports(library.path, symbols) or frozenset()
        if symbols:
            names = sorted(symbols)
            evidence = (f"{ATB}: {atb.path}", *names[:SHOWN])
            message = _(
                "libatb.so lacks {count} symbols that {by} needs, such as {name}: NNAL is not compatible "
                "with it",
                count=len(names),
                by=self.consumer,
                name=names[0],
            )
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
            fix=self._source_fix() if fix else None,
            echo_of=echo_of,
        )

    def _source_fix(self) -> Optional[Fix]:
        if self.script is None:
            return None
        # Without the option, ATB's script imports torch to find the ABI, and takes 1 if it cannot.
        abi = () if self.torch_abi is None else (f"--cxx_abi={self.torch_abi}",)
        return Fix(
            _("source the script of ATB"),
            steps=(Command(("source", self.script, *abi)),),
            risk=Risk.MANUAL,
            needs_root=False,
        )
