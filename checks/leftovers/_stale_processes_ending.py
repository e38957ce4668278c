"""Which of the processes that were left behind npudoctor itself may end, and in which groups."""

from __future__ import annotations

from collections.abc import Mapping

from npudoctor import Host, SignalProcess, _
from npudoctor.proof.ending import Endings
from npudoctor.proof.stale import StaleJudge


def sorted_out(
    host: Host, stale: Mapping[int, str], judge: StaleJudge
) -> tuple[list[SignalProcess], dict[int, str]]:
    """The steps, one for each job or container and each user; and those that are only shown, with why."""
    endings = Endings(host, judge)
    kept = {pid: why for pid in stale if (why := endings.why_not(pid))}
    groups: dict[tuple[str, int], set[int]] = {}
    for pid, over in stale.items():
        owner = host.processes.owner(pid)
        if pid not in kept and owner is not None:
            groups.setdefault((over, owner), set()).add(pid)
    for pids in groups.values():
        _without_parents_of_others(endings, pids, kept)
    return [_step(endings, owner, pids) for (_over, owner), pids in sorted(groups.items()) if pids], kept


def _without_parents_of_others(endings: Endings, pids: set[int], kept: dict[int, str]) -> None:
    """Take out whose child would be left: then its own parent has one that would be left, too."""
    for pid in endings.children_first(pids):
        child = endings.unproven_child(pid, pids)
        if child is not None:
            pids.discard(pid)
            text = _("it has a child {child} that does not end with it")
            kept[pid] = text.format(child=child)


def _step(endings: Endings, owner: int, pids: set[int]) -> SignalProcess:
    marks = [endings.mark(pid) for pid in endings.children_first(pids)]
    return SignalProcess(tuple(mark for mark in marks if mark is not None), owner)
