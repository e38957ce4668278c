"""Machines on which cann-python-deps says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from npudoctor.checks.cann.cann_python_deps import cann_python_deps
from npudoctor.testing import Asked, Content, ask, fake_host

from ..checks.python.stack_machine import site  # noqa: TID252
from .cann_trees import TOOLKIT, healthy, sourced

# As te 0.4.0 of CANN 8.1.RC1 has it, in part.
METADATA = """Metadata-Version: 2.1
Name: te
Version: 0.4.0
Requires-Dist: attrs
Requires-Dist: cloudpickle
Requires-Dist: decorator
Requires-Dist: ml-dtypes
Requires-Dist: numpy
Requires-Dist: psutil
Requires-Dist: scipy
Requires-Dist: tornado
Provides-Extra: dev
Requires-Dist: black ==20.8b1 ; extra == 'dev'
"""
TE: dict[str, Content] = {
    f"{TOOLKIT}/8.1.RC1/python/site-packages/te-0.4.0.dist-info/METADATA": METADATA,
}
HAVE = {
    "torch-npu": "2.5.1",
    "attrs": "24.2.0",
    "cloudpickle": "3.1.0",
    "decorator": "5.1.1",
    "ml_dtypes": "0.5.0",
    "numpy": "1.26.4",
    "psutil": "6.1.0",
    "scipy": "1.13.1",
    "tornado": "6.4.1",
    "sympy": "1.13.1",
    "cffi": "1.17.1",
    "protobuf": "5.28.3",
    "PyYAML": "6.0.2",
    "requests": "2.32.3",
    "absl-py": "2.1.0",
}


def without(*names: str, **other: str) -> dict[str, str]:
    """The packages of a healthy interpreter, but these."""
    return {**{name: version for name, version in HAVE.items() if name not in names}, **other}


def told(files: Mapping[str, Content], packages: Mapping[str, str], **more: Any) -> Asked:
    """The answer with these packages in the interpreter."""
    settings = {"variables": sourced(), "packages": packages, "expect": "npu", **more}
    return ask(cann_python_deps, fake_host(files, **settings))


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield told({}, HAVE, variables={})
    yield told(healthy(), {})
    yield told({**healthy(), **TE}, without("numpy", "decorator", "tornado", "sympy"))
    yield told({**healthy(), **TE}, without(numpy="2.0.2"))
    yield told({**healthy(), **TE}, HAVE, knowledge=site(tmp, "[[cann_packages.numpy]]\n"))
    old = {path: str(text).replace("decorator", "decorator >=5") for path, text in TE.items()}
    yield told({**healthy(), **old}, without(decorator="4.4.2"))
