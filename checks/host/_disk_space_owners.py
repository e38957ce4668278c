"""Whose files take the most of a folder: counted as far as a bounded look goes."""

from __future__ import annotations

from collections import Counter, deque
from typing import Optional

from npudoctor import Host, _
from npudoctor.core.errors import CannotTell
from npudoctor.core.sizes import size_text
from npudoctor.host.process.users import user_names

MOST = 20000  # entries that are looked at: a full /tmp may hold millions
SHOWN = 8


def lines(host: Host, folder: str) -> tuple[str, ...]:
    """A line for each of the biggest owners, with the biggest thing of each; links are not followed."""
    held: Counter[int] = Counter()
    biggest: dict[int, tuple[int, str]] = {}
    todo, seen, all_seen = deque([folder]), 0, True
    while todo:
        path = todo.popleft()
        for name in _names(host, path):
            seen += 1
            if seen > MOST:
                all_seen = False
                todo.clear()
                break
            below = f"{path}/{name}"
            entry = _entry(host, below)
            if entry is None:
                continue
            uid, size, is_dir = entry
            held[uid] += size
            if size > biggest.get(uid, (-1, ""))[0]:
                biggest[uid] = (size, below)
            if is_dir:
                todo.append(below)
    names = user_names(host.files)
    told = [_line(uid, size, biggest[uid], names) for uid, size in held.most_common(SHOWN) if size]
    if not all_seen:
        told.append(_("only the first {count} entries were examined").format(count=MOST))
    return tuple(told)


def _names(host: Host, path: str) -> list[str]:
    try:
        return host.running_files.names(path)
    except CannotTell:
        return []  # somebody's closed folder: its owner counts by what can be seen


def _entry(host: Host, path: str) -> Optional[tuple[int, int, bool]]:
    try:
        entry = host.running_files.lstat(path)
    except CannotTell:
        return None
    return None if entry is None else (entry.uid, entry.held, entry.is_dir)


def _line(uid: int, size: int, biggest: tuple[int, str], names: dict[int, str]) -> str:
    text = _("{owner} (uid {uid}): {size}; the biggest: {path}, {most}")
    owner = names.get(uid, "?")
    return text.format(
        owner=owner, uid=uid, size=size_text(size), path=biggest[1], most=size_text(biggest[0])
    )
