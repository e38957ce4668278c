"""Renders a snapshot as a block to paste into an issue: versions and codes, no names, no addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from npudoctor.core.lazy import pattern
from npudoctor.core.model import UNANSWERED
from npudoctor.core.redact.bundle import BundleRedactor
from npudoctor.core.redact.prefilter import HIDDEN
from npudoctor.core.redact.redact import redact
from npudoctor.facts.snapshot.compare import is_own, stack_names
from npudoctor.facts.snapshot.sections import FactSection
from npudoctor.render.printable import printable
from npudoctor.runner.snapshot import TakenSnapshot

LINES, COLUMNS = 58, 120  # of the block within its fence; a longer one is not read
_MORE = "numpy scipy protobuf tokenizers setuptools pip".split()
# The variables that maintainers ask for in issues; search paths contain names of users and projects.
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


def paste_text(snapshot: TakenSnapshot, redactor: BundleRedactor) -> str:
    """The block in a Markdown fence; backquotes are replaced, so that no line can end the fence."""
    clean = _IdentityRedactor(snapshot, redactor)
    lines = [
        line[:COLUMNS].replace("`", "'").rstrip() for line in map(printable, _block_lines(snapshot, clean))
    ]
    if len(lines) > LINES:
        lines = [*lines[: LINES - 1], f"... ({len(lines) - LINES + 1} more lines)"]
    return "\n".join(("```text", *lines, "```")) + "\n"


class _IdentityRedactor:
    """Removes identities from a text: user, node, home directories, addresses, mail addresses."""

    def __init__(self, snapshot: TakenSnapshot, redactor: BundleRedactor) -> None:
        host = snapshot.report.host
        self._redactor = redactor
        # Names of one or two characters, and "root", would match in other words.
        names = {"<user>": host.user, "<host>": host.name, "<host> ": host.name.partition(".")[0]}
        self._names = [
            (re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])"), mark.strip())
            for mark, name in names.items()
            if len(name) > 2 and name not in ("root", "localhost")
        ]

    def __call__(self, text: str) -> str:
        """The text without identities and secrets."""
        # Secrets first: they are found by their surroundings, which the next steps replace.
        text = self._redactor.hide_own_values(redact(text))
        text = _MAIL.sub("<mail>", _ADDRESS.sub("<address>", _HOME.sub("~", text)))
        for name, mark in self._names:
            text = name.sub(mark, text)
        return text


def _block_lines(snapshot: TakenSnapshot, clean: _IdentityRedactor) -> Iterator[str]:
    report = snapshot.report
    yield f"npudoctor {report.version}, {report.started}, {report.verdict.value}"
    system, devices = _facts_of(snapshot, "system"), _facts_of(snapshot, "accelerator")
    yield from _pair_lines(
        "system", system.get("distribution"), "container" if system.get("container") else None
    )
    yield from _pair_lines("kernel", system.get("kernel"), system.get("architecture"))
    yield from _pair_lines("hardware", "CPUs", system.get("processors"), system.get("memory"))
    for kind in ("NPU", "GPU"):
        if devices.get(f"{kind}s"):
            yield from _pair_lines(f"{kind}s", devices[f"{kind}s"], devices.get(f"{kind} models"))
    if not devices.get("NPUs") and not devices.get("GPUs"):
        yield from _pair_lines("accelerator", "none found")
    # Driver versions are not cleaned: 24.1.0.3 looks like an IPv4 address.
    for name, value in _facts_of(snapshot, "driver").items():
        yield from _pair_lines(name, value)
    cann, python = _facts_of(snapshot, "cann"), _facts_of(snapshot, "python")
    yield from _pair_lines(
        "CANN", cann.get("version") or cann.get("component"), clean(_value_text(cann.get("path") or ""))
    )
    yield from _pair_lines("Python", python.get("version"), clean(_value_text(python.get("path") or "")))
    packages = _facts_of(snapshot, "packages")
    shown = [name for name in (*sorted(stack_names()), *_MORE) if name in packages]
    yield from _wrap_words("packages", [f"{name} {packages[name]}" for name in shown])
    yield f"{'':<13} {len(packages)} packages in all"
    # Only codes: messages contain files, hosts and users. `npudoctor show CODE` explains a code.
    codes: dict[str, int] = {}
    for row in snapshot.report.results:
        for finding in row.findings:
            key = f"{finding.weight.name.lower()} {finding.code}"
            codes[key] = codes.get(key, 0) + 1
    yield "findings:" if codes else "findings:     none"
    for key, count in sorted(codes.items(), key=lambda item: ("ewi".find(item[0][0]), item[0])):
        yield f"  {key}" + (f" ({count} times)" if count > 1 else "")
    # Only the names of checks without a result: the reasons contain files and users.
    rows = [
        f"{row.check} ({row.status.value})" for row in snapshot.report.results if row.status in UNANSWERED
    ]
    rows += [name for name, section in snapshot.sections.items() if section.failed]
    yield from _wrap_words("unknown", rows)
    yield from _setting_lines(snapshot, clean)  # last, so that too many variables are cut and nothing else


def _facts_of(snapshot: TakenSnapshot, section: str) -> dict[str, object]:
    taken_section = snapshot.sections.get(section) or FactSection(section, ())
    return {fact.name: "not readable" if fact.unread else fact.value for fact in taken_section.facts}


def _pair_lines(name: str, *values: object) -> Iterator[str]:
    text = " ".join(_value_text(value) for value in values if value not in (None, (), ""))
    if text:
        yield f"{name + ':':<13} {text}"


def _value_text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _wrap_words(name: str, words: Sequence[str]) -> Iterator[str]:
    """Yield words separated by commas in lines of at most COLUMNS characters."""
    line = ""
    for word in words:
        if line and len(line) + len(word) > COLUMNS - 20:
            yield f"{name + ':' if name else '':<13} {line}"
            name, line = "", ""
        line = f"{line}, {word}" if line else word
    if line:
        yield f"{name + ':' if name else '':<13} {line}"


def _setting_lines(snapshot: TakenSnapshot, clean: _IdentityRedactor) -> Iterator[str]:
    limits = _facts_of(snapshot, "limits")
    yield from _wrap_words("limits", [f"{name} {limits[name]}" for name in _LIMITS if name in limits])
    group = {name: value for name, value in _facts_of(snapshot, "cgroup").items() if value != "unlimited"}
    yield from _wrap_words(
        "cgroup", [f"{name} {value}" for name, value in group.items() if value is not None]
    )
    variables = _facts_of(snapshot, "variables")
    for name, value in variables.items():
        if name.startswith(_VARIABLES) and not name.endswith(_PLACES) and not is_own("variables", name):
            yield f"  {name}={HIDDEN if value == HIDDEN else clean(_value_text(value))}"
