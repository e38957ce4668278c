"""Runs the programs of a fix, each with what must still hold right before; rules of nftables among them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from npudoctor.fixing.outcome import Gone, Observer, Refused, changing
from npudoctor.fixing.steps import Command, DeleteRule, FileMark, InsertRule
from npudoctor.host import Host
from npudoctor.host.commands import Answer
from npudoctor.messages import _

COMMAND_SECONDS = 600.0
LIMIT = 64 << 20  # of a listed chain


def run_command(step: Command, host: Host, at: Observer) -> None:
    """Run it, unless it is so already or what it reads is not what was looked at."""
    for mark in step.inputs:
        _same(mark, host)
    if step.unless and host.commands.run(step.unless).ok:
        raise Gone(_("it is so already"))
    answer = _run(step.argv, host, at)
    said = [line for line in answer.stdout.splitlines() if line.strip()]
    if step.skipped and said and all(line.startswith(step.skipped) for line in said):
        raise Gone(_("it is so already"))


def insert_rule(step: InsertRule, host: Host, at: Observer) -> None:
    """Put our rule in front of the chain, once."""
    if _handles(step, host):
        raise Gone(_("the rule is there already"))
    _run(step.argv, host, at)


def delete_rule(step: DeleteRule, host: Host, at: Observer) -> None:
    """Take out the rule that carries our comment, by its handle."""
    handles = _handles(step, host)
    if not handles:
        raise Gone
    if len(handles) > 1:
        raise Refused(_("several rules carry the comment {comment}").format(comment=step.comment))
    _run(("nft", "delete", "rule", *step.place, "handle", str(handles[0])), host, at)


def _handles(step: InsertRule | DeleteRule, host: Host) -> list[int]:
    """The rules of the chain that carry our comment; Refused when the chain cannot be listed."""
    answer = host.commands.run(("nft", "-j", "-a", "list", "chain", *step.place), limit=LIMIT)
    if not answer.ok:
        raise Refused(_last_words(answer))
    try:
        rules = [item["rule"] for item in json.loads(answer.stdout)["nftables"] if "rule" in item]
        return [int(rule["handle"]) for rule in rules if rule.get("comment") == step.comment]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Refused(_("what nft prints cannot be read")) from None


def _same(mark: FileMark, host: Host) -> None:
    now = host.files.stat(mark.name)
    seen = (mark.device, mark.inode, mark.size, mark.mtime_ns)
    if now is None or seen != (now.dev, now.ino, now.size, now.mtime_ns):
        raise Refused(_("{path} was changed since").format(path=mark.name))


def _run(argv: Sequence[str], host: Host, at: Observer) -> Answer:
    with changing(at, f"run {argv[0]}"):
        answer = host.commands.run(argv, timeout=COMMAND_SECONDS)
    if not answer.ok:
        raise OSError(None, _last_words(answer))
    return answer


def _last_words(answer: Answer) -> str:
    """Why it failed, in its own words where it has any."""
    said = [line for line in (answer.stderr.strip() or answer.stdout.strip()).splitlines() if line.strip()]
    if said:
        return said[0 if answer.argv[0] == "nft" else -1]
    if answer.ended == "missing":
        return _("{tool} is not installed").format(tool=answer.argv[0])
    if answer.ended == "untrusted":
        text = _("root does not run {tool}: others could have written it")
        return text.format(tool=answer.argv[0])
    if answer.ended == "timeout":
        return _("{tool} did not end in time").format(tool=answer.argv[0])
    return answer.ended if answer.status is None else f"{answer.argv[0]}: {answer.status}"
