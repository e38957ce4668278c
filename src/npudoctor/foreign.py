"""Checks of third parties: loaded and asked in child processes that can exit, hang or die as they like."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import time
from dataclasses import dataclass
from typing import Any, Callable, Optional

from npudoctor.checking import Check, Skip
from npudoctor.fixing.steps import decode, encode
from npudoctor.host import CannotTell, Host, NotRunning
from npudoctor.messages import _
from npudoctor.model import Action, Facts, Finding, Fix, Risk, Scope, Severity

ANSWER_LIMIT = 4 << 20
DECLARE_SECONDS = 5.0


@dataclass
class Child:
    """A forked child that answers one JSON line over a pipe."""

    pid: int
    pipe: int

    def answer(self, until: float) -> Optional[dict[str, Any]]:
        """Its answer; None when it ended without one. TimeoutError when the steady clock passes `until`.

        Whatever comes first, its whole process group is killed afterwards.
        """
        try:
            return self._receive(until)
        finally:
            self._end()

    def _receive(self, until: float) -> Optional[dict[str, Any]]:
        received = bytearray()
        while not received.endswith(b"\n"):
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.pipe], [], [], left)[0]:
                raise TimeoutError
            part = os.read(self.pipe, 1 << 16)
            if not part or len(received) > ANSWER_LIMIT:
                return None
            received += part
        try:
            told = json.loads(received)
        except ValueError:
            return None
        return told if isinstance(told, dict) else None

    def _end(self) -> None:
        os.close(self.pipe)
        for kill in (os.killpg, os.kill):
            try:
                kill(self.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        for _attempt in range(50):
            try:
                if os.waitpid(self.pid, os.WNOHANG)[0]:
                    return
            except ChildProcessError:
                return
            time.sleep(0.01)  # in state D it is left behind


def in_child(work: Callable[[], dict[str, Any]]) -> Child:
    """Fork a child that does the work and answers; call it before any thread is started."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            _shelter(writing)
            os.write(writing, json.dumps(work()).encode() + b"\n")
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    return Child(pid, reading)


def _shelter(writing: int) -> None:
    """In the child: a session of its own, no terminal to write to, no core file."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.set_inheritable(writing, False)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def load(source: bytes, path: str, name: str) -> Check:
    """Compile and run the source of a drop-in; its one Check. Whatever is wrong with it raises."""
    space: dict[str, Any] = {"__name__": "npudoctor_drop_in_" + name, "__file__": path}
    exec(compile(source, path, "exec"), space)  # trusted by owner and mode: see trust.py
    found = {value.id: value for value in space.values() if isinstance(value, Check)}
    if len(found) != 1:
        raise ValueError(f"a file holds one check, this one holds {len(found)}")
    check = next(iter(found.values()))
    if check.id != name.replace("_", "-"):
        raise ValueError(f"the id {check.id!r} is not the file's name")
    return check


def declaration(source: bytes, path: str, name: str) -> dict[str, Any]:
    """In the child: what the drop-in declares, or why it is broken."""
    try:
        check = load(source, path, name)
    except BaseException as error:  # SystemExit and KeyboardInterrupt of a plug-in are its own
        return {"broken": f"{type(error).__name__}: {error}"}
    return {
        "id": check.id,
        "scope": check.scope.value,
        "codes": {code: int(severity) for code, severity in check.codes.items()},
        "manual": check.manual,
        "tags": list(check.tags),
        "advisory": check.advisory,
        "quick": check.quick,
    }


def declared(told: dict[str, Any], ask: Callable[[Host], Any]) -> Check:
    """The Check that a child declared."""
    return Check(
        id=told["id"],
        scope=Scope(told["scope"]),
        codes={code: Severity(severity) for code, severity in told["codes"].items()},
        ask=ask,
        manual=told["manual"],
        tags=tuple(told["tags"]),
        group="drop-in",
        advisory=told["advisory"],
        quick=told["quick"],
        origin="drop-in",
    )


def asked(source: bytes, path: str, name: str, host: Host) -> dict[str, Any]:
    """In the child: ask the drop-in's check and put its answers into JSON."""
    answers: list[dict[str, Any]] = []
    ending: dict[str, Any] = {"ended": "done"}
    try:
        for answer in load(source, path, name).ask(host):
            answers.append(_encode(answer))
    except Skip as skip:
        ending = {"ended": "skip", "reason": str(skip)}
    except NotRunning:
        ending = {"ended": "not-running"}
    except CannotTell as unknown:
        ending = {"ended": "unknown", "reason": unknown.reason, "advisory": unknown.advisory}
    except BaseException as error:
        ending = {"ended": "crashed", "reason": f"{type(error).__name__}: {error}"}
    return {"answers": answers, **ending}


def answers_of(told: Optional[dict[str, Any]]) -> Any:
    """Replay in the parent what a child answered: yields its findings, raises its ending."""
    if told is None:
        raise RuntimeError(_("its process ended without an answer"))
    for answer in told["answers"]:
        yield _decode(answer)
    ended, reason = told["ended"], told.get("reason", "")
    if ended == "skip":
        raise Skip(reason)
    if ended == "not-running":
        raise NotRunning
    if ended == "unknown":
        raise CannotTell(reason, bool(told["advisory"]))
    if ended != "done":
        raise RuntimeError(reason)


def _encode(answer: object) -> dict[str, Any]:
    if isinstance(answer, Facts):
        return {"facts": dict(answer.values)}
    if not isinstance(answer, Finding):
        raise TypeError(f"a check yields findings, not {type(answer).__name__}")
    fix = answer.fix
    return {
        "code": answer.code,
        "message": answer.message,
        "severity": None if answer.severity is None else int(answer.severity),
        "evidence": list(answer.evidence),
        "device": answer.device,
        "action": answer.action.value,
        "echo_of": list(answer.echo_of),
        "fix": fix
        and {
            "title": fix.title,
            "steps": [encode(step) for step in fix.steps],
            "undo": list(fix.undo),
            "risk": int(fix.risk),
            "needs_root": fix.needs_root,
            "unproven": fix.unproven,
        },
    }


def _decode(told: dict[str, Any]) -> object:
    if "facts" in told:
        return Facts(told["facts"])
    fix = told["fix"]
    return Finding(
        code=told["code"],
        message=told["message"],
        severity=None if told["severity"] is None else Severity(told["severity"]),
        evidence=tuple(told["evidence"]),
        device=told["device"],
        action=Action(told["action"]),
        echo_of=tuple(told["echo_of"]),
        fix=fix
        and Fix(
            title=fix["title"],
            steps=tuple(decode(step) for step in fix["steps"]),
            undo=tuple(fix["undo"]),
            risk=Risk(fix["risk"]),
            needs_root=fix["needs_root"],
            unproven=fix["unproven"],
        ),
    )
