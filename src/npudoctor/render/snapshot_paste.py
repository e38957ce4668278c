"""A snapshot as the block that people paste into an issue: versions and codes, no people, no places."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from npudoctor.core.lazy import pattern
from npudoctor.core.model import UNANSWERED
from npudoctor.core.redact.bundle import BundleRedactor
from npudoctor.core.redact.prefilter import HIDDEN
from npudoctor.core.redact.redact import redact
from npudoctor.facts.snapshot.compare import STACK, is_own
from npudoctor.facts.snapshot.sections import FactSection
from npudoctor.render.printable import printable
from npudoctor.runner.snapshot import TakenSnapshot

LINES, COLUMNS = 58, 120  # of the block within its fence; more nobody reads in an issue
_MORE = "numpy scipy protobuf transformers accelerate tokenizers setuptools pip".split()
# Of all variables these are asked for in issues; search paths have too many names of places in them.
_VARIABLES = (
    "ASCEND",
    "HCCL",
    "NCCL",
    "GLOO",
    "PYTORCH_NPU",
    "TORCH_NPU",
    "VLLM",
    "MS_",
    "TASK_QUEUE",
    "CUDA",
)
_PLACES = ("PATH", "HOME", "FILE", "DIR", "_IP", "ADDR", "HOST")
_LIMITS = ("Max open files, soft", "Max locked memory, soft", "Max processes, soft", "/dev/shm")  # noqa: S108
_ADDRESS = pattern(
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])|(?<![\w:])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:])"
)
_MAIL = pattern(r"[\w.+-]+@[\w.-]+")
_HOME = pattern(r"/(?:home|Users)/[^/\s:,;]+|/root(?![\w-])")


def paste_text(taken: TakenSnapshot, redactor: BundleRedactor) -> str:
    """The block. Everything in it is spelled out harmlessly: no line can end the fence or begin another."""
    clean = _Cleaner(taken, redactor)
    lines = [line[:COLUMNS].replace("`", "'").rstrip() for line in map(printable, _lines(taken, clean))]
    if len(lines) > LINES:
        lines = [*lines[: LINES - 1], f"... ({len(lines) - LINES + 1} more lines)"]
    return "\n".join(("```text", *lines, "```")) + "\n"


class _Cleaner:
    """Takes out who and where: the user, the node, homes, addresses."""

    def __init__(self, taken: TakenSnapshot, redactor: BundleRedactor) -> None:
        host = taken.report.host
        self._redactor = redactor
        # A short name, or that of everybody's root, would be found in other words.
        names = {"<user>": host.user, "<host>": host.name, "<host> ": host.name.partition(".")[0]}
        self._names = [
            (re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])"), mark.strip())
            for mark, name in names.items()
            if len(name) > 2 and name not in ("root", "localhost")
        ]

    def __call__(self, text: str) -> str:
        """The text without them, and without secrets."""
        text = self._redactor.hide_own_values(redact(text))
        text = _MAIL.sub("<mail>", _ADDRESS.sub("<address>", _HOME.sub("~", text)))
        for name, mark in self._names:
            text = name.sub(mark, text)
        return text


def _lines(taken: TakenSnapshot, clean: _Cleaner) -> Iterator[str]:
    report = taken.report
    yield f"npudoctor {report.version}, {report.started}, {report.verdict.value}"
    system, devices = _facts(taken, "system"), _facts(taken, "accelerator")
    yield from _pair("system", system.get("distribution"), "container" if system.get("container") else None)
    yield from _pair("kernel", system.get("kernel"), system.get("architecture"))
    yield from _pair("hardware", "CPUs", system.get("processors"), system.get("memory"))
    for kind in ("NPU", "GPU"):
        if devices.get(f"{kind}s"):
            yield from _pair(f"{kind}s", devices[f"{kind}s"], devices.get(f"{kind} models"))
    if not devices.get("NPUs") and not devices.get("GPUs"):
        yield from _pair("accelerator", "none found")
    # Versions are left as they are: a driver's, 24.1.0.3, looks like an address.
    for name, value in _facts(taken, "driver").items():
        yield from _pair(name, value)
    cann, python = _facts(taken, "cann"), _facts(taken, "python")
    yield from _pair(
        "CANN", cann.get("version") or cann.get("component"), clean(_word(cann.get("path") or ""))
    )
    yield from _pair("Python", python.get("version"), clean(_word(python.get("path") or "")))
    packages = _facts(taken, "packages")
    shown = [name for name in (*sorted(STACK), *_MORE) if name in packages]
    yield from _wrap_words("packages", [f"{name} {packages[name]}" for name in shown])
    yield f"{'':<13} {len(packages)} packages in all"
    # Codes alone: messages name files, hosts and people. `npudoctor show CODE` says what one means.
    codes: dict[str, int] = {}
    for row in taken.report.results:
        for finding in row.findings:
            key = f"{finding.weight.name.lower()} {finding.code}"
            codes[key] = codes.get(key, 0) + 1
    yield "findings:" if codes else "findings:     none"
    for key, count in sorted(codes.items(), key=lambda item: ("ewi".find(item[0][0]), item[0])):
        yield f"  {key}" + (f" ({count} times)" if count > 1 else "")
    # What could not be looked at is named; the reasons name files and people.
    rows = [f"{row.check} ({row.status.value})" for row in taken.report.results if row.status in UNANSWERED]
    rows += [name for name, section in taken.sections.items() if section.failed]
    yield from _wrap_words("unknown", rows)
    yield from _settings(taken, clean)  # last: of a flood of variables the end is cut


def _facts(taken: TakenSnapshot, section: str) -> dict[str, object]:
    taken_section = taken.sections.get(section) or FactSection(section, ())
    return {fact.name: "not readable" if fact.unread else fact.value for fact in taken_section.facts}


def _pair(name: str, *values: object) -> Iterator[str]:
    text = " ".join(_word(value) for value in values if value not in (None, (), ""))
    if text:
        yield f"{name + ':':<13} {text}"


def _word(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _wrap_words(name: str, words: Sequence[str]) -> Iterator[str]:
    """Words in as few lines as they fit."""
    line = ""
    for word in words:
        if line and len(line) + len(word) > COLUMNS - 20:
            yield f"{name + ':' if name else '':<13} {line}"
            name, line = "", ""
        line = f"{line}, {word}" if line else word
    if line:
        yield f"{name + ':' if name else '':<13} {line}"


def _settings(taken: TakenSnapshot, clean: _Cleaner) -> Iterator[str]:
    limits = _facts(taken, "limits")
    yield from _wrap_words("limits", [f"{name} {limits[name]}" for name in _LIMITS if name in limits])
    group = {name: value for name, value in _facts(taken, "cgroup").items() if value != "unlimited"}
    yield from _wrap_words(
        "cgroup", [f"{name} {value}" for name, value in group.items() if value is not None]
    )
    variables = _facts(taken, "variables")
    for name, value in variables.items():
        if name.startswith(_VARIABLES) and not name.endswith(_PLACES) and not is_own("variables", name):
            yield f"  {name}={HIDDEN if value == HIDDEN else clean(_word(value))}"
