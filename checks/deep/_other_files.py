"""A module of an installed release that runs as something else: old byte code, or another release's file."""

from __future__ import annotations

import re
from typing import Optional

from npudoctor import Fix, Host, _
from npudoctor.checks.deep import _remedies as remedies
from npudoctor.facts.python.owners import Owner, files_of

Told = Optional[tuple[str, Fix]]  # a sentence, in which `user` is still to be filled in, and what to do


def stale_byte_code(host: Host, owner: Owner, path: str, name: str) -> Told:
    """Of a name that the source of a module has and its byte code surely has not; else None."""
    cached = _byte_code(host, path) if path.endswith(".py") else None
    if cached is None or not _binds(host.files.text(path) or "", name):
        return None
    if name.encode() in (host.files.read(cached) or name.encode()):
        return None
    text = _("{path} of {package} has {name}, which {user} asks for; its byte code is of another file")
    text = text.format(path=path, package=owner.label, name=name, user="{user}")
    return text, remedies.without_byte_code(path)


def other_file(host: Host, owner: Owner, path: str, name: str) -> Told:
    """Of a module without the name, whose file has another size than when it was installed; else None."""
    entry, listed = host.files.stat(path), _size(host, owner)
    if not path.endswith(".py") or entry is None or listed is None or entry.size == listed:
        return None
    text = _("{path} is not the file that {package} installed: it has no {name}, which {user} asks for")
    text = text.format(path=path, package=owner.label, name=name, user="{user}")
    return text, remedies.again(host, owner.distribution)


def _binds(source: str, name: str) -> bool:
    """Whether some line gives it a value, whatever else decides about that line."""
    word = re.escape(name)  # out of what the job printed
    return bool(re.search(rf"(?m)^[ \t]*(?:def|class|async def)\s+{word}\b|^[ \t]*{word}[ \t]*=[^=]", source))


def _byte_code(host: Host, path: str) -> Optional[str]:
    """The only file of byte code that this Python could take for a source; None where there are more."""
    folder, _slash, file = path.rpartition("/")
    tag = "".join((host.interpreter.layout().version or "").split(".")[:2])
    pattern = re.compile(rf"{re.escape(file[: -len('.py')])}\.cpython-{tag}(\.opt-\d)?\.pyc")
    found = [name for name in host.files.names(f"{folder}/__pycache__") if pattern.fullmatch(name)]
    return f"{folder}/__pycache__/{found[0]}" if len(found) == 1 else None


def _size(host: Host, owner: Owner) -> Optional[int]:
    """As the list of files has it."""
    match = re.search(
        rf"\n{re.escape(owner.place)},[^\n,]*,(\d+)(?=[\r\n]|\Z)", files_of(host, owner.distribution)
    )
    return int(match[1]) if match else None
