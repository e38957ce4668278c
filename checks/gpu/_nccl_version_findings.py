"""What is wrong with a framework's NCCL, and the lines that set it right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor import ERROR, WARNING, Action, Export, Finding, Fix, Host, Risk, _
from npudoctor.checks.gpu._job import weight
from npudoctor.checks.python._pip import pip_install
from npudoctor.core.errors import CannotTell
from npudoctor.facts.gpu.nccl import Build, NcclUse, build_of

PATH = "LD_LIBRARY_PATH"
WHEELS = ("nvidia-nccl-cu11", "nvidia-nccl-cu12", "nvidia-nccl-cu13")
SHOWN = 4  # names of missing functions


def facts(use: NcclUse, build: Optional[Build]) -> dict[str, object]:
    """For machines."""
    version = build.version if build else None
    cuda = build.cuda if build else None
    told = {"version": use.version, "library": use.path, "nccl": version, "cuda": cuda}
    return {**told, "built_in": use.built_in}


def judge(host: Host, use: NcclUse, build: Optional[Build]) -> Iterator[Finding]:
    """The first thing to say of one framework's NCCL."""
    if use.path is None:
        yield _missing(host, use)
        return
    if build is None:
        return
    needed = least(host, use)
    old = bool(needed and build.version and _order(build.version) < _order(needed))
    lacking = _lacking(host, use) if old or not build.version else []
    if lacking:
        yield _symbols(host, use, build, lacking)
    elif old and needed:
        yield _too_old(host, use, build, needed)
    else:
        yield from _other(host, use, build, needed)


def least(host: Host, use: NcclUse) -> Optional[str]:
    """The oldest NCCL that does; None where nobody says."""
    told = _requirement(host, use)
    if told:
        return told.partition("==")[2]
    for row in host.knowledge.rows("nccl", "needs"):
        if row["package"] == use.package and use.version and _order(use.version) >= _order(row["from"]):
            return str(row["least"])
    return None


def overwritten(host: Host, found: Sequence[tuple[NcclUse, Optional[Build]]]) -> Iterator[Finding]:
    """Distributions that put their library in the same place, where that is the one that is loaded."""
    installed = [one for name in WHEELS for one in host.interpreter.distributions(name)[:1]]
    places = {one.folder.rpartition("/")[0] for one in installed}
    if len(installed) < 2 or len(places) > 1:
        return
    for use, build in found:
        wanted = (_requirement(host, use) or "").partition("==")[0]
        name = f"nvidia-nccl-cu{(build.cuda or '').partition('.')[0]}" if build else ""
        if wanted and build and build.cuda and name != wanted and use.path == use.own:
            text = _("{names} have put libnccl.so.2 in the same place; {framework} needs that of {wanted}")
            names = ", ".join(one.name for one in installed)
            yield Finding(
                "nccl-version.overwritten",
                text.format(names=names, framework=use.framework, wanted=wanted),
                evidence=_evidence(use, build),
                action=Action.CONFIG,
                fix=pip_install(
                    host,
                    _("reinstall the library of {wanted}").format(wanted=wanted),
                    "--force-reinstall",
                    "--no-deps",
                    _requirement(host, use) or wanted,
                ),
            )


def _missing(host: Host, use: NcclUse) -> Finding:
    text = _("{framework} {version} needs libnccl.so.2, which the loader does not find")
    wanted = _requirement(host, use)
    title = _("install the NCCL that it was built with")
    return Finding(
        "nccl-version.missing",
        text.format(framework=use.framework, version=use.version),
        severity=ERROR if use.framework == "torch" else weight(host),
        evidence=(_("needed by {path}").format(path=use.by),) if use.by else (),
        action=Action.CONFIG,
        fix=pip_install(host, title, wanted) if wanted else None,
    )


