"""Does each framework for GPUs load an NCCL that is new enough?"""

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
    Skip,
    Unknown,
    _,
    change_variable,
    check,
)
from npudoctor.checks.gpu._communication import communication_severity
from npudoctor.checks.python._pip import pip_install
from npudoctor.core.errors import CannotTell
from npudoctor.facts.gpu.nccl import NcclBuild, NcclUse, build_of, nccl_uses
from npudoctor.facts.job.expected_accelerator import gpu_expected

PATH = "LD_LIBRARY_PATH"
# All three install libnccl.so.2 to nvidia/nccl/lib: the last one installed overwrites the others.
WHEELS = ("nvidia-nccl-cu11", "nvidia-nccl-cu12", "nvidia-nccl-cu13")
SHOWN = 4  # names of missing functions


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
    every build contains the words `NCCL version 2.27.5+cuda12.9`. Nothing is run, loaded or imported. The
    check applies if this machine has a GPU or `--expect gpu` is given.

    - `nccl-version.missing`: the framework finds no libnccl.so.2. An error for torch, which cannot be
      imported without it, and if a variable says that the job has several processes; otherwise a warning, and
      information if the machine has one GPU.
    - `nccl-version.missing-symbols`: the library lacks functions that the framework calls. Same severity as
      `nccl-version.missing`.
    - `nccl-version.too-old`: MindSpore 1.1 and later needs 2.7.6 (same severity as `nccl-version.missing`);
      torch or Paddle finds an older one than its package requires (a warning).
    - `nccl-version.overwritten`: several of the distributions nvidia-nccl-cu11, -cu12 and -cu13 are
      installed, which put their library in the same place: only one is left, for another CUDA than the
      framework's, or none.
    - `nccl-version.other-copy`: a newer copy hides the one that was installed with the framework.

    A torch with built-in NCCL is not judged. If MindSpore's NCCL does not state its version, the result is
    unknown.

    ## Why it matters

    `Loading libgpu_collective.so failed`, `undefined symbol: ncclCommRegister`, `NCCL version mismatch`: a
    folder in LD_LIBRARY_PATH that contains another NCCL takes precedence, and this goes unnoticed until the
    ranks connect.

    ## Fix safety

    `pip install` and `export` lines for you to run; `npudoctor fix` installs and writes nothing.

    ## References

    - MindSpore FAQ: Loading libgpu_collective.so failed.
    - NVIDIA/nccl, nccl.h: the version and its code.
    - PaddlePaddle/Paddle, dynamic_loader.cc: where Paddle looks.
    - ld.so(8).
    """

    if not gpu_expected(host):
        raise Skip(_("this machine has no GPU, and none is expected"))

    uses = [
        (use, build_of(host, use.path) if use.path and not use.built_in else None) for use in nccl_uses(host)
    ]
    if not uses:
        raise Skip(_("no framework for GPUs is installed in {python}", python=host.interpreter.label))
    yield Facts(
        {
            use.framework: {
                "version": use.version,
                "library": use.path,
                "nccl": build.version if build else None,
                "cuda": build.cuda if build else None,
                "built_in": use.built_in,
            }
            for use, build in uses
        }
    )
    yield from _find_overwritten(host, uses)
    for use, build in uses:
        yield from _judge(host, use, build)
    silent = [use for use, build in uses if build and not build.version]
    if any(_required_version(host, use) for use in silent):
        raise Unknown(
            _(
                "the NCCL of {names} does not state its version",
                names=", ".join(use.framework for use in silent),
            ),
            advisory=True,
        )


def _judge(host: Host, use: NcclUse, build: Optional[NcclBuild]) -> Iterator[Finding]:
    """Yield the first finding about one framework's NCCL."""
    if use.path is None:
        requirement = _requirement(host, use)
        title = _("install the NCCL that it was built with")
        yield Finding(
            "nccl-version.missing",
            _(
                "{framework} {version} needs libnccl.so.2, which the loader does not find",
                framework=use.framework,
                version=use.version,
            ),
            # torch is linked against NCCL, so its import fails without it. MindSpore and Paddle open the
            # library when communication is initialized.
            severity=ERROR if use.framework == "torch" else communication_severity(host),
            evidence=(_("needed by {path}", path=use.by),) if use.by else (),
            action=Action.CONFIG,
            fix=pip_install(host, title, requirement) if requirement else None,
        )
        return
    if build is None:
        return
    needed = _required_version(host, use)
    is_old = bool(needed and build.version and _version_key(build.version) < _version_key(needed))
    lacking = _find_lacking(host, use) if is_old or not build.version else []
    if lacking:
        more = f" (+{len(lacking) - SHOWN})" if len(lacking) > SHOWN else ""
        names = ", ".join(lacking[:SHOWN]) + more
        words = {"framework": use.framework, "path": use.path, "nccl": build.version or "?"}
        yield Finding(
            "nccl-version.missing-symbols",
            _("{framework} calls {names}, which {path} (NCCL {nccl}) does not have", names=names, **words),
            severity=ERROR if use.framework == "torch" else communication_severity(host),
            evidence=_evidence(use, build),
            action=Action.CONFIG,
            fix=_prefer_own(host, use),
        )
    elif is_old and needed:
        yield _report_too_old(host, use, build, needed)
    else:
        yield from _find_other_copy(host, use, build, needed)


