"""Are the libraries that the loader takes for a framework whole, and those that it was built with?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import ERROR, WARNING, Facts, Finding, Host, Scope, Skip, _, check
from npudoctor.checks.python import _loaded_libraries_findings as findings
from npudoctor.checks.python._framework_backends import announced, libraries_of
from npudoctor.facts.job import process as job
from npudoctor.facts.python.replaced_libraries import LED_BY
from npudoctor.host.libraries.loader import Loader

FRAMEWORKS = ("torch", "mindspore", "paddle", "tensorflow")


@check(
    "loaded-libraries",
    scope=Scope.JOB,
    tags={"mindspore", "paddle", "pytorch", "tensorflow"},
    needs=("framework", "tensorflow", "tensorflow-cpu"),
    quick=False,
    codes={
        "loaded-libraries.not-loadable": ERROR,
        "loaded-libraries.not-found": ERROR,
        "loaded-libraries.lacks-symbols": ERROR,
        "loaded-libraries.foreign-copy": WARNING,
    },
)
def loaded_libraries(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The loader takes whole libraries that suit the frameworks.

    ## What it does

    Looks for every library that torch, MindSpore, Paddle and TensorFlow load when they are imported, and
    torch's other back ends with it, as the loader does: LD_PRELOAD, RPATH, LD_LIBRARY_PATH, RUNPATH,
    /etc/ld.so.cache, the default folders. What LD_LIBRARY_PATH or LD_PRELOAD put in the place of a wheel's
    own library is compared with that one. A library for another machine is passed over, as the loader does.
    Nothing is run or imported.

    - `loaded-libraries.not-loadable`: the loader comes upon a file that is no library, or one that is cut
      short, and stops: a pointer of Git LFS, an interrupted copy, a folder.
    - `loaded-libraries.not-found`: a library of the system is missing. Where CANN is installed,
      `library-path` says it; what is CUDA's, `package-requirements` and `nccl-version`.
    - `loaded-libraries.lacks-symbols`: the library that LD_LIBRARY_PATH or LD_PRELOAD leads to lacks a
      function that the framework calls, or asks for one that is nowhere; the wheel's own has it. Also where
      a library of another size lies in the framework's own folder: it lacks a version, or next to all.
    - `loaded-libraries.foreign-copy`: a framework's own library is taken from another copy of the framework.
      No function is missing; whether it works is not known.

    An older libstdc++ is the subject of `libstdcxx`.

    ## Why it matters

    `undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12`, `invalid ELF header`, `file too
    short`: the framework cannot be imported, though pip has installed all of it well. A library that is cut
    short ends Python without a word. Wheels with RPATH are safe from LD_LIBRARY_PATH, those with RUNPATH,
    such as PyTorch from 2.8 on and all of `nvidia-*`, are not.

    ## Fix safety

    One line for the shell that starts the job: the entry is taken out, or the wheel's own folder is put
    first where other libraries come from that entry too. Never applied by `npudoctor fix`.

    ## References

    - ld.so(8): "Shared object search order"; dlopen(3).
    """
    installed = job.frameworks(host, *FRAMEWORKS)
    if not installed:
        raise Skip(_("no framework is installed in {python}").format(python=host.interpreter.label))
    taken: set[str] = set()
    said: set[tuple[str, str]] = set()
    for name, loader in _processes(host, installed):
        taken |= {one.path for one in loader.loaded if one.via == LED_BY} | {
            one.path for one in loader.preloaded
        }
        for finding, subject in findings.judge(host, name, loader):
            if (finding.code, subject) not in said:
                said.add((finding.code, subject))
                yield finding
    yield Facts({"frameworks": [one.name for one in installed], "led_to": sorted(taken)})


def _processes(host: Host, installed: list[job.Framework]) -> Iterator[tuple[str, Loader]]:
    """Python with what every framework imports of its own, where a variable could lead that astray; then
    each framework."""
    if host.options.root is None and any(map(host.variables.get, (LED_BY, "LD_PRELOAD"))):
        yield "ctypes", job.python_itself(host)
    for one in installed:
        yield one.name, job.process(host, one)
    torch = next((one for one in installed if one.name == "torch"), None)
    if torch is None:
        return
    for backend in announced(host):
        libraries = libraries_of(host, backend)
        # What torch-npu needs is CANN's, which library-path knows.
        if libraries and backend.module != "torch_npu":
            yield "torch", job.process_with(host, torch, libraries)
