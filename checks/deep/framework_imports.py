"""Can every installed framework be imported, as a job would?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional, Union

from npudoctor import ERROR, WARNING, Action, Facts, Finding, Host, Scope, Skip, Unknown, _, check
from npudoctor.checks.deep._probe_failures import (
    SECONDS,
    ProbeFailure,
    explain_failure,
    probe_imports,
    report_crash_once,
    report_failure,
)
from npudoctor.core.frozen import dataclass, replace
from npudoctor.facts.job.probes import NoTimeLeft, ProbeResult, probe
from npudoctor.facts.job.tracebacks import parse_chain
from npudoctor.facts.python.frameworks import installed_job_distributions, job_distributions
from npudoctor.facts.python.interrupted import list_half_packages, list_stopped
from npudoctor.knowledge.distributions import JobDistribution

# What the import of these begins with, by their own modules: where that does not end, neither does theirs.
BEGINS_WITH = dict.fromkeys(("torch_npu", "torchvision", "torchaudio", "vllm", "vllm_ascend"), "torch")
SLOW = 60.0  # seconds


@check(
    "framework-imports",
    scope=Scope.JOB,
    tags={"mindspore", "paddle", "pytorch", "tensorflow"},
    needs=("packages",),
    quick=False,
    codes={
        "framework-imports.failed": ERROR,
        "framework-imports.slow": WARNING,
        "framework-imports.died-once": WARNING,
    },
)
def framework_imports(host: Host) -> Iterator[Union[Finding, Facts]]:
    """Every installed framework can be imported.

    ## What it does

    Imports each installed framework in a child process of the examined interpreter, with the variables and
    the working directory of the job: torch, torch with torch_npu, torchvision, torchaudio, mindspore, paddle,
    vllm, vllm with vllm-ascend, tensorflow. They run one after the other, each with its own time limit (120
    s). Then imports the trainers' stack upon them (transformers, accelerate, peft, trl, datasets, lightning
    and others, and what rows of the site add) in one process, in the words of a training script, such as
    `from transformers import Trainer`, because these packages load most of themselves only when it is asked
    for. What fails there is tried once more alone, once for each cause. Modules are found as from the
    working directory. Only a temporary folder is written to, and it is removed; processes that the import
    leaves running are ended. The check runs with `--profile deep`, or if it is selected by name. As root it
    runs only if everything that it would execute belongs to root.

    - `framework-imports.failed`: the import ended with an error, was killed, or did not end. The exception
      shows the cause: the module, library or file, the package that it belongs to, and where the error
      occurred; for a crash or a hang, where the program was. What `npudoctor explain` knows about such a
      failure is added. Imports that fail for the same cause are reported together; a cause that another check
      names is folded under that check. An import that crashes is repeated once with as little of npudoctor's
      own code as possible: only two crashes are a failure. If `import torch` does not end, imports that begin
      with it are not tried; nor is the stack upon a framework whose import fails.
    - `framework-imports.died-once`: the import crashed, and the second try succeeded.
    - `framework-imports.slow`: the import took more than 60 s.

    ## Why it matters

    Metadata cannot prove that an import works. This check does.

    ## References

    - `npudoctor explain --help`.
    """
    members = [member for member in installed_job_distributions(host) if member.imports]
    # Of what a stopped pip left in two halves nothing is installed.
    halves = {stopped.name for stopped in list_stopped(host)}
    halves.update(half.name for half in list_half_packages(host))
    members += [
        member for member in job_distributions(host) if member.name in halves and member not in members
    ]
    if not members:
        host.interpreter.require_certain_absence("torch")
        raise Skip(_("no framework is installed in {python}", python=host.interpreter.label))
    tried = _Imports()
    todo = list(dict.fromkeys(_words(member.imports) for member in members if not member.trainer))
    for modules in todo:
        yield from tried.note(host, modules[-1], ".".join(modules), _probe_import(host, modules, todo))
    attempts = _plan_attempts(members, tried)
    together = _import_together(host, attempts, tried) if attempts else {}
    for attempt in attempts:
        if attempt.module in (*tried.seconds, *tried.untried):
            continue
        failure = together.get(attempt.text)
        # What failed in the words of one that failed alone as well need not be tried alone.
        if failure is not None and failure.sentence in tried.failures:
            tried.note_failure(attempt.module, failure, attempt.imports)
            continue
        probed = _probe_import(host, (*_words(attempt.first), *_words(attempt.imports)), [])
        yield from tried.note(host, attempt.module, attempt.module, probed, attempt.imports)
    yield from tried.list_slow()
    for sentence, alike in tried.failures.items():
        names = ", ".join(name for name, _failure in alike)
        message = _("import {module} fails: {ending}", module=names, ending=sentence)
        finding: Finding = report_failure("framework-imports.failed", message, alike[0][1])
        statements = [text for name, _failure in alike for text in tried.statements.get(name, ())]
        if statements:
            line = _("imported by: {statement}", statement="; ".join(statements))
            finding = replace(finding, evidence=(*finding.evidence, line))
        yield finding
    yield Facts(tried.facts)
    if tried.untried:
        raise Unknown(_("no result before the deadline of the run: {names}", names=", ".join(tried.untried)))


class _Imports:
    """How the imports ended. `failures`: by what is said of them, the modules in whose import it happened.
    `statements`: what was executed, of those that are more than `import MODULE`.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.memory: dict[str, int] = {}
        self.versions: dict[str, object] = {}
        self.failures: dict[str, list[tuple[str, ProbeFailure]]] = {}
        self.statements: dict[str, Sequence[str]] = {}
        self.untried: list[str] = []

    @property
    def facts(self) -> dict[str, object]:
        """What the report has as data."""
        facts: dict[str, object] = {"seconds": self.seconds, "bytes": self.memory, "versions": self.versions}
        if self.failures:
            alike = (pair for pairs in self.failures.values() for pair in pairs)
            facts["causes"] = {name: failure.facts for name, failure in alike}
        return facts

    def note(
        self,
        host: Host,
        module: str,
        key: str,
        probed: Optional[ProbeResult],
        statements: Sequence[str] = (),
    ) -> Iterator[Finding]:
        """Keep how an import ended (None: no time was left); report a crash that did not happen twice."""
        if probed is None or probed.single:
            self.untried.append(module)
        if probed is not None and (probed.died or probed.single):
            yield report_crash_once("framework-imports.died-once", f"import {module}", probed)
        if probed is None or probed.single:
            return
        if probed.document is None:
            self.note_failure(module, explain_failure(host, probed), statements)
        else:
            self.seconds[key], self.memory[key] = probed.document["seconds"], probed.document["bytes"]
            self.versions.update(probed.document["versions"])

    def note_failure(self, module: str, failure: ProbeFailure, statements: Sequence[str] = ()) -> None:
        """Keep a failure, with those that are told in the same words."""
        self.failures.setdefault(failure.sentence, []).append((module, failure))
        self.statements[module] = [text for text in statements if text.startswith("from ")]

    def note_together(self, document: Mapping[str, Any], modules: Mapping[str, str]) -> None:
        """Keep what could be imported in one process; `modules`: by the statements that were executed."""
        for text, module in modules.items():
            if text in document["seconds"]:
                self.seconds[module], self.memory[module] = document["seconds"][text], document["bytes"][text]
                self.versions[module] = document["versions"].get(module)

    def failure_of(self, module: str) -> Optional[ProbeFailure]:
        """How the import of a module failed; None where it did not."""
        alike = (pair for pairs in self.failures.values() for pair in pairs)
        return next((failure for name, failure in alike if name == module), None)

    def list_slow(self) -> Iterator[Finding]:
        """Yield a warning for each import that took too long."""
        for key, seconds in self.seconds.items():
            if seconds > SLOW:
                yield _report_slow(key.rpartition(".")[2] if key not in self.versions else key, seconds)


