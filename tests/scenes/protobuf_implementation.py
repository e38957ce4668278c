"""Machines on which protobuf-implementation says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.python.protobuf_implementation import VARIABLE, protobuf_implementation
from npudoctor.testing import Asked, ask, fake_host, package_files


def scene(tmp: Path) -> Iterator[Asked]:
    """The code, each ending."""
    asking = {VARIABLE: "cpp"}
    yield ask(protobuf_implementation, fake_host())
    yield ask(protobuf_implementation, fake_host(variables=asking))
    yield ask(protobuf_implementation, fake_host(package_files("protobuf", "5.29.0"), variables=asking))
