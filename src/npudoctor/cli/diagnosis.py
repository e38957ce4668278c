"""What logs and codes mean: read what was named, find the causes, ask the checks that confirm them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Optional

from npudoctor.cli.config import UsageError
from npudoctor.cli.request import ExplainRequest
from npudoctor.cli.terminal import output
from npudoctor.core.frozen import replace
from npudoctor.core.messages import _, ngettext
from npudoctor.explain.answer import Explanation, Proof
from npudoctor.explain.signatures.remedies import InstalledCann

if TYPE_CHECKING:
    from npudoctor.cli.session import Session
    from npudoctor.explain.reading.gather import Inputs
    from npudoctor.host import Host

_NAMED = 5  # logs named on standard error of those that were found


def explain_words(request: ExplainRequest) -> Explanation:
    """The answer to what was asked: about a code, about logs, or about the newest log here."""
    from npudoctor.explain.reading.gather import AbsentInput, gather_inputs

    silent: tuple[str, ...] = ()
    words = request.words
    if not words:
        words, silent = _newest(request)
    if "-" in words and os.isatty(0):
        raise UsageError(_("-: standard input is a terminal; specify a file, or pipe the log in"))
    inputs: Optional[Inputs] = None
    try:
        inputs = gather_inputs(words, request.started, request.seconds, request.since)
    except AbsentInput as absent:
        if not absent.missing or any(map(os.path.lexists, words)):
            raise UsageError(f"{absent.word}: {absent.why}") from absent
    if inputs is None:
        from npudoctor.cli.codes import about_codes

        return about_codes(words, request.variables, request.started)
    from npudoctor.cli.logs import about_logs

    text = _("does not answer; it may hold newer logs")
    inputs.walk.problems.extend((path, text) for path in dict.fromkeys(silent))
    return about_logs(inputs, request)


def _newest(request: ExplainRequest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The logs of the newest run that are here, and the places that do not answer; other logs are named."""
    from npudoctor.explain.reading.newest import find_newest_logs, select_newest_run

    places = find_newest_logs(request.variables)
    candidates = places.places
    if not candidates:
        for path in places.silent:
            output.complain(_("{path} does not answer; it may hold newer logs", path=path))
        raise UsageError(
            _("found no CANN log, launcher log or *.log file: specify a log, a folder or a code")
        )
    chosen = select_newest_run(candidates)
    paths = tuple(place.path for place in chosen)
    if len(paths) == 1:
        output.complain(_("explaining the newest log in this directory: {path}", path=paths[0]))
    else:
        shown = ", ".join([*paths[:_NAMED], *(["..."] if len(paths) > _NAMED else [])])
        output.complain(
            _(
                "explaining the {count} logs of the newest run in this directory: {paths}",
                count=len(paths),
                paths=shown,
            )
        )
    others = [place for place in candidates if place not in chosen]
    for other in others[:_NAMED]:
        output.complain(_("also found: {path} ({kind})", path=other.path, kind=other.kind))
    if len(others) > _NAMED:
        output.complain(
            ngettext(
                "{count} more log is not read",
                "{count} more logs are not read",
                len(others) - _NAMED,
                count=len(others) - _NAMED,
            )
        )
    return paths, places.silent


def verify_diagnosis(answer: Explanation, session: Session) -> Explanation:
    """The same, with what the checks of the best diagnosis say now; of several codes, for each."""
    if answer.answers:
        answers = tuple(verify_diagnosis(part, session) for part in answer.answers)
        best = next(part for part in answers if part.diagnoses[0] is answer.diagnoses[0])
        return replace(answer, answers=answers, proofs=best.proofs)
    from npudoctor.core.model import Status
    from npudoctor.runner import runner

    known = {check.id for check in session.loaded.checks}
    selection = tuple(
        check for diagnosis in answer.diagnoses[:1] for check in diagnosis.signature.checks if check in known
    )
    if not selection:
        return replace(answer, proofs=())
    settings = replace(session.settings(), select=selection, scope="all", profile="full")
    report = runner.run(session.loaded, session.host, settings, session.until)
    proofs = [
        Proof(
            row.check,
            row.status.value,
            row.status is Status.PROBLEM,
            tuple(finding.message for finding in row.findings) or ((row.reason,) if row.reason else ()),
        )
        for row in report.results
        if row.check in selection
    ]
    return replace(answer, proofs=tuple(proofs))


def installed_on(host: Host) -> Optional[InstalledCann]:
    """What is installed on the machine; None when it cannot be determined."""
    from npudoctor.facts.cann.installations import installs_of, set_env_script
    from npudoctor.facts.cann.nnal import scripts
    from npudoctor.facts.job.working_directory import job_user
    from npudoctor.host import CannotTell

    try:
        active = next(iter(installs_of(host)), None)
        script = set_env_script(host.files, active) if active else None
        atb = next(scripts(host.files, active, job_user(host).home), None)
        return InstalledCann(active.path if active else None, script, atb)
    except CannotTell:
        return None
