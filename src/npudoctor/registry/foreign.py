"""Checks of third parties: loaded and asked in child processes that can exit, hang or die as they like."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Callable, Optional

from npudoctor.checking.check import (
    Check,
    CheckFailure,
    CheckOutput,
    Skip,
    declaration_error,
    parse_compared,
    title_of,
)
from npudoctor.checking.needs import why_not_applicable
from npudoctor.core.messages import _
from npudoctor.core.model import Action, Facts, Finding, Fix, Risk, Scope, Severity, Status
from npudoctor.fixing.steps.steps import Command, KnownStep, decode, encode
from npudoctor.host import CannotTell, Host, NotRunning
from npudoctor.host.fs.files import LocalDisk
from npudoctor.registry.child import ANSWER_LIMIT


def load(source: bytes, path: str, name: str) -> Check:
    """Compile and run the source of a drop-in; its one Check. Whatever is wrong with it raises."""
    space: dict[str, Any] = {"__name__": "npudoctor_drop_in_" + name, "__file__": path}
    # Whatever PYTHONOPTIMIZE says: the docstring is the manual.
    code = compile(source, path, "exec", optimize=min(sys.flags.optimize, 1))
    exec(code, space)  # noqa: S102  (trusted by owner and mode: trust.py)
    return _only(space, name)


def load_module(module: str, name: str) -> Check:
    """Import the module of a plug-in; its one Check. Whatever is wrong with it raises."""
    return _only(vars(import_module(module)), name)


def _only(space: Mapping[str, Any], name: str) -> Check:
    checks = {value.id: value for value in space.values() if isinstance(value, Check)}
    if len(checks) != 1:
        raise ValueError(f"a file holds one check, this one holds {len(checks)}")
    check = next(iter(checks.values()))
    if check.id != name.replace("_", "-"):
        raise ValueError(f"the id {check.id!r} is not the file's name")
    return check


def declaration(load: Callable[[], Check]) -> dict[str, Any]:
    """In the child: what a foreign check declares, or why it is broken."""
    try:
        check = load()
    except BaseException as error:  # SystemExit and KeyboardInterrupt of a plug-in are its own
        return {"broken": f"{type(error).__name__}: {error}"}
    needs: Any = check.needs  # of a Check that was not made by @check: anything
    return {
        "id": check.id,
        "scope": check.scope.value,
        "codes": {code: int(severity) for code, severity in check.codes.items()},
        "manual": check.manual,
        "tags": list(check.tags),
        "needs": needs if isinstance(needs, str) else list(needs),
        "advisory": check.advisory,
        "quick": check.quick,
        "compares": [compared.row() for compared in check.compares],
    }


def check_from_declaration(
    declaration: dict[str, Any], name: str, ask: Callable[[Host], Any], group: str
) -> Check:
    """The Check that a child declared; it can say what it likes, so all of it is judged again."""
    codes = {code: Severity(severity) for code, severity in declaration["codes"].items()}
    compares = tuple(map(parse_compared, declaration["compares"]))
    wrong = declaration_error(declaration["id"], codes, declaration["tags"], declaration["needs"], compares)
    if wrong or declaration["id"] != name.replace("_", "-"):
        raise ValueError(wrong or f"the id {declaration['id']!r} is not the file's name")
    manual = str(declaration["manual"])
    return Check(
        id=declaration["id"],
        scope=Scope(declaration["scope"]),
        codes=codes,
        ask=ask,
        title=title_of(manual),
        page=lambda: manual,
        tags=tuple(declaration["tags"]),
        group=group,
        needs=tuple(declaration["needs"]),
        advisory=bool(declaration["advisory"]),
        quick=bool(declaration["quick"]),
        compares=compares,
        origin=group,
    )


def ask_in_child(load: Callable[[], Check], host: Host) -> dict[str, Any]:
    """In the child: ask a foreign check and put its answers into JSON."""
    answers: list[dict[str, Any]] = []
    if isinstance(host.disk, LocalDisk):
        host.disk.forget()
    ending: dict[str, Any] = {"ended": "done"}
    left = ANSWER_LIMIT
    try:
        check = load()
        why = why_not_applicable(check.needs, host)
        if why is not None:
            raise Skip(why)
        for answer in check.ask(host):
            encoded = _encode(answer)
            left -= len(json.dumps(encoded)) + len(", ")
            if left < 0:
                most = ANSWER_LIMIT >> 20
                raise ValueError(_("its results are larger than {most} MiB", most=most))
            answers.append(encoded)
    except Skip as skip:
        ending = {"ended": "skip", "reason": str(skip)}
    except NotRunning:
        ending = {"ended": "not-running"}
    except CannotTell as unknown:
        ending = {"ended": "unknown", "reason": unknown.reason, "advisory": unknown.advisory}
    except BaseException as error:
        ending = {"ended": "crashed", "reason": f"{type(error).__name__}: {error}"}
    return {"answers": answers, **ending}


def replay_answers(answers: Optional[dict[str, Any]]) -> Iterator[CheckOutput]:
    """Replay in the parent what a child answered: yields its findings, raises its ending."""
    if answers is None:
        raise CheckFailure(Status.CRASHED, _("its process ended without a result"))
    for answer in answers["answers"]:
        yield _decode(answer)
    ended, reason = answers["ended"], answers.get("reason", "")
    if ended == "skip":
        raise Skip(reason)
    if ended == "not-running":
        raise NotRunning
    if ended == "unknown":
        raise CannotTell(reason, bool(answers["advisory"]))
    if ended != "done":
        raise CheckFailure(Status.CRASHED, reason)


def _encode(answer: object) -> dict[str, Any]:
    if isinstance(answer, Facts):
        facts = dict(answer.values)
        json.dumps(facts, allow_nan=False)  # here it is the check's own crash, with its reason
        return {"facts": facts}
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


def _decode(data: dict[str, Any]) -> CheckOutput:
    if "facts" in data:
        return Facts(data["facts"])
    fix = data["fix"]
    return Finding(
        code=data["code"],
        message=data["message"],
        severity=None if data["severity"] is None else Severity(data["severity"]),
        evidence=tuple(data["evidence"]),
        device=data["device"],
        action=Action(data["action"]),
        echo_of=tuple(data["echo_of"]),
        fix=fix
        and Fix(
            title=fix["title"],
            steps=tuple(_step(step) for step in fix["steps"]),
            undo=tuple(fix["undo"]),
            risk=Risk(fix["risk"]),
            needs_root=fix["needs_root"],
            unproven=fix["unproven"],
        ),
    )


def _step(data: dict[str, Any]) -> KnownStep:
    """A step that a stranger made; asked of each. The questions of our own steps only look; of a stranger's
    nobody knows."""
    step = decode(data)
    if isinstance(step, Command) and (step.unless or step.still):
        raise ValueError(_("a step may run only what it shows: remove unless and still"))
    return step
