"""Machines on which package-requirements says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.python.package_requirements import package_requirements
from npudoctor.testing import SITE, Asked, ask, fake_host, package_files, unreadable

from ..checks.python.stack_machine import site  # noqa: TID252

TORCH = package_files("torch", "2.13.0", "Requires-Dist: typing-extensions>=4.10.0")
NEEDY = package_files("mindspore", "2.7.1", "Requires-Dist: typing-extensions<4")
ROW = 'users = ["torch"]\nversions = "?"\nrequires = "?"\nbreaks = ""\nerror = ""\nsource = ""\nas_of = ""\n'


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each ending, each remedy."""
    old = package_files("typing_extensions", "4.1.0")
    for files in ({}, TORCH, {**TORCH, **old}, {**TORCH, **NEEDY, **old}):
        yield ask(package_requirements, fake_host(files))
    yield ask(package_requirements, fake_host({f"{SITE}/torch-2.13.0.dist-info/METADATA": unreadable()}))
    yield ask(package_requirements, fake_host(TORCH, knowledge=site(tmp, f"[[requirements.needs]]\n{ROW}")))
