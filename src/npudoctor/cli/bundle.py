"""Writes the bundle of `explain --collect`: report, explanation, log excerpts, versions; all or nothing."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from npudoctor.cli.arguments.paths import resolve_output
from npudoctor.cli.config import UsageError, absolute_path
from npudoctor.cli.terminal.output import OutputLost, complain, write_in_child
from npudoctor.core import way
from npudoctor.core.messages import _
from npudoctor.core.redact.prefilter import HIDDEN
from npudoctor.core.redact.redact import redact
from npudoctor.host import CannotTell
from npudoctor.render.printable import printable

if TYPE_CHECKING:
    from npudoctor.cli.session import Session
    from npudoctor.explain.answer import Explanation
    from npudoctor.host.fs.files import Files

_OPTION = "--collect"
_PACKAGES = (
    "torch torch_npu mindspore paddlepaddle paddle_custom_npu vllm vllm_ascend mindspeed megatron_core"
    " deepspeed accelerate transformers numpy scipy protobuf te hccl triton triton_ascend"
).split()
_JSON = ("report.json", "explain.json")


def validate_bundle_path(name: str, files: Files) -> str:
    """The path for --collect, validated like that of --output; raises UsageError when the file exists."""
    path = absolute_path(name, _OPTION)
    folder = os.path.dirname(path)
    try:  # by `files`, in a child: a dead mount never answers
        entry = files.stat(folder)
        exists = entry is not None and files.lstat(path) is not None
    except CannotTell as error:
        raise UsageError(f"{_OPTION}: {error.reason}") from error
    if entry is None or not entry.is_dir:
        raise UsageError(_("{option}: {path} is not a directory", option=_OPTION, path=folder))
    if exists:
        raise UsageError(
            _("{option}: {path} already exists and is not overwritten", option=_OPTION, path=path)
        )
    return resolve_output(path, files, _OPTION) or path


def collect_bundle(path: str, explanation: Explanation, session: Session) -> None:
    """Run all checks, and write the bundle with their report and the excerpts of the logs."""
    from npudoctor.core.redact.bundle import BundleRedactor
    from npudoctor.explain.excerpts import name_in_bundle, read_excerpts
    from npudoctor.render.explain_json import explain_object
    from npudoctor.render.json_text import json_text
    from npudoctor.render.report_json import report_json
    from npudoctor.runner import runner

    report = runner.run(session.loaded, session.host, session.settings(), session.until)
    redactor = BundleRedactor(session.host.variables)
    contents = {
        "report.json": redactor.hide_own_values(report_json(report)).encode(),
        "explain.json": redactor.hide_own_values(json_text(explain_object(explanation))).encode(),
        "versions.txt": _versions_text(session).encode("utf-8", "backslashreplace"),
    }
    missing = []
    for excerpt in read_excerpts(explanation.diagnoses, explanation.errors, explanation.logs, redactor):
        if excerpt.missing:
            missing.append(f"{printable(excerpt.path)}: {excerpt.missing}")
        else:
            contents[name_in_bundle(excerpt.path, contents)] = excerpt.text.encode(
                "utf-8", "backslashreplace"
            )
    for line in missing:
        complain(_("not in the bundle: {line}", line=line))
    redactor.counts["report"] = sum(contents[name].count(HIDDEN.encode()) for name in _JSON)
    omitted = [redactor.hide_own_values(redact(line)) for line in missing]
    contents["README.txt"] = _readme_text(contents, omitted, redactor.counts).encode(
        "utf-8", "backslashreplace"
    )
    pack_bundle(path, contents)


def _readme_text(names: Iterable[str], missing: Sequence[str], counts: Mapping[str, int]) -> str:
    """The text of README.txt: what the bundle contains, what is missing, and what was redacted."""
    kinds = {
        "report": _("parts of report.json and explain.json"),
        "named": _("values with names such as password, secret or token"),
        "command": _("passwords in command lines"),
        "header": _("HTTP headers with credentials and cookies"),
        "url": _("passwords and signatures in URLs"),
        "token": _("tokens recognized by their format"),
        "key": _("private keys"),
        "variable": _("environment variables that are not needed for support, and copies of secret values"),
    }
    lines = [_("npudoctor packed these files:"), *(f"  {name}" for name in names), ""]
    if missing:
        lines += [_("Lines of these logs could not be packed:"), *(f"  {line}" for line in missing), ""]
    lines.append(_("Replaced by {hidden}:", hidden=HIDDEN))
    lines += [f"  {counts.get(kind, 0)}  {text}" for kind, text in kinds.items() if counts.get(kind)]
    if not any(counts.values()):
        lines.append("  " + _("nothing"))
    lines += ["", _("No detector finds every secret: read the files before you share them.")]
    return "\n".join(lines) + "\n"


def _versions_text(session: Session) -> str:
    """The versions of the packages of the job's interpreter; the report names machine, CANN and driver."""
    interpreter = session.host.interpreter
    lines = [f"interpreter: {interpreter.label}"]
    for name in _PACKAGES:
        with contextlib.suppress(Exception):  # the report tells what cannot be read
            version = interpreter.version_of(name)
            if version is not None:
                lines.append(f"{name}: {version}")
    return "\n".join(lines) + "\n"


def pack_bundle(path: str, contents: Mapping[str, bytes]) -> None:
    """Write the bundle under another name and link it to its path: complete, and never over another file."""
    top = os.path.basename(path).split(".")[0] or "npudoctor"
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as bundle:
        for inner, content in contents.items():
            entry = tarfile.TarInfo(f"{top}/{inner}")
            # No owner: TarInfo has 0 and no name, so that the bundle does not tell who made it.
            entry.size, entry.mode, entry.mtime = len(content), 0o644, int(time.time())
            bundle.addfile(entry, io.BytesIO(content))
    try:
        write_in_child(lambda: way.write(path, file.getvalue(), 0o600, way.link), path)
    except OSError as error:
        raise OutputLost(f"{path}: {way.reason_of(error)}") from error
