"""setuptools: each of its sentences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.python.setuptools import setuptools as check
from npudoctor.testing import SITE, Asked, ask, fake_host


def scene(tmp: Path) -> Iterator[Asked]:
    """Nobody who needs it; setuptools without it; no setuptools."""
    files = {f"{SITE}/tensorboard/default.py": "import pkg_resources\n"}
    yield ask(check, fake_host())
    yield ask(check, fake_host(files, packages={"tensorboard": "2.20.0", "setuptools": "82.0.1"}))
    yield ask(check, fake_host(files, packages={"tensorboard": "2.20.0"}))
