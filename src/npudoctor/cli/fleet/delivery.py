"""Collects the reports of many nodes one by one, and writes the merged result."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Optional

from npudoctor.cli.arguments.fleet_commands import FORMATS, STATES
from npudoctor.cli.arguments.paths import infer_format, resolve_output
from npudoctor.cli.arguments.settings import load_settings
from npudoctor.cli.caller import Caller
from npudoctor.cli.config import UsageError, not_one_of
from npudoctor.cli.terminal import output
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.fleet import nodes as node_sets
from npudoctor.fleet.merge import Fleet, Merger
from npudoctor.fleet.reading import Item, ReceivedReport
from npudoctor.host.fs.files import Files, LocalDisk


@dataclass(frozen=True)
class OutputRequest:
    """The format and place of the output. `nodes`: the states whose node set is printed, None for the whole
    report; `target`: a file, None for standard output."""

    format: str
    nodes: Optional[tuple[str, ...]]
    target: Optional[str]

    @property
    def is_streamed(self) -> bool:
        """Whether each report is printed as soon as it arrives."""
        return self.format == "jsonl" and self.nodes is None and self.target is None


def parse_output_request(
    format: Optional[str],
    nodes: Optional[str],
    target: Optional[str],
    lang: Optional[str],
    config: Optional[str],
    caller: Caller,
) -> OutputRequest:
    """The output that the options ask for; raises UsageError when they are invalid."""
    states = None if nodes is None else tuple(nodes.split(","))
    formats = () if format is None else (format,)
    for option, values, choices in (("--format", formats, FORMATS), ("--nodes", states or (), STATES)):
        for value in values:
            if value not in choices:
                raise UsageError(f"{option}: {not_one_of(value, choices)}")
    chosen = infer_format(format, target, FORMATS)
    own = chosen if chosen in ("text", "json") else None
    settings = load_settings({"format": own, "lang": lang, "config": config}, caller)
    with closing(LocalDisk()) as disk:
        return OutputRequest(chosen or settings["format"], states, resolve_output(target, Files(disk)))


class Delivery:
    """A context that collects reports in a spool file. `expected`: the nodes that must report."""

    def __init__(self, request: OutputRequest, expected: Sequence[str] = (), engine: str = "report") -> None:
        self._request, self._started, self._engine = request, time.time(), engine
        self._merger = Merger(expected, details=request.format == "junit")
        self._spool = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  (until the context ends)

    def __enter__(self) -> Delivery:
        return self

    def __exit__(self, *_error: object) -> None:
        self._spool.close()

    def take(self, item: Item) -> None:
        """Add the report of a node, or the reason why there is none."""
        if isinstance(item, ReceivedReport):
            is_newest = self._merger.add(item)
        else:
            self._merger.add_all((item,))
            is_newest = True
        if is_newest and self._request.nodes is None and self._request.format in ("json", "jsonl"):
            name, document = _reduce_item(item)
            if self._request.is_streamed:
                output.emit(json.dumps(document) + "\n")
            else:
                self._spool.write(json.dumps([name, document]) + "\n")

    def deliver(self) -> int:
        """Write the result; returns the exit code for the verdict on all nodes."""
        fleet = self._merger.fleet()
        if not self._request.is_streamed:
            content = self._render_content(fleet)
            if self._request.target is None:
                output.emit(content, "utf-8")
            else:
                output.save(self._request.target, content)
        return fleet.exit_code

    def _render_content(self, fleet: Fleet) -> str:
        request = self._request
        if request.nodes is not None:
            states = {state.replace("-", "_") for state in request.nodes}
            return _node_set_text(fleet, [node.name for node in fleet.nodes if node.state in states])
        if request.format == "jsonl":
            return "".join(json.dumps(document) + "\n" for document in self._newest_documents())
        if request.format == "json":
            from npudoctor.render.fleet.document import fleet_object
            from npudoctor.render.json_text import json_text

            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._started))
            answers = (document for document in self._newest_documents() if "unreachable" not in document)
            reports = (  # with the name by which the node was asked; it may call itself differently
                {**document["report"], "node": document["node"]} if "report" in document else document
                for document in answers
            )
            seconds = max(0.0, time.time() - self._started)
            return json_text(fleet_object(fleet, stamp, seconds, reports, self._engine))
        return _render_fleet(fleet, request)

    def _newest_documents(self) -> Iterator[dict[str, Any]]:
        """Yield the newest document of each node, in the order of arrival."""
        newest: dict[Optional[str], int] = {}
        for number, (name, _document) in enumerate(self._read_spool()):
            newest[name] = number
        for number, (name, document) in enumerate(self._read_spool()):
            if newest[name] == number:
                yield document

    def _read_spool(self) -> Iterator[tuple[Optional[str], dict[str, Any]]]:
        self._spool.seek(0)
        for line in self._spool:
            name, document = json.loads(line)
            yield name, document


def _node_set_text(fleet: Fleet, names: Sequence[str]) -> str:
    """The node set with a line feed, "" when empty; names that cannot be in a set go to standard error."""
    for failure in fleet.failures:
        if failure.node is None:  # the node is unknown, so that the set may be incomplete
            output.complain(f"{failure.source}: {failure.error}")
    for unsafe_name in (name for name in names if not node_sets.is_safe_name(name)):
        output.complain(_("{text!r} is not a node name", text=unsafe_name))
    folded = node_sets.fold_nodes(filter(node_sets.is_safe_name, names))
    return f"{folded}\n" if folded else ""


def _reduce_item(item: Item) -> tuple[Optional[str], dict[str, Any]]:
    """The node's name, and the part of the result for it: the redacted report, or why there is none."""
    from npudoctor.core.redact.redact import redact_value
    from npudoctor.render.json_text import json_text

    if not isinstance(item, ReceivedReport):
        return item.node, {"node": item.node, "error": item.error, "unreachable": item.unreachable}
    name = item.node or item.report["host"]["name"]
    try:
        report = redact_value(item.report)
        # As deep as in the merged document, and a little more: a report that fails here would break all of
        # it.
        json_text([[[[[[report]]]]]])
    except (ValueError, RecursionError):
        return name, {"node": name, "error": _("the report is nested too deeply or is not JSON")}
    return name, {"node": name, "report": report}


def _render_fleet(fleet: Fleet, request: OutputRequest) -> str:
    if request.format == "html":
        from npudoctor.render.fleet.html import fleet_html

        return fleet_html(fleet, time.strftime("%Y-%m-%d %H:%M:%S %z"))
    if request.format == "text":
        from npudoctor.cli.terminal.reports import style_for
        from npudoctor.render.fleet.text import fleet_text

        return fleet_text(fleet, style_for(request.target))
    from npudoctor.render import exports

    subjects = exports.export_nodes(fleet)
    if request.format == "junit":
        return exports.junit_text(subjects)
    if request.format == "csv":
        return exports.csv_text(subjects)
    return exports.prometheus_text(subjects, time.time())
