"""What leaves the machine in a bundle: beyond the secrets, all variables that are not on a list, and all that
the caller's own variables hold under telling names."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Optional

from npudoctor.core.lazy import pattern
from npudoctor.core.optional import load
from npudoctor.core.redact.names import Weight, looks_secret, weight
from npudoctor.core.redact.prefilter import HIDDEN
from npudoctor.core.redact.redactor import Redactor

# By module: its class. Only detectors of exact forms; its entropy and keyword detectors would also hit hashes
# and paths of ordinary logs.
_PLUGINS = {
    "aws": "AWSKeyDetector",
    "azure_storage_key": "AzureStorageKeyDetector",
    "discord": "DiscordBotTokenDetector",
    "github_token": "GitHubTokenDetector",
    "gitlab_token": "GitLabTokenDetector",
    "mailchimp": "MailchimpDetector",
    "pypi_token": "PypiTokenDetector",
    "sendgrid": "SendGridDetector",
    "slack": "SlackDetector",
    "square_oauth": "SquareOAuthDetector",
    "stripe": "StripeDetector",
    "telegram_token": "TelegramBotTokenDetector",
    "twilio": "TwilioKeyDetector",
}


@functools.cache
def patterns() -> tuple[re.Pattern[str], ...]:
    """All patterns of detect-secrets; none where it is not installed, or has another interface than we
    know.
    """
    patterns: list[re.Pattern[str]] = []
    for module, name in _PLUGINS.items():
        try:
            plugin = getattr(load(f"detect_secrets.plugins.{module}"), name)
            patterns += [pattern for pattern in plugin.denylist if isinstance(pattern, re.Pattern)]
        except Exception:  # noqa: S112  (a list that cannot be loaded is one that is not there)
            continue
    return tuple(patterns)


# A support engineer needs these; every other variable of a dump of the environment is somebody's own.
_ALLOWED = pattern(
    r"(?:ASCEND|HCCL|HCCP|LCCL|LCAL|NCCL|GLOO|UCX|CUDA|NVIDIA|CUBLAS|CUDNN|NPU|ATB|ACL|ACLNN|AICPU|TE|TBE|TUNE|GE"
    r"|PLOG|TORCH|TORCHELASTIC|TORCHINDUCTOR|PYTORCH|PYTHON|MS|MINDSPORE|MINDFORMERS|PADDLE|FLAGS|VLLM|SGLANG"
    r"|TRITON|DEVICE|RANK|WORLD|LOCAL|MASTER|GROUP|ROLE|NODE|NNODES|NPROC|SLURM|OMPI|PMI|PMIX|MPI|OMP|MKL|OPENBLAS"
    r"|KMP|NUMEXPR|TF|XLA|GLOG|LD|LIBRARY|CPATH|PATH|HOME|SHELL|TERM|LANG|LC|TZ|PWD|OLDPWD|USER|LOGNAME"
    r"|HOSTNAME|HOST|TMPDIR|TMP|TEMP|XDG|CONDA|VIRTUAL|TOOLCHAIN|OPP|CPU|TOKENIZERS|SHLVL|MALLOC|JEMALLOC|NPUDOCTOR)"
    r"(?:_|\d|$)"
)
# As export -p, declare -x, setenv and fish print variables, or env without a word before.
_DUMPED = pattern(
    r"(?P<mark>(?:export|declare\s-x|setenv|set\s-g?x)\s{1,4})?(?P<name>[A-Z][A-Z0-9_]{2,100})[=\s](?P<value>\S.{0,65536})$"
)
_BEFORE = pattern(r"[\s+>$]{0,16}")
# Numbers and switches give nothing away.
_PLAIN = pattern(r"[\"']?(?:[-+]?[\d.,]{0,6}|true|false|[01])[\"']?$")
_LEAST = 6  # characters of a value that is looked for everywhere


def helps_support(name: str) -> bool:
    """Return whether a variable describes how a job is set up, and is not somebody's own."""
    return _ALLOWED.match(name) is not None


