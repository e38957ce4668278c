"""What HCCL's valid values do to each other, and where they have no effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Optional

from npudoctor.core.messages import _
from npudoctor.knowledge.hccl import parse_algorithms, parse_retries, row_on_chip

Row = Mapping[str, Any]


def is_refused_pair(pcie: Optional[str], roce: Optional[str]) -> bool:
    """Return whether HCCL stops with these values: both 1, or one 0 and the other not set."""
    numbers = [None if value is None else int(value) for value in (pcie, roce)]
    # The pairs for A2 and 910 in the documents of HCCL_INTRA_PCIE_ENABLE and HCCL_INTRA_ROCE_ENABLE.
    return numbers in ([1, 1], [0, None], [None, 0])


def find_limits_out_of_order(
    valid: Mapping[str, str], names: tuple[str, str, str]
) -> Iterator[tuple[str, str, bool]]:
    """Yield (inner, outer, loses) for each two limits in seconds, both set, of which the inner one does not
    end first.

    0 is no limit. To give all three one value is what many guides do; only the last pair then loses
    something: which rank it was that HCCL waited for.
    """
    limits = [name for name in names if name in valid and float(valid[name]) > 0]
    for shorter, longer in zip(limits, limits[1:]):
        inner, outer = float(valid[shorter]), float(valid[longer])
        last = longer == names[2]
        if inner > outer or (last and inner == outer):
            cut = last and shorter == names[1] and inner > outer
            yield shorter, longer, cut


def why_idle(row: Row, valid: Mapping[str, str], variables: Mapping[str, str], chip: str) -> str:
    """Why a valid value has no effect; "" when it has."""
    name = row["name"]
    if chip in row.get("not_on", ()):
        return _("it does not apply to this chip ({chip})", chip=chip)
    if "needs" in row and not variables.get(row["needs"]):
        return _("it is read only if {name} is also set", name=row["needs"])
    if variables.get(row.get("beaten_by", "")):
        return _("{name} takes precedence", name=row["beaten_by"])
    # The switch is 1 by default: the list is off.
    if name == "HCCL_WHITELIST_FILE" and valid.get("HCCL_WHITELIST_DISABLE", "1") != "0":
        return _("the whitelist is off")
    # HCCL_DETERMINISTIC beats AIV (documents of HCCL).
    deterministic = valid.get("HCCL_DETERMINISTIC", "false").lower() != "false"
    if name == "HCCL_OP_EXPANSION_MODE" and valid[name] == "AIV" and deterministic:
        return _("{name} takes precedence", name="HCCL_DETERMINISTIC")
    return ""


def why_partly_idle(row: Row, value: str) -> str:
    """Why a part of a value has no effect; "" when all of it has."""
    name = row["name"]
    if name == "HCCL_OP_RETRY_ENABLE" and "L0" in parse_retries(value):
        return _("HCCL ignores L0")
    if name == "HCCL_ALGO":
        for levels in parse_algorithms(value).values():
            if levels.get("level1") == "AHC" and "level2" in levels:
                return _("AHC on level1 also applies to level2, and the level2 setting is ignored")
    return ""


def deprecated_words(row: Row, value: str, chip: str) -> list[str]:
    """The words in a value that are deprecated for this chip."""
    used = {value}
    if row["kind"] == "algo":
        used = {algorithm for levels in parse_algorithms(value).values() for algorithm in levels.values()}
    return [word for word in row_on_chip(row, chip).get("deprecated", ()) if word in used]
