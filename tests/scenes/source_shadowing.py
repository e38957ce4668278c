"""source-shadowing: each of its sentences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.python.source_shadowing import source_shadowing as check
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, folder, link, unreadable

STDLIB = "/usr/lib/python3.11"


def scene(tmp: Path) -> Iterator[Asked]:
    """By PYTHONPATH, by an empty entry of it, by the working directory alone; and nothing to look at."""
    files: dict[str, Content] = {
        f"{SITE}/torch/__init__.py": "",
        f"{STDLIB}/random.py": "",
        "/src/torch/__init__.py": "",
        "/job/random.py": "",
        "/job": folder(),
        "/proc/self/cwd": link("/job"),
    }
    for path in ("/src", "/src:"):
        yield ask(check, fake_host(files, variables={"PYTHONPATH": path}, search_path=("/src", STDLIB, SITE)))
    shut = {**files, "/shut": unreadable()}
    yield ask(check, fake_host(shut, variables={"PYTHONPATH": "/shut"}, search_path=(STDLIB, SITE)))
    yield ask(check, fake_host())
