"""The words of the check paddle-flags, and the lines that set a flag right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from npudoctor import Action, Command, Export, Finding, Fix, Risk, _

Row = Mapping[str, Any]
SHOWN = 200


def bad_value(row: Row, value: str, why: str) -> Finding:
    """A value that Paddle does not take."""
    return _said("bad-value", _("{name} is {value}: {why}"), row, value, why=why)


def pasted(row: Row, value: str, meant: str) -> Finding:
    """A value with the punctuation of a document in it."""
    text = _(
        "{name} is {value}, with blanks or characters pasted from a document; {meant} was probably meant"
    )
    return _said("pasted-punctuation", text, row, value, meant, meant=meant)


def no_such_device(row: Row, value: str, beyond: Sequence[int], count: int) -> Finding:
    """Devices that are not here."""
    text = _("{name} is {value}, but there are only {count} devices: {beyond} is not one of them")
    return _said("no-such-device", text, row, value, count=str(count), beyond=", ".join(map(str, beyond)))


def collection_off(row: Row, value: str) -> Finding:
    """Memory is not given back."""
    text = _("{name} is {value}: below 0, memory that is no longer used is kept")
    return _said("collection-off", text, row, value)


def no_effect(row: Row, value: str, other: str, theirs: str) -> Finding:
    """A flag that is not looked at beside another."""
    text = _("{name} is set but has no effect with {other}={theirs}")
    return _said("no-effect", text, row, value, other=other, theirs=theirs)


def _said(code: str, text: str, row: Row, value: str, better: str = "", **words: str) -> Finding:
    """The finding; its fix sets `better`, or unsets the variable."""
    name = row["name"]
    shown = value if len(value) <= SHOWN else value[:SHOWN] + "..."
    source = _("built-in table of {as_of}: {source}").format(as_of=row["as_of"], source=row["source"])
    title = _("correct {name}") if better else _("unset {name}")
    steps = (Export(name, better) if better else Command(("unset", name)),)
    undo = Export(name, value).lines()
    return Finding(
        f"paddle-flags.{code}",
        text.format(name=name, value=shown, **words),
        evidence=(f"{name}={shown}", source),
        action=Action.CONFIG,
        fix=Fix(title.format(name=name), steps, undo, Risk.MANUAL, needs_root=False),
    )
