"""The lines that bring torch and torch_npu together: either can be changed to go with the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from npudoctor import Fix, Host, _
from npudoctor.checks.python._pip import pip_fix
from npudoctor.checks.python._requirements import closure_of, held
from npudoctor.checks.python._stack import accepts, cann_in_use, product
from npudoctor.checks.python._triton import torch_install
from npudoctor.facts.python.pip import entry_of
from npudoctor.host.python.interpreter import Distribution, normal
from npudoctor.knowledge.compatibility import Compatibility, judge_pair
from npudoctor.knowledge.frameworks import torch_npu_pairs
from npudoctor.knowledge.versions import public

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet


def either(host: Host, wanted: SpecifierSet, torch: Optional[Distribution]) -> tuple[Fix, tuple[str, ...]]:
    """What breaks nothing else, and as lines of evidence the other way round, if there is one.

    `wanted`: the torch that torch_npu was made for.
    """
    title = _("install the torch that torch_npu was made for")
    other_torch = torch_install(host, title, f"torch{wanted}")
    release = _release(host, torch) if torch is not None else None
    if torch is None or release is None or entry_of(host, torch) is not None:
        return other_torch, ()
    title = _("install the torch_npu that was made for torch {torch}").format(torch=torch.version)
    other_adapter = pip_fix(host, title, ("install", *held(host, "torch-npu"), f"torch-npu=={release}"))
    first, second = (other_adapter, other_torch)
    if _wanted_by_others(host, wanted, torch):
        first, second = second, first
    text = _("or {title}: {line}")
    return first, tuple(text.format(title=second.title, line=line) for line in second.commands)


def _release(host: Host, torch: Distribution) -> Optional[str]:
    """The newest torch_npu for this torch, by the table; for the CANN in use, where that is known."""
    here = public(torch.version)
    rows = [row for row in host.knowledge.rows("torch_npu", "cann") if row.texts("torch")]
    made = [row["torch_npu"] for row in rows if here is not None and public(row["torch"]) == here]
    install = cann_in_use(host)
    cann = product(host, install) if install else None
    if cann:
        pairs = torch_npu_pairs(host.knowledge)
        made = [one for one in made if judge_pair(pairs, one, cann).answer is Compatibility.COMPATIBLE]
    return made[0] if made else None


def _wanted_by_others(host: Host, wanted: SpecifierSet, torch: Distribution) -> bool:
    """Whether another framework wants the torch that torch_npu wants, and not the one that is there."""
    needs = [need for need in closure_of(host).of("torch") if normal(need.user.name) != "torch-npu"]
    numbers = [one.version for one in wanted if one.operator in ("==", "===")]
    return any(
        need.specifier
        and not accepts(need.specifier, torch.version)
        and any(accepts(need.specifier, number) for number in numbers)
        for need in needs
    )
