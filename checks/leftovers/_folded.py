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


def by_owner(
    host: Host,
    things: Sequence[T],
    owner: Callable[[T], int],
    say: Callable[[T], Finding],
    text: str,
    name: Callable[[T], str],
    size: Callable[[T], int] = lambda thing: 0,
) -> Iterator[Finding]:
    """The findings, our own things first. Where an owner has more than a few: one, `text` with
    {owner}, {count}, {size} and {names}, whose fix has the steps of as many as are removed at once."""
    groups: dict[int, list[T]] = {}
    for thing in things:
        groups.setdefault(owner(thing), []).append(thing)
    for uid in sorted(groups, key=lambda uid: uid != host.identity.euid):
        mine = groups[uid]
        if len(mine) <= FEW:
            yield from map(say, mine)
        else:
            most = AT_ONCE if uid == host.identity.euid else OF_OTHERS
            names = ", ".join(map(name, mine[:NAMED])) + ", ..."
            told = {
                "owner": user_name(uid),
                "count": len(mine),
                "size": format_size(sum(map(size, mine))),
                "names": names,
            }
            message = text.format(**told)
            findings = [say(thing) for thing in mine[:most]]
            first, evidence = findings[0], tuple(map(name, mine[:FEW]))
            if first.fix is None or first.fix.risk is Risk.MANUAL:
                # Thousands of lines are no help to a person.
                fix = first.fix and Fix(first.fix.title, risk=Risk.MANUAL, unproven=first.fix.unproven)
                folded = replace(first, message=message, evidence=(*evidence, *first.evidence[-1:]), fix=fix)
            else:
                steps = tuple(step for finding in findings if finding.fix for step in finding.fix.steps)
                if len(mine) > len(findings):
                    evidence += (
                        _("one run removes {count} of them; run it again for the rest", count=len(findings)),
                    )
                folded = replace(
                    first, message=message, evidence=evidence, fix=replace(first.fix, steps=steps)
                )
            yield folded
