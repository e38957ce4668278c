"""Whether the firewall lets the other nodes connect to the ports that a job binds here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Union

from npudoctor import ERROR, Facts, Finding, Host, Scope, Skip, Unknown, _, check
from npudoctor.core.ports import Span
from npudoctor.facts.job.nodes import is_here, is_rank_zero
from npudoctor.facts.job.ports import Claim, named_ports

MOST = 1024  # ports that are judged, of the widest range
_PLACES = {"MASTER_PORT": "MASTER_ADDR", "MS_SCHED_PORT": "MS_SCHED_HOST"}


@check(
    "firewall",
    scope=Scope.JOB,
    tags={"ports"},
    needs=("npu", "$HCCL_*", "$MASTER_*", "$MS_SCHED_*"),
    codes={"firewall.blocked": ERROR},
)
def firewall(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The firewall lets the other nodes connect to the ports of the job.

    ## What it does

    Takes the ports that the job will bind here, as `hccl-ports` does, and works out what the rules in the
    kernel do with a new TCP connection to each: all base chains of nftables and of iptables (either kind)
    in their order, with chains, sets, maps, interfaces, marks and connection states, for the first packet,
    its answer and the third. One that is surely dropped or rejected makes the port `blocked`; if all surely
    pass, it is `open`; a rule that cannot be judged and could matter makes it `unknown`. firewalld and ufw
    write their rules into the kernel, so they are judged too.

    With `--peers` a connection from each of these addresses is judged, on the interface by which the peer
    comes. Without, it is judged for every address but ours: a default drop that no rule lifts for anybody
    is `blocked`, one with exceptions is `unknown`.

    - `firewall.blocked` is an error where several nodes take part and other ranks need the port. It is a
      warning for HCCL's ports on a node that may not be the root, or where nothing says how many nodes
      there are, and information on a single node, or where no variable names the port.

    The facts say `open`, `blocked` or `unknown` for each port, the worst of all peers; of a range of more
    than 1024 ports the first 1024 are judged.

    Only root sees the rules, and only of this network namespace: in a container with its own, the rules
    of the host are not judged. Not seen are eBPF programs (Cilium, XDP), ipsets, the state of rate limits,
    and firewalls between the machines.

    ## Why it matters

    A firewall that drops makes the other ranks wait until "connect() timed out" or EI0006; one that rejects
    ends them at once. The guides turn the whole firewall off; one rule is enough.

    ## Fix safety

    `npudoctor fix firewall --peers ADDR,... --risk caution` puts the lines in, in front of what drops, in the
    words of the tool that keeps the rules: firewall-cmd (once for now, once to stay), ufw, nft, iptables and
    ip6tables. Nothing else of the firewall is touched. Who may connect is for the administrator to say:
    without `--peers` the lines let in everybody. A rule that stands there already is not put in twice. Then
    the check is asked again.

    `npudoctor undo` takes out what was put in, and only that: a rule of nftables carries a comment by which
    its handle is found. Rules put in by nft or iptables are gone after a reboot; those of firewalld and ufw
    stay. Where the zone of firewalld is not clear the lines are shown only.

    ## References

    nft(8), libnftables-json(5), iptables-extensions(8), firewall-cmd(1), ufw(8); "Netfilter hooks" in the
    nftables wiki; HCCL environment variables HCCL_IF_BASE_PORT, HCCL_HOST_SOCKET_PORT_RANGE.
    """
    claims = list(_claims(host))
    if not claims:
        raise Skip(_("no variable names a port of this machine, and no NPU is wanted"))
    if not host.identity.is_root:
        raise Unknown(_("only root sees the rules of the firewall"), advisory=True)
    from npudoctor.checks.network._firewall_findings import Answers, blocked

    answers = Answers(host, _ports(claims))
    if not answers.known:
        raise Skip(_("this machine has no address that another node could reach"))
    worst = answers.worst()
    yield Facts({f"tcp/{port}": worst[port] for port in sorted(worst)})
    for claim in claims:
        yield from blocked(host, claim, answers)
    doubt = answers.doubt()
    if doubt:
        raise Unknown(doubt, advisory=not answers.must_know)


def _claims(host: Host) -> Iterator[Claim]:
    """What is surely bound here, as far as names tell."""
    for one in named_ports(host):
        if not isinstance(one, Claim) or not one.spans:
            continue
        if one.unsure:
            here = is_here(host, host.variables.get(_PLACES.get(one.variable, ""), ""))
            if here is False or (here is None and not is_rank_zero(host)):
                continue
        yield one


def _ports(claims: Sequence[Claim]) -> list[Span]:
    """The ports of all claims, cut where there are too many."""
    return list(dict.fromkeys(span for claim in claims for span in first_ports(claim.spans)))


def first_ports(spans: Sequence[Span]) -> Iterator[Span]:
    """As many of them as are judged."""
    left = MOST
    for low, high in spans:
        if left > 0:
            yield low, min(high, low + left - 1)
        left -= high - low + 1
