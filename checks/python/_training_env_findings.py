"""What training-env says of a variable, and the lines that set it right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Command,
    Export,
    Finding,
    Fix,
    Risk,
    Severity,
    _,
)
from npudoctor.core.frozen import dataclass


@dataclass(frozen=True)
class Kind:
    """A code with the severity that it has in this case, and the name of its sentence."""

    code: str
    severity: Severity
    sentence: str


NO_EFFECT = Kind("training-env.no-effect", INFO, "no-effect")
OVERRIDDEN = Kind("training-env.overridden", INFO, "overridden")
PASTED = Kind("training-env.pasted-punctuation", WARNING, "pasted")
PASTED_AND_READ = Kind("training-env.pasted-punctuation", INFO, "pasted-and-read")
READ_AS = Kind("training-env.read-otherwise", WARNING, "read-as")
READ_AS_MEANT = Kind("training-env.read-otherwise", INFO, "read-as")
EMPTY = Kind("training-env.read-otherwise", INFO, "empty")
REFUSED = Kind("training-env.bad-value", ERROR, "refused")
OUT_OF_RANGE = Kind("training-env.bad-value", INFO, "out-of-range")


def finding(row: Mapping[str, Any], kind: Kind, value: str, meant: str = "", **words: object) -> Finding:
    """The finding on one variable; `meant` is the value that its fix sets, else it is unset."""
    name = row["name"]
    text = _sentence(kind.sentence).format(name=name, value=value, meant=meant, **words)
    return Finding(
        kind.code,
        text,
        severity=kind.severity,
        evidence=(
            f"{name}={value}",
            _("built-in table of {as_of}: {source}").format(as_of=row["as_of"], source=row["source"]),
        ),
        action=Action.CONFIG,
        fix=None if kind is OVERRIDDEN else _fix(name, value, meant),
    )


def _sentence(kind: str) -> str:
    sentences = {
        "no-effect": _("{name} is set, and has no effect in torch_npu {version}"),
        "overridden": _("{name} is {value}, which has no effect beside {other}"),
        "pasted": _("{name} is {value}, with characters of a document in it; {meant} was meant"),
        "pasted-and-read": _("{name} is {value}, with characters of a document after the number {meant}"),
        "read-as": _("{name} is {value}, which torch_npu reads as the number {taken}"),
        "empty": _(
            "{name} is set and empty, which torch_npu reads as the number 0; unset it would be {default}"
        ),
        "refused": _("{name} is {value}, and torch_npu ends the job: {says}"),
        "out-of-range": _("{name} is {value}, which is none of {valid}; taken instead: {taken}"),
    }
    return sentences[kind]


def _fix(name: str, value: str, meant: str) -> Optional[Fix]:
    undo = Export(name, value).lines()
    if meant:
        title, step = _("set {name} to {value}").format(name=name, value=meant), Export(name, meant)
        return Fix(title, steps=(step,), undo=undo, risk=Risk.MANUAL, needs_root=False)
    title = _("unset {name}").format(name=name)
    return Fix(title, steps=(Command(("unset", name)),), undo=undo, risk=Risk.MANUAL, needs_root=False)
