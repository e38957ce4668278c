"""Takes the reports of many nodes one by one, and brings them as one to where they were asked for."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Optional

from npudoctor.cli.arguments.fleet_commands import FORMATS, STATES
from npudoctor.cli.arguments.paths import format_for, writable
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
class Wish:
    """How the result is wanted. `nodes`: only the set of the nodes in these states, None for all of it;
    `target`: a file, None for standard output."""

    format: str
    nodes: Optional[tuple[str, ...]]
    target: Optional[str]

    @property
    def streams(self) -> bool:
        """Whether each report is printed as soon as it is there."""
        return self.format == "jsonl" and self.nodes is None and self.target is None


def wish_of(
    format: Optional[str],
    nodes: Optional[str],
    target: Optional[str],
    lang: Optional[str],
    config: Optional[str],
    caller: Caller,
) -> Wish:
    """What the options ask for; UsageError for what cannot be."""
    states = None if nodes is None else tuple(nodes.split(","))
    formats = () if format is None else (format,)
    for option, values, choices in (("--format", formats, FORMATS), ("--nodes", states or (), STATES)):
        for value in values:
            if value not in choices:
                raise UsageError(f"{option}: {not_one_of(value, choices)}")
    chosen = format_for(format, target, FORMATS)
    own = chosen if chosen in ("text", "json") else None
    settings = load_settings({"format": own, "lang": lang, "config": config}, caller)
    with closing(LocalDisk()) as disk:
        return Wish(chosen or settings["format"], states, writable(target, Files(disk)))


class Delivery:
    """The reports so far; `expected`: the nodes that must be among them. A context, as it has a spool."""

    def __init__(self, wish: Wish, expected: Sequence[str] = (), engine: str = "report") -> None:
        self._wish, self._started, self._engine = wish, time.time(), engine
        self._merger = Merger(expected, details=wish.format == "junit")
        self._spool = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  (until the context ends)

    def __enter__(self) -> Delivery:
        return self

    def __exit__(self, *_error: object) -> None:
        self._spool.close()

    def take(self, item: Item) -> None:
        """Take what one node said, or why it said nothing."""
        if isinstance(item, ReceivedReport):
            counts = self._merger.add(item)
        else:
            self._merger.add_all((item,))
            counts = True
        if counts and self._wish.nodes is None and self._wish.format in ("json", "jsonl"):
            name, document = _reduce_item(item)
            if self._wish.streams:
                output.emit(json.dumps(document) + "\n")
            else:
                self._spool.write(json.dumps([name, document]) + "\n")

    def deliver(self) -> int:
        """Write the result; the exit status is the verdict of all nodes."""
        fleet = self._merger.fleet()
        if not self._wish.streams:
            content = self._content(fleet)
            if self._wish.target is None:
                output.emit(content, "utf-8")
            else:
                output.save(self._wish.target, content)
        return fleet.exit_code

    def _content(self, fleet: Fleet) -> str:
        wish = self._wish
        if wish.nodes is not None:
            states = {state.replace("-", "_") for state in wish.nodes}
            return _node_set(fleet, [node.name for node in fleet.nodes if node.state in states])
        if wish.format == "jsonl":
            return "".join(json.dumps(document) + "\n" for document in self._documents())
        if wish.format == "json":
            from npudoctor.render.fleet.document import fleet_object
            from npudoctor.render.json_text import json_text

            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._started))
            answers = (document for document in self._documents() if "unreachable" not in document)
            reports = (  # with the name by which a node was asked, which may have another for itself
                {**document["report"], "node": document["node"]} if "report" in document else document
                for document in answers
            )
            seconds = max(0.0, time.time() - self._started)
            return json_text(fleet_object(fleet, stamp, seconds, reports, self._engine))
        return _render_fleet(fleet, wish)

    def _documents(self) -> Iterator[dict[str, Any]]:
        """Of each node the newest, in the order in which they came."""
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


def _node_set(fleet: Fleet, names: Sequence[str]) -> str:
    """The set, or nothing; whoever cannot be in it although he should be is named on standard error."""
    for failure in fleet.failures:
        if failure.node is None:  # in no set, and in none that excludes
            output.complain(f"{failure.source}: {failure.error}")
    for odd in (name for name in names if not node_sets.is_safe_name(name)):
        output.complain(_("{text!r} is not a node name", text=odd))
    folded = node_sets.fold_nodes(filter(node_sets.is_safe_name, names))
    return f"{folded}\n" if folded else ""


def _reduce_item(item: Item) -> tuple[Optional[str], dict[str, Any]]:
    """The node, and what the result repeats of its report: all of it, unless JSON cannot hold it."""
    from npudoctor.core.redact.redact import redact_value
    from npudoctor.render.json_text import json_text

    if not isinstance(item, ReceivedReport):
        return item.node, {"node": item.node, "error": item.error, "unreachable": item.unreachable}
    name = item.node or item.report["host"]["name"]
    try:
        report = redact_value(item.report)
        json_text([[[[[[report]]]]]])
    except (ValueError, RecursionError):
        return name, {"node": name, "error": _("the report is nested too deeply or is not JSON")}
    return name, {"node": name, "report": report}


def _render_fleet(fleet: Fleet, wish: Wish) -> str:
    if wish.format == "html":
        from npudoctor.render.fleet.html import fleet_html

        return fleet_html(fleet, time.strftime("%Y-%m-%d %H:%M:%S %z"))
    if wish.format == "text":
        from npudoctor.cli.terminal.reports import style_for
        from npudoctor.render.fleet.text import fleet_text

        return fleet_text(fleet, style_for(wish.target))
    from npudoctor.render import exports

    subjects = exports.subjects(fleet)
    if wish.format == "junit":
        return exports.junit(subjects)
    if wish.format == "csv":
        return exports.csv_text(subjects)
    return exports.prometheus(subjects, time.time())
