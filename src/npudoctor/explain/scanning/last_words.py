"""The lines at the end of a log that say that something failed, in words for which no scan looks.

Words such as "failed" or "cannot" are in every healthy log, so they are looked for only here: in the last
lines, and the vaguer a word is, the closer to the end. What follows a failure there (progress, a good end,
much ordinary output) is judged as it is of every other sign (see `ending`).
"""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.core.lazy import pattern
from npudoctor.explain.scanning.levels import is_mild
from npudoctor.explain.scanning.window import decode
from npudoctor.explain.signatures.quoted import is_harmless, is_quotation
from npudoctor.explain.signatures.recognise import strip_prefix

TAIL = 16 << 10  # bytes of the end of a log that are looked at,
_LINES = 60  # and lines that are not empty
_LAST = 3  # vague words count in so many lines at the end,
_PROSE = 250  # a longer line is what a model said, and no message
_CUT = 3  # and a traceback that was cut off ends in these
_MOST = 2000  # characters of a line that are looked at

# What stands before a message: signs of a quotation, a step of a build, the time, the name of a program.
_LEAD = pattern(
    r"[#>*|\s]{1,200}|#\d{1,4} [\d.]{1,12} |\[[^\]]{1,60}\]:? ?"
    r"|\S{0,40}\d\d:\d\d:\d\d\S{0,20} |[\w./-]{1,40}: "
)
_DOCKER = pattern(r'(?:\\n)?", ?"stream": ?"std(?:out|err)"[^\n]{0,80}\}$')  # and after it, in docker's JSON
_LEADS = 5  # so many of them at most
_OPENS = pattern(
    r"(?:fatal|FATAL|Fatal)(?: error)?[: ]|FAILED?\b(?! *[:=]? *0\b)[: ]|(?:ERROR|Error|error)(?: \w+)?: \S"
    r"|E\d{4} \d\d:\d\d:\d\d|g?make(?:\[\d+\])?: \*\*\* .{0,300}(?:Error|错误|Stop|停止)"
    r"|(?:Killed|Aborted|Terminated|Segmentation fault|Bus error)[*_`\s.!]{0,20}$"
)
_PLAIN = pattern(
    r"^\S{1,200}: (?:line )?\d+: .{0,200}: (?:command )?not found$"
    r"|\bCheck failed: |\bpanicked at |\bAssertion .{1,300} failed\b|\bassertion failed\b"
)
_EXIT = pattern(
    r"\breturned an? (?:error|non-?zero)(?: exit)? (?:code|status)"
    r"|\b(?:exited|exit(?:ing)?|returned|finished|ended|failed|terminated|completed) with (?:a )?"
    r"(?:non-?zero|error|(?:exit |return |error )?(?:code|status):? -?[1-9])"
    r"|\b(?:[Cc]ode|[Ss]tatus|[Ee]xit)\b[:=]? {0,4}(?:13[4-9]|143|-(?:9|11|6|15|7))\b"
)
# How TensorFlow and XLA write an error; of those, many are none.
_TENSORFLOW = pattern(r"(?:\d{4}-\d\d-\d\d \S{8,20}: )?[EF] \w[\w./-]*\.cc:\d+\]")
_MILD_EXIT = pattern(r"(?i)ignor|allowed to|\bif\b|expected")
_WORDS = pattern(
    r"(?i)\b(?:errors?|failed|failure|fails|fatal|exception|aborted|aborting|panic|crash(?:ed)?|cannot|can't"
    r"|could ?n[o']t|unable to|no such|denied|refused|rejected|unreachable|timed out|exceed(?:s|ed|ing)"
    r"|no longer (?:allowed|supported|available)|must match|insufficient|not enough|incompatible|inconsistent"
    r"|killed|terminated|deleted at request|corrupt(?:ed)?|mismatch(?:ed)?|invalid|illegal|unknown option"
    r"|(?:to|not|n't) exist|not (?:found|supported|permitted|allowed|available|configured|installed|ready"
    r"|connected|reachable))\b"
    r"|[a-z](?:Error|Exception)\b|错误|失败|异常|无法|报错|不存在|不支持|中断|超时|拒绝"
)
# What is no failure although it says so, and what speaks of failures and means none.
_MILD = pattern(
    r"(?i)\b(?:0|no|zero) (?:\w+ )?(?:errors?|fail)|ignor|skip|retry|fall\w* ?back|\ballowed to\b|\boptional"
    r"|\berrors?\b['\"]?\s*[:=|]\s*['\"]?0\b|register\w* (?:\w+ )?factory|\byet\b"
    r"|\bINFO\b|\bDEBUG\b|--- Logging error|^ {0,8}Using the .{1,80} (?:since|because)\b"
)
_NONE = pattern(
    r"(?i)\b(?:0|zero|without|any|ignor\w+|skip\w*|retry\w*|retries|warn\w*|fall\w* ?back|instead|deprecat\w+"
    r"|if|unless|until|default\w*|will|may|might|should|try|trying|optional|disabled?|continu\w+|recover\w*"
    r"|resum\w+|(?:mean|squared|absolute|validation|test|train\w*|relative|max|average|rms) errors?)\b"
    r"|\b(?:errors?|fail(?:ed|ures?)|exceptions?|invalid|corrupt(?:ed)?|mismatch(?:ed)?|killed|missing|rejected)"
    r"\w*['\"]?\s*[:=|]\s*['\"]?[\d.]|error[_-](?:rate|bar|count|log|file|code|msg|handl)"
    r"|\w[_-]error|(?:on|no|max|num|n)[_-]?(?:error|fail)"
    r"|['\"]\w+['\"]: |^[ \t]*[-+|]{2,}|^[ \t]*#(?!\d)|--\w|HTTP/1|\bINFO\b|\bDEBUG\b"
    r"|没有错误|无错误|忽略|跳过|重试|警告"
    r"|resource_tracker|leaked|\bpassed\b|\byet\b|\breplaced\b|could not collect|^\$ |^>>> "
)
_FRAME = pattern(r'^[>\s]{0,200}File "[^"]{1,500}", line \d+(?:, |$)|^-{1,9}> ?\d+ |^[>\s]{0,200}raise \w')


