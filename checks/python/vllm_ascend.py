"""Does vllm-ascend go with the installed vLLM, torch, torch_npu and the CANN in use?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Optional, Union

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
    Severity,
    Skip,
    Unknown,
    _,
    check,
)
from npudoctor.checks.python._pip import TRITON_ASCEND, add_triton_source, pip_fix, pip_install
from npudoctor.core.frozen import dataclass, replace
from npudoctor.facts.cann.framework_pair import pair_finding, skip_reason_without_cann
from npudoctor.facts.cann.in_use import cann_in_use, product_version
from npudoctor.facts.python.specifiers import accepts, pinned_version
from npudoctor.facts.system.broken_rows import broken_rows
from npudoctor.host.python.interpreter import Distribution
from npudoctor.host.python.requirements import parse_version, read_requirement
from npudoctor.knowledge.compatibility import judge_pair
from npudoctor.knowledge.frameworks import pairs_of
from npudoctor.knowledge.tables import KnowledgeRow
from npudoctor.knowledge.versions import public_version

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

# Packages that vllm-ascend requires in one release. It runs without the last three, with fewer kernels and
# models.
PINNED = ("torch", "torch-npu", "torchvision", "torchaudio", "triton-ascend")
# torchvision, torchaudio and triton-ascend.
OPTIONAL = PINNED[2:]


@dataclass(frozen=True)
class UnmetRequirement:
    """A package that vllm-ascend requires, and the installed one (None if missing)."""

    name: str
    specifier: SpecifierSet
    installed: Optional[Distribution]


@check(
    "vllm-ascend",
    scope=Scope.JOB,
    tags={"ascend", "pytorch"},
    needs=("vllm-ascend",),
    codes={
        "vllm-ascend.unmet-requirement": ERROR,
        "vllm-ascend.vllm-missing": ERROR,
        "vllm-ascend.vllm-mismatch": ERROR,
        "vllm-ascend.cann-incompatible": ERROR,
        "vllm-ascend.cann-not-listed": WARNING,
        "vllm-ascend.newer-than-table": INFO,
        "vllm-ascend.site-table": WARNING,
    },
)
def vllm_ascend(host: Host) -> Iterator[Union[Finding, Facts]]:
    """vllm-ascend matches vLLM, torch, torch_npu and CANN.

    ## What it does

    Compares torch, torch_npu, torchvision, torchaudio and triton-ascend with what vllm-ascend requires in its
    own metadata; then vLLM and CANN with the table of its releases. A version that the table names is
    accepted even if the metadata says otherwise, for example torch_npu 2.7.1.post1 with vllm-ascend 0.11.0.
    Nothing is imported.

    - `vllm-ascend.unmet-requirement`: an error if a package is missing or of another release; a warning if it
      differs by less, or is torchvision, torchaudio or triton-ascend.
    - `vllm-ascend.vllm-missing`: vllm-ascend is installed, but vLLM is not.
    - `vllm-ascend.vllm-mismatch`: this release was made for another vLLM. An error if the minor release
      differs (0.11 and 0.23), a warning if the versions differ by less or one of the two is a development
      build.
    - `vllm-ascend.cann-not-listed`, `cann-incompatible`, `newer-than-table`, `site-table`: the same as for
      torch-npu, by the rows about vllm-ascend.

    ## Why it matters

    vllm-ascend replaces parts of one vLLM release with its own. With another vLLM it is not found, or it
    fails with an ImportError or an unknown argument when the engine starts.

    ## Fix safety

    Shown only: other versions may be incompatible with other packages in that environment.

    ## References

    - vllm-project/vllm-ascend, versioning policy; `npudoctor list --knowledge` says which rows are loaded.
    - The metadata (`Requires-Dist`) of the wheels on PyPI.
    """
    plugin = next(iter(host.interpreter.distributions("vllm-ascend")), None)
    if plugin is None:
        raise Skip(_("vllm-ascend is not installed in {python}", python=host.interpreter.label))
    vllm = next(iter(host.interpreter.distributions("vllm")), None)
    # The rows about this release, those of the site first.
    parse_version(plugin)
    rows = [
        row
        for row in host.knowledge.rows("vllm_ascend", "releases")
        if public_version(row["vllm_ascend"]) == public_version(plugin.version)
        and row.values.get("compatible", True)
    ]
    yield from broken_rows(host, "vllm-ascend", "vllm_ascend")
    # All unmet requirements in one finding, except a wrong torch with the right torch_npu: torch-npu reports
    # that.
    unmet = list(_find_unmet(host, plugin, rows))
    echoing = [need for need in unmet if need.name == "torch"]
    if echoing and "torch-npu" not in [need.name for need in unmet]:
        yield _report_unmet(host, plugin, echoing, ("torch-npu.torch-mismatch", "torch-npu.torch-missing"))
        unmet = [need for need in unmet if need.name != "torch"]
    if unmet:
        yield _report_unmet(host, plugin, unmet, ())
    finding = _judge_vllm(host, plugin, vllm, rows)
    if finding is not None:
        yield finding
    install = cann_in_use(host)
    cann = product_version(host, install) if install else None
    yield Facts({"vllm_ascend": plugin.version, "vllm": vllm.version if vllm else None, "cann": cann})
    if install is None:
        raise Skip(skip_reason_without_cann("vllm-ascend"))
    if cann is None:
        raise Unknown(
            _("could not determine the version of the CANN at {path}", path=install.path), advisory=True
        )
    result = judge_pair(
        pairs_of(host.knowledge, "vllm_ascend", "releases", "vllm_ascend"), plugin.version, cann
    )
    finding = pair_finding("vllm-ascend", "vllm-ascend", plugin.version, cann, result)
    if finding is not None:
        yield replace(finding, echo_of=("torch-npu.cann-not-listed",))


def _find_unmet(host: Host, plugin: Distribution, rows: Sequence[KnowledgeRow]) -> Iterator[UnmetRequirement]:
    """Yield the pinned packages that are missing or installed in another release."""
    layout = host.interpreter.layout()
    for name in PINNED:
        specifier = read_requirement(plugin, name, layout)
        copy = next(iter(host.interpreter.distributions(name)), None)
        if specifier is None:
            continue
        releases = [release for row in rows for release in row.texts(name.replace("-", "_"))]
        if copy is None or not (
            any(public_version(release) == public_version(str(parse_version(copy))) for release in releases)
            or accepts(specifier, copy.version)
        ):
            yield UnmetRequirement(name, specifier, copy)


def _report_unmet(
    host: Host, plugin: Distribution, unmet: Sequence[UnmetRequirement], echo_of: tuple[str, ...]
) -> Finding:
    requirements = [f"{need.name}{need.specifier}" for need in unmet]
    lines = [
        f"{line}: "
        + (need.installed.evidence if need.installed else _("{name} is not installed", name=need.name))
        for line, need in zip(requirements, unmet)
    ]
    # --no-deps: the pins are exact, and torch from PyPI would bring triton. triton-ascend is on a separate
    # line, because it may need another index and must not make the others fail.
    title = _("install the packages that vllm-ascend requires, without their dependencies")
    for need in unmet:
        if need.name == TRITON_ASCEND:
            title = add_triton_source(host, title, str(need.specifier).replace("==", ""))
    other_packages = [f"{need.name}{need.specifier}" for need in unmet if need.name != TRITON_ASCEND]
    triton = [f"{need.name}{need.specifier}" for need in unmet if need.name == TRITON_ASCEND]
    rows = [("install", "--no-deps", *part) for part in (other_packages, triton) if part]
    fix: Fix = pip_fix(host, title, *rows)
    return Finding(
        "vllm-ascend.unmet-requirement",
        _(
            "vllm-ascend {version} requires {required}, which is not installed",
            version=plugin.version,
            required=", ".join(requirements),
        ),
        severity=max(_unmet_severity(need.installed, need.name, need.specifier) for need in unmet),
        evidence=(plugin.evidence, *lines),
        action=Action.CONFIG,
        fix=fix,
        echo_of=echo_of,
    )


def _unmet_severity(copy: Optional[Distribution], name: str, specifier: SpecifierSet) -> Severity:
    """Return the severity: an error for another release or a missing package, a warning for a rebuild
    (.postN) of the same release and for the optional ones."""
    if name in OPTIONAL:
        return WARNING
    if copy is None:
        return ERROR
    installed, wanted_release = parse_version(copy), pinned_version(specifier)
    return WARNING if wanted_release is not None and installed.release == wanted_release.release else ERROR


def _judge_vllm(
    host: Host, plugin: Distribution, vllm: Optional[Distribution], rows: list[KnowledgeRow]
) -> Optional[Finding]:
    plugin_release = parse_version(plugin)
    vllm_releases = list(dict.fromkeys(release for row in rows for release in row.texts("vllm")))
    code, severity = "vllm-ascend.vllm-missing", ERROR
    text = _("vllm-ascend {version} is installed without vllm")
    if vllm is not None:
        other = parse_version(vllm)
        is_suitable = any(
            public_version(release) == public_version(vllm.version) for release in vllm_releases
        )
        if is_suitable or (not vllm_releases and other.release[:2] == plugin_release.release[:2]):
            return None
        # Another minor release has other interfaces, which is an error; which ones a development build has is
        # unknown.
        minors = {version.release[:2] for version in map(public_version, vllm_releases) if version} or {
            plugin_release.release[:2]
        }
        is_near = other.release[:2] in minors or plugin_release.is_devrelease or other.is_devrelease
        code, severity = "vllm-ascend.vllm-mismatch", WARNING if is_near else ERROR
        text = _("vllm-ascend {version} was made for vLLM {wanted}, but vLLM {vllm} is installed")
    title = _(
        "install the vLLM that it was made for, without dependencies: its torch may differ from "
        "that of torch_npu"
    )
    return Finding(
        code,
        text.format(
            version=plugin.version,
            wanted=", ".join(vllm_releases) or f"{plugin_release.major}.{plugin_release.minor}",
            vllm=vllm.version if vllm else "",
        ),
        severity=severity,
        evidence=(
            plugin.evidence,
            *([vllm.evidence] if vllm else []),
            *(f"{row['source']}, {row['as_of']}" for row in rows),
        ),
        action=Action.CONFIG,
        fix=pip_install(host, title, "--no-deps", f"vllm=={vllm_releases[-1]}") if vllm_releases else None,
    )
