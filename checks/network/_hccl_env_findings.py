"""The words of the check hccl-env, and the lines that set a variable right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from npudoctor import Action, Command, Export, Finding, Fix, Risk, Severity, Step, _

Row = Mapping[str, Any]
MARGIN = 32  # seconds by which the default of HCCL_EVENT_TIMEOUT is above that of HCCL_EXEC_TIMEOUT
LONGEST = 2147483647  # seconds that HCCL_EVENT_TIMEOUT takes
SHOWN = 200  # of a value: a rank table pasted into one is shown in part


def bad_value(row: Row, value: str, why: str, severity: Severity, better: str) -> Finding:
    """A value that its reader refuses, or takes for another."""
    refused = _("{name} is {value}: {why}, and HCCL stops with EI0001")
    text = refused if row.get("refused") else _("{name} is {value}: {why}")
    return said("bad-value", text, row["name"], value, better, severity, row, why=why)


def empty(row: Row) -> Finding:
    """A variable that is set to nothing: to HCCL that is a value like another."""
    text = _("{name} is set and empty, which is not the same as unset: HCCL finds no value in it")
    return said("bad-value", text, row["name"], "", "", Severity.WARNING, row)


def pasted(row: Row, value: str, meant: str, severity: Severity) -> Finding:
    """A value with the punctuation of a document in it."""
    text = _(
        "{name} is {value}, with blanks or characters pasted from a document; {meant} was probably meant"
    )
    return said("pasted-punctuation", text, row["name"], value, meant, severity, row, meant=meant)


def no_effect(row: Row, value: str, why: str) -> Finding:
    """A valid value that nobody looks at."""
    return said(
        "no-effect", _("{name} is set and has no effect: {why}"), row["name"], value, "", row=row, why=why
    )


def partly_idle(row: Row, value: str, why: str) -> Finding:
    """A valid value of which nobody looks at a part."""
    return said("no-effect", _("{name} is {value}: {why}"), row["name"], value, row=row, steps=(), why=why)


def deprecated(row: Row, value: str, which: str) -> Finding:
    """A value that works, and is going away."""
    text = _("{name} names {which}, which is to be dropped")
    return said("deprecated", text, row["name"], value, "", row=row, which=which)


def misspelt(name: str, value: str, known: str) -> Finding:
    """A name that nobody reads, close to one that HCCL does."""
    text = _("{name} is no variable that we know; HCCL reads {known}")
    steps = (Command(("unset", name)), Export(known, value))
    return said("misspelt", text, name, value, steps=steps, known=known)


def order(shorter: str, longer: str, values: Mapping[str, str], severity: Optional[Severity]) -> Finding:
    """Two limits of time of which the inner one should end first."""
    text = _(
        "{name} is {value} s, which should be longer than {shorter} ({least} s): else it ends the wait first"
    )
    better = int(float(values[shorter])) + MARGIN
    steps = None if longer == "HCCL_EVENT_TIMEOUT" and better <= LONGEST else ()
    return said(
        "timeout-order", text, longer, values[longer], str(better), severity, steps=steps,
        shorter=shorter, least=values[shorter],
    )  # fmt: skip


def pair(pcie: Optional[str], roce: Optional[str]) -> Finding:
    """HCCL_INTRA_PCIE_ENABLE and HCCL_INTRA_ROCE_ENABLE that HCCL refuses together."""
    names = ("HCCL_INTRA_PCIE_ENABLE", "HCCL_INTRA_ROCE_ENABLE")
    given = {name: value for name, value in zip(names, (pcie, roce)) if value is not None}
    told = ", ".join(f"{name}={given.get(name, _('unset'))}" for name in names)
    text = _("{told} is no pair that HCCL supports: it stops with EI0001")
    return Finding(
        "hccl-env.unsupported-pair",
        text.format(told=told),
        evidence=tuple(f"{name}={value}" for name, value in given.items()),
        action=Action.CONFIG,
        fix=Fix(
            _("unset both: PCIe is the default"),
            tuple(Command(("unset", name)) for name in given),
            tuple(line for name, value in given.items() for line in Export(name, value).lines()),
            Risk.MANUAL,
            needs_root=False,
        ),
    )


def conflict(chief: Mapping[str, str], table: Mapping[str, str]) -> Finding:
    """Two ways of telling the ranks at once."""
    text = _("{chief} must not be set beside {table}: HCCL is told the ranks in one way only")
    return Finding(
        "hccl-env.conflict",
        text.format(chief=", ".join(chief), table=", ".join(table)),
        evidence=tuple(f"{name}={value[:SHOWN]}" for name, value in (*chief.items(), *table.items())),
        action=Action.CONFIG,
    )


def whitelist(text: str, evidence: tuple[str, ...]) -> Finding:
    """A whitelist that is on and cannot let anybody in."""
    return Finding(
        "hccl-env.whitelist",
        text,
        evidence=evidence,
        action=Action.CONFIG,
        fix=Fix(
            _("Do without a whitelist"),
            (Export("HCCL_WHITELIST_DISABLE", "1"),),
            risk=Risk.MANUAL,
            needs_root=False,
        ),
    )


def said(
    code: str,
    text: str,
    name: str,
    value: str,
    better: str = "",
    severity: Optional[Severity] = None,
    row: Optional[Row] = None,
    steps: Optional[tuple[Step, ...]] = None,
    **words: str,
) -> Finding:
    """The finding; its fix sets `better`, or unsets the variable where that is empty; `steps`: other ones."""
    shown = value if len(value) <= SHOWN else value[:SHOWN] + "..."
    source = _("built-in table of {as_of}: {source}")
    told = (source.format(as_of=row["as_of"], source=row["source"]),) if row else ()
    title = _("set {name} to {value}") if better else _("unset {name}")
    if steps is None:
        steps = (Export(name, better) if better else Command(("unset", name)),)
    undo = Export(name, value).lines()
    fix = Fix(title.format(name=name, value=better), steps, undo, Risk.MANUAL, needs_root=False)
    return Finding(
        f"hccl-env.{code}",
        text.format(name=name, value=shown, **words),
        severity=severity,
        evidence=(f"{name}={shown}", *told),
        action=Action.CONFIG,
        fix=fix if steps else None,
    )
