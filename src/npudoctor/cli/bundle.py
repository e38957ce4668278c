"""The bundle of `explain --collect`: report, explanation, lines around, versions; whole or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from npudoctor.cli.output import Lost
from npudoctor.config import Refused, absolute
from npudoctor.messages import _, strerror

if TYPE_CHECKING:
    from npudoctor.cli.session import Session
    from npudoctor.explain.answer import Explanation

_PACKAGES = (
    "torch torch_npu mindspore paddlepaddle paddle_custom_npu vllm vllm_ascend mindspeed megatron_core"
    " deepspeed accelerate transformers numpy scipy protobuf te hccl triton triton_ascend"
).split()


def place(told: str) -> str:
    """The file of --collect, as long as there is none yet."""
    path = absolute(told, "--collect")
    if os.path.lexists(path):
        raise Refused(
            _("{option}: {path} exists: nothing is overwritten").format(option="--collect", path=path)
        )
    if not os.path.isdir(os.path.dirname(path)):
        text = _("{option}: {path} is not a directory")
        raise Refused(text.format(option="--collect", path=os.path.dirname(path)))
    return path


def collect(path: str, found: Explanation, session: Session) -> None:
    """Ask all checks, and pack what they and the logs say."""
    from npudoctor import runner
    from npudoctor.explain.excerpts import excerpts, named
    from npudoctor.render.explain_json import explain_object
    from npudoctor.render.json_text import json_text
    from npudoctor.render.report_json import report_json

    report = runner.run(session.loaded, session.host, session.settings(), session.until)
    contents = {
        "report.json": report_json(report).encode(),
        "explain.json": json_text(explain_object(found)).encode(),
        "versions.txt": _versions(session).encode("utf-8", "backslashreplace"),
    }
    for log, text in excerpts(found.diagnoses, found.errors):
        contents[named(log, contents)] = text.encode("utf-8", "backslashreplace")
    pack(path, contents)


def _versions(session: Session) -> str:
    """What is installed for the interpreter that runs the job; the report names machine, CANN and driver."""
    interpreter = session.host.interpreter
    lines = [f"interpreter: {interpreter.label}"]
    for name in _PACKAGES:
        with contextlib.suppress(Exception):  # what cannot be read is said in the report
            version = interpreter.version_of(name)
            if version is not None:
                lines.append(f"{name}: {version}")
    return "\n".join(lines) + "\n"


def pack(path: str, contents: Mapping[str, bytes]) -> None:
    """Write the bundle beside its place and link it there: it is whole, and never instead of another."""
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".npudoctor-{os.urandom(8).hex()}")
    top = name.split(".")[0] or "npudoctor"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            with open(os.open(temporary, flags, 0o600), "wb") as file:
                with tarfile.open(fileobj=file, mode="w:gz") as bundle:
                    for inner, content in contents.items():
                        entry = tarfile.TarInfo(f"{top}/{inner}")
                        entry.size, entry.mode, entry.mtime = len(content), 0o644, int(time.time())
                        bundle.addfile(entry, io.BytesIO(content))
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
    except OSError as error:
        raise Lost(f"{path}: {strerror(error.errno)}") from error
