"""`npudoctor fleet report`: merge the reports of many nodes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Optional

from npudoctor.cli.config import UsageError
from npudoctor.core.messages import _

if TYPE_CHECKING:
    from npudoctor.cli.arguments import fleet_options as f
    from npudoctor.cli.arguments import options as o
    from npudoctor.cli.caller import Caller


def report(
    caller: Caller,
    files: Annotated[
        o.Texts, o.argument("FILES|-...", _("Reports as files, folders or a stream (-)."))
    ] = None,
    nodes: f.Nodes = None,
    expected: Annotated[
        o.Text,
        o.value("-w", "NODES", _("Nodes whose reports are expected; default: those in SLURM_JOB_NODELIST.")),
    ] = None,
    format: f.Format = None,
    output: o.Output = None,
    lang: o.Lang = None,
    config: o.ConfigFile = None,
) -> int:
    """Merge the reports of many nodes."""
    from npudoctor.cli.fleet.delivery import Delivery, parse_output_request
    from npudoctor.fleet import reading
    from npudoctor.fleet.nodes import InvalidNodes, expand_nodes, require_library

    request = parse_output_request(format, nodes, output, lang, config, caller)
    if not files:
        raise UsageError(_("no report is given; use - to read standard input"))
    for path in files:
        if path != "-" and not os.path.exists(path):
            raise UsageError(_("{option}: {path} does not exist", option="FILES", path=path))
    expected_set: Optional[str] = (
        caller.variables.get("SLURM_JOB_NODELIST", "") if expected is None else expected
    )
    try:
        require_library()
        with Delivery(request, expand_nodes(expected_set) if expected_set else ()) as delivery:
            for item in reading.read_reports(files, sys.stdin.buffer):
                delivery.take(item)
            return delivery.deliver()
    except InvalidNodes as error:
        raise UsageError(str(error)) from error
