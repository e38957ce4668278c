"""Chooses our own Python if it has a framework and python3 of PATH has none: then it runs the job."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.host.fs.files import Files
from npudoctor.host.python.interpreter import Interpreter

# The modules by which a framework is known, whether or not there is metadata of it.
MODULES = ("torch", "torch_npu", "mindspore", "paddle", "paddle_custom_device", "tensorflow")


def has_framework(files: Files, search_path: Sequence[str]) -> bool:
    """Whether one of these folders has a framework; CannotTell if one cannot be read."""
    folders = [folder for folder in search_path if folder.startswith("/")]
    return any(name in MODULES for folder in folders for name in files.names(folder))


def choose_own_python(files: Files, of_path: Interpreter) -> Optional[str]:
    """The path of our own Python if it is to be examined instead of python3 of PATH; else None.

    Most often our own environment has no framework: then nothing is asked, and a few folders are read.
    """
    own_program = sys.executable
    if not own_program.startswith("/") or own_program == of_path.path:
        return None
    try:
        own_has_framework = has_framework(files, [*filter(None, sys.path)])
        return (
            own_program
            if own_has_framework and not has_framework(files, of_path.layout().search_path)
            else None
        )
    except CannotTell:  # what PATH's Python has cannot be seen: the checks say why
        return None
