"""What is said of a program that did not do what it was started for."""

from __future__ import annotations

from npudoctor.core.messages import _
from npudoctor.fixing.outcome import CommandFailed, Refused
from npudoctor.host.process.commands import Answer

_UNSTARTED = ("missing", "untrusted", "not-started")
LINES = 3  # of what it said last


def raise_failure(answer: Answer) -> None:
    """Refused where nothing was started, Broken where it was and failed; both with what it said."""
    raise (Refused if answer.ended in _UNSTARTED else CommandFailed)(failure_text(answer))


def failure_text(answer: Answer) -> str:
    """Why a program did not do it."""
    name = answer.argv[0]
    if answer.ended == "missing":
        return _("{name} is not installed").format(name=name)
    if answer.ended == "untrusted":
        text = _("{name} is not run as root: users other than root can write to it or to a folder above it")
        if answer.stderr:
            text = _("{name} is not run as root: {why}")
        return text.format(name=name, why=answer.stderr)
    if answer.ended == "not-started":
        return _("{name} could not be started: {why}").format(name=name, why=answer.stderr)
    output = _tail(answer.stderr) or _tail(answer.stdout)
    text = _("{name} {how}: {said}") if output else _("{name} {how} and printed nothing")
    return text.format(name=name, how=_how(answer), said=output)


def _how(answer: Answer) -> str:
    if answer.ended == "timeout":
        return _("did not end within {seconds:.0f} s").format(seconds=answer.seconds)
    if answer.ended != "exited" or answer.status is None:
        return _("wrote too much and was stopped")
    if answer.status < 0:
        return _("was ended by signal {number}").format(number=-answer.status)
    return _("exited with status {status}").format(status=answer.status)


def _tail(text: str) -> str:
    """The last lines that are not empty, in one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-LINES:])
