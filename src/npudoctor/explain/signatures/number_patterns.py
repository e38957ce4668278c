"""How CANN's return numbers stand in logs: the keys `numbers` and `hccl` of a signature as patterns.

A number by itself is a loss, a size or a process id; it is a return number only behind words such as
"error code is" or "ret", without quotes: web services answer {"code": 100001}. Those of ACL itself (100000 to
500005) are also what counters say behind `result`: they need words that nobody else uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from npudoctor.core.lazy import pattern

# Each way begins with a plain letter: only then does `re` skip to where one can begin.
_WORDS = (
    r"Error[ _]?[Cc]ode(?: is)?|error[ _]?[Cc]ode(?: is)?|ErrCode|error num|runtime result|Ret[Cc]ode(?: is)?"
    r"|ret[Cc]ode(?: is)?|errno|ERRNO|acl_ret|acl\w+ failed|rt[A-Z]\w+ failed|\) failed|CANN failure"
    r"|acl ?[Ee]rror|ACL ?[Ee]rror|Acl ?[Ee]rror|错误码(?:为|是)?"
)
_PLAIN = rf"(?:{_WORDS}|ret(?: is)?|result|code| rc|ERROR)[^\w\"']{{1,4}}"
_STRICT = rf"(?:{_WORDS}| ret(?: is)?|ret\[)[^\w\"']{{0,4}}"
_OF_ACL = pattern(r"[1-5]000\d\d")
_END = r"(?:[^\w.,]|[.,](?:\D|$)|$)"  # 507035.5 and 100,000 are no return numbers


def number_patterns(row: Mapping[str, Any]) -> Iterator[str]:
    """The patterns by which the numbers of a signature's row are found in a line."""
    numbers: Sequence[str] = row.get("numbers", ())
    for words, alike in (
        (_PLAIN, [number for number in numbers if not _OF_ACL.fullmatch(number)]),
        (_STRICT, [number for number in numbers if _OF_ACL.fullmatch(number)]),
    ):
        if alike:
            yield f"{words}(?:{'|'.join(alike)}){_END}"
    # An HcclResult is so small that only the words around it tell what it is.
    results: Sequence[str] = row.get("hccl", ())
    if results:
        some = f"(?:{'|'.join(results)})\\b"
        yield rf"(?i)HCCL function error.{{0,300}}error code is {some}"
        yield rf"function error: ?[Hh]ccl\w+.{{0,300}}error code is {some}"
        yield rf"call trace: (?:hcclRet|ret) -> {some}"
        words = r"(?:error|ret|errorCode|Error Number)"
        yield rf"\bH(?:ccl|com)[A-Z]\w+ fail(?:ed)?\W{{1,4}}{words}\W{{1,4}}{some}"
        codes = "|".join(f"{int(result):04x}" for result in results)
        yield rf"errNo\[0x00000000050[01](?:{codes})\]"
