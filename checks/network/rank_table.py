"""The rank table file of a job: whole, by the rules, and of this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Optional, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
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
    Unknown,
    _,
    check,
)
from npudoctor.core.frozen import replace

if TYPE_CHECKING:
    from npudoctor.facts.rank_table.reading import RankTableFile
    from npudoctor.facts.rank_table.rules import RankTableFault

SHOWN = 20
# A rank that rank-env already reports as invalid cannot be in the table.
_CAUSES = {"rank-id": ("rank-env.bad-value", "rank-env.out-of-range")}


@check(
    "rank-table",
    scope=Scope.JOB,
    tags={"hccl"},
    needs=("$RANK_TABLE_FILE", "$MINDSPORE_HCCL_CONFIG_PATH"),
    codes={
        "rank-table.missing": ERROR,
        "rank-table.unreadable": ERROR,
        "rank-table.not-json": ERROR,
        "rank-table.initializing": ERROR,
        "rank-table.bad-value": ERROR,
        "rank-table.wrong-count": ERROR,
        "rank-table.device-counts": ERROR,
        "rank-table.rank-ids": ERROR,
        "rank-table.repeated": ERROR,
        "rank-table.no-address": ERROR,
        "rank-table.super-pods": ERROR,
        "rank-table.rank-id": ERROR,
        "rank-table.not-this-host": ERROR,
        "rank-table.wrong-address": ERROR,
        "rank-table.no-device": ERROR,
        "rank-table.symbolic-link": WARNING,
        "rank-table.not-named-json": WARNING,
        "rank-table.two-tables": WARNING,
        "rank-table.split-ranks": WARNING,
        "rank-table.shared-device": WARNING,
        "rank-table.shared-port": WARNING,
        "rank-table.backup": WARNING,
        "rank-table.rank-size": WARNING,
        "rank-table.device-id": WARNING,
        "rank-table.host-address": WARNING,
        "rank-table.low-port": INFO,
        "rank-table.server-mode": INFO,
    },
    compares=(
        Compared("digest", "rank table digest"),
        Compared("template", "rank table template"),
        Compared("servers", "rank table servers"),
        Compared("ranks", "rank table ranks"),
    ),
)
def rank_table(host: Host) -> Iterator[Union[Finding, Facts]]:
    """Rank table is complete, valid and matches this machine.

    ## What it does

    Reads the file that RANK_TABLE_FILE names (or MINDSPORE_HCCL_CONFIG_PATH, which MindSpore 1.x prefers).
    While the file says `"status": "initializing"`, is missing or is half written, it is read again for as
    long as `--wait SECONDS` says. The known templates are "1.0" and "1.2" (super pod), the older one of
    groups and pods, and the oldest one of the laboratory. A table of another version is not judged.

    The file:

    - `rank-table.missing`, `rank-table.unreadable`: the file does not exist, or this user cannot read it.
      Where only torch_npu is installed, a missing file is a warning: HCCL then silently negotiates.
    - `rank-table.not-json`: the file is not JSON; the usual reason is a comment, as in the documents'
      examples. Text after the table is a warning.
    - `rank-table.initializing`: a warning; an error if the table is still incomplete after the wait.
    - `rank-table.symbolic-link`: torch_npu refuses a symbolic link. `rank-table.not-named-json`: HCCL's
      public source opens only names that end in `.json`. `rank-table.two-tables`: both variables are set, and
      name two files.

    The table:

    - `rank-table.bad-value`: a key is missing, or its value is not a string, number, address or port where
      one is required; or the file is larger than 32 MiB.
    - `rank-table.wrong-count`, `rank-table.device-counts`: a count in the table differs from what is listed;
      the servers do not all have the same number of devices, or it is not 1, 2, 4, 8 or 16.
    - `rank-table.rank-ids`, `rank-table.split-ranks`: the ranks must be 0 to N-1, each once, and those of one
      server must be consecutive. `rank-table.repeated`: an id or an address is given twice.
    - `rank-table.no-address`: device_ip is missing where it is required: with several servers (with several
      super pods), or when HCCL_INTRA_ROCE_ENABLE or HCCL_INTER_HCCS_DISABLE asks for RoCE.
    - `rank-table.super-pods`, `rank-table.server-mode`: super_pod_list and server_list must name the same
      servers.
    - `rank-table.shared-device`, `rank-table.shared-port`, `rank-table.low-port`, `rank-table.backup`: ports
      must differ, and a backup must be the other die of the same NPU.

    This process and this machine:

    - `rank-table.rank-id`, `rank-table.rank-size`, `rank-table.device-id`: RANK_ID or RANK, RANK_SIZE or
      WORLD_SIZE, and DEVICE_ID must agree with the table.
    - `rank-table.not-this-host`, `rank-table.wrong-address`: device_ip must be `address_N` of /etc/hccn.conf.
      The rank, those addresses, host_ip and server_id identify the server that is this machine.
    - `rank-table.no-device`: /dev/davinciN must exist for each device_id, or for the device_id of the rank in
      the variables.
    - `rank-table.host-address`: host_ip must be an address of this machine; it matters only to a job that
      runs operators again (HCCL_OP_RETRY_ENABLE).

    ## Why it matters

    HCCL refuses a wrong table when the ranks connect, after all of them were started: EI0004, EI0014, EI0017,
    "The ranktable config devId is inconsistent with the local devId", "The IP is used repeatedly"; EJ0004
    when device_ip is not the address of the NPU. A wrong address of another server causes a timeout.

    ## References

    - HCCL user guide, rank table configuration for Atlas training series, A2, A3 and 300I Duo.
    - HCCL's public source, the parsers of the rank table.
    """
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.facts.rank_table import reading as ranktable

    variable = next(
        (name for name in (ranktable.VARIABLE, ranktable.OLDER) if host.variables.get(name)), None
    )
    if variable is None:
        raise Skip(_("{variable} is not set", variable=ranktable.VARIABLE))
    path = ranktable.named_path(host, variable) or ""
    older = ranktable.named_path(host, ranktable.OLDER)
    if older not in (None, path):
        names = {"variable": variable, "path": path, "other": ranktable.OLDER, "second": older}
        yield _finding(
            "two-tables",
            _(
                "{variable} is {path}, but {other} is {second}: MindSpore 1.x reads {other}, others read "
                "{variable}",
                **names,
            ),
        )
    file = ranktable.wait_for_table(host, path)
    yield from _judge_file(host, variable, path, file)
    if not file.fault and not file.initializing:
        yield from _judge_table(host, path, file)


def _judge_file(host: Host, variable: str, path: str, file: RankTableFile) -> Iterator[Finding]:
    fault, place = file.fault, {"variable": variable, "path": path, "why": file.why}
    if fault == "missing":
        # With torch_npu alone a path that does not exist makes HCCL negotiate the ranks, without a message.
        negotiates = bool(host.interpreter.version_of("torch-npu")) and not any(
            host.interpreter.version_of(name) for name in ("mindspore", "mindspore-ascend")
        )
        evidence = (_("torch_npu silently lets HCCL negotiate without it"),) if negotiates else ()
        text = _("{variable} names {path}, which does not exist", **place)
        yield _finding(fault, text, WARNING if negotiates else None, evidence)
    elif fault == "unreadable":
        yield _finding(fault, _("the rank table {path} cannot be opened: {why}", **place))
    elif fault == "too-large":
        yield _finding("bad-value", _("rank table {path}: {what}", path=path, what=file.why))
    elif fault:
        yield _finding(fault, _("the rank table {path} is not JSON: {why}", **place))
    elif file.more:
        yield _finding("not-json", _("{path} contains text after the rank table", **place), WARNING)
    if file.initializing:
        yield _report_initializing(host, path)
    if file.link and host.interpreter.version_of("torch-npu"):
        text = _("the rank table {path} is a symbolic link, which torch_npu refuses")
        real = host.files.real(path)
        line = Export(variable, real) if real else None
        title = _("use the path of the file itself")
        fix = Fix(title, (line,), risk=Risk.MANUAL, needs_root=False) if line else None
        yield replace(_finding("symbolic-link", text.format(**place)), fix=fix)
    # HCCL's public source opens only names that end in .json.
    if not fault and not path.endswith(".json"):
        text = _("the name of the rank table {path} does not end in .json, and HCCL may refuse to open it")
        yield _finding("not-named-json", text.format(**place))


def _report_initializing(host: Host, path: str) -> Finding:
    waited = host.options.wait
    if waited:
        return _finding(
            "initializing",
            _(
                "the rank table {path} still has the status initializing after {seconds:g} s",
                path=path,
                seconds=waited,
            ),
        )
    hint = _("--wait SECONDS rereads the file until it is complete")
    return _finding(
        "initializing",
        _("the rank table {path} has the status initializing: it is still being written", path=path),
        WARNING,
        (hint,),
    )


def _judge_table(host: Host, path: str, file: RankTableFile) -> Iterator[Union[Finding, Facts]]:
    from npudoctor.facts.rank_table.model import SERVERS, VERSIONS, RankTableReader, template_of
    from npudoctor.facts.rank_table.rules import RankTableFault, find_inner_faults
    from npudoctor.facts.rank_table.this_machine import LocalRankTable

    version = file.table.get("version")
    if template_of(file.table) == SERVERS and isinstance(version, str) and version not in ("", *VERSIONS):
        raise Unknown(
            _(
                "the rank table {path} has version {version}, whose rules npudoctor does not know",
                path=path,
                version=version[:20],
            ),
            advisory=True,
        )
    reader = RankTableReader()
    status = reader.text(file.table, "status", "")
    table = reader.table(file.table)
    faults = [RankTableFault("bad-value", text) for text in reader.faults]
    if status not in ("", "completed"):
        faults.append(RankTableFault("bad-value", _("status is {value}, not completed", value=status[:40])))
    this_server = LocalRankTable(host, table)
    yield Facts(
        {
            "path": path,
            "digest": file.digest,
            "template": table.version or table.template,
            "servers": len(table.servers),
            "ranks": len(table.devices),
            "this-server": this_server.server.id if this_server.server else None,
        }
    )
    faults += [*find_inner_faults(table, host.variables), *(this_server.faults() if table.devices else ())]
    yield from _report_faults(path, faults)


def _report_faults(path: str, faults: Iterable[RankTableFault]) -> Iterator[Finding]:
    """Yield one finding for each kind of fault: a wrong script repeats the same fault on every line of a
    table."""
    by_code: dict[str, list[RankTableFault]] = {}
    for fault in faults:
        by_code.setdefault(fault.code, []).append(fault)
    for code, members in by_code.items():
        lines = [fault.text for fault in members[:SHOWN]]
        if len(members) > SHOWN:
            lines.append(f"... (+{len(members) - SHOWN})")
        text = _("rank table {path}: {what}", path=path, what=members[0].text)
        if len(members) > 1:
            text += f" (+{len(members) - 1})"
        worst = max(fault.severity for fault in members)
        finding = _finding(code, text, worst, tuple(lines) if len(members) > 1 else ())
        yield replace(finding, echo_of=_CAUSES.get(code, ()))


def _finding(
    code: str, message: str, severity: Optional[Severity] = None, evidence: tuple[str, ...] = ()
) -> Finding:
    return Finding(f"rank-table.{code}", message, severity=severity, evidence=evidence, action=Action.CONFIG)
