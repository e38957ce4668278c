"""Do MASTER_ADDR and its like name a machine, and the right one?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import ERROR, WARNING, Facts, Finding, Host, Scope, Skip, Unknown, _, check

NAMES = ("MASTER_ADDR", "MS_SCHED_HOST", "CM_CHIEF_IP", "PADDLE_MASTER")


@check(
    "master-address",
    scope=Scope.JOB,
    tags={"rendezvous"},
    needs=tuple(f"${name}" for name in NAMES),
    codes={
        "master-address.bad-value": ERROR,
        "master-address.bad-port": ERROR,
        "master-address.unresolvable": ERROR,
        "master-address.ipv6": ERROR,
        "master-address.loopback": ERROR,
        "master-address.not-ours": ERROR,
        "master-address.no-way": ERROR,
        "master-address.own-name": WARNING,
        "master-address.inner": WARNING,
    },
)
def master_address(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The address at which the ranks meet is that of the master, and can be reached from here.

    ## What it does

    Reads MASTER_ADDR (torchrun, torch.distributed, MindSpeed), MS_SCHED_HOST (msrun), CM_CHIEF_IP
    (TensorFlow) and PADDLE_MASTER, which has its port in it, and looks up what the name means, as the
    job's own getaddrinfo() would; in a child process, since a name server may not answer. No packet is
    sent to the master.

    - `master-address.bad-value`: neither an address nor a name: blanks, quotes, a protocol or a port in it.
      PADDLE_MASTER may begin with `etcd://` or `http://`.
    - `master-address.bad-port`: the port in MASTER_PORT, MS_SCHED_PORT, CM_CHIEF_PORT or PADDLE_MASTER is
      no port.
    - `master-address.unresolvable`: the name means nothing here. Name servers that do not answer make the
      row unknown.
    - `master-address.ipv6`: MS_SCHED_HOST is IPv6 only, which MindSpore's scheduler does not take.
    - `master-address.loopback`: each node of a job of several would meet itself.
    - `master-address.own-name`: a name that only /etc/hosts of this machine turns into a loopback address,
      such as Debian's line `127.0.1.1 host`: what asks for its own address, as Gloo does, tells it to the
      other nodes.
    - `master-address.not-ours`: rank 0 is here and the address is another machine's. In a container only a
      warning: its host may pass the port on.
    - `master-address.no-way`: this machine has no route to it.
    - `master-address.inner`: the address is that of a bridge for containers or virtual machines here, such
      as docker0, and other nodes cannot reach it: what `hostname -I` lists may be that.

    Whether the job has several nodes is said by --peers, WORLD_SIZE with LOCAL_WORLD_SIZE, Slurm, or NNODES.
    Where nothing here could run a job, as on a login node, all of it is information.

    ## Why it matters

    With a wrong address the ranks wait until a timeout ("connect() timed out", "The client socket has timed
    out"), or end with "host not found" or "Name or service not known". One machine uses its own address;
    several use the master's, the same on all of them.

    ## Fix safety

    The line is shown only: all nodes need the same value.

    ## References

    torch.distributed (environment variable initialisation); msrun; Debian Reference, "The hostname
    resolution"; HCCL environment variables CM_CHIEF_IP and CM_CHIEF_PORT; paddle.distributed.launch.
    """
    if not any(host.variables.get(name) for name in NAMES):
        raise Skip(_("no variable says where the ranks meet"))
    from npudoctor.checks.network._master_address import judge

    silent = []
    for name in NAMES:
        value = host.variables.get(name, "")
        if value:
            answer = judge(host, name, value)
            yield from answer.findings
            if answer.addresses:
                yield Facts({name: list(answer.addresses)})
            silent += [value] if answer.silent else []
    if silent:
        text = _("the name servers do not say what {names} means")
        from npudoctor.facts.job.expected_accelerator import meant_for_other_machines

        raise Unknown(text.format(names=", ".join(silent)), advisory=meant_for_other_machines(host))