def _symbols(host: Host, use: NcclUse, build: Build, lacking: Sequence[str]) -> Finding:
    text = _("{framework} calls {names}, which {path} (NCCL {nccl}) does not have")
    more = f" (+{len(lacking) - SHOWN})" if len(lacking) > SHOWN else ""
    names = ", ".join(lacking[:SHOWN]) + more
    words = {"framework": use.framework, "path": use.path, "nccl": build.version or "?"}
    return Finding(
        "nccl-version.missing-symbols",
        text.format(names=names, **words),
        severity=ERROR if use.framework == "torch" else weight(host),
        evidence=_evidence(use, build),
        action=Action.CONFIG,
        fix=_own_first(host, use),
    )


def _too_old(host: Host, use: NcclUse, build: Build, needed: str) -> Finding:
    text = _("{framework} {version} needs NCCL {needed}, and would load {nccl}: {path}")
    words = {"framework": use.framework, "version": use.version, "needed": needed}
    return Finding(
        "nccl-version.too-old",
        text.format(nccl=build.version, path=use.path, **words),
        severity=WARNING if _requirement(host, use) else weight(host),
        evidence=_evidence(use, build),
        action=Action.CONFIG,
        fix=_own_first(host, use),
    )


def _other(host: Host, use: NcclUse, build: Build, needed: Optional[str]) -> Iterator[Finding]:
    """A newer copy that somebody may have put in front on purpose."""
    if use.own is None or use.path == use.own or build.version in (None, needed):
        return
    own = build_of(host, use.own)
    if own.version in (None, build.version):
        return
    text = _("{framework} would load NCCL {nccl} from {path}, not the {own} that is installed with it")
    yield Finding(
        "nccl-version.other-copy",
        text.format(framework=use.framework, nccl=build.version, path=use.path, own=own.version),
        evidence=_evidence(use, build),
        action=Action.CONFIG,
        fix=_own_first(host, use),
    )


def _evidence(use: NcclUse, build: Build) -> tuple[str, ...]:
    told = [f"{use.path}: NCCL {build.version or '?'}" + (f", CUDA {build.cuda}" if build.cuda else "")]
    if use.entry:
        told.append(_("found by the entry {entry} of LD_LIBRARY_PATH").format(entry=use.entry))
    if use.own and use.own != use.path:
        told.append(use.own)
    return tuple(told)


def _own_first(host: Host, use: NcclUse) -> Optional[Fix]:
    """The folder of the framework's own copy in front, where LD_LIBRARY_PATH hides it."""
    if not (use.entry and use.own):
        return None
    value = host.variables[PATH]
    folder = use.own.rpartition("/")[0]
    return Fix(
        _("let {folder} be searched first").format(folder=folder),
        steps=(Export(PATH, f"{folder}:{value}"),),
        undo=Export(PATH, value).lines(),
        risk=Risk.MANUAL,
        needs_root=False,
    )


def _requirement(host: Host, use: NcclUse) -> Optional[str]:
    """The exact NCCL that the framework's own metadata asks for: nvidia-nccl-cu12==2.27.5."""
    for found in host.interpreter.distributions(use.package)[:1] if use.package else ():
        for line in found.all("requires-dist"):
            text = line.partition(";")[0].replace(" ", "").replace("(", "").replace(")", "")
            if text.startswith("nvidia-nccl-cu") and text.count("==") == 1:
                return text
    return None


def _lacking(host: Host, use: NcclUse) -> list[str]:
    """Functions of NCCL that the framework calls and the library lacks, where both can be read."""
    if not use.by or use.path is None:
        return []
    try:
        caller, library = host.libraries.symbols(use.by), host.libraries.symbols(use.path)
    except CannotTell:
        return []
    if caller is None or library is None or not library.defined:
        return []
    return sorted(name for name in caller.wanted - library.defined if name.startswith(("nccl", "pnccl")))


def _order(version: str) -> list[int]:
    """A key by which versions of plain numbers sort; what follows them does not count."""
    numbers = []
    for part in version.partition("+")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        numbers.append(int(digits or "0"))
    return numbers
