"""Are HCCL's environment variables what HCCL takes, and do they go together?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Optional, Union

from npudoctor import ERROR, INFO, WARNING, Facts, Finding, Host, Scope, Severity, Skip, _, check
from npudoctor.checks.network._ranks import several
from npudoctor.facts.job.expected_accelerator import accelerators
from npudoctor.host import CannotTell

Row = Mapping[str, Any]

CHIEF = ("CM_CHIEF_IP", "CM_CHIEF_PORT", "CM_CHIEF_DEVICE", "CM_WORKER_IP", "CM_WORKER_SIZE")
TABLE = ("RANK_TABLE_FILE", "RANK_ID", "RANK_SIZE")
CONNECT, EXECUTE, EVENT = "HCCL_CONNECT_TIMEOUT", "HCCL_EXEC_TIMEOUT", "HCCL_EVENT_TIMEOUT"
INTRA = ("HCCL_INTRA_PCIE_ENABLE", "HCCL_INTRA_ROCE_ENABLE")


@check(
    "hccl-env",
    scope=Scope.JOB,
    tags={"hccl", "ascend"},
    needs=("$HCCL_*", "$CM_*", "$WORLD_SIZE"),
    codes={
        "hccl-env.bad-value": ERROR,
        "hccl-env.pasted-punctuation": ERROR,
        "hccl-env.unsupported-pair": ERROR,
        "hccl-env.conflict": WARNING,
        "hccl-env.whitelist": WARNING,
        "hccl-env.timeout-order": WARNING,
        "hccl-env.no-effect": INFO,
        "hccl-env.deprecated": INFO,
        "hccl-env.misspelt": INFO,
    },
)
def hccl_env(host: Host) -> Iterator[Union[Finding, Facts]]:
    """HCCL's environment variables are what HCCL takes, and go together.

    ## What it does

    Judges the variables that are set: the limits of time, the whitelist, RDMA and PCIe settings, buffers,
    algorithms, expansion mode, retries, and CM_CHIEF_*. What is valid is known from a table, each row with
    its source, and depends on the chip where the PCI bus says which it is. HCCL_IF_BASE_PORT and
    HCCL_HOST_SOCKET_PORT_RANGE are judged by `hccl-ports`, HCCL_SOCKET_IFNAME by `socket-interfaces`,
    HCCL_IF_IP by `hccl-interface`.

    - `hccl-env.bad-value`: no number, out of range, a word that is not known. An error where HCCL stops
      with it (EI0001), a warning where it takes something else or where a variable is set and empty,
      information where the word is for another chip, or an algorithm that we do not know.
    - `hccl-env.pasted-punctuation`: full-width digits, quotes that no shell took off, a semicolon, blanks.
    - `hccl-env.unsupported-pair`: HCCL_INTRA_PCIE_ENABLE and HCCL_INTRA_ROCE_ENABLE both 1, or one of them
      0 and the other unset.
    - `hccl-env.conflict`: CM_CHIEF_* beside RANK_TABLE_FILE, RANK_ID or RANK_SIZE.
    - `hccl-env.whitelist`: the whitelist is on and its file is not set, missing, or no JSON. It is on by
      HCCL_WHITELIST_DISABLE=0; up to CANN 5.1 also by default, later it is off.
    - `hccl-env.timeout-order`: HCCL_CONNECT_TIMEOUT, HCCL_EXEC_TIMEOUT and HCCL_EVENT_TIMEOUT should be
      longer in this order; the first two may be equal. A warning where the last is shorter than the second:
      the wait is cut short.
    - `hccl-env.no-effect`: a valid value that is not looked at on this chip, or beside another variable.
    - `hccl-env.deprecated`: a value that is to be dropped.
    - `hccl-env.misspelt`: a name that HCCL does not read, close to one that it does.

    ## Why it matters

    HCCL reads its variables when the ranks meet, minutes after the start, and one that it cannot read ends
    the job on this node; the others wait for HCCL_CONNECT_TIMEOUT.

    ## Fix safety

    The lines are `export` or `unset` for the shell that starts the job; nothing is written. The limits of
    time must be the same on every node.

    ## References

    - hicann/hccl: documents of the environment variables, and the code that reads them.
    - Ascend/pytorch, OptionsManager.cpp: HCCL_EVENT_TIMEOUT.
    """
    variables = host.variables
    named = any(name.startswith(("HCCL_", "CM_")) for name in variables)
    if not named and not several(variables):
        raise Skip(_("none of HCCL's variables is set"))
    if accelerators(host) == (False, True):
        raise Skip(_("there is no NPU here"))
    from npudoctor.checks.network._hccl_env_whitelist import whitelist
    from npudoctor.knowledge import tables

    table = tables.table("hccl_variables")
    chip = _chip(host) if named else ""
    valid: dict[str, str] = {}
    rows = {row["name"]: row for row in table["variable"] if row["name"] in variables}
    if rows:
        yield Facts({"chip": chip or None, "variables": {name: variables[name] for name in rows}})
    for name, row in rows.items():
        found = _wrong(row, variables[name], chip)
        if found is not None:
            yield found
        elif variables[name]:
            valid[name] = variables[name]
    others = [
        *_together(valid, rows, variables, chip),
        *whitelist(host, valid),
        *_misspelt(variables, table),
    ]
    yield from others
    if not named and not others:
        raise Skip(_("none of HCCL's variables is set"))


def _chip(host: Host) -> str:
    from npudoctor.knowledge.hccl import chip_of

    try:
        return chip_of(host.npus.models)
    except CannotTell:
        return ""


def _wrong(row: Row, value: str, chip: str) -> Optional[Finding]:
    """A value that HCCL does not take."""
    from npudoctor.checks.network import _hccl_env_findings as say
    from npudoctor.facts.job.input_cleanup import cleaned_up
    from npudoctor.knowledge.hccl import nearest, on_chip, what_is_wrong

    here = on_chip(row, chip)
    if not value:
        return (
            say.empty(here) if here.get("refused") and here["kind"] in ("whole", "decimal", "word") else None
        )
    why = what_is_wrong(here, value)
    if why is None:
        return None
    meant = cleaned_up(value)
    severity: Severity = ERROR if here.get("refused") else WARNING
    if meant != value and meant and what_is_wrong(here, meant) is None:
        better: Finding = say.pasted(here, value, meant, severity)
        return better
    if not here.get("refused") and (what_is_wrong(row, value) is None or _readable(row, value)):
        severity = INFO  # right on another chip, or in another release, and HCCL goes on
    found: Finding = say.bad_value(here, value, why, severity, nearest(here, value))
    return found


def _readable(row: Row, value: str) -> bool:
    """Whether only the names of algorithms are strange: each release has its own."""
    from npudoctor.knowledge.hccl import algorithms

    try:
        return row["kind"] == "algo" and bool(algorithms(value))
    except ValueError:
        return False


def _together(
    valid: Mapping[str, str], rows: Mapping[str, Row], variables: Mapping[str, str], chip: str
) -> Iterator[Finding]:
    """What valid values do to each other."""
    from npudoctor.checks.network import _hccl_env_findings as say
    from npudoctor.checks.network._hccl_env_together import (
        idle,
        out_of_order,
        outgoing,
        partly_idle,
        refused_pair,
    )

    pcie, roce = (valid.get(name) for name in INTRA)
    if all(name in valid or name not in rows for name in INTRA) and refused_pair(pcie, roce):
        yield say.pair(pcie, roce)
    chief = {name: variables[name] for name in CHIEF if variables.get(name)}
    ranks = {name: variables[name] for name in TABLE if variables.get(name)}
    if chief and ranks:
        yield say.conflict(chief, ranks)
    yield from out_of_order(valid, (CONNECT, EXECUTE, EVENT))
    for name, value in valid.items():
        why = idle(rows[name], valid, variables, chip)
        if why:
            yield say.no_effect(rows[name], value, why)
        else:
            yield from partly_idle(rows[name], value)
        yield from outgoing(rows[name], value, chip)


def _misspelt(variables: Mapping[str, str], table: Mapping[str, Any]) -> Iterator[Finding]:
    """Names that nobody reads, and that look like one that HCCL does."""
    known = [row["name"] for row in table["variable"]] + table["others"]
    for name in sorted(name for name in variables if name.startswith("HCCL_") and name not in known):
        from difflib import get_close_matches

        from npudoctor.checks.network import _hccl_env_findings as say

        close = get_close_matches(name[5:], [one[5:] for one in known if one.startswith("HCCL_")], 1, 0.84)
        if close and f"HCCL_{close[0]}" not in variables:
            yield say.misspelt(name, variables[name], f"HCCL_{close[0]}")
