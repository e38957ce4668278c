"""Are HCCL's environment variables what HCCL takes, and do they go together?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Optional, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Command,
    Compared,
    Export,
    Facts,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    Severity,
    Skip,
    Step,
    _,
    check,
)
from npudoctor.facts.job.expected_accelerator import accelerators
from npudoctor.facts.job.rank_count import has_several_ranks
from npudoctor.host import CannotTell
from npudoctor.knowledge import tables

VariableRow = Mapping[str, Any]

# Read by TensorFlow's HCCL on A2 and the first 910 in place of a rank table, so only one of the two may be
# set.
CHIEF = ("CM_CHIEF_IP", "CM_CHIEF_PORT", "CM_CHIEF_DEVICE", "CM_WORKER_IP", "CM_WORKER_SIZE")
TABLE = ("RANK_TABLE_FILE", "RANK_ID", "RANK_SIZE")
# HCCL_EVENT_TIMEOUT, of torch_npu, must be above HCCL_EXEC_TIMEOUT (Ascend/pytorch, OptionsManager.cpp).
CONNECT, EXECUTE, EVENT = "HCCL_CONNECT_TIMEOUT", "HCCL_EXEC_TIMEOUT", "HCCL_EVENT_TIMEOUT"
# HCCL stops with EI0001 if both are 1, or if one is 0 and the other unset.
INTRA = ("HCCL_INTRA_PCIE_ENABLE", "HCCL_INTRA_ROCE_ENABLE")


# They identify the node, rank or device, so they differ between nodes by nature.
OF_EACH_NODE = (
    *("HCCL_IF_IP", "POD_IP", "RANK", "RANK_ID", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK"),
    *("DEVICE_ID", "ASCEND_DEVICE_ID"),
)


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
    compares=(Compared("variables", own=OF_EACH_NODE),),
)
def hccl_env(host: Host) -> Iterator[Union[Finding, Facts]]:
    """HCCL's environment variables are valid and consistent.

    ## What it does

    Checks the variables that are set: time limits, the whitelist, RDMA and PCIe settings, buffers,
    algorithms, expansion mode, retries, and CM_CHIEF_*. A table lists the valid values, each row with its
    source; they depend on the chip where the PCI bus identifies it. HCCL_IF_BASE_PORT and
    HCCL_HOST_SOCKET_PORT_RANGE are checked by `hccl-ports`, HCCL_SOCKET_IFNAME by `socket-interfaces`,
    HCCL_IF_IP by `hccl-interface`.

    - `hccl-env.bad-value`: the value is not a number, is out of range, or is an unknown word. An error where
      HCCL stops with it (EI0001), a warning where HCCL uses another value or the variable is set and empty,
      information where the word is for another chip, or is an algorithm that npudoctor does not know.
    - `hccl-env.pasted-punctuation`: full-width digits, quotes that no shell removed, a semicolon, blanks.
    - `hccl-env.unsupported-pair`: HCCL_INTRA_PCIE_ENABLE and HCCL_INTRA_ROCE_ENABLE are both 1, or one of
      them is 0 and the other unset.
    - `hccl-env.conflict`: CM_CHIEF_* is set together with RANK_TABLE_FILE, RANK_ID or RANK_SIZE.
    - `hccl-env.whitelist`: the whitelist is on, and its file is not set, missing, or not JSON.
      HCCL_WHITELIST_DISABLE=0 turns it on; up to CANN 5.1 it is also on by default, later it is off.
    - `hccl-env.timeout-order`: HCCL_CONNECT_TIMEOUT, HCCL_EXEC_TIMEOUT and HCCL_EVENT_TIMEOUT should increase
      in this order; the first two may be equal. A warning where the last is shorter than the second, because
      the wait is cut short.
    - `hccl-env.no-effect`: HCCL ignores a valid value on this chip, or because of another variable.
    - `hccl-env.deprecated`: a value that will be dropped.
    - `hccl-env.misspelt`: a name that HCCL does not read, close to one that it does.

    ## Why it matters

    HCCL reads its variables when the ranks connect, minutes after the start. A variable that it cannot read
    ends the job on this node; the other nodes wait for HCCL_CONNECT_TIMEOUT.

    ## Fix safety

    The lines are `export` or `unset` for the shell that starts the job; nothing is written. The time limits
    must be the same on every node.

    ## References

    - hicann/hccl: documents of the environment variables, and the code that reads them.
    - Ascend/pytorch, OptionsManager.cpp: HCCL_EVENT_TIMEOUT.
    """
    variables = host.variables
    has_hccl_variable = any(name.startswith(("HCCL_", "CM_")) for name in variables)
    if not has_hccl_variable and not has_several_ranks(variables):
        raise Skip(_("no HCCL variable is set"))
    if accelerators(host) == (False, True):
        raise Skip(_("this machine has no NPU"))

    table = tables.load_table("hccl_variables")
    chip = _chip(host) if has_hccl_variable else ""
    valid: dict[str, str] = {}
    rows = {row["name"]: row for row in table["variable"] if row["name"] in variables}
    if rows:
        yield Facts({"chip": chip or None, "variables": {name: variables[name] for name in rows}})
    for name, row in rows.items():
        finding = _judge_value(row, variables[name], chip)
        if finding is not None:
            yield finding
        elif variables[name]:
            valid[name] = variables[name]
    combined = [
        *_judge_combinations(valid, rows, variables, chip),
        *_judge_whitelist(host, valid),
        *_find_misspelt(variables, table),
    ]
    yield from combined
    if not has_hccl_variable and not combined:
        raise Skip(_("no HCCL variable is set"))


def _chip(host: Host) -> str:
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.knowledge.hccl import chip_of

    try:
        return chip_of(host.npus.models)
    except CannotTell:
        # An unknown chip: only rules that hold for all chips are applied.
        return ""


def _judge_value(row: VariableRow, value: str, chip: str) -> Optional[Finding]:
    """Return a finding if HCCL does not accept the value, else None."""
    from npudoctor.facts.job.input_cleanup import clean_up
    from npudoctor.knowledge.hccl import nearest_valid, row_on_chip, what_is_wrong

    chip_row = row_on_chip(row, chip)
    if not value:
        if not chip_row.get("refused") or chip_row["kind"] not in ("whole", "decimal", "word"):
            return None
        # HCCL does not treat an empty value as unset.
        text = _("{name} is set and empty, which is not the same as unset: HCCL finds no value in it")
        return _finding("bad-value", text, chip_row["name"], "", "", Severity.WARNING, chip_row)
    why = what_is_wrong(chip_row, value)
    if why is None:
        return None
    cleaned = clean_up(value)
    severity: Severity = ERROR if chip_row.get("refused") else WARNING
    if cleaned != value and cleaned and what_is_wrong(chip_row, cleaned) is None:
        text = _(
            "{name} is {value}, with blanks or characters pasted from a document; probably {meant} was meant"
        )
        return _finding(
            "pasted-punctuation", text, chip_row["name"], value, cleaned, severity, chip_row, meant=cleaned
        )
    if not chip_row.get("refused") and (
        what_is_wrong(row, value) is None or _has_readable_algorithms(row, value)
    ):
        severity = INFO  # right on another chip, or in another release, and HCCL goes on
    # A value that its reader refuses, or takes for another.
    refusal_text = _("{name} is {value}: {why}, and HCCL stops with EI0001")
    text = refusal_text if chip_row.get("refused") else _("{name} is {value}: {why}")
    finding: Finding = _finding(
        "bad-value",
        text,
        chip_row["name"],
        value,
        nearest_valid(chip_row, value),
        severity,
        chip_row,
        why=why,
    )
    return finding


def _has_readable_algorithms(row: VariableRow, value: str) -> bool:
    """Whether only names of algorithms are unknown: each release of HCCL has its own."""
    from npudoctor.knowledge.hccl import parse_algorithms

    try:
        return row["kind"] == "algo" and bool(parse_algorithms(value))
    except ValueError:
        # algorithms() raises on text that is not `level1:ring;level2:...`; such a value is wrong on every
        # release.
        return False


def _judge_combinations(
    valid: Mapping[str, str], rows: Mapping[str, VariableRow], variables: Mapping[str, str], chip: str
) -> Iterator[Finding]:
    """Judge combinations of valid values."""
    from npudoctor.facts.hccl.combinations import find_limits_out_of_order, is_refused_pair

    pcie, roce = (valid.get(name) for name in INTRA)
    if all(name in valid or name not in rows for name in INTRA) and is_refused_pair(pcie, roce):
        yield _report_pair(pcie, roce)
    chief = {name: variables[name] for name in CHIEF if variables.get(name)}
    ranks = {name: variables[name] for name in TABLE if variables.get(name)}
    if chief and ranks:
        yield _report_conflict(chief, ranks)
    for shorter, longer, is_lost in find_limits_out_of_order(valid, (CONNECT, EXECUTE, EVENT)):
        yield _report_order(shorter, longer, valid, WARNING if is_lost else INFO)
    for name, value in valid.items():
        yield from _judge_effects(rows[name], value, valid, variables, chip)


def _find_misspelt(variables: Mapping[str, str], table: Mapping[str, Any]) -> Iterator[Finding]:
    """Report unknown names that resemble one that HCCL reads."""
    known_names = [row["name"] for row in table["variable"]] + table["others"]
    for label in sorted(
        label for label in variables if label.startswith("HCCL_") and label not in known_names
    ):
        # `difflib` takes some milliseconds to import, and most runs do not come here.
        from difflib import get_close_matches

        close = get_close_matches(
            # [5:] drops HCCL_, the common prefix that would make all names look alike.
            label[5:],
            [name[5:] for name in known_names if name.startswith("HCCL_")],
            1,
            0.84,
        )
        if close and f"HCCL_{close[0]}" not in variables:
            text = _("npudoctor does not know the variable {name}; HCCL reads {known}")
            right = f"HCCL_{close[0]}"
            steps = (Command(("unset", label)), Export(right, variables[label]))
            yield _finding("misspelt", text, label, variables[label], steps=steps, known=right)


MARGIN = 32  # seconds by which the default of HCCL_EVENT_TIMEOUT is above that of HCCL_EXEC_TIMEOUT
# INT32_MAX: the limit in torch_npu's OptionsManager.cpp.
LONGEST = 2147483647  # seconds that HCCL_EVENT_TIMEOUT takes
SHOWN = 200  # of a value: a rank table pasted into one is shown in part


def _report_order(
    shorter: str, longer: str, values: Mapping[str, str], severity: Optional[Severity]
) -> Finding:
    """Report a timeout that expires before the shorter one that it should contain."""
    text = _("{name} is {value} s and should be longer than {shorter} ({least} s), or it expires first")
    better = int(float(values[shorter])) + MARGIN
    steps = None if longer == "HCCL_EVENT_TIMEOUT" and better <= LONGEST else ()
    return _finding(
        "timeout-order", text, longer, values[longer], str(better), severity, steps=steps,
        shorter=shorter, least=values[shorter],
    )  # fmt: skip


def _judge_effects(
    row: VariableRow, value: str, valid: Mapping[str, str], variables: Mapping[str, str], chip: str
) -> Iterator[Finding]:
    """Report a valid value that has no effect, or that a later release will drop."""
    from npudoctor.facts.hccl.combinations import deprecated_words, why_idle, why_partly_idle

    why = why_idle(row, valid, variables, chip)
    partial_reason = "" if why else why_partly_idle(row, value)
    if why:
        text = _("{name} is set and has no effect: {why}")
        yield _finding("no-effect", text, row["name"], value, "", row=row, why=why)
    elif partial_reason:
        text = _("{name} is {value}: {why}")
        yield _finding("no-effect", text, row["name"], value, row=row, steps=(), why=partial_reason)
    for word in deprecated_words(row, value, chip):
        # A value that works, and is going away.
        text = _("{name} uses {which}, which will be removed")
        yield _finding("deprecated", text, row["name"], value, "", row=row, which=word)


def _report_pair(pcie: Optional[str], roce: Optional[str]) -> Finding:
    """Report a pair of HCCL_INTRA_PCIE_ENABLE and HCCL_INTRA_ROCE_ENABLE that HCCL refuses. None: unset."""
    names = ("HCCL_INTRA_PCIE_ENABLE", "HCCL_INTRA_ROCE_ENABLE")
    value_by_name = {name: value for name, value in zip(names, (pcie, roce)) if value is not None}
    values = ", ".join(f"{name}={value_by_name.get(name, _('unset'))}" for name in names)
    return Finding(
        "hccl-env.unsupported-pair",
        _("HCCL does not support the pair {told}: it stops with EI0001", told=values),
        evidence=tuple(f"{name}={value}" for name, value in value_by_name.items()),
        action=Action.CONFIG,
        fix=Fix(
            _("unset both: PCIe is the default"),
            tuple(Command(("unset", name)) for name in value_by_name),
            tuple(line for name, value in value_by_name.items() for line in Export(name, value).lines()),
            Risk.MANUAL,
            needs_root=False,
        ),
    )


def _report_conflict(chief: Mapping[str, str], table: Mapping[str, str]) -> Finding:
    """Report two sources of ranks: CM_CHIEF_* and a rank table."""
    return Finding(
        "hccl-env.conflict",
        _(
            "{chief} must not be set together with {table}: HCCL accepts only one source of ranks",
            chief=", ".join(chief),
            table=", ".join(table),
        ),
        evidence=tuple(f"{name}={value[:SHOWN]}" for name, value in (*chief.items(), *table.items())),
        action=Action.CONFIG,
    )


def _judge_whitelist(host: Host, valid: Mapping[str, str]) -> Iterator[Finding]:
    """Report a whitelist that is on but names no usable file."""
    from npudoctor.facts.hccl.whitelist import whitelist_trouble

    text, evidence = whitelist_trouble(host, valid)
    if not text:
        return
    yield Finding(
        "hccl-env.whitelist",
        text,
        evidence=evidence,
        action=Action.CONFIG,
        fix=Fix(
            _("Turn the whitelist off"),
            (Export("HCCL_WHITELIST_DISABLE", "1"),),
            risk=Risk.MANUAL,
            needs_root=False,
        ),
    )


def _finding(
    code: str,
    text: str,
    name: str,
    value: str,
    better: str = "",
    severity: Optional[Severity] = None,
    row: Optional[VariableRow] = None,
    steps: Optional[tuple[Step, ...]] = None,
    **words: str,
) -> Finding:
    """Return the finding; its fix sets `better`, or unsets the variable if that is "". `steps`: other steps,
    () for no fix."""
    shown = value if len(value) <= SHOWN else value[:SHOWN] + "..."
    evidence = (
        (_("built-in table of {as_of}: {source}", as_of=row["as_of"], source=row["source"]),) if row else ()
    )
    title = _("set {name} to {value}") if better else _("unset {name}")
    if steps is None:
        steps = (Export(name, better) if better else Command(("unset", name)),)
    undo = Export(name, value).lines()
    fix = Fix(title.format(name=name, value=better), steps, undo, Risk.MANUAL, needs_root=False)
    return Finding(
        f"hccl-env.{code}",
        text.format(name=name, value=shown, **words),
        severity=severity,
        evidence=(f"{name}={shown}", *evidence),
        action=Action.CONFIG,
        fix=fix if steps else None,
    )
