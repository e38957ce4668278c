"""Is everything installed that the installed frameworks require, in versions that they accept?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Union

from npudoctor import (
    ERROR,
    WARNING,
    Action,
    Compared,
    Facts,
    Finding,
    Host,
    Scope,
    Skip,
    Unknown,
    _,
    check,
)
from npudoctor.checks.python._pip import install_accepted
from npudoctor.facts.cann.python_needs import weight_for_cann
from npudoctor.facts.python.closure import Requirement
from npudoctor.facts.python.frameworks import (
    closure_of,
    is_optional,
    require_readable_needs,
    sort_key,
)
from npudoctor.facts.python.interrupted import find_damage_codes
from npudoctor.facts.system.broken_rows import broken_rows
from npudoctor.knowledge.distributions import list_built_in_names

# Findings of checks that report the same package with more detail.
ECHOES = {
    "numpy": ("numpy-version.unsuitable", "numpy-version.missing", "cann-python-deps.numpy-2"),
    "scipy": ("scipy-version.unsuitable", "scipy-version.missing", "scipy-version.slow-initialisation"),
    "torch": (
        *("torch-npu.torch-missing", "torch-npu.torch-mismatch", "torch-family.torch-missing"),
        *("torch-family.mismatch", "torch-family.other-build", "vllm-ascend.unmet-requirement"),
    ),
    "vllm": ("vllm-ascend.vllm-missing", "vllm-ascend.vllm-mismatch"),
    "torch-npu": ("vllm-ascend.unmet-requirement", "torch-npu.torch-mismatch"),
    "torchvision": ("vllm-ascend.unmet-requirement", "torch-family.mismatch"),
    "torchaudio": ("vllm-ascend.unmet-requirement", "torch-family.mismatch"),
    "triton": ("torch-family.triton-mixed",),
    "triton-ascend": ("vllm-ascend.unmet-requirement", "torch-family.triton-mixed"),
    "paddlepaddle": ("paddle-npu.paddle-missing",),
    "te": ("te-topi.missing", "te-topi.other-version"),
    "topi": ("te-topi.missing", "te-topi.other-version"),
    "setuptools": ("setuptools.pkg-resources-gone",),
}
NCCL = "nvidia-nccl"  # -cu12, -cu13


@check(
    "package-requirements",
    scope=Scope.JOB,
    tags={"mindspore", "paddle", "pytorch", "tensorflow"},
    needs=("framework", *sorted(list_built_in_names())),
    codes={
        "package-requirements.missing": ERROR,
        "package-requirements.unsuitable": ERROR,
        "package-requirements.site-table": WARNING,
    },
    compares=(Compared("frameworks"),),
)
def package_requirements(host: Host) -> Iterator[Union[Finding, Facts]]:
    """Everything that the installed frameworks require is installed.

    ## What it does

    Follows the requirements (`Requires-Dist`) of each installed framework, and of the trainers' stack upon
    it (transformers, peft, trl, datasets, lightning and others), direct and indirect, with the extras and
    markers of the examined interpreter, and compares them with what is installed. Nothing is imported. Rows
    of the site (`frameworks.trainers`) add packages.

    - `package-requirements.missing`: a required distribution is not installed. A warning if the framework is
      known to import without it (networkx for PyTorch), or if nobody tried what it needs (deepspeed, verl).
    - `package-requirements.unsuitable`: the installed version does not meet the requirement. An error if a
      row of our table names the error that this was seen to cause, or says that the package compares the
      versions itself when it is imported, as transformers does. Otherwise a warning: such bounds are often
      guesses.
    - `package-requirements.site-table`: rows that this site added to our table cannot be used.

    Known requirements that no metadata contains are added: NumPy below 2 for MindSpore 2.10.0.

    ## Why it matters

    `import torch` or `import mindspore` ends with `No module named ...`, an hour after the job was queued.
    The cause is `pip install --no-deps`, an upgrade for another package, or `pip uninstall`.

    ## Fix safety

    Shown only. The line names the installed frameworks with their versions, so that pip takes only what all
    of them accept. Where no version satisfies all, the two that exclude each other are named, without a line.

    ## References

    - The metadata of the wheels on PyPI; Python packaging, "Dependency specifiers".
    """
    closure = closure_of(host)
    if not closure.roots:
        raise Skip(_("no framework is installed in {python}", python=host.interpreter.label))
    yield Facts(
        {"frameworks": {root.name: root.version for root in closure.roots}, "required": len(closure.names)}
    )

    yield from broken_rows(host, "package-requirements", "requirements", "frameworks")
    unmet: dict[str, list[Requirement]] = {}
    for need in closure.needs:
        if not need.is_met:
            unmet.setdefault(need.name, []).append(need)
    for name, needs in sorted(unmet.items(), key=lambda item: sort_key(item[1])):
        yield _finding(host, name, needs)
    if closure.unclear:
        raise Unknown(closure.unclear[0].reason)
    require_readable_needs(host)


def _finding(host: Host, name: str, needs: Sequence[Requirement]) -> Finding:
    needs = sorted(needs, key=is_optional)  # who cannot do without it is named
    need = needs[0]
    code, severity = "package-requirements.missing", WARNING if all(map(is_optional, needs)) else ERROR
    text = _("{user} {release} requires {name}{required}, but {name} is not installed")
    if need.installed is not None:
        code = "package-requirements.unsuitable"
        text = _("{user} {release} requires {name}{required}, but {name} {version} is installed")
    words = {"name": name, "version": need.installed.version if need.installed else ""}
    words.update(user=need.user.name, release=need.user.version, required=str(need.specifier))
    # Fold this finding under those of more specific checks; under CANN's only if that one is at least as
    # severe.
    echoes = ECHOES.get(name, ())
    if name.startswith(NCCL):
        echoes = ("nccl-version.missing", "nccl-version.too-old", "nccl-version.missing-symbols")
    missing = code == "package-requirements.missing"
    weight = weight_for_cann(host, name)
    if weight is not None and severity <= (weight if missing else WARNING):
        echoes += ("cann-python-deps.missing" if missing else "cann-python-deps.unsuitable",)
    if missing:
        echoes += find_damage_codes(host, name)
    lines = []
    for need in needs:
        chain = " -> ".join((*need.way, f"{need.name}{need.specifier}"))
        lines.append(f"{chain}: {need.reason}" if need.reason else chain)
    return Finding(
        code,
        text.format(**words),
        severity=severity,
        evidence=tuple(dict.fromkeys(lines)),
        action=Action.CONFIG,
        fix=install_accepted(host, name),
        echo_of=echoes,
    )
