"""Machines on which virtual-environment says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.python.virtual_environment import virtual_environment
from npudoctor.testing import Asked, ask, fake_host

from ..checks.python.test_virtual_environment import GONE, LAUNCHER, LOST, WELL, told  # noqa: TID252


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and no environment."""
    yield ask(virtual_environment, fake_host())
    yield told(GONE)
    yield told(WELL, "3.12.1")
    yield told(LOST)
    yield told({**WELL, "/opt/python3.11/bin/python3": "ELF"})
    yield told({**WELL, LAUNCHER: "#!/old/bin/python3\n"})
