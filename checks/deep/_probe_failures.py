"""What the deep checks share: how long a probe may take, and what is said of one that failed."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Optional

from npudoctor import Action, Finding, Fix, Host, _
from npudoctor.checks.deep import _remedies as remedies
from npudoctor.checks.deep._cause_words import Cause, deepest_frame, distinct_words, place_of, spot_of
from npudoctor.checks.deep._import_errors import add_limits, cause_of, is_out_of_memory
from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.facts.job.probes import ProbeResult, probe
from npudoctor.facts.job.tracebacks import Raised, stack_of
from npudoctor.facts.python.owners import owner_of

SECONDS = 120.0  # for one framework
LINES, LONGEST = 12, 400  # of the output, as evidence: its end says why
SHOWN = 500  # characters of a sentence
# Lines that stand in every traceback or crash dump and take the place of telling ones.
_NOISE = (
    "Traceback (most recent call last)",
    "Extension modules: ",
    "The above exception was the direct cause",
    "During handling of the above exception",
)
# Printed by std::terminate of libstdc++ before it aborts.
_THROWN = pattern(
    r"terminate called after throwing an instance of '(?P<type>[^']+)'(?:\s+what\(\):\s*(?P<what>[^\n]*))?"
)
# Headings of faulthandler's dump, which name no cause.
_THREAD = pattern(r"(Current t|T)hread 0x[0-9a-f]+ ")
# Functions of importlib in whose frames an extension module is loaded.
_LOADS = ("create_module", "exec_module", "_call_with_frames_removed", "_load_unlocked", "module_from_spec")


@dataclass(frozen=True)
class ProbeFailure:
    """A probe that failed: its result, one sentence on how it ended, and the cause if it is known."""

    probed: ProbeResult
    sentence: str
    cause: Optional[Cause]

    @property
    def facts(self) -> dict[str, object]:
        """The cause as data for the report. `about`: the words by which another check would name it."""
        cause = self.cause
        if cause is None:
            return {"ending": self.probed.ending}
        frame = deepest_frame(cause.raised.frames)
        return {
            "type": cause.raised.type,
            "message": cause.raised.message[:LONGEST],
            "file": frame.file if frame else None,
            "line": frame.line if frame else None,
            "package": cause.owner,
            "about": list(cause.about),
            "vague": cause.vague or not cause.understood,
        }


def probe_imports(host: Host, modules: Sequence[str]) -> ProbeResult:
    """Import the modules in a child process and return the result, cached for all checks. Raises NoTimeLeft
    and CannotTell as `probe` does."""
    return host.once(f"import {' '.join(modules)}", lambda: probe(host, "imports.py", modules, SECONDS))


def report_crash_once(code: str, subject: str, probed: ProbeResult) -> Finding:
    """Report a probe that crashed once: the second try worked, or there was no time for one."""
    if probed.died:
        text = _("{what}: {ending} on the first try; the second try, without npudoctor's settings, worked")
    else:
        text = _("{what}: {ending}; there was no time to try again")
    message = text.format(what=subject, ending=probed.died or probed.ending)
    output = [line.strip()[:LONGEST] for line in probed.output.splitlines() if line.strip()]
    return Finding(code, message, evidence=() if probed.died else tuple(output[-2:]), action=Action.NONE)


def explain_failure(host: Host, probed: ProbeResult) -> ProbeFailure:
    """Explain how a probe ended that did not finish."""
    cause = cause_of(host, probed.raised)
    if cause is None or cause.raised.is_a("SystemExit"):
        cause = _explain_ending(host, probed, cause)
    sentence = " ".join((cause.sentence if cause else probed.ending).split())
    return ProbeFailure(probed, sentence if len(sentence) <= SHOWN else sentence[:SHOWN] + "...", cause)


def _explain_ending(host: Host, probed: ProbeResult, exit_cause: Optional[Cause]) -> Optional[Cause]:
    """Return the cause of a probe that was killed, hung or called exit: where it was at that moment. None if
    nothing is known. `exit_cause`: the SystemExit, if Python itself exited."""
    stack = stack_of(probed.output)
    if exit_cause is not None:
        stack = exit_cause.raised.frames
    name = _ending_name(probed) if exit_cause is None else f"SystemExit({exit_cause.raised.message})"
    raised = Raised(name, "", frames=stack)
    frame = deepest_frame(stack)
    is_silent = not stack and probed.answer.ended == "exited"  # it ended without a word
    loading = None
    if is_silent or (
        stack and stack[-1].file.startswith("<frozen importlib") and stack[-1].function in _LOADS
    ):
        loading = probed.loading
    if probed.finished and exit_cause is None:
        return Cause(
            _("{ending} when Python exited, after everything had worked", ending=probed.ending), raised
        )
    if frame is None and loading is None:
        return None
    words = {"ending": probed.ending, "place": spot_of(host, raised)}
    owner = owner_of(host, loading or (frame.file if frame else None))
    if loading:
        library = _("{path} of {package}", path=loading, package=owner.label) if owner else loading
        text = _("{ending} while loading {library}")
        if is_silent:
            text = _("{ending}; {library} was loaded last")
        words.update(library=library)
    elif probed.answer.ended == "timeout":
        text = _("{ending}: it waits in {place}")
    elif exit_cause is not None:
        text = _("{ending}: {place} makes Python exit")
    else:
        text = _("{ending} in {place}")
    words_about = distinct_words(
        loading or "", frame.file if frame else "", owner.distribution.name if owner else ""
    )
    sentence, fix = text.format(**words), _signal_remedy(probed, loading is not None)
    last_message = _abort_message(probed) if exit_cause is None else exit_cause.raised.message
    last_message = "" if last_message.lstrip("-").isdigit() else last_message
    if last_message:
        sentence = f"{sentence}: {last_message}"
    if is_out_of_memory(last_message):
        sentence, fix = add_limits(host, sentence)
        words_about = distinct_words("ulimit -v", "ulimit -d", *words_about)
    return Cause(sentence, raised, words_about, fix, owner=owner.label if owner else None)


def _abort_message(probed: ProbeResult) -> str:
    """Return what a library printed before it aborted the process; "" if nothing."""
    # A negative status is the signal that ended the child (subprocess.Popen.returncode).
    if probed.answer.status != -signal.SIGABRT:
        return ""
    match = _THROWN.search(probed.output)
    if match:
        words: list[str] = [match["type"], (match["what"] or "").strip()]
        return ": ".join(dict.fromkeys(filter(None, words)))
    # From these words on, stderr is faulthandler's dump of the stacks.
    before = probed.answer.stderr.partition("Fatal Python error: ")[0].splitlines()
    return next((line.strip()[:LONGEST] for line in reversed(before) if line.strip()), "")


def _signal_remedy(probed: ProbeResult, loading: bool) -> Optional[Fix]:
    """Return the remedy that the signal alone suggests for a program that only imports; None without a
    signal."""
    status = probed.answer.status
    if status is None or status >= 0:
        return None
    text = _("reinstall it for this Python, with the NumPy that it was built for, then try the import alone")
    if status == -signal.SIGILL:
        text = _("install a build for this processor: it lacks an instruction that this build uses")
    elif status == -signal.SIGKILL:
        text = _("check whether memory ran out: dmesg -T | grep -i 'killed process'")
    # SIGBUS: a page beyond the end of a mapped file was touched (mmap(2)), as in a truncated library.
    elif status == -signal.SIGBUS and loading:
        text = _("reinstall it: one of the libraries that it loads is truncated")
    fix: Fix = remedies.manual_fix(text)
    return fix


def _ending_name(probed: ProbeResult) -> str:
    """Return the signal's name, which stands in place of an exception's type."""
    status = probed.answer.status
    if status is None or status >= 0:
        return probed.ending
    try:
        return signal.Signals(-status).name
    except ValueError:
        # signal.Signals has no name for the real-time signals between SIGRTMIN and SIGRTMAX.
        return probed.ending


def report_failure(code: str, message: str, failure: ProbeFailure, echo_of: tuple[str, ...] = ()) -> Finding:
    """Return the finding. Evidence: first the cause, then where it occurred, then the rest of the output."""
    return Finding(
        code,
        message,
        evidence=tuple(line[:LONGEST] for line in _evidence(failure))[:LINES],
        action=Action.CONFIG,
        fix=failure.cause.fix if failure.cause else None,
        echo_of=echo_of,
    )


def _evidence(failure: ProbeFailure) -> list[str]:
    first: list[str] = []
    cause = failure.cause
    if cause is not None:
        text = [line.strip() for line in cause.raised.text.splitlines() if line.strip()]
        place = place_of(cause.raised)
        if place and cause.owner:
            place = f"{place} ({cause.owner})" if not cause.understood else place
        first = [*text[:2], *([place] if place else [])]
        other_errors = [
            raised.text.splitlines()[0]
            for raised in failure.probed.raised
            if raised.text != cause.raised.text
        ]
        first += [raised for raised in other_errors if raised not in first]
    lines = [line.rstrip() for line in failure.probed.output.splitlines() if line.strip()]
    messages = [line for line in lines if not line[0].isspace()] or lines
    # Headings and thread dumps say nothing by themselves, and what is in `first` is said already.
    rest = [
        line
        for line in messages
        if line not in first and not (line.startswith(_NOISE) or bool(_THREAD.match(line)))
    ]
    room = LINES - len(first)
    return [*first, *(rest[-room:] if room > 0 else [])]
