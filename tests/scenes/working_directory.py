"""Folders of which working-directory says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.host.working_directory import working_directory_check
from npudoctor.testing import Asked, ask, fake_host, folder, link

from ..checks.host.test_working_directory import told  # noqa: TID252


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield told(folder(0o755))
    yield ask(working_directory_check, fake_host({"/proc/self/cwd": link("/gone")}))
