"""What trial-rendezvous says of names: this machine's own, and those that take long to look up."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor import ERROR, WARNING, Action, Finding, Fix, Host, Risk, Severity, _
from npudoctor.checks.trial._folders import is_installed
from npudoctor.checks.trial._rendezvous_fixes import (
    find_unusable,
    name_interface,
    obstacle,
    write_hosts_line,
)
from npudoctor.checks.trial._rendezvous_ways import few
from npudoctor.trial.trials import Attempt, Trial


def own_name(host: Host, attempt: Attempt, several: bool, masters: bool) -> Iterator[Finding]:
    """What the name that `hostname` prints means. `masters`: it is the master's too, and could not be looked
    up, which is then said of the master."""
    name = str(attempt.facts.get("name", ""))
    named = [str(address) for address in attempt.facts.get("addresses", ())]
    own = [str(address) for address in attempt.facts.get("ours", ())]
    severity, fix = _severity(host, several), None
    if attempt.refused and attempt.number != errno.ETIMEDOUT:
        text = _("this machine's own name, {name}, has no address: {why}", name=name, why=attempt.reason)
        fix = write_hosts_line(host, name)
    elif named and not own:
        text = _(
            "this machine's own name, {name}, resolves to {addresses}, which is not an address of this "
            "machine",
            name=name,
            addresses=", ".join(named[:4]),
        )
        fix = _way_to(host, name, named, attempt)
    elif _only_inner(own) and several and not host.variables.get("GLOO_SOCKET_IFNAME"):
        text = _(
            "this machine's own name, {name}, resolves to {addresses}, which other nodes cannot reach",
            name=name,
            addresses=", ".join(own[:4]),
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
        echo_of=("trial-rendezvous.cannot-connect",) if masters else (),
    )


def _way_to(host: Host, name: str, named: Sequence[str], attempt: Attempt) -> Optional[Fix]:
    """What makes the addresses of our name ours, or spares Gloo the name."""
    unusable = find_unusable(host, named)
    if unusable:
        fix: Optional[Fix] = unusable.fix
    elif _only_inner(named):
        _evidence, fix = obstacle(host, named, attempt)
    else:
        fix = name_interface(host) or write_hosts_line(host, name)
    return fix


def _severity(host: Host, several: bool) -> Severity:
    """How bad it is that our name means nothing. Gloo takes 127.0.0.1 instead, which is well on one node;
    torchrun tells its ranks the name where it finds their meeting point by itself."""
    variables = host.variables
    by_name = variables.get("PET_STANDALONE", "").lower() in ("1", "true", "yes") or variables.get(
        "PET_RDZV_BACKEND"
    ) in ("c10d", "etcd-v2", "etcd")
    if by_name and host.interpreter.version_of("torch"):
        return ERROR
    return ERROR if several and not variables.get("GLOO_SOCKET_IFNAME") else WARNING


def _gloo_decides(host: Host) -> bool:
    """Whether the ranks will meet by Gloo alone, on the address that our name means."""
    named = host.variables.get("GLOO_SOCKET_IFNAME")
    return not named and is_installed(host, "torch") and not (host.npus.nodes or host.gpus.nodes)


def _only_inner(addresses: Sequence[str]) -> bool:
    """Whether all of them are loopback addresses."""
    return bool(addresses) and all(text.startswith("127.") or text == "::1" for text in addresses)


def own_unreachable(host: Host, trial: Trial, attempt: Attempt, several: bool) -> Finding:
    """The name means us, and nothing gets there."""
    name = str(trial.facts().get("name", ""))
    text = _(
        "nothing on this machine can connect to its own name, {name}: {why}", name=name, why=attempt.reason
    )
    if attempt.facts.get("connections"):
        text = few(attempt, name)
    evidence, fix = obstacle(host, [str(one) for one in trial.facts().get("ours", ())], attempt)
    if not several and any(one.what == "connect-loopback" and not one.refused for one in trial.attempts):
        fix = name_interface(host, several)
    severity = ERROR if _gloo_decides(host) else _severity(host, several)
    return Finding(
        "trial-rendezvous.cannot-connect",
        text,
        severity=severity,
        evidence=evidence,
        action=Action.CONFIG,
        fix=fix,
    )


def slow(host: Host, trial: Trial, seconds: float) -> Iterator[Finding]:
    """The names that took longer: each rank asks for them, and more than once."""
    told = {
        str(attempt.facts.get("name") or attempt.facts.get("place", "")): attempt
        for attempt in trial.attempts
        if float(attempt.facts.get("took", 0)) > seconds
    }
    for name, attempt in told.items():
        took = float(attempt.facts["took"])
        if attempt.number == errno.ETIMEDOUT:
            text = _("no name server answered within {seconds:.1f} s for {name}", name=name, seconds=took)
        else:
            text = _("the resolver takes {seconds:.1f} s to look up {name}", name=name, seconds=took)
        addresses = attempt.facts.get("addresses") or ()
        ours = attempt.what == "own-name"
        servers = (host.running_files.text("/etc/resolv.conf") or "").splitlines()
        yield Finding(
            "trial-rendezvous.slow",
            text,
            evidence=tuple(line for line in servers if line.startswith(("nameserver", "options")))[:4],
            action=Action.CONFIG,
            fix=write_hosts_line(host, name, addresses[0] if addresses else "")
            if addresses or ours
            else Fix(_("use an address instead of the name, or name servers that answer"), risk=Risk.MANUAL),
        )
