"""Explains logs and codes: reads the input, finds the causes, runs the checks that confirm them."""

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

_MOST_NAMED = 5  # how many of the logs that were found are listed on standard error


def explain_words(request: ExplainRequest) -> Explanation:
    """The explanation of codes, of logs, or of the newest logs in this directory when no word is given."""
    from npudoctor.explain.reading.gather import AbsentInput, gather_inputs

    silent: tuple[str, ...] = ()
    words = request.words
    if not words:
        words, silent = _find_newest_logs(request)
    if "-" in words and os.isatty(0):
        raise UsageError(_("-: standard input is a terminal; specify a file, or pipe the log in"))
    inputs: Optional[Inputs] = None
    try:
        inputs = gather_inputs(words, request.started, request.seconds, request.since)
    except AbsentInput as absent:
        if not absent.missing or any(map(os.path.lexists, words)):
            raise UsageError(f"{absent.word}: {absent.why}") from absent
    if inputs is None:
        from npudoctor.cli.codes import explain_codes

        return explain_codes(words, request.variables, request.started)
    from npudoctor.cli.logs import explain_logs

    text = _("does not answer; it may hold newer logs")
    inputs.walk.problems.extend((path, text) for path in dict.fromkeys(silent))
    return explain_logs(inputs, request)


def _find_newest_logs(request: ExplainRequest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The logs of the newest run in this directory, and the paths that do not answer; lists other logs."""
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
        shown = ", ".join([*paths[:_MOST_NAMED], *(["..."] if len(paths) > _MOST_NAMED else [])])
        output.complain(
            _(
                "explaining the {count} logs of the newest run in this directory: {paths}",
                count=len(paths),
                paths=shown,
            )
        )
    other_logs = [place for place in candidates if place not in chosen]
    for log in other_logs[:_MOST_NAMED]:
        output.complain(_("also found: {path} ({kind})", path=log.path, kind=log.kind))
    if len(other_logs) > _MOST_NAMED:
        output.complain(
            ngettext(
                "{count} more log is not read",
                "{count} more logs are not read",
                len(other_logs) - _MOST_NAMED,
                count=len(other_logs) - _MOST_NAMED,
            )
        )
    return paths, places.silent


def verify_diagnosis(answer: Explanation, session: Session) -> Explanation:
    """The explanation with the results of the checks of its best diagnosis; of several codes, for each."""
    if answer.answers:
        answers = tuple(verify_diagnosis(part, session) for part in answer.answers)
        best = next(part for part in answers if part.diagnoses[0] is answer.diagnoses[0])
        return replace(answer, answers=answers, proofs=best.proofs)
    from npudoctor.core.model import Status
    from npudoctor.runner import runner

    loaded_ids = {check.id for check in session.loaded.checks}
    selection = tuple(
        check
        for diagnosis in answer.diagnoses[:1]
        for check in diagnosis.signature.checks
        if check in loaded_ids
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


def find_installed(host: Host) -> Optional[InstalledCann]:
    """The CANN installation and the scripts that remedies name; None when it cannot be determined."""
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
