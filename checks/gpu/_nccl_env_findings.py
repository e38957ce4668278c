"""The words of the check nccl-env, and the lines that set a variable right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from npudoctor import ERROR, INFO, WARNING, Action, Command, Export, Finding, Fix, Risk, Severity, Step, _

Row = Mapping[str, Any]
SHOWN = 200
ON = ("on", "true", "yes", "y", "enable", "enabled")
ALIKE = 0.9  # of a name that nobody knows to one that is known


def pasted(row: Row, value: str, meant: str) -> Finding:
    """A value with the punctuation of a document in it."""
    text = _(
        "{name} is {value}, with blanks or characters pasted from a document; {meant} was probably meant"
    )
    return _said("pasted-punctuation", text, row, value, meant=meant, steps=(Export(row["name"], meant),))


def read_otherwise(row: Row, value: str) -> Finding:
    """A word where a number is read."""
    on = value.strip().lower() in ON
    step: Step = Export(row["name"], "1") if on else Command(("unset", row["name"]))
    text = _("{name} is {value}, which NCCL reads as the number 0")
    severity = WARNING if on else INFO
    return _said("read-otherwise", text, row, value, severity, steps=(step,))


def bad_value(row: Row, value: str, why: str) -> Finding:
    """A value that is none of those that are documented."""
    text, severity = _("{name} is {value}: {why}"), INFO
    if row.get("refused"):
        text, severity = _("{name} is {value}: {why}, and torch ends the job"), ERROR
    elif row["kind"] == "list":
        text, severity = _("{name} is {value}: {why}, and newer releases of NCCL do not start"), WARNING
    return _said("bad-value", text, row, value, severity, why=why)


def left_on(row: Row, value: str) -> Finding:
    """A way of transport that is switched off."""
    ways = {
        "p2p": _("{name} is {value}: GPUs do not reach each other's memory directly"),
        "shm": _("{name} is {value}: processes of a node do not use shared memory"),
        "ib": _("{name} is {value}: InfiniBand and RoCE are not used"),
    }
    return _said("left-on", ways[row["leaves"]], row, value)


def debug(row: Row, value: str) -> Finding:
    """A setting for finding a fault."""
    return _said("debug", _("{name} is {value}, which is meant for finding a fault"), row, value)


def outdated(row: Row, value: str, variables: Mapping[str, str]) -> Finding:
    """A name that was given up."""
    new = row["instead"]
    if row["kind"] != "old":
        text = _("{name} is called {new} now; the old name is read with a warning")
        steps: tuple[Step, ...] = (Command(("unset", row["name"])),)
        steps += () if new in variables else (Export(new, value),)
        return _said("outdated", text, row, value, steps=steps, new=new)
    text = _("{name} is no longer read; {new} replaces it") if new else _("{name} is no longer read")
    return _said("outdated", text, row, value, new=new)


def misspelt(names: Sequence[str], known: Sequence[str], variables: Mapping[str, str]) -> Iterator[Finding]:
    """Names that nobody reads, and that look like one that NCCL does."""
    for name in names:
        from difflib import get_close_matches

        close = get_close_matches(name, known, 1, ALIKE)
        if close and close[0] not in variables:
            text = _("{name} is not a known variable; NCCL reads {known}")
            steps = (Command(("unset", name)), Export(close[0], variables[name]))
            row = {"name": name}
            yield _said("misspelt", text, row, variables[name], steps=steps, known=close[0])


def _said(
    code: str,
    text: str,
    row: Row,
    value: str,
    severity: Optional[Severity] = None,
    steps: Optional[tuple[Step, ...]] = None,
    **words: str,
) -> Finding:
    """The finding; its fix unsets the variable where no other steps are given."""
    name = row["name"]
    shown = value if len(value) <= SHOWN else value[:SHOWN] + "..."
    source = _("built-in table of {as_of}: {source}")
    told = (source.format(as_of=row["as_of"], source=row["source"]),) if "source" in row else ()
    unset = (Command(("unset", name)),)
    title = _("correct {name}") if steps else _("unset {name}")
    undo = Export(name, value).lines()
    return Finding(
        f"nccl-env.{code}",
        text.format(name=name, value=shown, **words),
        severity=severity,
        evidence=(f"{name}={shown}", *told),
        action=Action.CONFIG,
        fix=Fix(title.format(name=name), steps or unset, undo, Risk.MANUAL, needs_root=False),
    )
