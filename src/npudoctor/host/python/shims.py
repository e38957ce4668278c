"""Finds the interpreter that a shim of pyenv, or a script of one line, would start, by reading what it reads;
root must not run it, as it is a script."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.lazy import pattern
from npudoctor.host.fs.files import Files

_LIMIT = 4096
_SHIM = pattern(r'^exec "(/[^"$`\\]+)/libexec/pyenv" exec ', re.MULTILINE)
# Nothing but a start of the interpreter by its absolute path: anything else may change what is started, as
# may a shell that is looked for in PATH.
_WRAPPER = pattern(
    r"""#!\s*/(?:usr/)?bin/(?:ba|da)?sh[ ]*\n(?:[ \t]*(?:#[^\n]*)?\n)*"""
    r"""exec (?:"(/[^"$`\\\n]+)"|'(/[^'\n]+)'|(/[\w./+@:-]+)) "\$@"\s*\Z"""
)
_VERSION = pattern(r"[\w.+-]+\Z")


def find_shim_target(
    files: Files, variables: Mapping[str, str], path: str, read_working_folder: Callable[[], Optional[str]]
) -> Optional[str]:
    """The path of the interpreter; None if `path` is no shim of pyenv and no such script, or starts none."""
    try:
        head = files.read(path, _LIMIT) or b""
    except CannotTell:
        return None
    text = head.decode("utf-8", "surrogateescape") if head.startswith(b"#!") else ""
    wrapper, shim = _WRAPPER.match(text), _SHIM.search(text)
    if wrapper is not None:
        target: str = wrapper[1] or wrapper[2] or wrapper[3]
        return target if target != path and files.stat(target) is not None else None
    if shim is None:
        return None
    name, root = path.rpartition("/")[2], shim[1]
    # In pyenv's order: the variable, the file of the nearest folder above, the one of all; else "system".
    versions = variables.get("PYENV_VERSION", "").split(":") if variables.get("PYENV_VERSION") else []
    folder = "" if versions else read_working_folder() or "/"
    while folder and not versions:
        versions = _read_words(files, f"{folder.rstrip('/')}/.python-version")
        folder = "" if folder == "/" else folder.rpartition("/")[0] or "/"
    for version in versions or _read_words(files, f"{root}/version") or ["system"]:
        if version == "system":
            folders = [folder for folder in variables.get("PATH", "").split(":") if folder[:1] == "/"]
            pyenv_folders = (f"{root}/shims", f"{root}/bin")
            programs = [f"{folder}/{name}" for folder in folders if folder not in pyenv_folders]
        elif _VERSION.match(version) and version.strip("."):
            names = files.names(f"{root}/versions")
            # A version that is a prefix, such as 3.11, means the newest installed release of it.
            matching = [
                candidate for candidate in names if re.match(rf"{re.escape(version)}\.\d+\Z", candidate)
            ]
            if version not in names and matching:
                version = max(matching, key=lambda candidate: int(candidate.rpartition(".")[2]))
            programs = [f"{root}/versions/{version}/bin/{name}"]
        else:
            continue
        for program in programs:
            if program != path and files.stat(program) is not None:
                return program
    return None


def _read_words(files: Files, path: str) -> list[str]:
    try:
        lines = (files.text(path, _LIMIT) or "").splitlines()
    except CannotTell:
        return []
    return [word for line in lines for word in line.partition("#")[0].split()]
