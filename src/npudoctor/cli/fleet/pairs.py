"""`npudoctor fleet pairs`: test whether each node reaches each other node on the ports of the job."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Optional

from npudoctor.cli.caller import Caller
from npudoctor.cli.config import UsageError
from npudoctor.cli.fleet import asking as a
from npudoctor.core.messages import _
from npudoctor.fleet.request import Request

if TYPE_CHECKING:
    from npudoctor.cli.arguments import fleet_options as f
    from npudoctor.cli.arguments import options as o

_MOST = 1024  # ports: each one is tried for every ordered pair of nodes


def pairs(
    caller: Caller,
    ports: Annotated[
        o.Text,
        o.value(
            "--ports",
            "PORTS",
            _("The ports, as 60000-60015,29500; default: those in the job's variables, else 60000-60015."),
        ),
    ] = None,
    interface: Annotated[
        o.Text, o.value("--interface", "NAME", _("Reach each node by its address on this interface."))
    ] = None,
    on: f.On = None,
    source: f.From = None,
    engine: f.Engine = None,
    login: f.Login = None,
    connect_timeout: f.Connect = None,
    node_timeout: f.NodeTimeout = None,
    program: f.Program = None,
    format: o.Format = None,
    lang: o.Lang = None,
    config: o.ConfigFile = None,
) -> int:
    """Try the connections between all nodes."""
    from npudoctor.cli.arguments.settings import load_settings
    from npudoctor.cli.terminal.reports import deliver
    from npudoctor.fleet.meeting import PairsGathering
    from npudoctor.fleet.pairs import judge_reachability
    from npudoctor.render.fleet.pairs import pairs_object, pairs_text

    settings = load_settings({"format": format, "lang": lang, "config": config}, caller)
    target = a.parse_target({**caller.parameters, "fanout": None, "tree": None}, caller)
    target_ports = _parse_ports(ports, caller)
    gathering = PairsGathering(_build_request(target, target_ports, interface, node_timeout), target_ports)
    started = time.time()
    target.gather(gathering)
    reach = judge_reachability(gathering.connections)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started))
    seconds = max(0.0, time.time() - started)
    deliver(
        settings["format"],
        lambda: pairs_object(reach, target_ports, stamp, seconds, target.engine),
        lambda: pairs_text(reach, target_ports),
    )
    return reach.exit_code


def _parse_ports(text: Optional[str], caller: Caller) -> tuple[int, ...]:
    from npudoctor.core.ports import parse_spans
    from npudoctor.facts.job.ports import BASE, RANGE

    job_ports = caller.variables.get(RANGE, "").replace(" ", "")
    base = caller.variables.get(BASE, "")
    if text is None and not job_ports and base.isdecimal():
        job_ports = f"{base}-{int(base[:9]) + 15}"
    option = "--ports" if text is not None else RANGE if caller.variables.get(RANGE) else BASE
    try:
        spans = parse_spans(text if text is not None else job_ports or "60000-60015")
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error
    ports = sorted({port for first, last in spans for port in range(first, last + 1)})
    if not ports:
        raise UsageError(_("{option}: no port is given", option=option))
    if len(ports) > _MOST:
        raise UsageError(_("{option}: more than {count} ports", option=option, count=_MOST))
    return tuple(ports)


def _build_request(
    target: a.FleetTarget, ports: tuple[int, ...], interface: Optional[str], limit: Optional[str]
) -> Request:
    """The request for all nodes at once, with time enough for a node all of whose packets are dropped."""
    from npudoctor.fleet.pairs import port_text
    from npudoctor.fleet.part import AT_ONCE, CONNECT_SECONDS

    # AT_ONCE connections at a time, each of which may take CONNECT_SECONDS, in up to three attempts.
    rounds = len(target.nodes) * len(ports) // AT_ONCE + 1
    seconds = target.template.seconds + (0 if limit else 3 * rounds * CONNECT_SECONDS)
    words = ["fleet", "part", "--ports", port_text(ports), "--seconds", str(seconds)]
    if interface is not None:
        words += ["--interface", interface]
    return target.request(words, seconds=seconds, fanout=len(target.nodes))