def _required_version(host: Host, use: NcclUse) -> Optional[str]:
    """Return the oldest NCCL that the framework accepts, by its metadata, else by the table; None if
    unknown."""
    requirement = _requirement(host, use)
    if requirement:
        return requirement.partition("==")[2]
    for row in host.knowledge.rows("nccl", "needs"):
        if (
            row["package"] == use.package
            and use.version
            and _version_key(use.version) >= _version_key(row["from"])
        ):
            return str(row["least"])
    return None


def _find_overwritten(host: Host, uses: Sequence[tuple[NcclUse, Optional[NcclBuild]]]) -> Iterator[Finding]:
    """Report several nvidia-nccl-cuNN distributions in one folder, if the library that is loaded is for
    another CUDA than the framework's."""
    installed = [distribution for name in WHEELS for distribution in host.interpreter.distributions(name)[:1]]
    places = {distribution.folder.rpartition("/")[0] for distribution in installed}
    # In two folders none overwrites the other.
    if len(installed) < 2 or len(places) > 1:
        return
    for use, build in uses:
        requirement = (_requirement(host, use) or "").partition("==")[0]
        name = f"nvidia-nccl-cu{(build.cuda or '').partition('.')[0]}" if build else ""
        if requirement and build and build.cuda and name != requirement and use.path == use.own:
            names = ", ".join(distribution.name for distribution in installed)
            yield Finding(
                "nccl-version.overwritten",
                _(
                    "{names} installed libnccl.so.2 to the same path; {framework} needs the one of {wanted}",
                    names=names,
                    framework=use.framework,
                    wanted=requirement,
                ),
                evidence=_evidence(use, build),
                action=Action.CONFIG,
                fix=pip_install(
                    host,
                    _("reinstall the library of {wanted}", wanted=requirement),
                    "--force-reinstall",
                    "--no-deps",
                    _requirement(host, use) or requirement,
                ),
            )


def _report_too_old(host: Host, use: NcclUse, build: NcclBuild, needed: str) -> Finding:
    words = {"framework": use.framework, "version": use.version, "needed": needed}
    return Finding(
        "nccl-version.too-old",
        _(
            "{framework} {version} needs NCCL {needed}, but would load {nccl}: {path}",
            nccl=build.version,
            path=use.path,
            **words,
        ),
        # No function is missing, so torch and Paddle at least start.
        severity=WARNING if _requirement(host, use) else communication_severity(host),
        evidence=_evidence(use, build),
        action=Action.CONFIG,
        fix=_prefer_own(host, use),
    )


def _find_other_copy(host: Host, use: NcclUse, build: NcclBuild, needed: Optional[str]) -> Iterator[Finding]:
    """Report a newer copy that hides the framework's own, perhaps on purpose."""
    if use.own is None or use.path == use.own or build.version in (None, needed):
        return
    own_build = build_of(host, use.own)
    if own_build.version in (None, build.version):
        return
    yield Finding(
        "nccl-version.other-copy",
        _(
            "{framework} would load NCCL {nccl} from {path}, not the {own} that is installed with it",
            framework=use.framework,
            nccl=build.version,
            path=use.path,
            own=own_build.version,
        ),
        evidence=_evidence(use, build),
        action=Action.CONFIG,
        fix=_prefer_own(host, use),
    )


def _evidence(use: NcclUse, build: NcclBuild) -> tuple[str, ...]:
    lines = [f"{use.path}: NCCL {build.version or '?'}" + (f", CUDA {build.cuda}" if build.cuda else "")]
    if use.entry:
        lines.append(_("found through the entry {entry} of LD_LIBRARY_PATH", entry=use.entry))
    if use.own and use.own != use.path:
        lines.append(use.own)
    return tuple(lines)


def _prefer_own(host: Host, use: NcclUse) -> Optional[Fix]:
    """Return the line that prepends the folder of the framework's own copy; None if LD_LIBRARY_PATH does not
    hide it."""
    if not (use.entry and use.own):
        return None
    value = host.variables[PATH]
    folder = use.own.rpartition("/")[0]
    title = _("make the loader search {folder} first", folder=folder)
    return change_variable(title, PATH, f"{folder}:{value}", value)


def _requirement(host: Host, use: NcclUse) -> Optional[str]:
    """Return the exact NCCL in the framework's metadata, such as nvidia-nccl-cu12==2.27.5; None if it names
    none."""
    for distribution in host.interpreter.distributions(use.package)[:1] if use.package else ():
        for line in distribution.header_values("requires-dist"):
            text = line.partition(";")[0].replace(" ", "").replace("(", "").replace(")", "")
            if text.startswith("nvidia-nccl-cu") and text.count("==") == 1:
                return text
    return None


def _find_lacking(host: Host, use: NcclUse) -> list[str]:
    """Return the NCCL functions that the framework calls and the library lacks; empty if the files cannot be
    read."""
    if not use.by or use.path is None:
        return []
    try:
        symbols, library = host.libraries.read_undefined(use.by), host.libraries.symbols(use.path)
    except CannotTell:
        # Without the symbols of both files only the version number decides.
        return []
    if library is None or not library.defined:
        return []
    # NCCL exports each function a second time as pnccl..., for profilers.
    return sorted(name for name in symbols - library.defined if name.startswith(("nccl", "pnccl")))


def _version_key(version: str) -> list[int]:
    """Return a sort key for versions of plain numbers; text after a number does not count."""
    numbers = []
    for part in version.partition("+")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        numbers.append(int(digits or "0"))
    return numbers
