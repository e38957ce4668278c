"""What logs and codes mean: read what was named, find the causes, ask the checks that confirm them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Optional

from npudoctor.cli.arguments.settings import knowledge_directory
from npudoctor.cli.config import UsageError, suggestion
from npudoctor.cli.terminal import output
from npudoctor.core.frozen import dataclass, field, replace
from npudoctor.core.messages import _, ngettext
from npudoctor.explain.answer import Explanation, Proof, explanation
from npudoctor.explain.engine import Engine, engine_for
from npudoctor.explain.reading.gather import FILES
from npudoctor.explain.reading.opening import Identity, Unreadable
from npudoctor.explain.reading.walk import ENTRIES, Walk
from npudoctor.explain.scanning.evidence import Evidence
from npudoctor.explain.signatures.prepared import prepare_table
from npudoctor.explain.signatures.remedies import Installed
from npudoctor.explain.signatures.signatures import Signature
from npudoctor.explain.signatures.table import Table
from npudoctor.host.fs.files import Files, LocalDisk
from npudoctor.knowledge.site import Knowledge

if TYPE_CHECKING:
    from npudoctor.cli.session import Session
    from npudoctor.explain.reading.gather import Inputs
    from npudoctor.host import Host


_SHOWN = 20  # lines on standard error about what was not read
_TOLD_APART = 6  # digits of the return numbers of ACL, which are no others'
_NAMED = 5  # logs named there of those that were found


@dataclass(frozen=True)
class ExplainRequest:
    """The words of the command, the variables, and when it began. `seconds`: how long it may take, None for
    the default; `since`: only what was written since then is read; `begins`: of files, by what they are, the
    place from which on."""

    words: tuple[str, ...]
    variables: Mapping[str, str]
    started: float
    seconds: Optional[float] = None
    since: Optional[float] = None
    begins: Mapping[Identity, int] = field(default_factory=dict)


def explain_words(request: ExplainRequest) -> Explanation:
    """The answer to what was asked: about a code, about logs, or about the newest log here."""
    from npudoctor.explain.reading.gather import Absent, gather_inputs

    silent: tuple[str, ...] = ()
    words = request.words
    if not words:
        words, silent = _newest(request)
    if "-" in words and os.isatty(0):
        raise UsageError(_("-: standard input is a terminal; name a file, or pipe the log in"))
    inputs: Optional[Inputs] = None
    try:
        inputs = gather_inputs(words, request.started, request.seconds, request.since)
    except Absent as absent:
        if not absent.missing or any(map(os.path.lexists, words)):
            raise UsageError(f"{absent.word}: {absent.why}") from absent
    table = _table(request.variables)
    if inputs is None:
        return _about_codes(words, table.signatures, request)
    text = _("does not answer; it may hold newer logs")
    inputs.walk.problems.extend((path, text) for path in dict.fromkeys(silent))
    return _about_logs(inputs, engine_for(table), request)


def _table(variables: Mapping[str, str]) -> Table:
    """Our signatures and the site's; site rows that cannot be used are reported on stderr."""
    with closing(LocalDisk()) as disk:
        tables = prepare_table(Knowledge(knowledge_directory(variables), Files(disk).why_remote))
    for row in tables.broken:
        output.complain(
            _("this site's compatibility rows cannot be used: {path}: {why}", path=row.path, why=row.reason)
        )
    return tables.table


def explain_code(word: str, variables: Mapping[str, str]) -> Optional[Explanation]:
    """What the code of a log stands for; None where it is none."""
    signatures = _table(variables).signatures
    request = ExplainRequest((word,), variables, time.monotonic())
    return _about_code(word, signatures, request) if _find_by_code(word, signatures) else None


def _find_by_code(word: str, signatures: Sequence[Signature]) -> list[Signature]:
    """The signatures that answer to the code of a log, or to the id of one."""
    from npudoctor.explain.signatures.codes import find_by_code
    from npudoctor.explain.signatures.return_numbers import number_of, of_number
    from npudoctor.explain.signatures.torch_npu_codes import of_torch_npu

    number = number_of(word)
    by_torch_npu = of_torch_npu(word)
    known = [of_number(signature, number) for signature in find_by_code(number, signatures)]
    return known or ([] if by_torch_npu is None else [by_torch_npu])


def _about_codes(
    words: Sequence[str], signatures: tuple[Signature, ...], request: ExplainRequest
) -> Explanation:
    """What codes stand for, each by itself; of several all together are the answer."""
    answers = tuple(_about_code(word, signatures, request) for word in dict.fromkeys(words))
    if len(answers) == 1:
        return answers[0]
    diagnoses = tuple(diagnosis for answer in answers for diagnosis in answer.diagnoses)
    worst = next((candidate for candidate in answers if candidate.verdict == "environment"), answers[0])
    first = worst.diagnoses[0]
    rest = tuple(candidate for candidate in diagnoses if candidate is not first)
    return replace(worst, code=None, diagnoses=(first, *rest), answers=answers)


def _about_code(word: str, signatures: tuple[Signature, ...], request: ExplainRequest) -> Explanation:
    from npudoctor import __version__
    from npudoctor.explain.ranking.judge import LEAST, Diagnosis
    from npudoctor.explain.signatures.return_numbers import number_of

    number = number_of(word)
    matches = _find_by_code(word, signatures) or _find_by_finding(word, signatures, request)
    verdict = "environment" if matches[0].environment else "not_environment"
    # A number of so few digits may be of anything; HCCL's results are all that is known here.
    vague = number.isdigit() and len(number) < _TOLD_APART
    best = "possible" if vague or matches[0].weight < LEAST else "certain"
    diagnoses = tuple(
        Diagnosis(signature, best if signature is matches[0] else "possible", None, 0)
        for signature in matches
    )
    seconds = round(time.monotonic() - request.started, 3)
    return Explanation(__version__, seconds, (), verdict, diagnoses, code=word)


