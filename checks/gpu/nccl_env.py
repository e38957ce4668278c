"""Are NCCL's environment variables what NCCL reads, and is nothing left on by accident?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from npudoctor.facts.job.expected_accelerator import gpu_expected
from npudoctor.knowledge.tables import load_table
from npudoctor.knowledge.versions import public_version

SOCKETS = ("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD")
# NCCL user guide: NCCL_SOCKET_NTHREADS times NCCL_NSOCKS_PERTHREAD must not exceed 64.
MOST_SOCKETS = 64
# TORCH_NCCL_* are read by torch's ProcessGroupNCCL, not by NCCL.
PREFIXES = ("NCCL_", "TORCH_NCCL_")
VariableRow = Mapping[str, Any]
SHOWN = 200
# Words that were meant as 1; every other word was meant as 0, which NCCL reads too.
ON = ("on", "true", "yes", "y", "enable", "enabled")
ALIKE = 0.9  # of a name that nobody knows to one that is known


@check(
    "nccl-env",
    scope=Scope.JOB,
    tags={"nvidia", "pytorch"},
    needs=("$NCCL_*", "$TORCH_NCCL_*"),
    codes={
        "nccl-env.bad-value": ERROR,
        "nccl-env.pasted-punctuation": WARNING,
        "nccl-env.read-otherwise": WARNING,
        "nccl-env.left-on": INFO,
        "nccl-env.debug": INFO,
        "nccl-env.outdated": INFO,
        "nccl-env.misspelt": INFO,
    },
    compares=(Compared("variables"),),
)
def nccl_env(host: Host) -> Iterator[Union[Finding, Facts]]:
    """NCCL's variables are valid, with no debugging left on.

    ## What it does

    Checks the variables NCCL_* and torch's TORCH_NCCL_* that are set against a table in which each row names
    its source. The check applies if this machine has a GPU or `--expect gpu` is given. NCCL_SOCKET_IFNAME is
    the subject of `socket-interfaces`.

    - `nccl-env.bad-value`: a value that is not documented. An error if torch ends the job because of it, a
      warning for NCCL_ALGO and NCCL_PROTO, because newer releases of NCCL do not start with it, otherwise
      information: NCCL uses the default.
    - `nccl-env.pasted-punctuation`: full-width digits, quotes that the shell did not remove, a semicolon,
      blanks.
    - `nccl-env.read-otherwise`: a word where a number is read. `NCCL_IB_DISABLE=true` is read as 0, and
      disables nothing.
    - `nccl-env.left-on`: a transport is switched off by NCCL_P2P_DISABLE, NCCL_SHM_DISABLE or
      NCCL_IB_DISABLE. These help to find a fault, but make jobs slow if they stay set.
    - `nccl-env.debug`: NCCL_DEBUG=INFO or TRACE, or NCCL_CHECK_POINTERS, is set.
    - `nccl-env.outdated`: a name that is no longer read, or that torch has renamed.
    - `nccl-env.misspelt`: an unknown name that resembles one that NCCL reads.

    ## Why it matters

    NCCL does not report values that it cannot read: the job runs, slower or over the wrong network. NVIDIA's
    guide says that debugging variables should not be kept in scripts.

    ## Fix safety

    The lines are `export` or `unset` for the shell that starts the job; nothing is written. The variables
    must be the same on every node.

    ## References

    - NVIDIA NCCL user guide, environment variables; NVIDIA/nccl, the code that reads them.
    - PyTorch, ProcessGroupNCCL environment variables.
    """
    if host.options.root is not None:
        raise Skip(_("an image is not running"))
    variables = host.variables
    set_names = sorted(name for name in variables if name.startswith(PREFIXES))
    if not set_names:
        raise Skip(_("none of the variables of this check is set"))

    if not gpu_expected(host):
        raise Skip(_("this machine has no GPU, and none is expected"))

    variable_table = load_table("nccl_variables")
    rows = {row["name"]: row for row in variable_table["variable"] if variables.get(row["name"])}
    yield Facts({"variables": {name: variables[name] for name in rows}})
    for name, row in rows.items():
        yield from _judge(host, row, variables[name])
    # NCCL limits the product of these two.
    from npudoctor.knowledge.nccl import parse_number, what_is_wrong

    if all(name in rows and not what_is_wrong(rows[name], variables[name]) for name in SOCKETS):
        threads, each = (parse_number(variables[name])[0] for name in SOCKETS)
        if threads * each > MOST_SOCKETS:
            why = _(
                "{threads} times {each} sockets is more than {most}",
                threads=threads,
                each=each,
                most=MOST_SOCKETS,
            )
            yield _report_bad_value(rows[SOCKETS[1]], variables[SOCKETS[1]], why)
    known_names = [row["name"] for row in variable_table["variable"]] + variable_table["others"]
    yield from _find_misspelt([name for name in set_names if name not in known_names], known_names, variables)


def _judge(host: Host, row: VariableRow, value: str) -> Iterator[Finding]:
    """Yield the findings about one variable, if the package that reads it is installed."""
    from npudoctor.facts.job.input_cleanup import clean_up
    from npudoctor.knowledge.nccl import is_on, is_word, what_is_wrong

    version = host.interpreter.version_of(row["package"]) if "package" in row else ""
    if version is None:
        return
    why = what_is_wrong(row, value)
    cleaned = clean_up(value)
    if why and cleaned and cleaned != value and what_is_wrong(row, cleaned) is None:
        # A value with the punctuation of a document in it.
        text = _(
            "{name} is {value}, with blanks or characters pasted from a document; probably {meant} was meant"
        )
        yield _finding(
            "pasted-punctuation", text, row, value, meant=cleaned, steps=(Export(row["name"], cleaned),)
        )
    # NCCL reads numbers by strtoll(), which makes 0 of a word: NCCL_IB_DISABLE=true disables nothing.
    elif why and is_word(row, value) and not row.get("refused"):
        is_switched_on = value.strip().lower() in ON
        step: Step = Export(row["name"], "1") if is_switched_on else Command(("unset", row["name"]))
        message = _("{name} is {value}, which NCCL reads as the number 0")
        yield _finding(
            "read-otherwise", message, row, value, WARNING if is_switched_on else INFO, steps=(step,)
        )
    elif why:
        yield _report_bad_value(row, value, why)
    elif row["kind"] == "flag" and "leaves" in row and is_on(value):
        # A way of transport that is switched off.
        texts = {
            "p2p": _("{name} is {value}: GPUs do not reach each other's memory directly"),
            "shm": _("{name} is {value}: processes of a node do not use shared memory"),
            "ib": _("{name} is {value}: InfiniBand and RoCE are not used"),
        }
        yield _finding("left-on", texts[row["leaves"]], row, value)
    elif value.upper() in row.get("debug", ()):
        yield _finding("debug", _("{name} is {value}, which is a debugging setting"), row, value)
    if "instead" in row and _is_at_least(version, row.get("since", "")):
        yield _report_outdated(host, row, value)


def _report_outdated(host: Host, row: VariableRow, value: str) -> Finding:
    new = row["instead"]
    if row["kind"] == "old":
        text = _("{name} is no longer read; {new} replaces it") if new else _("{name} is no longer read")
        return _finding("outdated", text, row, value, new=new)
    text = _("{name} was renamed to {new}; the old name is still read, with a warning")
    steps: tuple[Step, ...] = (Command(("unset", row["name"])),)
    steps += () if new in host.variables else (Export(new, value),)
    return _finding("outdated", text, row, value, steps=steps, new=new)


def _is_at_least(version: str, since: str) -> bool:
    """Whether the reader is of that release or a newer one."""
    if not since:
        return True

    installed, first = public_version(version), public_version(since)
    return installed is not None and first is not None and installed >= first


def _report_bad_value(row: VariableRow, value: str, why: str) -> Finding:
    text, severity = _("{name} is {value}: {why}"), INFO
    if row.get("refused"):
        text, severity = _("{name} is {value}: {why}, and torch ends the job"), ERROR
    elif row["kind"] == "list":
        text, severity = _("{name} is {value}: {why}, and newer releases of NCCL do not start"), WARNING
    return _finding("bad-value", text, row, value, severity, why=why)


def _find_misspelt(
    names: Sequence[str], known_names: Sequence[str], variables: Mapping[str, str]
) -> Iterator[Finding]:
    """Report unknown names that resemble one that NCCL reads."""
    for name in names:
        # `difflib` takes some milliseconds to import, and most runs do not come here.
        from difflib import get_close_matches

        close = get_close_matches(name, known_names, 1, ALIKE)
        if close and close[0] not in variables:
            text = _("{name} is not a known variable; NCCL reads {known}")
            steps = (Command(("unset", name)), Export(close[0], variables[name]))
            row = {"name": name}
            yield _finding("misspelt", text, row, variables[name], steps=steps, known=close[0])


def _finding(
    code: str,
    text: str,
    row: VariableRow,
    value: str,
    severity: Optional[Severity] = None,
    steps: Optional[tuple[Step, ...]] = None,
    **words: str,
) -> Finding:
    """Return the finding; its fix unsets the variable unless other `steps` are given."""
    name = row["name"]
    shown = value if len(value) <= SHOWN else value[:SHOWN] + "..."
    sources = (
        (_("built-in table of {as_of}: {source}", as_of=row["as_of"], source=row["source"]),)
        if "source" in row
        else ()
    )
    unset = (Command(("unset", name)),)
    title = _("correct {name}") if steps else _("unset {name}")
    undo = Export(name, value).lines()
    return Finding(
        f"nccl-env.{code}",
        text.format(name=name, value=shown, **words),
        severity=severity,
        evidence=(f"{name}={shown}", *sources),
        action=Action.CONFIG,
        fix=Fix(title.format(name=name), steps or unset, undo, Risk.MANUAL, needs_root=False),
    )
