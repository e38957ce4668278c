"""Does the loader find the libraries of CANN and of the driver, and are they the right ones?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import ERROR, WARNING, Facts, Finding, Host, Scope, Skip, _, check
from npudoctor.checks.cann import _library_path_findings as findings
from npudoctor.facts.cann.installations import ENDINGS, Install, installs_of
from npudoctor.facts.job import process as job
from npudoctor.facts.job.expected_accelerator import npu_expected
from npudoctor.host.libraries.loader import Loader

# What every training job on an NPU loads, whatever its framework.
BASIC = ("libascendcl.so", "libhccl.so", "libge_runner.so", "libascend_hal.so")


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
    yield from findings.judge(host, active, loader, entries)


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