def _find_by_finding(
    word: str, signatures: tuple[Signature, ...], request: ExplainRequest
) -> list[Signature]:
    """What the code of a finding stands for; UsageError, with what may be meant, where it is none."""
    from npudoctor.explain.signatures.codes import codes_of, of_check
    from npudoctor.explain.signatures.torch_npu_codes import codes
    from npudoctor.registry import registry

    loaded = registry.load_all(request.variables)
    for check in loaded.checks:  # its manual stands for the signature
        if word in check.codes:
            return [of_check(word, check.id, _(check.title), check.manual)]
    broken = loaded.not_loaded(word)
    if broken is not None:
        raise UsageError(f"{broken.check}: {broken.title}: {broken.reason}")
    ours = {name for check in loaded.checks for name in (check.id, *check.codes)}
    log_codes = codes_of(signatures) | set(codes())
    near = loaded.unread() + (suggestion(word, log_codes) or suggestion(word, ours))
    if any(word == check.id for check in loaded.checks):
        near = _("; it is a check: npudoctor show {name}", name=word)
    raise UsageError(
        _("{name}: not a file, a folder or a known code{suggestion}", name=word, suggestion=near)
    )


def _about_logs(inputs: Inputs, engine: Engine, request: ExplainRequest) -> Explanation:
    from npudoctor.cli.terminal.progress import LogProgress

    walk = inputs.walk
    for number, log in enumerate(walk.logs):
        begin = request.begins.get(log.known, 0) if log.known else 0
        if 0 < begin <= log.size:  # one that is shorter now was written from its start
            walk.logs[number] = replace(log, begin=begin)
    with LogProgress() as progress:
        evidence = engine.logs(walk.logs, progress=progress.show, until=inputs.until)
    evidence += [_read_once(engine, path, inputs, request) for path in inputs.pipes]
    unread = [
        *walk.problems,
        *_list_unread(walk),
        *((file.path, file.problem) for file in evidence if file.problem),
    ]
    _report_unread(walk, evidence, unread)
    seconds = time.monotonic() - request.started
    late = time.monotonic() >= inputs.until
    answer = explanation(engine.judge(evidence), evidence, seconds, unread=unread)
    return replace(answer, logs={log.path: log for log in walk.logs}, late=inputs.seconds if late else None)


def _list_unread(walk: Walk) -> Iterator[tuple[str, str]]:
    """What was too much to be looked at or read."""
    if walk.older:
        yield (
            "...",
            _(
                "only the {most} newest files are read; {count} older files are skipped",
                most=FILES,
                count=walk.older,
            ),
        )
    if walk.more:
        yield (
            "...",
            _(
                "only the first {most} entries are examined; {count} more and everything below them are "
                "skipped",
                most=ENTRIES,
                count=walk.more,
            ),
        )


def _read_once(engine: Engine, path: str, inputs: Inputs, request: ExplainRequest) -> Evidence:
    """What a pipe says."""
    from npudoctor.cli.terminal.progress import stream_waiting
    from npudoctor.explain.reading.reading import unread_evidence
    from npudoctor.explain.reading.sources import open_source, standard_input

    # A pipe may take as long as it likes, unless --deadline was given.
    until = math.inf if path == "-" and request.seconds is None else inputs.until
    try:
        source = standard_input(until) if path == "-" else open_source(path, until)
    except Unreadable as why:
        return unread_evidence(path, str(why))
    name = _("standard input") if path == "-" else path
    try:
        with stream_waiting(name, lambda: source.bytes):
            return engine.source(source, until)
    finally:
        source.close()


def _report_unread(walk: Walk, evidence: list[Evidence], unread: list[tuple[str, str]]) -> None:
    """One line for each input that was not read, or not to its end; of very many, for the first."""
    lines = [f"{path}: {why}" for path, why in (*unread, *walk.notes)]
    for line in lines[:_SHOWN]:
        output.complain(line)
    if len(lines) > _SHOWN:
        output.complain(_("and {count} more lines like these", count=len(lines) - _SHOWN))
    binary = [*walk.left_out, *(log.path for log in evidence if log.binary)]
    if binary:
        output.complain(
            ngettext(
                "{count} file is not a log and was not read: {path}",
                "{count} files are not logs and were not read: {path} ...",
                len(binary),
                count=len(binary),
                path=binary[0],
            )
        )


def _newest(request: ExplainRequest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The logs of the newest run that are here, and the places that do not answer; other logs are named."""
    from npudoctor.explain.reading.newest import automatic, together

    places = automatic(request.variables)
    candidates = places.found
    if not candidates:
        for path in places.silent:
            output.complain(_("{path} does not answer; it may hold newer logs", path=path))
        raise UsageError(_("found no CANN log, launcher log or *.log file: name a log, a folder or a code"))
    chosen = together(candidates)
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
        output.complain(_("there is also: {path} ({kind})", path=other.path, kind=other.kind))
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


def installed_on(host: Host) -> Optional[Installed]:
    """What is installed on the machine; None when it cannot be determined."""
    from npudoctor.facts.cann.installations import installs_of, set_env_script
    from npudoctor.facts.cann.nnal import scripts
    from npudoctor.facts.job.working_directory import job_user
    from npudoctor.host import CannotTell

    try:
        active = next(iter(installs_of(host)), None)
        script = set_env_script(host.files, active) if active else None
        atb = next(scripts(host.files, active, job_user(host).home), None)
        return Installed(active.path if active else None, script, atb)
    except CannotTell:
        return None