def _words(imports: Sequence[str]) -> tuple[str, ...]:
    """Return what a probe is told: the module of `import MODULE`, other statements as they are."""
    return tuple(text[len("import ") :] if text.startswith("import ") else text for text in imports)


@dataclass(frozen=True)
class _Attempt:
    """One of the trainers' stack to import: the statements of what it begins with, `first`, and its own."""

    module: str
    first: tuple[str, ...]
    imports: tuple[str, ...]

    @property
    def text(self) -> str:
        """Its own statements, as a probe is told."""
        return "; ".join(self.imports)


def _plan_attempts(installed: Sequence[JobDistribution], tried: _Imports) -> list[_Attempt]:
    """Return what is to be imported of the trainers' stack. What begins with a framework that failed fails as
    well, and is noted so."""
    by_name = {member.name: member for member in installed}
    attempts: list[_Attempt] = []
    for member in installed:
        if not member.trainer:
            continue
        before, module = by_name.get(member.after), member.modules[0]
        first = before.imports if before else ()
        failure = next(filter(None, map(tried.failure_of, _words(first))), None)
        if failure is not None:
            tried.note_failure(module, failure)
        elif any(name in tried.untried for name in _words(first)):
            tried.untried.append(module)
        else:
            imports = member.imports if before or not member.after else (f"import {module}",)
            attempts.append(_Attempt(module, first, imports))
    return attempts


def _import_together(host: Host, attempts: Sequence[_Attempt], tried: _Imports) -> dict[str, ProbeFailure]:
    """Import them in one process, as a trainer does, and return how those failed that did, by their text."""
    first = dict.fromkeys(text for attempt in attempts for text in attempt.first)
    try:
        probed = probe(host, "together.py", (*first, *(attempt.text for attempt in attempts)), SECONDS)
    except NoTimeLeft:
        tried.untried += [attempt.module for attempt in attempts]
        return {}
    if probed.document is None:  # one of them ended it: each is tried alone
        return {}
    tried.note_together(probed.document, {attempt.text: attempt.module for attempt in attempts})
    return {
        text: explain_failure(host, ProbeResult(probed.answer, None, parse_chain(raised)))
        for text, raised in probed.document["failures"].items()
    }


def _probe_import(host: Host, modules: tuple[str, ...], todo: list[tuple[str, ...]]) -> Optional[ProbeResult]:
    """Return how the import ended; None if no time was left. If the import that it begins with hung, that
    result is returned: waiting for it a second time tells nothing new."""
    first = (BEGINS_WITH.get(modules[-1], ""),)
    try:
        before = probe_imports(host, first) if first in todo else None
        is_hanging = before is not None and before.answer.ended == "timeout"
        return before if is_hanging else probe_imports(host, modules)
    except NoTimeLeft:
        # The deadline of the run is reached: the caller reports the module as not tried.
        return None


def _report_slow(module: str, seconds: float) -> Finding:
    return Finding(
        "framework-imports.slow",
        _(
            "import {module} took {seconds:.0f} s, more than {limit:.0f} s",
            module=module,
            seconds=seconds,
            limit=SLOW,
        ),
        action=Action.NONE,
    )
