"""Machines on which numpy-version says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.python.numpy_version import numpy_version
from npudoctor.testing import Asked, ask, fake_host, package_files

MINDSPORE = package_files("mindspore", "2.7.0", "Requires-Dist: numpy<2.0.0,>=1.20.0")


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each ending."""
    for files in ({}, MINDSPORE, {**MINDSPORE, **package_files("numpy", "2.2.6")}):
        yield ask(numpy_version, fake_host(files))
    yield ask(numpy_version, fake_host({**MINDSPORE, **package_files("numpy", "two")}))
