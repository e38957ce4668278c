"""Where a log holds npudoctor's own reports, as `check` and `run` print them: what they say of the machine is
no word of the job."""

from __future__ import annotations

from bisect import bisect_left

from npudoctor.core.lazy import pattern

_LONGEST = 64 << 10  # bytes of a report, with all that -vv shows
_LABEL = rb"^(?:\S{1,30}[ \t])?(?:\x1b\[[\d;]{1,12}m)?"  # of a rank, or the time; and a colour
_COLON = rb"(?:\x1b\[0m)?(?:: |\xef\xbc\x9a)"
_HEAD = pattern(_LABEL + rb"npudoctor \d[\w.+-]*" + _COLON)
# In both languages, whatever is spoken now: the log may be of somebody else.
_WORDS = "NOT READY|READY|UNDETERMINED|未就绪|就绪|无法判断".encode()
_VERDICT = pattern(rb"(?m)" + _LABEL + rb"(?:%s)(?:\x1b\[0m)?(?=:|;|[ \t\r]*$|\xef\xbc[\x9a\x9b])" % _WORDS)
_FINDING = pattern(
    _LABEL + rb"(?:%s)(?:\x1b\[0m)? ?[a-z][\w-]*\.[\w.-]+" % "error|warning|错误|警告|✗|!".encode() + _COLON
)

_FAILS = (b"NOT READY", "未就绪".encode())
# What follows a verdict: the rest of it, then that the job was not started, or nothing.
_AFTER = pattern(
    rb"[^\n]*(?:\n[ \t][^\n]*)*(?:\nnpudoctor: [^\n]*)*?"
    rb"(?:\nnpudoctor: [^\n]*(?:%s)|\s*\Z)" % "the job was not started|作业未启动".encode()
)


def find_reports(data: bytes) -> list[tuple[int, int]]:
    """Where each begins, and where its last line, the verdict, does. `run` prints only the findings that keep
    a job from being started, without a head, and a line that begins with its name."""
    heads: list[int] = []
    at = data.find(b"npudoctor ")  # most logs have none
    while at >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        if _HEAD.match(data[start : start + 100]):
            heads.append(start)
        at = data.find(b"npudoctor ", at + 1)
    if not heads and b"npudoctor: " not in data:
        return []
    places: list[tuple[int, int]] = []
    after = 0
    for verdict in _VERDICT.finditer(data):
        low = max(after, verdict.start() - _LONGEST)
        after = verdict.end()
        head = bisect_left(heads, verdict.start()) - 1
        headed = head >= 0 and heads[head] >= low
        begin = heads[head] if headed else _first_finding(data, low, verdict.start())
        # One that says why there is no job is no mere report: it was refused, or nothing came after a machine
        # that is not ready, as in a script that goes on only where it is (`npudoctor check && python x.py`).
        if not (verdict[0].endswith(_FAILS) and _AFTER.match(data, verdict.end())):
            places.append((begin, verdict.end()))
    return places


def _first_finding(data: bytes, low: int, end: int) -> int:
    """Where the first of the findings begins that stand one after the other before a verdict."""
    first = at = end
    while at > low:
        at = data.rfind(b"\n", low, at - 1) + 1 or low
        line = data[at : at + 200]
        if _FINDING.match(line):
            first = at
        elif line[:1] not in (b" ", b"\n", b"\r"):
            break
    return first
