"""Do torchvision, torchaudio and triton go with the installed torch?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Compared,
    Facts,
    Finding,
    Fix,
    Host,
    Scope,
    Skip,
    _,
    check,
)
from npudoctor.checks.python._pip import (
    add_triton_source,
    is_triton_overwritten,
    pinned_requirements,
    pip_install,
    pip_reinstall,
    pip_replace,
    torch_install,
)
from npudoctor.facts.python.specifiers import accepts, add_build, drop_build, pinned_version
from npudoctor.facts.python.torch_builds import companion_releases, find_other_build, libraries_needed_by
from npudoctor.host import CannotTell
from npudoctor.host.python.interpreter import Distribution
from npudoctor.host.python.requirements import parse_version, read_requirement

# Packages that are built against one release of torch.
FAMILY = ("torchvision", "torchaudio", "torchtext")
# Present in both triton and triton-ascend.
FIRST = "triton/__init__.py"


@check(
    "torch-family",
    scope=Scope.JOB,
    tags={"pytorch"},
    needs=("torch", "torchvision", "torchaudio", "torchtext", "triton-ascend"),
    codes={
        "torch-family.torch-missing": ERROR,
        "torch-family.mismatch": ERROR,
        "torch-family.other-build": ERROR,
        "torch-family.triton-mixed": WARNING,
    },
    compares=(Compared(""),),
)
def torch_family(host: Host) -> Iterator[Union[Finding, Facts]]:
    """torchvision, torchaudio and triton match the installed torch.

    ## What it does

    Compares torch with what torchvision, torchaudio and torchtext require in their own metadata; builds of
    one release, 2.7.1+cpu and 2.7.1, are treated as equal. Also checks whether triton and triton-ascend are
    both installed: both fill the same folder `triton`, and the one that was installed last has overwritten
    the other. If the list of files shows that triton-ascend was installed last, this is only information.
    Nothing is imported.

    - `torch-missing`: one of them is installed, but torch is not.
    - `mismatch`: one of them requires a different torch than the installed one.
    - `triton-mixed`: triton and triton-ascend are both installed.
    - `other-build`: the extension module of torchvision or torchaudio requires libraries of PyTorch that this
      build does not have (libtorch_cuda.so, missing in `+cpu`), or a different CUDA.

    ## Why it matters

    torchvision and torchaudio are built against one torch: with another torch the import fails with an
    undefined symbol, or `operator torchvision::nms does not exist`. If the files of triton have replaced
    those of triton-ascend, no kernel is compiled for the NPU.

    ## Fix safety

    Shown only: another version may be incompatible with other packages in that environment.

    ## References

    - The metadata (`Requires-Dist`) and the lists of files (`RECORD`) of the wheels on PyPI.
    """
    torch = next(iter(host.interpreter.distributions("torch")), None)
    family = [copy for name in FAMILY for copy in host.interpreter.distributions(name)[:1]]
    tritons = [
        copy for name in ("triton", "triton-ascend") for copy in host.interpreter.distributions(name)[:1]
    ]
    if torch is None and not family and len(tritons) < 2:
        raise Skip(_("PyTorch is not installed in {python}", python=host.interpreter.label))
    yield Facts({copy.name: copy.version for copy in (*([torch] if torch else []), *family, *tritons)})
    # Packages whose metadata or extension module says which torch they need.
    tied_members = [
        member
        for member in family
        if read_requirement(member, "torch", host.interpreter.layout()) is not None
        or (torch is not None and libraries_needed_by(host, member))
    ]
    for member in tied_members:
        finding = _judge(host, member, torch)
        if finding is None and torch is not None:
            finding = _report_other_build(host, member, torch)
        if finding is not None:
            yield finding
    if len(tritons) == 2:
        yield _report_mixed(host, *tritons)
    elif not tied_members:
        raise Skip(
            _(
                "no torchvision, torchaudio or similar package in {python} requires a torch release",
                python=host.interpreter.label,
            )
        )


def _judge(host: Host, member: Distribution, torch: Optional[Distribution]) -> Optional[Finding]:
    specifier = read_requirement(member, "torch", host.interpreter.layout())
    if specifier is None:
        return None
    words = {"name": member.name, "version": member.version, "required": str(drop_build(specifier))}
    if torch is None:
        return Finding(
            "torch-family.torch-missing",
            _("{name} {version} is installed without torch", **words),
            evidence=(member.evidence,),
            action=Action.CONFIG,
            fix=torch_install(
                host, _("install the torch that it requires"), f"torch{add_build(specifier, member)}"
            ),
            echo_of=("torch-npu.torch-missing",),
        )
    version = parse_version(torch)
    if accepts(specifier, torch.version):
        return None
    # torch 2.7.1.post1 most likely works for a package that requires ==2.7.1, so that is a warning.
    release = pinned_version(specifier)
    is_same_release = release is not None and release.release == version.release
    return Finding(
        "torch-family.mismatch",
        _(
            "{name} {version} requires torch{required}, but torch {torch} is installed",
            torch=torch.version,
            **words,
        ),
        severity=WARNING if is_same_release else ERROR,
        evidence=(member.evidence, torch.evidence),
        action=Action.CONFIG,
        fix=_matching_fix(host, member, torch),
        echo_of=("torch-npu.torch-mismatch",),
    )


def _report_other_build(host: Host, member: Distribution, torch: Distribution) -> Optional[Finding]:
    """Report an extension module that needs a library or a CUDA which this torch does not have; None if it
    has all."""
    other = find_other_build(host, member, torch)
    if other is None:
        return None
    text = _("{name} {version} was built for CUDA {mine}, but torch {torch} for CUDA {theirs}")
    if other.library:
        text = _(
            "{name} {version} was built for another torch: it needs {library}, which torch {torch} lacks"
        )
    words = {"library": other.library, "mine": other.cuda, "theirs": other.cuda_of_torch}
    local = torch.version.partition("+")[2]
    title = _("install the {name} that matches the installed torch")
    if local:
        title = _("install {name} from the same index as torch, built for {local}")
    return Finding(
        "torch-family.other-build",
        text.format(name=member.name, version=member.version, torch=torch.version, **words),
        evidence=(member.evidence, torch.evidence),
        action=Action.CONFIG,
        fix=_same_build_fix(host, title.format(name=member.name, local=local), member, torch),
        echo_of=("torch-family.mismatch", "torch-npu.torch-mismatch"),
    )


def _same_build_fix(host: Host, title: str, member: Distribution, torch: Distribution) -> Fix:
    """Return the line that installs the release matching this torch, of the same build; torch itself stays.

    If the installed release is right and only its build is wrong, it is reinstalled.
    """
    release, _plus, local = torch.version.partition("+")
    member_release = member.version.partition("+")[0]
    specifiers = companion_releases(member.name.lower(), release)
    requirement = read_requirement(member, "torch", host.interpreter.layout())
    fix: Fix
    if (requirement and accepts(requirement, torch.version)) or (
        specifiers and specifiers.contains(member_release)
    ):
        build = f"{member_release}+{local}" if local else member_release
        fix = pip_reinstall(host, title, f"{member.name}=={build}")
        return fix
    keep = pinned_requirements(host, member.name)
    if "--no-deps" in keep and not is_triton_overwritten(host):
        keep = (f"torch=={torch.version}",)
    if specifiers is None:  # pip finds the matching release by the requirements of each
        keep = ("--upgrade", *keep)
    fix = pip_install(host, title, *keep, f"{member.name}{specifiers or ''}")
    return fix


def _matching_fix(host: Host, member: Distribution, torch: Distribution) -> Optional[Fix]:
    """Return the line that installs the release matching the installed torch; None if it is unknown."""
    title = _("install the {name} that matches the installed torch", name=member.name)
    if not is_triton_overwritten(host):
        # pip chooses the release; the build must match too: one for CUDA does not load next to torch
        # 2.9.0+cpu.
        return _same_build_fix(host, title, member, torch)
    # With --no-deps pip cannot choose, so the release must be named: the one that vllm-ascend requires, if it
    # requires this very torch.
    layout = host.interpreter.layout()
    for plugin in host.interpreter.distributions("vllm-ascend")[:1]:
        its_torch = read_requirement(plugin, "torch", layout)
        specifier = read_requirement(plugin, member.name, layout)
        torch_version = host.interpreter.version_of("torch") or ""
        if specifier and its_torch is not None and accepts(its_torch, torch_version):
            fix: Fix = torch_install(host, title, f"{member.name}{specifier}")
            return fix
    return None


def _report_mixed(host: Host, triton: Distribution, ascend: Distribution) -> Finding:
    folder = f"{ascend.folder.rpartition('/')[0]}/triton"
    is_ascend_last = _is_last_written(host, ascend, triton)
    text = _("triton {triton} and triton-ascend {ascend} both install into the folder {folder}")
    if is_ascend_last is False:
        text = _("triton {triton} has overwritten files of triton-ascend {ascend} in {folder}")
    # Keep the one that this torch uses: triton without torch_npu, else triton-ascend.
    removed, chosen = triton, ascend
    if host.interpreter.version_of("torch") and not host.interpreter.version_of("torch-npu"):
        removed, chosen = ascend, triton
    title = _("keep {name} only", name=chosen.name)
    if chosen is ascend:
        title = add_triton_source(host, title, ascend.version)
    fix: Fix = pip_replace(host, title, (removed.name,), f"{chosen.name}=={chosen.version}")
    return Finding(
        "torch-family.triton-mixed",
        text.format(triton=triton.version, ascend=ascend.version, folder=folder),
        severity=INFO if is_ascend_last else WARNING,
        evidence=(triton.evidence, ascend.evidence),
        action=Action.NONE if is_ascend_last else Action.CONFIG,
        fix=fix,
    )


def _is_last_written(host: Host, copy: Distribution, other: Distribution) -> Optional[bool]:
    """Whether a file that both contain has the content of `copy`; None if that is unknown."""
    # `base64` and `hashlib` take some milliseconds to import, and most runs do not come here.
    import base64
    import hashlib

    try:
        own_digests, other_digests = _read_record(host, copy), _read_record(host, other)
        # triton-ascend is a fork: most files, the first among them, are triton's own and tell nothing.
        other_digests = other_digests or dict.fromkeys(own_digests, "")
        name = next(
            (name for name in own_digests if other_digests.get(name, own_digests[name]) != own_digests[name]),
            None,
        )
        content = host.files.read(f"{copy.folder.rpartition('/')[0]}/{name}") if name else None
    except CannotTell:
        # An unreadable file or RECORD: the order of installation stays unknown.
        return None
    if name is None or content is None:
        return None
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    return digest == own_digests[name]


def _read_record(host: Host, copy: Distribution) -> dict[str, str]:
    """Return the digest of each source in triton/ by RECORD, triton/__init__.py first."""
    record = host.files.text(f"{copy.folder}/RECORD") or ""
    # RECORD has sha256 digests in URL-safe base64 without padding (PEP 427).
    rows = re.findall(r"^(triton/[^,\n]*\.py),sha256=([^,\n]+),", record, re.MULTILINE)
    return dict(sorted(rows, key=lambda row: str(row[0]) != FIRST))
