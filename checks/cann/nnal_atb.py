"""Does the job find ATB of NNAL, and is it the one that suits CANN and torch?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import ERROR, INFO, WARNING, Facts, Finding, Host, Scope, Skip, _, check
from npudoctor.checks.cann import _nnal_atb_findings as findings
from npudoctor.facts.cann import nnal
from npudoctor.facts.cann.installations import install_in_use
from npudoctor.facts.job import process as job
from npudoctor.facts.job.process import Framework

ATB = findings.ATB


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

    Finds out which library of torch_npu or of the Paddle plug-in needs libatb.so, and which one the loader
    takes. Compares its release with that of the CANN in use, and its C++ ABI, by its folder `cxx_abi_0` or
    `cxx_abi_1`, with that of torch, by the symbols of libc10; looks whether it has all symbols of the
    namespace `atb` that are needed. Nothing is run or imported. It applies where one of them is installed.

    - `nnal-atb.not-found`: an error where import fails without it; a warning where vllm-ascend is installed;
      else it is only said, and only where NNAL is installed, as torch_npu goes on without. All is only
      said where no NPU is expected.
    - `nnal-atb.other-abi`: ATB's script took the other ABI, as torch could not be imported, or another one.
    - `nnal-atb.both-abis`: its script was sourced twice; the first one is used.
    - `nnal-atb.other-version`: NNAL is of another release than CANN.
    - `nnal-atb.undefined-symbols`: NNAL is older than what torch_npu was built for.

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
    wanting = list(_wanting(host))
    if not wanting:
        raise Skip(_("nothing in {python} needs ATB").format(python=host.interpreter.label))
    used = host.interpreter.version_of("vllm-ascend") is not None
    found = said = False
    install = install_in_use(host)
    for framework, wanter in wanting:
        loader = job.loader(host)
        for module in framework.modules:
            loader.open(module)
        loader.open(wanter)
        hard = wanter in framework.modules or wanter.endswith("/libtorch_npu.so")
        judge = findings.Judge(host, install, loader, wanter, hard=hard, used=used)
        path = judge.atb.path if judge.atb else None
        yield Facts(
            {"wanted_by": wanter, "library": path, "torch_abi": judge.torch_abi, "entries": len(entries)}
        )
        if path:
            yield Facts({"abi": nnal.abi_of(path), "version": nnal.version_of(host.files, path)})
        for finding in judge.findings():
            said = True
            yield finding
        found = found or path is not None
    if not found and not said:
        text = _("{by} needs ATB only for some operators, and NNAL is not installed")
        raise Skip(text.format(by=wanting[0][1]))
    if install is None:
        raise Skip(_("CANN is not installed on this machine, so ATB was not compared with it"))


def _wanting(host: Host) -> Iterator[tuple[Framework, str]]:
    """For each framework, the first library of it that needs libatb.so."""
    for framework in job.frameworks(host, "torch_npu", "paddle_custom_device"):
        last = framework.modules[-1]
        folder = f"{last.rpartition('/')[0]}/lib"
        candidates = [last, f"{folder}/libtorch_npu.so", f"{folder}/libop_plugin_atb.so"]
        found: Optional[str] = next((path for path in candidates if _needs(host, path)), None)
        if found is not None:
            yield framework, found


def _needs(host: Host, path: str) -> bool:
    library = host.libraries.at(path)
    return library is not None and ATB in library.needed
