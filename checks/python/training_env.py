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

VariableRow = Mapping[str, Any]
# Words that mean 0 and that strtol() reads as 0, so the result is what was intended.
NO = ("false", "off", "no", "none", "disable", "disabled")


@dataclass(frozen=True)
class FindingCase:
    """A code with its severity in one case, and the key of the sentence for it."""

    code: str
    severity: Severity
    sentence: str


NO_EFFECT = FindingCase("training-env.no-effect", INFO, "no-effect")
OVERRIDDEN = FindingCase("training-env.overridden", INFO, "overridden")
PASTED = FindingCase("training-env.pasted-punctuation", WARNING, "pasted")
PASTED_AND_READ = FindingCase("training-env.pasted-punctuation", INFO, "pasted-and-read")
READ_AS = FindingCase("training-env.read-otherwise", WARNING, "read-as")
READ_AS_MEANT = FindingCase("training-env.read-otherwise", INFO, "read-as")
EMPTY = FindingCase("training-env.read-otherwise", INFO, "empty")
REFUSED = FindingCase("training-env.bad-value", ERROR, "refused")
OUT_OF_RANGE = FindingCase("training-env.bad-value", INFO, "out-of-range")


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
    rows = [row for row in tables.load_table("variables")["variable"] if row["name"] in variables]
    if not rows:
        raise Skip(_("none of the variables of this check is set"))
    yield Facts({"variables": {row["name"]: variables[row["name"]] for row in rows}})
    is_read = False
    for row in rows:
        version = host.interpreter.version_of(row["package"]) if "package" in row else ""
        if version is not None:
            is_read = True
            # Only the first finding about each variable whose reader is installed.
            finding: Optional[Finding]
            value = variables[row["name"]]
            # strtol() of 2.7.1 is 2: `until` is the first major release that no longer reads the variable.
            if "until" in row and strtol(version) >= int(row["until"]):
                finding = _finding(row, NO_EFFECT, value, version=version)
            else:
                overriding = row.get("overridden_by", "")
                # ASCEND_LAUNCH_BLOCKING=1 makes TASK_QUEUE_ENABLE ineffective (Ascend/pytorch,
                # OptionsManager.cpp).
                if strtol(variables.get(overriding, "")) != 0:
                    is_off = strtol(value) == 0
                    finding = (
                        None
                        if is_off
                        else _finding(row, OVERRIDDEN, value, other=f"{overriding}={variables[overriding]}")
                    )
                else:
                    finding = _find_pasted(row, value)
                    if finding is None and "read" in row:
                        finding = _judge_number(row, value)
                    elif finding is None and value and not _is_valid(row, value):
                        replacement = row.get("otherwise", _("the default"))
                        finding = _finding(
                            row, OUT_OF_RANGE, value, valid=_describe_valid(row), taken=replacement
                        )
            if finding is not None:
                yield finding
    if not is_read:
        names = ", ".join(row["name"] for row in rows)
        raise Skip(_("no installed package reads {names}", names=names))


def _find_pasted(row: VariableRow, value: str) -> Optional[Finding]:
    """Return a finding if the value is valid without pasted punctuation; else None."""
    cleaned = clean_up(value)
    is_read_as_number = "read" in row
    if (
        not cleaned
        or cleaned == (value.strip(" \t") if is_read_as_number else value)
        or not _is_valid(row, cleaned)
    ):
        return None
    if is_read_as_number and strtol(value) == strtol(cleaned):
        return _finding(row, PASTED_AND_READ, value, cleaned)
    return _finding(row, PASTED, value, cleaned)


def _judge_number(row: VariableRow, value: str) -> Optional[Finding]:
    """Judge a value that its reader parses as a number, whatever it is."""
    # torch_npu reads these variables by strtol() (OptionsManager.cpp): text after the number is ignored, and
    # a word is 0.
    number, words = strtol(value), value.strip().lower()
    if not words:
        differs = row.get("default", "0") != "0"
        return _finding(row, EMPTY, value, default=row["default"]) if differs else None
    if str(number) not in row["values"] and "says" in row:
        return _finding(row, REFUSED, value, says=row["says"])
    if not _is_integer(words):
        if words[0] in "0123456789" and str(number) in row["values"]:
            return _finding(row, READ_AS_MEANT, value, str(number), taken=number)
        number_text = {"on": "1", "true": "1", "yes": "1", "enable": "1"}.get(words, "")
        return None if words in NO else _finding(row, READ_AS, value, number_text, taken=number)
    if str(number) in row["values"]:
        return None
    return _finding(row, OUT_OF_RANGE, value, valid=_describe_valid(row), taken="1")


def _is_valid(row: VariableRow, value: str) -> bool:
    """Whether the value is valid; True if no source says which values are valid."""
    if "least" in row:
        return _is_integer(value) and row["least"] <= strtol(value) <= row["most"]
    return value in row.get("values", (value,))


def _describe_valid(row: VariableRow) -> str:
    if "least" in row:
        return f"{row['least']}-{row['most']}"
    return ", ".join(row["values"])


def _is_integer(value: str) -> bool:
    digits = value[1:] if value[:1] in ("-", "+") else value
    return digits.isascii() and digits.isdecimal()


def _finding(
    row: VariableRow, case: FindingCase, value: str, correct_value: str = "", **words: object
) -> Finding:
    """Return the finding about one variable. `correct_value`: what its fix sets; "" unsets the variable."""
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
    text = sentences[case.sentence].format(name=name, value=value, meant=correct_value, **words)
    return Finding(
        case.code,
        text,
        severity=case.severity,
        evidence=(
            f"{name}={value}",
            _("built-in table of {as_of}: {source}", as_of=row["as_of"], source=row["source"]),
        ),
        action=Action.CONFIG,
        fix=None if case is OVERRIDDEN else _fix(name, value, correct_value),
    )


def _fix(name: str, value: str, correct_value: str) -> Optional[Fix]:
    undo = Export(name, value).lines()
    if correct_value:
        title, step = _("set {name} to {value}", name=name, value=correct_value), Export(name, correct_value)
        return Fix(title, steps=(step,), undo=undo, risk=Risk.MANUAL, needs_root=False)
    title = _("unset {name}", name=name)
    return Fix(title, steps=(Command(("unset", name)),), undo=undo, risk=Risk.MANUAL, needs_root=False)
