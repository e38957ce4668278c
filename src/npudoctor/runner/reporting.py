"""What a report says of the machine itself, and its one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor.core.messages import _, ngettext
from npudoctor.core.model import HostFacts, PythonFacts, Result, Severity, Target, Verdict
from npudoctor.host import CannotTell, Host
from npudoctor.host.devices.accelerators import Accelerators
from npudoctor.runner.verdict import UNANSWERED


def describe_host(host: Host) -> HostFacts:
    """The machine, as a report names it; what cannot be read is left null."""
    system = host.system
    return HostFacts(
        name=system.name,
        boot_id=system.boot_id(),
        machine=system.machine,
        system=system.kernel,
        release=system.release,
        distribution=system.distribution(),
        container=system.container(),
        user=host.identity.user,
    )


def describe_target(host: Host) -> Target:
    """What the machine trains on: what the user expects, else what was found."""
    kind, devices = _kind(host)
    return Target(
        kind=kind,
        model=", ".join(devices.models) or None if devices else None,
        devices=len(devices.nodes) if devices else 0,
        python=_python(host),
        python_from=host.interpreter.chosen_by,
        root=host.options.root,
    )


def minimal_host(host: Host) -> HostFacts:
    """The machine where describing it did not end: only what the kernel says without reading files."""
    system = host.system
    return HostFacts(
        system.name, None, system.machine, system.kernel, system.release, None, False, host.identity.user
    )


def minimal_target(host: Host) -> Target:
    """The target where describing it did not end: only what the user said."""
    path = host.options.python
    python = PythonFacts(path, None) if path is not None else None
    return Target("unknown", None, 0, python, "option" if python else None, host.options.root)


def _kind(host: Host) -> tuple[str, Optional[Accelerators]]:
    if host.options.root is not None:
        return (host.options.expect if host.options.expect != "auto" else "unknown"), None
    try:
        accelerators = {"npu": host.npus, "gpu": host.gpus}
    except CannotTell:
        return "unknown", None
    if host.options.expect in accelerators:
        return host.options.expect, accelerators[host.options.expect]
    if host.options.expect == "none":
        return "none", None
    for kind, devices in accelerators.items():
        if devices.usable:
            return kind, devices
    return "unknown", None


def _python(host: Host) -> Optional[PythonFacts]:
    interpreter = host.interpreter
    try:
        return PythonFacts(interpreter.path, interpreter.layout().version)
    except CannotTell:
        return PythonFacts(interpreter.path, None) if host.options.root is None else None


def one_line(verdict: Verdict, rows: Sequence[Result], fail_on: Severity) -> str:
    """The verdict and what decided it, in one line."""
    if verdict is Verdict.READY:
        return _("ready")
    if verdict is Verdict.NOT_READY:
        codes = _codes(rows, fail_on)
        head = ngettext("not ready: {count} problem", "not ready: {count} problems", len(codes))
        return head.format(count=len(codes)) + " (" + ", ".join(dict.fromkeys(codes)) + ")"
    open_rows = [row.check for row in rows if row.needed and row.status in UNANSWERED]
    if not open_rows:
        return _("undetermined: none of the selected checks applies to this machine")
    return _("undetermined: no result from {checks}").format(checks=", ".join(open_rows))


def _codes(rows: Sequence[Result], fail_on: Severity) -> list[str]:
    return [
        finding.code
        for row in rows
        for finding in row.findings
        if finding.counts and finding.weight >= fail_on
    ]
