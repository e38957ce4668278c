"""Does torch_npu go with the installed torch, and with the CANN in use?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Optional, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Export,
    Facts,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    Skip,
    Unknown,
    _,
    check,
)
from npudoctor.checks.python._pip import pinned_requirements, pip_fix, torch_install
from npudoctor.facts.cann.framework_pair import pair_finding, skip_reason_without_cann
from npudoctor.facts.cann.in_use import cann_in_use, product_version
from npudoctor.facts.job import process as job
from npudoctor.facts.job.expected_accelerator import gpu_here, npu_expected, npu_here
from npudoctor.facts.python.frameworks import closure_of
from npudoctor.facts.python.pip import entry_of
from npudoctor.facts.python.specifiers import accepts, drop_build, pinned_version
from npudoctor.facts.system.broken_rows import broken_rows
from npudoctor.host.python.interpreter import Distribution, normalize_name
from npudoctor.host.python.requirements import parse_version, read_requirement
from npudoctor.knowledge.compatibility import Compatibility, judge_pair
from npudoctor.knowledge.frameworks import find_torch_row, is_listed, torch_npu_pairs
from npudoctor.knowledge.versions import names_cann, public_version

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

# If an NPU is expected, these report the same fault with a remedy.
CANN_CAUSES = (
    *("cann-install.missing", "cann-env.not-sourced", "cann-env.missing-entry", "cann-env.no-such-path"),
    *("library-path.not-found", "library-path.driver-not-found", "library-path.broken"),
)


@check(
    "torch-npu",
    scope=Scope.JOB,
    tags={"ascend", "pytorch"},
    needs=("torch-npu",),
    codes={
        "torch-npu.torch-missing": ERROR,
        "torch-npu.torch-mismatch": ERROR,
        "torch-npu.cann-missing": ERROR,
        "torch-npu.cann-incompatible": ERROR,
        "torch-npu.cann-not-listed": WARNING,
        "torch-npu.newer-than-table": INFO,
        "torch-npu.site-table": WARNING,
    },
)
def torch_npu(host: Host) -> Iterator[Union[Finding, Facts]]:
    """torch_npu matches the installed torch and CANN.

    ## What it does

    Compares torch with what torch_npu requires in its own metadata; builds of one release, 2.7.1+cpu and
    2.7.1, are treated as equal. If the metadata names no release, as in old wheels, the table of published
    packages is used; if it has no row, torch_npu's own number. Then compares torch_npu with the version of
    the CANN in use, by that table. Nothing is imported.

    - `torch-npu.torch-missing`: torch_npu is installed, but torch is not.
    - `torch-npu.torch-mismatch`: an error if torch_npu's metadata requires another release; a warning if only
      the table or its number does, if the two differ by less than a release, or if
      TORCH_DEVICE_BACKEND_AUTOLOAD=0 and no NPU is expected or seen, as nothing imports torch_npu then.
    - `torch-npu.cann-missing`: torch 2.5 and later loads torch_npu when it is imported, unless
      TORCH_DEVICE_BACKEND_AUTOLOAD=0, and the loader does not find a CANN library that torch_npu needs.
      `import torch` then fails on every machine, whether or not it is to use an NPU. Not judged if no
      accelerator is expected or seen and `--expect none` was not given, as on a login node.
    - `torch-npu.cann-incompatible`: a row of the table, such as one that this site added, forbids the pair.
    - `torch-npu.cann-not-listed`: both versions are known, but the pair is not. The pairing is a
      recommendation, so this is a warning; it is information if torch_npu lies between two packages that
      match this CANN.
    - `torch-npu.newer-than-table`: one of them is newer than the newest row.
    - `torch-npu.site-table`: rows that this site added cannot be used.

    ## Why it matters

    torch_npu is built against one torch, and calls operators of one CANN. With another torch the import fails
    with an undefined symbol; with another CANN an operator is missing when it is needed.

    ## Fix safety

    Shown only: another torch may be incompatible with other packages in that environment.

    ## References

    - Ascend/pytorch, COMPATIBILITY.md; `npudoctor list --knowledge` says which rows are loaded.
    - The metadata (`Requires-Dist`) of the wheels on PyPI.
    """
    adapter = next(iter(host.interpreter.distributions("torch-npu")), None)
    if adapter is None:
        raise Skip(_("torch_npu is not installed in {python}", python=host.interpreter.label))
    torch = next(iter(host.interpreter.distributions("torch")), None)
    yield from broken_rows(host, "torch-npu", "torch_npu")
    finding = _judge_torch(host, adapter, torch)
    if finding is not None:
        yield finding
    autoload_finding = _judge_autoload(host, adapter, torch)
    if autoload_finding is not None:
        yield autoload_finding
    install = cann_in_use(host)
    cann = product_version(host, install) if install else None
    yield Facts({"torch_npu": adapter.version, "torch": torch.version if torch else None, "cann": cann})
    if install is None:
        raise Skip(skip_reason_without_cann("torch_npu"))
    parse_version(adapter)
    result = judge_pair(torch_npu_pairs(host.knowledge), adapter.version, cann or "")
    if result.answer is Compatibility.STRANGE:
        raise Unknown(
            _(
                "the version of the CANN at {path} cannot be compared: {version}",
                path=install.path,
                version=cann or _("none"),
            )
        )
    problem = pair_finding("torch-npu", "torch_npu", adapter.version, cann or "", result)
    if problem is not None:
        yield problem


def _judge_torch(host: Host, adapter: Distribution, torch: Optional[Distribution]) -> Optional[Finding]:
    specifier, source, is_own_metadata = _find_torch(host, adapter)
    if torch is None:
        return Finding(
            "torch-npu.torch-missing",
            _("torch_npu {torch_npu} is installed without torch", torch_npu=adapter.version),
            evidence=(adapter.evidence,),
            action=Action.CONFIG,
            fix=_fixes(host, specifier, torch)[0],
        )
    version = parse_version(torch) if specifier else None  # to say so when it is none
    if version is None or accepts(specifier, torch.version):
        return None
    fix, alternatives = _fixes(host, specifier, torch)
    release = pinned_version(specifier)
    is_same_release = release is not None and release.release == version.release
    return Finding(
        "torch-npu.torch-mismatch",
        _(
            "torch_npu {torch_npu} was made for torch{required}, but torch {torch} is installed",
            torch_npu=adapter.version,
            required=drop_build(specifier),
            torch=torch.version,
        ),
        severity=ERROR if is_own_metadata and not is_same_release and not _is_unused(host) else WARNING,
        evidence=(adapter.evidence, torch.evidence, f"torch{specifier}: {source}", *alternatives),
        action=Action.CONFIG,
        fix=fix,
        echo_of=("vllm-ascend.unmet-requirement",) if _is_wrong_adapter(host, adapter, torch) else (),
    )


def _is_unused(host: Host) -> bool:
    """Whether nobody imports torch_npu here: torch is told not to load it, and no NPU is expected or seen."""
    if host.options.root is not None:
        return False
    from npudoctor.facts.python.backends import SWITCH  # of few

    return host.variables.get(SWITCH, "1") != "1" and not npu_here(host)


def _is_wrong_adapter(host: Host, adapter: Distribution, torch: Distribution) -> bool:
    """Whether vllm-ascend requires this torch and another torch_npu, which the check vllm-ascend reports."""
    layout = host.interpreter.layout()
    for plugin in host.interpreter.distributions("vllm-ascend")[:1]:
        specifier, other = (
            read_requirement(plugin, "torch", layout),
            read_requirement(plugin, "torch-npu", layout),
        )
        if specifier is not None and other is not None:
            return bool(accepts(specifier, torch.version) and not accepts(other, adapter.version))
    return False


def _find_torch(host: Host, adapter: Distribution) -> tuple[SpecifierSet, str, bool]:
    """Return the torch that torch_npu was made for, the source, and whether the source is its own metadata.

    If neither the metadata nor the table names one, torch_npu's own number is used: both are numbered alike.
    """
    # Not at the top of the file: `packaging.specifiers` takes 20 to 40 ms to import, and most runs compare no
    # version here.
    from packaging.specifiers import SpecifierSet

    specifier = read_requirement(adapter, "torch", host.interpreter.layout())
    if specifier:
        return specifier, _("metadata of {name}", name=adapter.name), True
    row = find_torch_row(host.knowledge, adapter.version)
    if row:
        text = _("built-in table of {as_of}: {source}")
        words = {"as_of": row["as_of"], "source": row["source"]}
        return SpecifierSet(f"=={row['torch']}"), text.format(**words), False
    release = public_version(adapter.version)
    if release is None or is_listed(host.knowledge, adapter.version):
        return SpecifierSet(), "", False
    text = _("release number of {name}", name=adapter.name)
    return SpecifierSet(f"=={release.base_version}"), text, False


def _judge_autoload(host: Host, adapter: Distribution, torch: Optional[Distribution]) -> Optional[Finding]:
    """Report a library that torch_npu needs and the loader does not find, if torch loads torch_npu by itself
    (2.5 and later); else None."""
    # A login node has no accelerator and no --expect: it only starts jobs, so the import does not matter
    # there.
    trains_here = host.options.expect != "auto" or npu_expected(host) or gpu_here(host)
    if torch is None or not trains_here:
        return None
    from npudoctor.facts.python.backends import GROUP, loads_backends  # of few

    # torch imports every package that has the entry point torch.backends.
    entry_points = f"{adapter.folder}/entry_points.txt"
    if not loads_backends(host, torch) or GROUP not in (host.files.text(entry_points) or ""):
        return None
    missing = _find_missing_libraries(host)
    if not missing:
        return None
    from npudoctor.facts.python.backends import SWITCH

    title = _("install CANN and source its set_env.sh; if no NPU is used, uninstall torch_npu or run this")
    if cann_in_use(host) is not None:
        title = _("source the set_env.sh of CANN; if no NPU is used, uninstall torch_npu or run this")
    undo = Export(SWITCH, "1").lines()
    return Finding(
        "torch-npu.cann-missing",
        _(
            "import torch fails: torch {torch} autoloads torch_npu {torch_npu}, which needs {library}",
            torch=torch.version,
            torch_npu=adapter.version,
            library=missing[0],
        ),
        evidence=(adapter.evidence, _("not found: {names}", names=", ".join(missing))),
        action=Action.CONFIG,
        fix=Fix(title, steps=(Export(SWITCH, "0"),), undo=undo, risk=Risk.MANUAL, needs_root=False),
        echo_of=CANN_CAUSES if npu_expected(host) else (),
    )


def _find_missing_libraries(host: Host) -> list[str]:
    """Return the libraries that the import of torch_npu needs in addition to torch's and that are not
    found."""
    for framework in job.frameworks(host, "torch_npu"):
        loader = job.loader(host)
        for module in framework.modules[:-1]:
            loader.dlopen(module)
        before = len(loader.missing)
        loader.dlopen(framework.modules[-1])
        return list(dict.fromkeys(library.name for library in loader.missing[before:]))
    return []


def _fixes(host: Host, specifier: SpecifierSet, torch: Optional[Distribution]) -> tuple[Fix, tuple[str, ...]]:
    """Return the fix that breaks nothing else, and lines of evidence with the alternative, if there is one.

    `specifier`: the torch that torch_npu was made for.
    """
    title = _("install the torch that torch_npu was made for")
    other_torch = torch_install(host, title, f"torch{specifier}")
    release = _find_release(host, torch) if torch is not None else None
    if torch is None or release is None or entry_of(host, torch) is not None:
        return other_torch, ()
    title = _("install the torch_npu that was made for torch {torch}", torch=torch.version)
    other_adapter = pip_fix(
        host, title, ("install", *pinned_requirements(host, "torch-npu"), f"torch-npu=={release}")
    )
    first, second = other_adapter, other_torch
    # If another framework also requires the torch of torch_npu, and not the installed one, change torch
    # first.
    needs = [need for need in closure_of(host).of("torch") if normalize_name(need.user.name) != "torch-npu"]
    numbers = [bound.version for bound in specifier if bound.operator in ("==", "===")]
    if any(
        need.specifier
        and not accepts(need.specifier, torch.version)
        and any(accepts(need.specifier, number) for number in numbers)
        for need in needs
    ):
        first, second = second, first
    return first, tuple(_("or {title}: {line}", title=second.title, line=line) for line in second.commands)


def _find_release(host: Host, torch: Distribution) -> Optional[str]:
    """Return the newest torch_npu for this torch by our table, for the CANN in use if that is known; None if
    the table has none."""
    torch_release = public_version(torch.version)
    rows = [row for row in host.knowledge.rows("torch_npu", "cann") if row.texts("torch")]
    releases = [
        row["torch_npu"]
        for row in rows
        if torch_release is not None and public_version(row["torch"]) == torch_release
    ]
    install = cann_in_use(host)
    cann = product_version(host, install) if install else None
    if cann:
        pairs = torch_npu_pairs(host.knowledge)
        # Several releases may match this CANN; those published for it come first.
        paired = {
            row["torch_npu"] for row in rows if any(names_cann(name, cann) for name in row.texts("cann"))
        }
        releases = [
            name for name in releases if judge_pair(pairs, name, cann).answer is Compatibility.COMPATIBLE
        ]
        releases.sort(key=lambda name: name not in paired)
    return releases[0] if releases else None
