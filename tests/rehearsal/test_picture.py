"""The picture of the READMEs shows what a rehearsal shows today, line for line."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Callable

import pytest

from npudoctor.rehearsal.namespaces import CannotRehearse, run_in_namespaces

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
# What differs between machines and runs: the first lines of a report, the name of a journal.
MACHINE = re.compile(r"^npudoctor \d[^$]*?\n\n", re.MULTILINE)
RUN = re.compile(r"\d{8}T\d{6}-[0-9a-f]{8}")


def alike(lines: Iterable[str]) -> str:
    """The lines as one text, without what differs."""
    return RUN.sub("RUN", MACHINE.sub("MACHINE\n\n", "\n".join(lines)))


def test_the_picture_is_what_a_rehearsal_shows(lack: Callable[[str], None]) -> None:
    try:
        run_in_namespaces(lambda: 0)
    except CannotRehearse as error:
        lack(str(error))
    spec = importlib.util.spec_from_file_location("picture_of_a_rehearsal", ROOT / "tools" / "picture.py")
    assert spec and spec.loader
    tool = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = tool
    spec.loader.exec_module(tool)
    today = alike(tool.plain(tool.runs(line)) for line in tool.chosen(tool.perform("en")))
    picture = (ROOT / "docs/report.svg").read_text(encoding="utf-8")
    assert today == alike(map(tool.plain, tool.read(picture))), "run `make picture`"
    assert today.count("MACHINE") == 2 and today.count("RUN") == 1
