"""Loads and runs third parties' checks in child processes, which may exit, hang or be killed at any time."""

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


def load_source(source: bytes, path: str, name: str) -> Check:
    """Compile and execute the source of a drop-in; returns its one Check. Any error in it is raised."""
    space: dict[str, Any] = {"__name__": "npudoctor_drop_in_" + name, "__file__": path}
    # At most 1 whatever PYTHONOPTIMIZE says: 2 drops docstrings, and the docstring is the manual.
    code = compile(source, path, "exec", optimize=min(sys.flags.optimize, 1))
    exec(code, space)  # noqa: S102  (trusted by owner and mode: core/trust/paths.py)
    return _single_check(space, name)


def load_module(module: str, name: str) -> Check:
    """Import the module of a plug-in; returns its one Check. Any error in it is raised."""
    return _single_check(vars(import_module(module)), name)


def _single_check(space: Mapping[str, Any], name: str) -> Check:
    checks = {value.id: value for value in space.values() if isinstance(value, Check)}
    if len(checks) != 1:
        raise ValueError(f"a file holds one check, this one holds {len(checks)}")
    check = next(iter(checks.values()))
    if check.id != name.replace("_", "-"):
        raise ValueError(f"the id {check.id!r} is not the file's name")
    return check


def declare_check(load: Callable[[], Check]) -> dict[str, Any]:
    """In the child: what a foreign check declares, as JSON values; or {"broken": the reason}."""
    try:
        check = load()
    except BaseException as error:  # SystemExit and KeyboardInterrupt at import, too
        return {"broken": f"{type(error).__name__}: {error}"}
    needs: Any = check.needs  # may have any type when the Check was not made by @check
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
    """The Check that a child declared. The child is not trusted, so that everything is validated again."""
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
    """In the child: run a foreign check; returns its output and how it ended as JSON values."""
    answers: list[dict[str, Any]] = []
    if isinstance(host.disk, LocalDisk):
        host.disk.drop_children()
    ending: dict[str, Any] = {"ended": "done"}
    remaining_bytes = ANSWER_LIMIT
    try:
        check = load()
        why = why_not_applicable(check.needs, host)
        if why is not None:
            raise Skip(why)
        for answer in check.ask(host):
            encoded = _encode(answer)
            remaining_bytes -= len(json.dumps(encoded)) + len(", ")
            if remaining_bytes < 0:
                most_mib = ANSWER_LIMIT >> 20
                raise ValueError(_("its results are larger than {most} MiB", most=most_mib))
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
    """In the parent: yield the findings and facts of a child's answer, then raise the way in which it ended.

    None: the child ended without an answer.
    """
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
        json.dumps(facts, allow_nan=False)  # raises here, as a crash of this check with its reason
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
            steps=tuple(_decode_step(step) for step in fix["steps"]),
            undo=tuple(fix["undo"]),
            risk=Risk(fix["risk"]),
            needs_root=fix["needs_root"],
            unproven=fix["unproven"],
        ),
    )


def _decode_step(data: dict[str, Any]) -> KnownStep:
    """Decode a step of a foreign check. Raises ValueError when it would run a command that is not shown.

    `unless` and `still` run before the step and are not shown; those of built-in steps only read.
    """
    step = decode(data)
    if isinstance(step, Command) and (step.unless or step.still):
        raise ValueError(_("a step may run only what it shows: remove unless and still"))
    return step
