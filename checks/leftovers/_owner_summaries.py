"""Many findings of one kind as one for each owner: anybody may leave thousands of things."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Callable, TypeVar

from npudoctor import Finding, Fix, Host, Risk, _
from npudoctor.core.frozen import replace
from npudoctor.host.users.identity import user_name
from npudoctor.proof.leftovers import format_size

FEW = 20  # of one kind and owner that are told one by one
NAMED = 3  # that the one finding names
AT_ONCE = 1000  # of our own that one finding removes
OF_OTHERS = 100  # of another owner's: for root, these are lines to read first

T = TypeVar("T")


def summarize_by_owner(
    host: Host,
    things: Sequence[T],
    owner: Callable[[T], int],
    report: Callable[[T], Finding],
    text: str,
    name: Callable[[T], str],
    size: Callable[[T], int] = lambda thing: 0,
) -> Iterator[Finding]:
    """Yield the findings about `things`, this user's own first. An owner with more than FEW gets one finding:
    `text` with {owner}, {count}, {size} and {names}, and the steps of as many as one run removes. `size` is
    in bytes."""
    groups: dict[int, list[T]] = {}
    for thing in things:
        groups.setdefault(owner(thing), []).append(thing)
    for uid in sorted(groups, key=lambda uid: uid != host.identity.euid):
        owned = groups[uid]
        if len(owned) <= FEW:
            yield from map(report, owned)
            continue
        message = text.format(
            owner=user_name(uid),
            count=len(owned),
            size=format_size(sum(map(size, owned))),
            names=", ".join(map(name, owned[:NAMED])) + ", ...",
        )
        most = AT_ONCE if uid == host.identity.euid else OF_OTHERS
        yield _fold(
            [report(thing) for thing in owned[:most]], message, tuple(map(name, owned[:FEW])), len(owned)
        )


def _fold(findings: Sequence[Finding], message: str, evidence: tuple[str, ...], count: int) -> Finding:
    """Combine the findings into one; `count` is how many objects there are in all."""
    first = findings[0]
    # A command that is only shown is for a person to read: nobody reads thousands of them.
    if first.fix is None or first.fix.risk is Risk.MANUAL:
        # Thousands of lines are no help to a person.
        fix = first.fix and Fix(first.fix.title, risk=Risk.MANUAL, unproven=first.fix.unproven)
        return replace(first, message=message, evidence=(*evidence, *first.evidence[-1:]), fix=fix)
    steps = tuple(step for finding in findings if finding.fix for step in finding.fix.steps)
    if count > len(findings):
        evidence += (_("one run removes {count} of them; run it again for the rest", count=len(findings)),)
    return replace(first, message=message, evidence=evidence, fix=replace(first.fix, steps=steps))
