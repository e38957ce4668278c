"""From a report to a plan: which findings are items, and why some of them may not be applied."""

from __future__ import annotations

from typing import Callable, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.core.model import ADVICE, Finding, Fix, Report, Risk, Severity, Step
from npudoctor.fixing.outcome import ActionStatus, Observer, Outcome
from npudoctor.fixing.permission import is_for_a_shell, is_of_variables, why_forbidden
from npudoctor.fixing.shell_variables import env_helps
from npudoctor.fixing.steps.leftovers import RemoveFiles, RemoveUnused, SignalProcess
from npudoctor.host import Host


@dataclass(frozen=True)
class FixRequest:
    """What the user asked for. `select` empty: nothing was selected, so the plan is only shown.

    `codes` are the selected codes; empty when whole checks were selected. `everything`: all checks were,
    none of them by name.
    """

    select: tuple[str, ...] = ()
    codes: frozenset[str] = frozenset()
    dry_run: bool = False
    yes: bool = False
    risk: Risk = Risk.SAFE
    everything: bool = False

    @property
    def by_name(self) -> bool:
        """Whether checks or codes were named."""
        return bool(self.select) and not self.everything

    @property
    def only_shows(self) -> bool:
        """Whether nothing is to be changed."""
        return self.dry_run or not self.select


@dataclass(frozen=True)
class Item:
    """One finding that something could be done about; `refusal` says why nothing may be.

    `takes_back`: it is what an earlier run did, and that is to be undone. `decides`: the exit status is 1
    while it is there; a note does not, unless somebody named it.
    """

    check: str
    finding: Finding
    refusal: Optional[str] = None
    takes_back: bool = False
    decides: bool = True

    @property
    def commands(self) -> tuple[str, ...]:
        """The lines of its fix."""
        return self.finding.fix.commands if self.finding.fix else ()

    @property
    def by_hand(self) -> bool:
        """Whether only a person can do it, in a shell or elsewhere; the rest is refused for other reasons."""
        fix = self.finding.fix
        if fix is None or self.takes_back:
            return not self.takes_back
        return not fix.unproven and (fix.risk is Risk.MANUAL or any(map(is_for_a_shell, fix.steps)))

    @property
    def unproven(self) -> bool:
        """Whether it is only shown to a person, as it is not proven dead."""
        return self.finding.fix is not None and self.finding.fix.unproven

    @property
    def identity(self) -> tuple[object, ...]:
        """What makes it the same item when the check is asked again: what it acts on, not how much of that
        remains.
        """
        steps = self.finding.fix.steps if self.finding.fix else ()
        return (self.finding.code, *(map(target_of, steps) if steps else (self.finding.message,)))

    def same_as(self, other: Item) -> bool:
        """Return whether this is what remains of the other item: of several processes or files some may be
        gone.
        """
        return self.identity == other.identity or not self._parts.isdisjoint(other._parts)

    @property
    def _parts(self) -> frozenset[tuple[object, ...]]:
        steps = self.finding.fix.steps if self.finding.fix else ()
        return frozenset(part for step in steps for part in _parts(step))


def target_of(step: Step) -> object:
    """What a step acts on."""
    # These act on several things, of which some may vanish in between.
    if isinstance(step, (SignalProcess, RemoveUnused)):
        return _parts(step)
    targets = (getattr(step, name, None) for name in ("shmid", "path", "directory"))
    return next((name for name in targets if name is not None), step.lines())


def _parts(step: Step) -> tuple[tuple[object, ...], ...]:
    """The things that a step acts on one by one; () for other steps."""
    if isinstance(step, SignalProcess):
        return tuple((mark.pid, mark.started) for mark in step.processes)
    if isinstance(step, RemoveUnused):
        return tuple((step.directory, mark.name, mark.inode) for mark in step.files)
    if isinstance(step, RemoveFiles):
        return ((step.directory, step.inode),)
    return ()


Confirm = Callable[[Item], Optional[bool]]
"""Asks a person about one item: True, False, or None without a terminal."""


@dataclass(frozen=True)
class FixContext:
    """What a fix works with: `look` asks the selected checks on a fresh host, `host` makes one."""

    look: Callable[[], Report]
    host: Callable[[], Host]
    confirm: Confirm
    at: Observer = lambda name: None


@dataclass(frozen=True)
class ItemResult:
    """An item and how it ended."""

    item: Item
    outcome: Outcome

    @property
    def planned(self) -> bool:
        """Whether it is still to be done."""
        return self.outcome.status is ActionStatus.PLANNED


def items_of(report: Report, host: Host, request: FixRequest) -> list[Item]:
    """The items among the findings that count, in the order in which they are done; advice only where it was
    named.
    """
    return [
        Item(
            row.check,
            finding,
            refusal_of(finding, host, request),
            # A note that nobody asked for must not make the exit status 1.
            decides=finding.weight > Severity.INFO or request.by_name,
        )
        for row in report.results
        if request.by_name or row.group != ADVICE
        for finding in row.findings
        if finding.counts
        and (not request.codes or finding.code in request.codes)
        and (finding.fix or finding.weight > Severity.INFO)
    ]


def refusal_of(finding: Finding, host: Host, request: FixRequest) -> Optional[str]:
    """Why an item cannot be applied at all, whatever the user answers; None when it can."""
    fix = finding.fix
    if fix is None:
        return _("npudoctor has no fix for it")
    if fix.unproven:
        # Without lines the title is not a deed but says when, or who.
        return _("not proven dead: npudoctor never removes it") if fix.steps else fix.title
    if any(map(is_for_a_shell, fix.steps)):  # whatever its risk: the remedy is another than a person's hands
        return _shell_refusal(finding, fix, host)
    if fix.risk is Risk.MANUAL:
        return _("must be done by hand")
    for step in fix.steps:
        forbidden = why_forbidden(step, host)
        if forbidden:
            return forbidden
    if fix.needs_root and not host.identity.is_root:
        return _("only root can do this")
    ends = any(isinstance(step, SignalProcess) for step in fix.steps)
    # Without a pidfd another process could get the pid between the proof and the signal.
    if ends and request.yes and not host.pidfds.is_usable:
        return _("this kernel has no pidfd, so --yes never ends a process")
    # What a process had in memory is lost with it, whatever the author of the check says.
    if (max(fix.risk, Risk.CAUTION) if ends else fix.risk) > request.risk and request.yes:
        return _("its risk is caution: add --risk caution")
    return None


def _shell_refusal(finding: Finding, fix: Fix, host: Host) -> str:
    """Why `fix` cannot do what only the caller's shell can, and what to type there."""
    if all(map(is_of_variables, fix.steps)) and env_helps(finding, host):
        return _(
            "no program can change the shell that called it: in that shell, run {line} or the commands shown",
            line='eval "$(npudoctor env)"',
        )
    return next(why for why in (why_forbidden(step, host) for step in fix.steps) if why)
