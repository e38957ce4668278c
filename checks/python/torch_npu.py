"""Does torch_npu go with the installed torch, and with the CANN in use?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Optional, Union

from npudoctor import ERROR, INFO, WARNING, Action, Facts, Finding, Host, Scope, Skip, Unknown, _, check
from npudoctor.checks.python._stack import (
    accepts,
    at,
    broken_rows,
    cann_in_use,
    exact,
    pair_finding,
    plain,
    product,
    without_cann,
)
from npudoctor.checks.python._torch_autoload import autoload_fails
from npudoctor.checks.python._torch_npu_fix import either
from npudoctor.host.python.interpreter import Distribution
from npudoctor.host.python.requirements import required, version_number
from npudoctor.knowledge.compatibility import Compatibility, judge_pair
from npudoctor.knowledge.frameworks import is_listed, torch_npu_pairs, torch_of
from npudoctor.knowledge.versions import public

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet


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
    """torch_npu goes with the installed torch and with the CANN in use.

    ## What it does

    Compares torch with what torch_npu requires in its own metadata; builds of one release, 2.7.1+cpu and
    2.7.1, are alike. Where the metadata names no release, as in old wheels, with the table of published
    packages; where that has no row, with torch_npu's own number. Then torch_npu with the version of the CANN
    in use, by that table. Nothing is imported.

    - `torch-npu.torch-mismatch`: an error where torch_npu's metadata wants another release; a warning where
      only the table or its number does, or where the two differ by less than a release.
    - `torch-npu.cann-missing`: torch 2.5 and later loads torch_npu when it is imported, unless
      TORCH_DEVICE_BACKEND_AUTOLOAD=0; and the loader does not find a library of CANN that torch_npu needs.
      `import torch` then fails on every machine, whether or not it is to use an NPU. Not judged where no
      accelerator is expected or seen and `--expect none` was not given, as on a login node.
    - `torch-npu.cann-incompatible`: a row of the table, such as one that this site added, forbids the pair.
    - `torch-npu.cann-not-listed`: both are known, the pair is not. The pairing is a recommendation, so this
      is a warning; only a note where torch_npu lies between two packages that suit this CANN.
    - `torch-npu.newer-than-table`: one of them came after the newest row.
    - `torch-npu.site-table`: rows that this site added cannot be used.

    ## Why it matters

    torch_npu is built against one torch, and calls operators that one CANN has. Beside another torch the
    import fails with an undefined symbol; beside another CANN an operator is missing when it is needed.

    ## Fix safety

    Shown only: another torch may not suit what else is installed in that environment.

    ## References

    - Ascend/pytorch, COMPATIBILITY.md; `npudoctor list --knowledge` says which rows are loaded.
    - The metadata (`Requires-Dist`) of the wheels on PyPI.
    """
    adapter = next(iter(host.interpreter.distributions("torch-npu")), None)
    if adapter is None:
        raise Skip(_("torch_npu is not installed in {python}").format(python=host.interpreter.label))
    torch = next(iter(host.interpreter.distributions("torch")), None)
    yield from broken_rows(host, "torch-npu", "torch_npu")
    finding = _beside_torch(host, adapter, torch)
    if finding is not None:
        yield finding
    failing = autoload_fails(host, adapter, torch)
    if failing is not None:
        yield failing
    install = cann_in_use(host)
    cann = product(host, install) if install else None
    yield Facts({"torch_npu": adapter.version, "torch": torch.version if torch else None, "cann": cann})
    if install is None:
        raise Skip(without_cann("torch_npu"))
    yield from _beside_cann(host, adapter, cann, install.path)


def _beside_torch(host: Host, adapter: Distribution, torch: Optional[Distribution]) -> Optional[Finding]:
    wanted, source, told = _wanted(host, adapter)
    fix, or_else = either(host, wanted, torch)
    if torch is None:
        text = _("torch_npu {torch_npu} is installed without torch")
        return Finding(
            "torch-npu.torch-missing",
            text.format(torch_npu=adapter.version),
            evidence=(at(adapter),),
            action=Action.CONFIG,
            fix=fix,
        )
    version = version_number(torch) if wanted else None  # to say so when it is none
    if version is None or accepts(wanted, torch.version):
        return None
    named = exact(wanted)
    near = named is not None and named.release == version.release
    text = _("torch_npu {torch_npu} was made for torch{required}, and torch {torch} is installed")
    return Finding(
        "torch-npu.torch-mismatch",
        text.format(torch_npu=adapter.version, required=plain(wanted), torch=torch.version),
        severity=ERROR if told and not near else WARNING,
        evidence=(at(adapter), at(torch), f"torch{wanted}: {source}", *or_else),
        action=Action.CONFIG,
        fix=fix,
        echo_of=("vllm-ascend.unmet-requirement",) if _the_wrong_one(host, adapter, torch) else (),
    )


def _the_wrong_one(host: Host, adapter: Distribution, torch: Distribution) -> bool:
    """Whether vllm-ascend wants this torch and another torch_npu, which its own check says."""
    layout = host.interpreter.layout()
    for plugin in host.interpreter.distributions("vllm-ascend")[:1]:
        wanted, other = required(plugin, "torch", layout), required(plugin, "torch-npu", layout)
        if wanted is not None and other is not None:
            return bool(accepts(wanted, torch.version) and not accepts(other, adapter.version))
    return False


def _wanted(host: Host, adapter: Distribution) -> tuple[SpecifierSet, str, bool]:
    """The torch that it was made for, who says so, and whether that is its own metadata.

    Where neither that nor the table names one, its own release does: they are numbered alike.
    """
    from packaging.specifiers import SpecifierSet

    told = required(adapter, "torch", host.interpreter.layout())
    if told:
        return told, _("metadata of {name}").format(name=adapter.name), True
    row = torch_of(host.knowledge, adapter.version)
    if row:
        text = _("built-in table of {as_of}: {source}")
        words = {"as_of": row["as_of"], "source": row["source"]}
        return SpecifierSet(f"=={row['torch']}"), text.format(**words), False
    mine = public(adapter.version)
    if mine is None or is_listed(host.knowledge, adapter.version):
        return SpecifierSet(), "", False
    text = _("the release of {name} itself").format(name=adapter.name)
    return SpecifierSet(f"=={mine.base_version}"), text, False


def _beside_cann(host: Host, adapter: Distribution, cann: Optional[str], path: str) -> Iterator[Finding]:
    version_number(adapter)
    judged = judge_pair(torch_npu_pairs(host.knowledge), adapter.version, cann or "")
    if judged.answer is Compatibility.STRANGE:
        text = _("the CANN at {path} does not say its version in a form that can be compared: {version}")
        raise Unknown(text.format(path=path, version=cann or _("none")))
    finding = pair_finding("torch-npu", "torch_npu", adapter.version, cann or "", judged)
    if finding is not None:
        yield finding
