"""What a dead MindSpore dataset cache server left behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npudoctor import ERROR, WARNING, Finding, Host, Scope, Unknown, _, check
from npudoctor.checks.leftovers._limits import limited, of_owner
from npudoctor.facts.leftovers.cache_traces import any_trace


@check(
    "cache-server",
    scope=Scope.NODE,
    tags={"mindspore", "ipc"},
    codes={
        "cache-server.orphan-segment": ERROR,
        "cache-server.orphan-socket": WARNING,
        "cache-server.orphan-spill": WARNING,
        "cache-server.client-attached": ERROR,
        "cache-server.unproven": WARNING,
    },
)
def cache_server(host: Host) -> Iterator[Finding]:
    """No dead MindSpore dataset cache server left memory, sockets or spilled data behind.

    ## What it does

    Looks for the sockets of cache servers at all places that any version has used, asks each socket
    whether somebody listens, and compares them, the logs and the processes with the System V segments.
    A server that lives is never spoken of. `--user` limits what is said to one owner; with `--job` the
    check is skipped, as nothing of a dead server names a Slurm job.

    ## Why it matters

    A server that was killed (kill -9, out of memory) leaves its segment, 4 GiB unless told otherwise,
    its socket file and its spilled data. The memory is gone until a reboot; a start on the same port
    may be refused; the spilled data is never removed by a later server.

    ## Fix safety

    SAFE for what is proven dead. A segment is proven by its socket (its key is the socket's, same user,
    made in the same seconds, its creator dead, nobody attached, nobody listens at two looks 2 s apart)
    or by the log that its creator wrote. Spilled data is proven by the log of a server proven dead, and
    by nobody having it open. Size, age and the looks of a key prove nothing: what is not proven is shown
    and never removed. Removed are the very objects that were looked at (shmid, device and inode), each
    looked at once more right before; segment first, then socket, then spilled data. Logs are kept.

    ## References

    MindSpore documentation, "Single-Node Data Cache"; MindSpore FAQ on the cache server's leftovers.
    """
    if not any_trace(host):
        return
    wanted = limited(host)
    # Loaded only where there is something to judge: most machines never saw a cache server.
    from npudoctor.checks.leftovers import _cache_server_findings as say
    from npudoctor.proof import leftovers
    from npudoctor.proof.snapshot import take_snapshot

    scene = take_snapshot(host)
    seen = of_owner(leftovers.judge_leftovers(scene), wanted)
    yield from say.proven(host, seen)
    yield from say.unproven(host, seen)
    if scene.unseen:
        text = _("{path} could not be looked into: {why}")
        raise Unknown("; ".join(some([text.format(path=path, why=why) for path, why in scene.unseen])))
    if scene.hidden:
        text = _("only root can look into {folders}, where other users' servers may be")
        raise Unknown(text.format(folders=", ".join(some(scene.hidden))), advisory=not host.identity.is_root)


SHOWN = 20


def some(texts: Sequence[str]) -> list[str]:
    """The first few: anybody may make thousands of folders."""
    return [*texts[:SHOWN], *(["..."] if texts[SHOWN:] else [])]
