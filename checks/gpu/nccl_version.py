"""Does each framework for GPUs load an NCCL that is new enough?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import ERROR, INFO, WARNING, Facts, Finding, Host, Scope, Skip, Unknown, _, check


@check(
    "nccl-version",
    scope=Scope.JOB,
    tags={"nvidia", "mindspore", "pytorch", "paddle"},
    needs=("gpu",),
    codes={
        "nccl-version.missing": ERROR,
        "nccl-version.missing-symbols": ERROR,
        "nccl-version.too-old": ERROR,
        "nccl-version.overwritten": WARNING,
        "nccl-version.other-copy": INFO,
    },
)
def nccl_version(host: Host) -> Iterator[Union[Finding, Facts]]:
    """Each GPU framework loads a recent enough NCCL.

    ## What it does

    Looks for the libnccl.so.2 that torch, MindSpore and Paddle would load, as the loader does (RPATH,
    LD_LIBRARY_PATH, RUNPATH, /etc/ld.so.cache, the default folders), and reads its version from the file:
    every build has the words `NCCL version 2.27.5+cuda12.9` in it. Nothing is run, loaded or imported. It
    applies where a GPU is here or `--expect gpu` is given.

    - `nccl-version.missing`: the framework finds none. An error for torch, which is not imported without
      it, and where a variable says that the job has several processes; else a warning; only said where
      there is one GPU.
    - `nccl-version.missing-symbols`: the library lacks functions that the framework calls. As bad.
    - `nccl-version.too-old`: MindSpore from 1.1 on needs 2.7.6 (as bad); torch and Paddle get an older one
      than their packages ask for (a warning).
    - `nccl-version.overwritten`: several distributions nvidia-nccl-cu11, -cu12, -cu13 are installed, which
      put their library in the same place: one is left, and not that of the framework's CUDA, or none.
    - `nccl-version.other-copy`: a newer copy hides the one that was installed with the framework.

    A torch that has NCCL built in has nothing to be judged. Where MindSpore's NCCL does not say its version,
    the answer is "cannot tell".

    ## Why it matters

    `Loading libgpu_collective.so failed`, `undefined symbol: ncclCommRegister`, `NCCL version mismatch`: a
    folder of LD_LIBRARY_PATH with another NCCL in it decides, and nobody sees it before the ranks meet.

    ## Fix safety

    `pip install` and `export` lines to be typed; nothing is installed or written by `npudoctor fix`.

    ## References

    - MindSpore FAQ: Loading libgpu_collective.so failed.
    - NVIDIA/nccl, nccl.h: the version and its code.
    - PaddlePaddle/Paddle, dynamic_loader.cc: where Paddle looks.
    - ld.so(8).
    """
    from npudoctor.facts.job.expected_accelerator import gpu_expected

    if not gpu_expected(host):
        raise Skip(_("this machine has no GPU, and none is expected"))
    from npudoctor.checks.gpu import _nccl_version_findings as findings
    from npudoctor.facts.gpu.nccl import build_of, nccl_uses

    found = [
        (use, build_of(host, use.path) if use.path and not use.built_in else None) for use in nccl_uses(host)
    ]
    if not found:
        text = _("no framework for GPUs is installed in {python}")
        raise Skip(text.format(python=host.interpreter.label))
    yield Facts({use.framework: findings.facts(use, build) for use, build in found})
    yield from findings.overwritten(host, found)
    for use, build in found:
        yield from findings.judge(host, use, build)
    silent = [use for use, build in found if build and not build.version]
    if any(findings.least(host, use) for use in silent):
        text = _("the NCCL of {names} does not say its version")
        raise Unknown(text.format(names=", ".join(use.framework for use in silent)), advisory=True)
