"""Are NCCL's environment variables what NCCL reads, and is nothing left on by accident?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Union

from npudoctor import ERROR, INFO, WARNING, Facts, Finding, Host, Scope, Skip, _, check

Row = Mapping[str, Any]

SOCKETS = ("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD")
MOST_SOCKETS = 64
PREFIXES = ("NCCL_", "TORCH_NCCL_")


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
)
def nccl_env(host: Host) -> Iterator[Union[Finding, Facts]]:
    """NCCL's variables are valid, with no debugging left on.

    ## What it does

    Judges the variables NCCL_* and torch's TORCH_NCCL_* that are set, by a table whose rows each name their
    source. It applies where a GPU is here or `--expect gpu` is given. NCCL_SOCKET_IFNAME is judged by
    `socket-interfaces`.

    - `nccl-env.bad-value`: a value that is none of the documented ones. An error where torch ends the job
      with it, a warning for NCCL_ALGO and NCCL_PROTO, with which newer releases of NCCL do not start, else
      information: NCCL takes the default.
    - `nccl-env.pasted-punctuation`: full-width digits, quotes that no shell took off, a semicolon, blanks.
    - `nccl-env.read-otherwise`: a word where a number is read. `NCCL_IB_DISABLE=true` is 0, and disables
      nothing.
    - `nccl-env.left-on`: a way of transport is switched off: NCCL_P2P_DISABLE, NCCL_SHM_DISABLE,
      NCCL_IB_DISABLE. They are good for finding a fault, and slow when they stay.
    - `nccl-env.debug`: NCCL_DEBUG=INFO or TRACE, NCCL_CHECK_POINTERS.
    - `nccl-env.outdated`: a name that is not read any more, or that torch calls otherwise now.
    - `nccl-env.misspelt`: a name that nobody reads, close to one that NCCL does.

    ## Why it matters

    NCCL does not complain of what it cannot read: the job runs, slower or over another network than meant.
    NVIDIA's guide says of the variables for debugging that they should not be kept in scripts.

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
    named = sorted(name for name in variables if name.startswith(PREFIXES))
    if not named:
        raise Skip(_("none of the variables of this check is set"))
    from npudoctor.facts.job.expected_accelerator import gpu_expected

    if not gpu_expected(host):
        raise Skip(_("this machine has no GPU, and none is expected"))
    from npudoctor.checks.gpu import _nccl_env_findings as say
    from npudoctor.knowledge.tables import table

    known = table("nccl_variables")
    rows = {row["name"]: row for row in known["variable"] if variables.get(row["name"])}
    yield Facts({"variables": {name: variables[name] for name in rows}})
    for name, row in rows.items():
        yield from _judge(host, row, variables[name])
    yield from _sockets(variables, rows)
    others = [row["name"] for row in known["variable"]] + known["others"]
    yield from say.misspelt([name for name in named if name not in others], others, variables)


def _judge(host: Host, row: Row, value: str) -> Iterator[Finding]:
    """What there is to say of one variable whose reader is there."""
    from npudoctor.checks.gpu import _nccl_env_findings as say
    from npudoctor.facts.job.input_cleanup import cleaned_up
    from npudoctor.knowledge.nccl import is_on, is_word, what_is_wrong

    version = host.interpreter.version_of(row["package"]) if "package" in row else ""
    if version is None:
        return
    why = what_is_wrong(row, value)
    meant = cleaned_up(value)
    if why and meant and meant != value and what_is_wrong(row, meant) is None:
        yield say.pasted(row, value, meant)
    elif why and is_word(row, value) and not row.get("refused"):
        yield say.read_otherwise(row, value)
    elif why:
        yield say.bad_value(row, value, why)
    elif row["kind"] == "flag" and "leaves" in row and is_on(value):
        yield say.left_on(row, value)
    elif value.upper() in row.get("debug", ()):
        yield say.debug(row, value)
    if "instead" in row and _since(version, row.get("since", "")):
        yield say.outdated(row, value, host.variables)


def _sockets(variables: Mapping[str, str], rows: Mapping[str, Row]) -> Iterator[Finding]:
    """Two numbers whose product NCCL limits."""
    from npudoctor.checks.gpu import _nccl_env_findings as say
    from npudoctor.knowledge.nccl import number, what_is_wrong

    if all(name in rows and not what_is_wrong(rows[name], variables[name]) for name in SOCKETS):
        threads, each = (number(variables[name])[0] for name in SOCKETS)
        if threads * each > MOST_SOCKETS:
            text = _("{threads} times {each} sockets is more than {most}")
            why = text.format(threads=threads, each=each, most=MOST_SOCKETS)
            yield say.bad_value(rows[SOCKETS[1]], variables[SOCKETS[1]], why)


def _since(version: str, since: str) -> bool:
    """Whether the reader is of that release or a newer one."""
    if not since:
        return True
    from npudoctor.knowledge.versions import public

    mine, first = public(version), public(since)
    return mine is not None and first is not None and mine >= first
