"""What leaves the machine in a bundle: beyond the secrets, all variables that are not on a list, and all that
the caller's own variables hold under telling names."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from npudoctor.core.redact.dumps import Span, find_dumped, replace_spans
from npudoctor.core.redact.names import Weight, looks_secret, weight
from npudoctor.core.redact.prefilter import HIDDEN
from npudoctor.core.redact.redactor import Redactor
from npudoctor.core.redact.vendors import patterns

# A support engineer needs these; every other variable of a dump of the environment is somebody's own.
_ALLOWED = re.compile(
    r"(?:ASCEND|HCCL|HCCP|LCCL|LCAL|NCCL|GLOO|UCX|CUDA|NVIDIA|CUBLAS|CUDNN|NPU|ATB|ACL|ACLNN|AICPU|TE|TBE|TUNE|GE"
    r"|PLOG|TORCH|TORCHELASTIC|TORCHINDUCTOR|PYTORCH|PYTHON|MS|MINDSPORE|MINDFORMERS|PADDLE|FLAGS|VLLM|SGLANG"
    r"|TRITON|DEVICE|RANK|WORLD|LOCAL|MASTER|GROUP|ROLE|NODE|NNODES|NPROC|SLURM|OMPI|PMI|PMIX|MPI|OMP|MKL|OPENBLAS"
    r"|KMP|NUMEXPR|TF|XLA|GLOG|LD|LIBRARY|CPATH|PATH|HOME|SHELL|TERM|LANG|LC|TZ|PWD|OLDPWD|USER|LOGNAME"
    r"|HOSTNAME|HOST|TMPDIR|TMP|TEMP|XDG|CONDA|VIRTUAL|TOOLCHAIN|OPP|CPU|TOKENIZERS|SHLVL|MALLOC|JEMALLOC|NPUDOCTOR)"
    r"(?:_|\d|$)"
)
_DUMPED = re.compile(
    r"(?P<mark>(?:export|declare\s-x|setenv|set\s-g?x)\s{1,4})?(?P<name>[A-Z][A-Z0-9_]{2,100})[=\s](?P<value>\S.{0,65536})$"
)
_BEFORE = re.compile(r"[\s+>$]{0,16}")
_PLAIN = re.compile(r"[\"']?(?:[-+]?[\d.,]{0,6}|true|false|[01])[\"']?$")
_LEAST = 6  # characters of a value that is looked for everywhere


class BundleRedactor(Redactor):
    """`variables` are the caller's: what they hold under telling names is hidden wherever it stands."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        super().__init__()
        values = {value for name, value in variables.items() if _own_secret(name, value)}
        self._own = sorted(values | {json.dumps(value)[1:-1] for value in values}, key=len, reverse=True)

    def line(self, text: str) -> str:
        """The next line of a log."""
        return self._variable(self._vendors(self.known(super().line(text))))

    def together(self, lines: Sequence[str]) -> list[str]:
        """Lines that were hidden one by one, without what only tells beside the others: a dump."""
        spans: dict[int, set[Span]] = {}
        for number, name, (begin, end) in find_dumped(lines):
            value = lines[number][begin:end]
            if not (_ALLOWED.match(name) or _PLAIN.match(value) or HIDDEN in value[: len(HIDDEN) + 1]):
                spans.setdefault(number, set()).add((begin, end))
        self.counts["variable"] += sum(map(len, spans.values()))
        return [replace_spans(line, spans.get(number, ()), HIDDEN) for number, line in enumerate(lines)]

    def known(self, text: str) -> str:
        """Without the values of the caller's variables."""
        for value in self._own:
            if value in text:
                self.counts["variable"] += text.count(value)
                text = text.replace(value, HIDDEN)
        return text

    def _vendors(self, text: str) -> str:
        for pattern in patterns():
            text, count = pattern.subn(HIDDEN, text)
            self.counts["token"] += count
        return text

    def _variable(self, text: str) -> str:
        """A line of a dump of the environment."""
        match = _DUMPED.match(text, _BEFORE.match(text).end())  # type: ignore[union-attr]
        if not match or _ALLOWED.match(match["name"]) or HIDDEN in match["value"]:
            return text
        dumped = bool(match["mark"]) and not _PLAIN.match(match["value"])
        if not dumped and not (
            text[match.end("name")] == "=" and looks_secret(match["value"].strip("\"'"), Weight.RANDOM)
        ):
            return text
        self.counts["variable"] += 1
        return text[: match.start("value")] + HIDDEN


def _own_secret(name: str, value: str) -> bool:
    if len(value) < _LEAST or value.startswith("/") or not looks_secret(value, weight(name)):
        return False
    return not value.isalpha() or len(value) >= 2 * _LEAST  # else it may be a word that stands anywhere
