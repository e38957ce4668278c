"""What trial-rendezvous says of names: this machine's own, and those that take long to look up."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor import ERROR, WARNING, Action, Finding, Fix, Host, Risk, Severity, _
from npudoctor.checks.trial._folders import is_installed
from npudoctor.checks.trial._rendezvous_fixes import (
    find_obstacle,
    find_unusable,
    name_interface,
    write_hosts_line,
)
from npudoctor.checks.trial._rendezvous_ways import describe_few_connections
from npudoctor.trial.trials import Attempt, Trial


def judge_own_name(
    host: Host, attempt: Attempt, has_several_nodes: bool, is_masters_name: bool
) -> Iterator[Finding]:
    """Judge what the name that `hostname` prints resolves to. `is_masters_name`: the master's variable holds
    the same name and it did not resolve, which another finding reports already."""
    name = str(attempt.facts.get("name", ""))
    addresses = [str(address) for address in attempt.facts.get("addresses", ())]
    own_addresses = [str(address) for address in attempt.facts.get("ours", ())]
    severity, fix = _severity(host, has_several_nodes), None
    # report_slow_names reports a timeout.
    if attempt.refused and attempt.number != errno.ETIMEDOUT:
        text = _("this machine's own name, {name}, has no address: {why}", name=name, why=attempt.reason)
        fix = write_hosts_line(host, name)
    elif addresses and not own_addresses:
        text = _(
            "this machine's own name, {name}, resolves to {addresses}, which is not an address of this "
            "machine",
            name=name,
            addresses=", ".join(addresses[:4]),
        )
        fix = _own_name_fix(host, name, addresses, attempt)
    elif (
        _is_loopback_only(own_addresses)
        and has_several_nodes
        and not host.variables.get("GLOO_SOCKET_IFNAME")
    ):
        text = _(
            "this machine's own name, {name}, resolves to {addresses}, which other nodes cannot reach",
            name=name,
            addresses=", ".join(own_addresses[:4]),
        )
        severity, fix = WARNING, name_interface(host)
    else:
        return
    yield Finding(
        "trial-rendezvous.own-name",
        text,
        severity=severity,
        evidence=(f"`hostname`: {name}",),
        action=Action.CONFIG,
        fix=fix,
        echo_of=("trial-rendezvous.cannot-connect",) if is_masters_name else (),
    )


def _own_name_fix(host: Host, name: str, addresses: Sequence[str], attempt: Attempt) -> Optional[Fix]:
    """Return the fix that makes the addresses usable, or that lets Gloo work without the name."""
    unusable = find_unusable(host, addresses)
    if unusable:
        fix: Optional[Fix] = unusable.fix
    # The rank would send its loopback address to the other nodes, as with Debian's line `127.0.1.1 HOST` in
    # /etc/hosts.
    elif _is_loopback_only(addresses):
        _evidence, fix = find_obstacle(host, addresses, attempt)
    else:
        fix = name_interface(host) or write_hosts_line(host, name)
    return fix


def _severity(host: Host, has_several_nodes: bool) -> Severity:
    """Return the severity of a host name without an address: Gloo falls back to 127.0.0.1, which is fine on
    one node. An error if torchrun finds the rendezvous by itself, because it then passes the name to its
    ranks."""
    variables = host.variables
    # The environment's forms of torchrun's --standalone and --rdzv-backend.
    is_name_shared = variables.get("PET_STANDALONE", "").lower() in ("1", "true", "yes") or variables.get(
        "PET_RDZV_BACKEND"
    ) in ("c10d", "etcd-v2", "etcd")
    if is_name_shared and host.interpreter.version_of("torch"):
        return ERROR
    return ERROR if has_several_nodes and not variables.get("GLOO_SOCKET_IFNAME") else WARNING


def _is_gloo_deciding(host: Host) -> bool:
    """Whether the ranks connect by Gloo alone, at the address of the host's name: torch without any
    accelerator."""
    interface_names = host.variables.get("GLOO_SOCKET_IFNAME")
    return not interface_names and is_installed(host, "torch") and not (host.npus.nodes or host.gpus.nodes)


def _is_loopback_only(addresses: Sequence[str]) -> bool:
    """Whether all of them are loopback addresses."""
    return bool(addresses) and all(text.startswith("127.") or text == "::1" for text in addresses)


def report_own_unreachable(host: Host, trial: Trial, attempt: Attempt, has_several_nodes: bool) -> Finding:
    """Report that the own name resolves to this machine, but nothing can connect to it."""
    name = str(trial.facts().get("name", ""))
    text = _(
        "nothing on this machine can connect to its own name, {name}: {why}", name=name, why=attempt.reason
    )
    if attempt.facts.get("connections"):
        text = describe_few_connections(attempt, name)
    evidence, fix = find_obstacle(host, [str(entry) for entry in trial.facts().get("ours", ())], attempt)
    # Within one node Gloo can use lo, to which connections work.
    if not has_several_nodes and any(
        entry.what == "connect-loopback" and not entry.refused for entry in trial.attempts
    ):
        fix = name_interface(host, has_several_nodes)
    severity = ERROR if _is_gloo_deciding(host) else _severity(host, has_several_nodes)
    return Finding(
        "trial-rendezvous.cannot-connect",
        text,
        severity=severity,
        evidence=evidence,
        action=Action.CONFIG,
        fix=fix,
    )


def report_slow_names(host: Host, trial: Trial, seconds: float) -> Iterator[Finding]:
    """Report names that took longer than `seconds` to resolve: each rank resolves them several times."""
    slow_attempts = {
        str(attempt.facts.get("name") or attempt.facts.get("place", "")): attempt
        for attempt in trial.attempts
        if float(attempt.facts.get("took", 0)) > seconds
    }
    for name, attempt in slow_attempts.items():
        took = float(attempt.facts["took"])
        if attempt.number == errno.ETIMEDOUT:
            text = _("no name server answered within {seconds:.1f} s for {name}", name=name, seconds=took)
        else:
            text = _("the resolver takes {seconds:.1f} s to look up {name}", name=name, seconds=took)
        addresses = attempt.facts.get("addresses") or ()
        is_own = attempt.what == "own-name"
        servers = (host.running_files.text("/etc/resolv.conf") or "").splitlines()
        yield Finding(
            "trial-rendezvous.slow",
            text,
            evidence=tuple(line for line in servers if line.startswith(("nameserver", "options")))[:4],
            action=Action.CONFIG,
            fix=write_hosts_line(host, name, addresses[0] if addresses else "")
            if addresses or is_own
            else Fix(_("use an address instead of the name, or name servers that answer"), risk=Risk.MANUAL),
        )
