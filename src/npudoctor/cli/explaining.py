"""What `explain` does with its words: read what they name, ask the checks, pack a bundle."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Optional

from npudoctor.cli import output
from npudoctor.cli.session import knowledge_directory
from npudoctor.config import Refused, suggestion
from npudoctor.explain.answer import Explanation, Proof, explanation
from npudoctor.explain.cache import Cache, cache_of
from npudoctor.explain.engine import Engine, engine_for
from npudoctor.explain.evidence import Evidence
from npudoctor.explain.prepared import prepared
from npudoctor.explain.signatures import Signature
from npudoctor.explain.table import Table
from npudoctor.explain.walk import Walk
from npudoctor.frozen import dataclass
from npudoctor.messages import _, ngettext, strerror

if TYPE_CHECKING:
    from npudoctor.cli.session import Session


@dataclass(frozen=True)
class Asked:
    """The words of the command, who called, and when it began."""

    words: tuple[str, ...]
    variables: Mapping[str, str]
    started: float


def answered(asked: Asked) -> Explanation:
    """The answer to what was asked: about a code, about logs, or about the newest log here."""
    words = asked.words or _newest(asked.variables)
    cache = cache_of(asked.variables)
    table = _table(asked.variables, cache)
    if len(words) == 1 and words[0] != "-" and not os.path.lexists(words[0]):
        return _about_code(words[0], table.signatures, asked)
    return _about_logs(words, engine_for(table, cache), asked)


def _table(variables: Mapping[str, str], cache: Optional[Cache]) -> Table:
    """Our signatures and the site's; what of the site's cannot be used is said."""
    from npudoctor.host import Host, Options

    host = Host(Options(knowledge=knowledge_directory(variables)), variables=variables)
    try:
        made = prepared(host.knowledge, cache)
    finally:
        host.close()
    for one in made.broken:
        text = _("rows of this site cannot be used: {path}: {why}")
        output.complain(text.format(path=one.path, why=one.reason))
    return made.table


def _about_code(word: str, signatures: tuple[Signature, ...], asked: Asked) -> Explanation:
    from npudoctor import __version__
    from npudoctor.explain.codes import codes_of, found_by
    from npudoctor.explain.judge import Diagnosis

    found = found_by(word, signatures) or _by_check(word, asked.variables)
    if not found:
        text = _("{name}: no such file or folder, and no code that is known{suggestion}")
        raise Refused(text.format(name=word, suggestion=suggestion(word, codes_of(signatures))))
    verdict = "environment" if found[0].environment else "not_environment"
    diagnoses = tuple(Diagnosis(one, "certain" if one is found[0] else "possible", None, 0) for one in found)
    return Explanation(__version__, round(time.monotonic() - asked.started, 3), (), verdict, diagnoses)


def _by_check(word: str, variables: Mapping[str, str]) -> list[Signature]:
    """What a finding's code, or a check's id, stands for: its manual, as if it were a signature."""
    from npudoctor import registry
    from npudoctor.explain.codes import of_check

    for check in registry.load_all(variables).checks:
        if word in check.codes:
            return [of_check(word, check.id, _(check.title), check.manual)]
    return []


def _about_logs(words: tuple[str, ...], engine: Engine, asked: Asked) -> Explanation:
    from npudoctor.cli.progress import Progress

    walk, piped = _named(words)
    with Progress() as progress:
        evidence = engine.logs(walk.logs, progress=progress.show)
    evidence += [_read_once(engine, path) for path in piped]
    _complain(walk, evidence)
    seconds = time.monotonic() - asked.started
    return explanation(engine.judged(evidence), evidence, seconds, len(walk.problems))


def _named(words: tuple[str, ...]) -> tuple[Walk, list[str]]:
    """What is to be read: files and folders, then pipes; Refused for what does not exist."""
    import stat

    walk, piped = Walk(), []
    for word in words:
        if word == "-":
            if os.isatty(0):
                raise Refused(_("-: standard input is a terminal; name a file, or pipe the log in"))
            piped.append(word)
            continue
        try:
            found = os.stat(word)
        except OSError as error:
            raise Refused(f"{word}: {strerror(error.errno)}") from error
        if stat.S_ISDIR(found.st_mode):
            walk.folder(word)
        elif stat.S_ISREG(found.st_mode):
            walk.file(word, found, named=True)
        else:
            piped.append(word)
    return walk, piped


def _read_once(engine: Engine, path: str) -> Evidence:
    """What a pipe says."""
    from npudoctor.explain.sources import Unreadable, opened, standard_input

    try:
        source = standard_input() if path == "-" else opened(path)
    except Unreadable as why:
        evidence = Evidence(path)
        evidence.problem, evidence.unread = str(why), True
        return evidence
    try:
        return engine.source(source)
    finally:
        source.close()


def _complain(walk: Walk, evidence: list[Evidence]) -> None:
    """One line for each input that was not read, or not to its end."""
    for path, why in (*walk.problems, *walk.notes):
        output.complain(f"{path}: {why}")
    for one in evidence:
        if one.problem:
            output.complain(f"{one.path}: {one.problem}")
    binary = [*walk.left_out, *(one.path for one in evidence if one.binary)]
    if binary:
        text = ngettext(
            "{count} file is no log and was not read: {path}",
            "{count} files are no logs and were not read: {path} ...",
            len(binary),
        )
        output.complain(text.format(count=len(binary), path=binary[0]))


def _newest(variables: Mapping[str, str]) -> tuple[str, ...]:
    """The newest log that is here; the others are named."""
    from npudoctor.explain.newest import newest

    try:
        here = os.getcwd()
    except OSError:  # the folder was removed; the user's logs may still be there
        here = ""
    found = newest(variables, here)
    if not found:
        raise Refused(
            _("there is no plog, torchrun, msrun or Slurm log here: name a log, a folder or a code")
        )
    output.complain(_("explaining the newest log here: {path}").format(path=found[0].path))
    for other in found[1:6]:
        output.complain(_("there is also: {path} ({kind})").format(path=other.path, kind=other.kind))
    return (found[0].path,)


def verified(found: Explanation, session: Session) -> Explanation:
    """The same, with what the checks of the best diagnosis say now."""
    import dataclasses

    from npudoctor import runner
    from npudoctor.model import Status

    known = {check.id for check in session.loaded.checks}
    wanted = tuple(check for one in found.diagnoses[:1] for check in one.signature.checks if check in known)
    if not wanted:
        return dataclasses.replace(found, proofs=())
    settings = dataclasses.replace(session.settings(), select=wanted, scope="all", profile="full")
    report = runner.run(session.loaded, session.host, settings, session.until)
    proofs = [
        Proof(
            row.check,
            row.status.value,
            row.status is Status.PROBLEM,
            tuple(finding.message for finding in row.findings) or ((row.reason,) if row.reason else ()),
        )
        for row in report.results
        if row.check in wanted
    ]
    return dataclasses.replace(found, proofs=tuple(proofs))
