"""Are CANN's log variables valid, and is no debugging left on?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Union

from npudoctor import (
    INFO,
    WARNING,
    Action,
    Compared,
    Facts,
    Finding,
    Host,
    Scope,
    Skip,
    _,
    change_variable,
    check,
)
from npudoctor.core.cann_version import is_at_least
from npudoctor.facts.cann.installations import installs_of
from npudoctor.facts.job.input_cleanup import clean_up
from npudoctor.host import CannotTell
from npudoctor.knowledge import tables

# The old name is deprecated from CANN 9.2.0 on and will go in 13.0.0; the new one wins if both are set.
OLD, NEW = "ASCEND_SLOG_PRINT_TO_STDOUT", "ASCEND_LOG_PRINT_TO_STDOUT"
# DUMP_GE_GRAPH: 1 all, 2 without weights, 3 relations only. DUMP_GRAPH_LEVEL chooses among the graphs and is
# read only together with it (CANN, "Environment variables").
DUMP, DETAIL = "DUMP_GE_GRAPH", "DUMP_GRAPH_LEVEL"
# The others are 2 WARNING, 3 ERROR (the default) and 4 NULL; CANN's documents warn of these two.
LEVELS = {"0": "DEBUG", "1": "INFO"}
# The names of modules in log_types.h of CANN 8.1.RC1; a later CANN may have more.
MODULES = frozenset(
    "SLOG IDEDD HCCL FMK DVPP RUNTIME CCE HDC DRV DEVMM KERNEL LIBMEDIA CCECPU ROS HCCP ROCE "
    "TEFUSION PROFILING DP APP TS TSDUMP AICPU LP TDT FE MD MB ME IMU IMP GE CAMERA ASCENDCL "
    "TEEOS ISP SIS HSM DSS PROCMGR BBOX AIVECTOR TBE FV TUNE HSS FFTS OP UDF HICAID TSYNC AUDIO "
    "TPRT ASCENDCKERNEL ASYS ATRACE RTC SYSMONITOR AML ADETECT".split()
)

VariableRow = Mapping[str, Any]


@check(
    "log-settings",
    scope=Scope.JOB,
    tags={"ascend"},
    needs=("$ASCEND_*", "$DUMP_*"),
    codes={
        "log-settings.verbose": WARNING,
        "log-settings.graph-dump": WARNING,
        "log-settings.bad-value": INFO,
        "log-settings.pasted-punctuation": INFO,
        "log-settings.unknown-module": INFO,
        "log-settings.set-twice": INFO,
        "log-settings.deprecated": INFO,
        "log-settings.no-log-file": INFO,
        "log-settings.no-effect": INFO,
    },
    compares=(Compared("variables"),),
)
def log_settings(host: Host) -> Iterator[Union[Finding, Facts]]:
    """CANN's log variables are valid, without leftover debugging.

    ## What it does

    Judges ASCEND_GLOBAL_LOG_LEVEL, ASCEND_MODULE_LOG_LEVEL, ASCEND_SLOG_PRINT_TO_STDOUT,
    ASCEND_LOG_PRINT_TO_STDOUT, ASCEND_GLOBAL_EVENT_ENABLE, ASCEND_HOST_LOG_FILE_NUM,
    ASCEND_LOG_DEVICE_FLUSH_TIMEOUT, ASCEND_LOG_SYNC_SAVE, DUMP_GE_GRAPH and DUMP_GRAPH_LEVEL.

    - `log-settings.verbose`: a level of 0 (DEBUG) or 1 (INFO), for everything or for a module.
    - `log-settings.graph-dump`: DUMP_GE_GRAPH writes every graph to the disk.
    - `log-settings.bad-value`, `log-settings.pasted-punctuation`: CANN silently uses the default instead. A
      module that npudoctor does not know (`log-settings.unknown-module`) may invalidate the whole list.
    - `log-settings.no-log-file`: logs go to the screen, so there is no log file to read after a failure.
    - `log-settings.set-twice`, `log-settings.deprecated`: ASCEND_LOG_PRINT_TO_STDOUT overrides its
      predecessor, which is deprecated from CANN 9.2.0 on.
    - `log-settings.no-effect`: DUMP_GRAPH_LEVEL is set without DUMP_GE_GRAPH.

    ## Why it matters

    A debug level that was left on slows every step and fills the disk. Old scripts set
    ASCEND_SLOG_PRINT_TO_STDOUT=3, a value that has never had a meaning. To see more while debugging, set
    ASCEND_GLOBAL_LOG_LEVEL=1 for one run. The log level of the device is a separate setting (`msnpureport`,
    on the host).

    ## Fix safety

    The lines are `export` or `unset` for the shell that starts the job; nothing is written.

    ## References

    - CANN, "Environment variables"; hicann/runtime, documents of the log module.
    """
    variables = host.variables
    if not any(name.startswith(("ASCEND_", "DUMP_")) for name in variables):
        raise Skip(_("none of CANN's log variables is set"))  # without reading the table
    rows: list[VariableRow] = [
        row for row in tables.load_table("log_variables")["variable"] if row["name"] in variables
    ]
    if not rows:
        raise Skip(_("none of CANN's log variables is set"))
    yield Facts({"variables": {row["name"]: variables[row["name"]] for row in rows}})
    valid: dict[str, str] = {}
    for row in rows:
        value = variables[row["name"]].strip(" \t")
        # An empty one is the default.
        if value and not _is_valid(row, value):
            yield _report_invalid(row, value)
        elif value:
            valid[row["name"]] = value
            yield from _find_unknown_modules(row, value)
    yield from _find_debugging(valid)
    yield from _judge_screen(host, variables, valid)
    if variables.get(DETAIL) and DUMP not in variables:
        yield _finding(
            "no-effect", _("{name} has no effect without DUMP_GE_GRAPH"), DETAIL, variables[DETAIL], ""
        )


def _report_invalid(row: VariableRow, value: str) -> Finding:
    cleaned = clean_up(value)
    if _is_valid(row, cleaned):
        text = _("{name} is {value}, with punctuation that CANN cannot parse: the default is used")
        return _finding("pasted-punctuation", text, row["name"], value, cleaned)
    if row.get("modules"):
        valid_values = "TBE=3:RUNTIME=3"
    elif "least" in row:
        valid_values = f"{row['least']}-{row['most']}"
    else:
        valid_values = ", ".join(row.get("values", ("1-4",)))
    text = _("{name} is {value}, which is not valid ({known}): the default is used")
    return _finding("bad-value", text, row["name"], value, row["default"], known=valid_values)


def _is_valid(row: VariableRow, value: str) -> bool:
    if row.get("modules"):
        return all(level in row["values"] and name.isidentifier() for name, level in _module_levels(value))
    if "least" in row:
        # [:20] holds every 64-bit number. int() of more than 4300 digits raises ValueError (CPython 3.11, and
        # security releases of older ones).
        return value.isascii() and value.isdecimal() and row["least"] <= int(value[:20]) <= row["most"]
    return value in row["values"] if "values" in row else clean_up(value) == value


def _module_levels(value: str) -> list[tuple[str, str]]:
    """Return the modules and levels of a list such as TBE=0:RUNTIME=1."""
    parts = (part.partition("=") for part in value.split(":"))
    return [(name, level) for name, _equals, level in parts]


def _find_unknown_modules(row: VariableRow, value: str) -> Iterator[Finding]:
    """Yield the findings about the modules of a valid list."""
    if not row.get("modules"):
        return
    unknown = [name for name, _level in _module_levels(value) if name not in MODULES]
    if unknown:
        # One bad name voids the whole list, but a later CANN may know the name: information.
        text = _("{name} contains unknown modules ({unknown}): one bad name invalidates the whole list")
        yield _finding("unknown-module", text, row["name"], value, "", unknown=", ".join(unknown))


def _find_debugging(valid: Mapping[str, str]) -> Iterator[Finding]:
    level = LEVELS.get(valid.get("ASCEND_GLOBAL_LOG_LEVEL", ""))
    if level:
        text = _("{name} is {value} ({level}): this log level slows training down")
        yield _finding(
            "verbose", text, "ASCEND_GLOBAL_LOG_LEVEL", valid["ASCEND_GLOBAL_LOG_LEVEL"], "3", level=level
        )
    modules = valid.get("ASCEND_MODULE_LOG_LEVEL", "")
    if any(number in LEVELS for _name, number in _module_levels(modules)):
        text = _("{name} is {value}: levels 0 and 1 slow training down")
        yield _finding("verbose", text, "ASCEND_MODULE_LOG_LEVEL", modules, "")
    if valid.get(DUMP, "0") != "0":
        text = _("{name} is {value}: every graph is dumped, which is slow and fills the disk")
        yield _finding("graph-dump", text, DUMP, valid[DUMP], "")


def _judge_screen(host: Host, variables: Mapping[str, str], valid: Mapping[str, str]) -> Iterator[Finding]:
    """Judge the two variables that send logs to the screen: which one wins, and that no log file is
    written."""
    if OLD in variables and NEW in variables:
        text = _("{name} is overridden by ASCEND_LOG_PRINT_TO_STDOUT")
        yield _finding("set-twice", text, OLD, variables[OLD], "")
    elif OLD in valid and _is_9_2_or_later(host):
        text = _("{name} is deprecated since CANN 9.2.0; ASCEND_LOG_PRINT_TO_STDOUT replaces it")
        yield _finding("deprecated", text, OLD, valid[OLD], "")
    decides = NEW if NEW in variables else OLD
    if valid.get(decides) == "1":
        text = _("{name} is 1: logs go to the screen, and no log file is written")
        yield _finding("no-log-file", text, decides, "1", "0")


def _is_9_2_or_later(host: Host) -> bool:
    """Whether the CANN in use is 9.2 or later. Called only if the old name is set, because it reads
    folders."""
    try:
        installs = installs_of(host)
    except CannotTell:
        # Without a known CANN the old name is not called deprecated.
        return False
    return bool(installs) and is_at_least(installs[0].version, "9.2") is True


def _finding(code: str, text: str, name: str, value: str, better: str, **words: str) -> Finding:
    """Return the finding; its fix sets `better`, or unsets the variable if that is ""."""
    title = _("set {name} to {value}") if better else _("unset {name}")
    return Finding(
        f"log-settings.{code}",
        text.format(name=name, value=value, **words),
        evidence=(f"{name}={value}",),
        action=Action.CONFIG,
        fix=change_variable(title.format(name=name, value=better), name, better or None, value),
    )
