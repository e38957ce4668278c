"""Runs the programs of a fix, each with what must still hold right before; rules of nftables among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor.core.messages import _
from npudoctor.core.parsing import json_of
from npudoctor.fixing.actions.endings import ActionFailed, ActionRefused, AlreadyGone, CommandFailed
from npudoctor.fixing.outcome import Observer, watch_change
from npudoctor.fixing.steps.steps import Command, DeleteRule, InsertRule, Remount
from npudoctor.host import Host
from npudoctor.host.process.commands import CommandResult

# pip may download and build a package.
COMMAND_SECONDS = 600.0
LIMIT = 64 << 20  # of a listed chain


def run_command(step: Command, host: Host, at: Observer) -> None:
    """Run a program. AlreadyGone where its effect is there already, ActionRefused where its inputs have
    changed.
    """
    for mark in step.inputs:
        now = host.files.stat(mark.name)
        expected = (mark.device, mark.inode, mark.size, mark.mtime_ns)
        if now is None or expected != (now.dev, now.ino, now.size, now.mtime_ns):
            raise ActionRefused(_("{path} has changed since", path=mark.name))
    # Undoing the run later would undo what somebody else has done.
    if step.unless and host.commands.run(step.unless).ok:
        raise AlreadyGone(_("already done"))
    if step.still:
        # Status 1 is that it is so no longer; any other is that it could not look: firewall-cmd ends so while
        # firewalld is stopped, and its permanent rules stay.
        still = host.commands.run(step.still)
        if still.ended != "exited" or still.status not in (0, 1):
            raise ActionRefused(failure_text(still))
        if still.status == 1:
            raise AlreadyGone
    with watch_change(at, f"run {step.argv[0]}"):
        answer = host.commands.run(step.argv, timeout=COMMAND_SECONDS)
    if not answer.ok:
        raise_failure(answer)
    lines = [line for line in answer.stdout.splitlines() if line.strip()]
    if step.skipped and lines and all(line.startswith(step.skipped) for line in lines):
        raise AlreadyGone(_("already done"))


def remount(step: Remount, host: Host, at: Observer) -> None:
    """Give a file system the size, if nobody has given it another one since; and verify that it has it."""
    now = _size_of(step.path, host)
    if now == step.size:
        raise AlreadyGone(_("already done"))
    if now != step.was:
        raise ActionRefused(_("{path} has changed since", path=step.path))
    with watch_change(at, "run mount"):
        answer = host.commands.run(step.argv, timeout=COMMAND_SECONDS)
    if _size_of(step.path, host.fresh_copy()) == now:
        raise ActionFailed(failure_text(answer))  # the kernel does all or nothing
    if not answer.ok:
        raise_failure(answer)


def _size_of(path: str, host: Host) -> Optional[int]:
    space = host.running_files.space(path)
    return None if space is None else space.total


def insert_rule(step: InsertRule, host: Host, at: Observer) -> None:
    """Insert our rule at the front of the chain, unless it is there."""
    if _find_handles(step, host):
        raise AlreadyGone(_("the rule already exists"))
    _run_nft(step.argv, host, at)


def delete_rule(step: DeleteRule, host: Host, at: Observer) -> None:
    """Delete the rule that carries our comment, by its handle."""
    handles = _find_handles(step, host)
    if not handles:
        raise AlreadyGone
    # Only one of them can be ours, and nothing says which.
    if len(handles) > 1:
        raise ActionRefused(_("several rules carry the comment {comment}", comment=step.comment))
    _run_nft(("nft", "delete", "rule", *step.place, "handle", str(handles[0])), host, at)


def _find_handles(step: InsertRule | DeleteRule, host: Host) -> list[int]:
    """The handles of the rules in the chain that carry our comment; ActionRefused when the chain cannot be
    listed.
    """
    answer = host.commands.run(("nft", "-j", "-a", "list", "chain", *step.place), limit=LIMIT)
    if not answer.ok:
        if isinstance(step, DeleteRule) and "No such file or directory" in answer.stderr:
            raise AlreadyGone  # with its chain, as after a reboot
        raise ActionRefused(failure_text(answer))
    try:
        rules = [item["rule"] for item in json_of(answer.stdout)["nftables"] if "rule" in item]
        return [int(rule["handle"]) for rule in rules if rule.get("comment") == step.comment]
    # Another version of nft may answer in another form; then nothing is known of the rules.
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ActionRefused(_("the output of nft cannot be parsed")) from None


def _run_nft(argv: Sequence[str], host: Host, at: Observer) -> None:
    """Run nft, which changes everything or nothing: a failure is no change."""
    with watch_change(at, "run nft"):
        answer = host.commands.run(argv, timeout=COMMAND_SECONDS)
    if not answer.ok:
        raise ActionFailed(failure_text(answer))


# Endings of a program that was never started: nothing was changed.
_UNSTARTED = ("missing", "untrusted", "not-started")
LINES = 3  # of its last output


def raise_failure(answer: CommandResult) -> None:
    """Raise ActionRefused for a program that was not started, CommandFailed for one that failed; both with
    its last output.
    """
    raise (ActionRefused if answer.ended in _UNSTARTED else CommandFailed)(failure_text(answer))


def failure_text(answer: CommandResult) -> str:
    """Why a program failed, with its last lines of output."""
    name = answer.argv[0]
    if answer.ended == "missing":
        return _("{name} is not installed", name=name)
    if answer.ended == "untrusted":
        text = _("{name} is not run as root: users other than root can write to it or to a folder above it")
        if answer.stderr:
            text = _("{name} is not run as root: {why}")
        return text.format(name=name, why=answer.stderr)
    if answer.ended == "not-started":
        return _("{name} could not be started: {why}", name=name, why=answer.stderr)
    output = _last_lines(answer.stderr) or _last_lines(answer.stdout)
    text = _("{name} {how}: {said}") if output else _("{name} {how} and printed nothing")
    return text.format(name=name, how=_ending_text(answer), said=output)


def _ending_text(answer: CommandResult) -> str:
    if answer.ended == "timeout":
        return _("did not end within {seconds:.0f} s", seconds=answer.seconds)
    if answer.ended != "exited" or answer.status is None:  # it flooded us
        return _("wrote too much and was stopped")
    if answer.status < 0:
        return _("was killed by signal {number}", number=-answer.status)
    return _("exited with status {status}", status=answer.status)


def _last_lines(text: str) -> str:
    """The last LINES lines that are not empty, joined by " | "."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-LINES:])
