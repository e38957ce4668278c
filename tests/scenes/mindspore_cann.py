"""Machines on which mindspore-cann says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.python.mindspore_cann import mindspore_cann
from npudoctor.testing import Asked, ask, fake_host, package_files

from ..checks.python.stack_machine import site  # noqa: TID252
from ..checks.python.test_mindspore_cann import OWN, ROW, beside  # noqa: TID252


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each ending."""
    yield ask(mindspore_cann, fake_host())
    yield ask(mindspore_cann, fake_host(package_files("mindspore", "2.7.0")))
    yield beside("2.7.0", "8.0.0", "7.6.0.1.220", own=OWN)
    yield beside("2.7.0", "8.5.0")
    yield beside("2.4.0", "8.1.RC1")
    yield beside("2.11.0", "9.1.0")
    yield beside("2.4.0", "")
    forbidden = site(tmp / "no", ROW.format(cann="8.1.RC1") + "compatible = false\n")
    yield beside("2.7.0", "8.1.RC1", own=OWN, knowledge=forbidden)
    yield beside("2.7.0", "8.1.RC1", own=OWN, knowledge=site(tmp / "broken", "[[mindspore.cann]]\n"))