class BundleRedactor(Redactor):
    """Redacts what leaves the machine. `variables` are the caller's: what they hold under telling names is
    hidden everywhere.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        super().__init__()
        values = set()
        for name, value in variables.items():
            # Short values, paths and harmless ones would be replaced everywhere in the logs, which nobody
            # could read then.
            if len(value) < _LEAST or value.startswith("/") or not looks_secret(value, weight(name)):
                continue
            if not value.isalpha() or len(value) >= 2 * _LEAST:  # else it may be a word that stands anywhere
                values.add(value)
        # The longest first: a value may be part of another one. Beside each its form in JSON, with escapes.
        self._own = sorted(values | {json.dumps(value)[1:-1] for value in values}, key=len, reverse=True)

    def line(self, text: str) -> str:
        """Redact the next line of a log."""
        # After our own forms: these replace exact texts, and must not cut a longer secret in two.
        text = self.hide_own_values(super().line(text))
        for form in patterns():  # of vendors
            text, count = form.subn(HIDDEN, text)
            self.counts["token"] += count
        return self._hide_dumped_variable(text)

    def hide_dumps(self, lines: Sequence[str]) -> list[str]:
        """Lines that were redacted one by one, now without the variables of a dump, which only shows in many
        lines.
        """
        spans: dict[int, set[Span]] = {}
        for number, name, (begin, end) in find_dumped(lines):
            value = lines[number][begin:end]
            if not (_ALLOWED.match(name) or _PLAIN.match(value) or HIDDEN in value[: len(HIDDEN) + 1]):
                spans.setdefault(number, set()).add((begin, end))
        self.counts["variable"] += sum(map(len, spans.values()))
        return [replace_spans(line, spans.get(number, ()), HIDDEN) for number, line in enumerate(lines)]

    def hide_own_values(self, text: str) -> str:
        """The text without the values of the caller's variables."""
        for value in self._own:
            if value in text:
                self.counts["variable"] += text.count(value)
                text = text.replace(value, HIDDEN)
        return text

    def _hide_dumped_variable(self, text: str) -> str:
        """A line without the value of a variable, if it is a line of a dump of the environment."""
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


Span = tuple[int, int]  # first and last+1 of a value in its line

LEAST = 5  # variables in a row: fewer may be anything
_CUT = 2  # the same at an end of what is shown, where the rest of the dump may lie beyond it
# Names of variables, at the beginning of a line or behind the prefix that a log gives each line.
_NAME = pattern(r"(?:^|(?<=[\s\"'\])>|]))([A-Za-z_][A-Za-z0-9_]{0,100})=")
_FAR = 200  # characters of a line among which the name of its variable begins
# In one line: NAME=value, "NAME": "value", ('NAME', 'value').
_PAIR = pattern(
    r"(?<![A-Za-z0-9_-])(?P<name>[A-Z][A-Z0-9_]{1,100})(?:=|\\{0,3}[\"']\s?[:,]\s?)"
    r"(?P<value>\\{0,3}\"[^\"\n]{0,8192}\"|\\{0,3}'[^'\n]{0,8192}'|[^\s,;'\"}\])]{1,8192})"
)
_DIGITS = pattern(r"\d+")


def find_dumped(lines: Sequence[str]) -> Iterator[tuple[int, str, Span]]:
    """Yield every variable of a dump: the number of its line, its name, and the span of its value."""
    run: list[tuple[int, str, Span]] = []
    before = ""  # what stands before each name of the run, however its numbers differ
    # One line more, so that a run at the end is judged, too.
    for number, line in enumerate([*lines, ""]):
        begun = {_DIGITS.sub("0", line[: match.start()]): match for match in _NAME.finditer(line, 0, _FAR)}
        # The run of lines has ended.
        if run and before not in begun:
            # It is a dump if it has many different names, most of them of capitals.
            names = {name for _number, name, _span in run if name.isupper()}
            cut = run[0][0] == 0 or run[-1][0] == len(lines) - 1
            if len(names) >= (_CUT if cut else LEAST):
                yield from run
            run = []
        if not run:
            before = next((key for key, match in begun.items() if match[1].isupper()), "")
        if before in begun and (run or begun[before][1].isupper()):
            run.append((number, begun[before][1], (begun[before].end(), len(line))))
    for number, line in enumerate(lines):
        pairs = list(_PAIR.finditer(line))
        if len({pair["name"] for pair in pairs}) >= LEAST:
            yield from ((number, pair["name"], pair.span("value")) for pair in pairs)


def replace_spans(line: str, spans: Iterable[Span], by: str) -> str:
    """The line with `by` in these places, which may overlap."""
    last: Optional[int] = None
    # From the end, so that earlier places stay where they are.
    for begin, end in sorted(spans, reverse=True):
        if last is None or end <= last:
            line, last = line[:begin] + by + line[end:], begin
    return line
