"""Are the job's own environment variables what their readers understand?"""

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
    _,
    check,
)
from npudoctor.core.frozen import dataclass
from npudoctor.facts.job.input_cleanup import clean_up, strtol
from npudoctor.knowledge import tables

Row = Mapping[str, Any]
# What people write for 0, and what a reader of numbers takes for 0 as they wished.
NO = ("false", "off", "no", "none", "disable", "disabled")


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


@check(
    "training-env",
    scope=Scope.JOB,
    tags={"ascend", "pytorch"},
    needs=(
        "$TASK_QUEUE_ENABLE",
        "$COMBINED_ENABLE",
        "$ASCEND_*",
        "$PTCOPY_ENABLE",
        "$DYNAMIC_OP",
        "$SCALAR_TO_HOST_MEM",
        "$BMMV2_ENABLE",
        "$PYTORCH_NPU_ALLOC_CONF",
        "$AUTO_USE_UC_MEMORY",
    ),
    codes={
        "training-env.bad-value": ERROR,
        "training-env.pasted-punctuation": WARNING,
        "training-env.read-otherwise": WARNING,
        "training-env.no-effect": INFO,
        "training-env.overridden": INFO,
    },
    compares=(Compared("variables", own=("ASCEND_DEVICE_ID", "DEVICE_ID")),),
)
def training_env(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The job's own environment variables have valid values.

    ## What it does

    Judges the variables that tune a training job: TASK_QUEUE_ENABLE, COMBINED_ENABLE, ASCEND_LAUNCH_BLOCKING,
    PTCOPY_ENABLE, DYNAMIC_OP, SCALAR_TO_HOST_MEM, BMMV2_ENABLE and PYTORCH_NPU_ALLOC_CONF where torch-npu is
    installed; AUTO_USE_UC_MEMORY, ASCEND_COREDUMP_SIGNAL and ASCEND_TRACE_RECORD_NUM everywhere. Those for
    logs, devices and communication have checks of their own.

    - `training-env.bad-value`: a number that is not valid. An error if torch_npu ends the job because of it,
      otherwise information: another value is used instead.
    - `training-env.pasted-punctuation`: full-width digits or quotes, quotes that the shell did not remove, a
      semicolon after the value. Information if the reader still gets the number.
    - `training-env.read-otherwise`: a word where a number is read. torch_npu reads `on` as 0. Information if
      the value begins with the number that is read: `2 # fast`.
    - `training-env.no-effect`: the installed torch_npu no longer reads the variable.
    - `training-env.overridden`: TASK_QUEUE_ENABLE has no effect with ASCEND_LAUNCH_BLOCKING=1.

    A table defines which values are valid; each row names its source. If no source says which values are
    valid, only punctuation is judged.

    ## Why it matters

    The programs that read these variables do not report invalid values: `“1”` from a document is read as 0,
    and the job runs, slower or differently than measured. Old scripts set variables that have had no effect
    for years, and people tune them.

    ## Fix safety

    The lines are `export` or `unset` for the shell that starts the job; nothing is written.

    ## References

    - Ascend/pytorch, OptionsManager.cpp: how torch_npu reads its variables.
    - Ascend/ModelZoo-PyTorch: the scripts that set them.
    - CANN, "Environment variables".
    """
    variables = host.variables
    rows = [row for row in tables.table("variables")["variable"] if row["name"] in variables]
    if not rows:
        raise Skip(_("none of the variables of this check is set"))
    yield Facts({"variables": {row["name"]: variables[row["name"]] for row in rows}})
    read = False
    for row in rows:
        version = host.interpreter.version_of(row["package"]) if "package" in row else ""
        if version is not None:
            read = True
            # The first thing to say of a variable whose reader is there.
            finding: Optional[Finding]
            value = variables[row["name"]]
            if "until" in row and strtol(version) >= int(row["until"]):
                finding = _finding(row, NO_EFFECT, value, version=version)
            else:
                beside = row.get("overridden_by", "")
                if strtol(variables.get(beside, "")) != 0:
                    quiet = strtol(value) == 0
                    finding = (
                        None
                        if quiet
                        else _finding(row, OVERRIDDEN, value, other=f"{beside}={variables[beside]}")
                    )
                else:
                    finding = _find_pasted(row, value)
                    if finding is None and "read" in row:
                        finding = _number(row, value)
                    elif finding is None and value and not _valid(row, value):
                        taken = row.get("otherwise", _("the default"))
                        finding = _finding(row, OUT_OF_RANGE, value, valid=_describe_valid(row), taken=taken)
            if finding is not None:
                yield finding
    if not read:
        names = ", ".join(row["name"] for row in rows)
        raise Skip(_("no installed package reads {names}", names=names))


def _find_pasted(row: Row, value: str) -> Optional[Finding]:
    """Punctuation around a value that is valid without it."""
    meant = clean_up(value)
    read = "read" in row
    if not meant or meant == (value.strip(" \t") if read else value) or not _valid(row, meant):
        return None
    if read and strtol(value) == strtol(meant):
        return _finding(row, PASTED_AND_READ, value, meant)
    return _finding(row, PASTED, value, meant)


def _number(row: Row, value: str) -> Optional[Finding]:
    """A value that is read as a number, whatever it is."""
    number, words = strtol(value), value.strip().lower()
    if not words:
        differs = row.get("default", "0") != "0"
        return _finding(row, EMPTY, value, default=row["default"]) if differs else None
    if str(number) not in row["values"] and "says" in row:
        return _finding(row, REFUSED, value, says=row["says"])
    if not _digits(words):
        if words[0] in "0123456789" and str(number) in row["values"]:
            return _finding(row, READ_AS_MEANT, value, str(number), taken=number)
        meant = {"on": "1", "true": "1", "yes": "1", "enable": "1"}.get(words, "")
        return None if words in NO else _finding(row, READ_AS, value, meant, taken=number)
    if str(number) in row["values"]:
        return None
    return _finding(row, OUT_OF_RANGE, value, valid=_describe_valid(row), taken="1")


def _valid(row: Row, value: str) -> bool:
    """Whether a value is valid, or nothing is known of what is."""
    if "least" in row:
        return _digits(value) and row["least"] <= strtol(value) <= row["most"]
    return value in row.get("values", (value,))


def _describe_valid(row: Row) -> str:
    if "least" in row:
        return f"{row['least']}-{row['most']}"
    return ", ".join(row["values"])


def _digits(value: str) -> bool:
    digits = value[1:] if value[:1] in ("-", "+") else value
    return digits.isascii() and digits.isdecimal()


def _finding(row: Row, kind: Kind, value: str, meant: str = "", **words: object) -> Finding:
    """The finding on one variable; `meant` is the value that its fix sets, else it is unset."""
    name = row["name"]
    sentences = {
        "no-effect": _("{name} is set, and has no effect in torch_npu {version}"),
        "overridden": _("{name} is {value}, which has no effect because of {other}"),
        "pasted": _("{name} is {value}, with characters pasted from a document; it should be {meant}"),
        "pasted-and-read": _(
            "{name} is {value}, with characters pasted from a document after the number {meant}"
        ),
        "read-as": _("{name} is {value}, which torch_npu reads as the number {taken}"),
        "empty": _(
            "{name} is set and empty, which torch_npu reads as the number 0; when unset it is {default}"
        ),
        "refused": _("{name} is {value}, and torch_npu ends the job: {says}"),
        "out-of-range": _("{name} is {value}, which is not one of {valid}; {taken} is used instead"),
    }
    text = sentences[kind.sentence].format(name=name, value=value, meant=meant, **words)
    return Finding(
        kind.code,
        text,
        severity=kind.severity,
        evidence=(
            f"{name}={value}",
            _("built-in table of {as_of}: {source}", as_of=row["as_of"], source=row["source"]),
        ),
        action=Action.CONFIG,
        fix=None if kind is OVERRIDDEN else _fix(name, value, meant),
    )


def _fix(name: str, value: str, meant: str) -> Optional[Fix]:
    undo = Export(name, value).lines()
    if meant:
        title, step = _("set {name} to {value}", name=name, value=meant), Export(name, meant)
        return Fix(title, steps=(step,), undo=undo, risk=Risk.MANUAL, needs_root=False)
    title = _("unset {name}", name=name)
    return Fix(title, steps=(Command(("unset", name)),), undo=undo, risk=Risk.MANUAL, needs_root=False)