def is_traceback_line(text: str) -> bool:
    """Whether a line is one of a traceback, which names a place and no reason."""
    return bool(_FRAME.search(text)) and "raise " not in text


def find_last_words(end: bytes) -> Iterator[tuple[int, int]]:
    """Of the end of a log, where the lines that say that something failed begin and end."""
    tail, base = end[-TAIL:], max(0, len(end) - TAIL)
    # The last lines that are not empty, the last of them first, with where they begin and end.
    lines: list[tuple[int, int, str]] = []
    stop = len(tail)
    while stop > 0 and len(lines) < _LINES:
        start = tail.rfind(b"\n", 0, stop) + 1
        line = tail[start:stop].rstrip()
        begin = line.rfind(b"\r") + 1  # what was overwritten on a terminal is not the last word
        # The first line of the tail may be cut off in front.
        if line and (start or not base):
            text = strip_prefix(decode(line[begin : begin + _MOST]))
            text = _DOCKER.sub("", text) if '"stream"' in text else text
            lines.append((base + start + begin, base + stop, text))
        stop = start - 1
    cut = True  # whether all that follows is of a traceback too, which then has no last line
    for age, (start, stop, text) in enumerate(lines):
        frame = bool(_FRAME.search(text))
        cut = cut and age < _CUT and (frame or text[:1].isspace())
        if (cut and frame) or _says_failure(text, age):
            yield start, stop


def _says_failure(text: str, age: int) -> bool:
    """Whether a line says that something failed; `age`: how many lines follow it."""
    if text.startswith("^C"):  # as a terminal shows that Ctrl-C was pressed
        return True
    if _EXIT.search(text):  # whatever level a scheduler gives that
        return not _MILD_EXIT.search(text) and not is_quotation(text)
    if is_mild(text) or is_quotation(text) or is_harmless(text):
        return False
    if _opens_as_error(text) or _PLAIN.search(text):
        return not _MILD.search(text)
    vague = age < _LAST and len(text) < _PROSE and bool(_WORDS.search(text))
    vague = vague or (age < _LAST and bool(_TENSORFLOW.match(text)))
    return vague and not (_MILD.search(text) or _NONE.search(text))


def _opens_as_error(text: str) -> bool:
    """Whether a line begins as an error does, once what stands before its message is left out."""
    at = 0
    for _lead in range(_LEADS + 1):
        if _OPENS.match(text, at):
            return True
        lead = _LEAD.match(text, at)
        if lead is None:
            return False
        at = lead.end()
    return False
