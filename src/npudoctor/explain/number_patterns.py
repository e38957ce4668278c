"""How CANN's return numbers stand in logs: the keys `numbers` and `hccl` of a signature as patterns.

A number by itself is a loss, a size or a process id; it is a return number only behind words such as
"error code is" or "ret". Round ones (100000) are also what JSON answers and counters say behind `code` and
`result`, so those need words that nobody else uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_CALLED = r"(?:\)|acl\w+|rt[A-Z]\w+) failed|CANN failure|(?i:acl) ?[Ee]rror"
_PLAIN = (
    r"(?:[Ee]rror[ _]?[Cc]ode(?: is)?|ErrCode|error num|runtime result|[Rr]et[Cc]ode(?: is)?|acl_ret|ret(?: is)?"
    rf"|result|errno|ERRNO|code|\brc|错误码(?:为|是)?|{_CALLED}|ERROR)\W{{1,4}}"
)
_ROUND = (
    r"(?:\b[Ee]rror[ _]?[Cc]ode(?: is)?|ErrCode|error num|runtime result|\b[Rr]et[Cc]ode(?: is)?|acl_ret"
    rf"|\bret(?: is)?|\berrno|ERRNO|错误码(?:为|是)?|{_CALLED})\W{{1,4}}"
)
_END = r"(?:[^\w.,]|[.,](?:\D|$)|$)"  # 507035.5 and 100,000 are no return numbers


def number_patterns(row: Mapping[str, Any]) -> Iterator[str]:
    """The patterns by which the numbers of a signature's row are found in a line."""
    numbers: Sequence[str] = row.get("numbers", ())
    for words, some in (
        (_PLAIN, [one for one in numbers if not one.endswith("00000")]),
        (_ROUND, [one for one in numbers if one.endswith("00000")]),
    ):
        if some:
            yield f"{words}(?:{'|'.join(some)}){_END}"
    results: Sequence[str] = row.get("hccl", ())
    if results:
        yield from _hccl(results)


def _hccl(results: Sequence[str]) -> Iterator[str]:
    """The same of an HcclResult, which is so small that only the words around it tell what it is."""
    some = f"(?:{'|'.join(results)})\\b"
    yield rf"(?i)HCCL function error.{{0,300}}error code is {some}"
    yield rf"function error: ?[Hh]ccl\w+.{{0,300}}error code is {some}"
    yield rf"call trace: (?:hcclRet|ret) -> {some}"
    yield rf"\bH(?:ccl|com)[A-Z]\w+ fail(?:ed)?\W{{1,4}}(?:error|ret|errorCode|Error Number)\W{{1,4}}{some}"
    codes = "|".join(f"{int(one):04x}" for one in results)
    yield rf"errNo\[0x00000000050[01](?:{codes})\]"
