"""Machines with MindSpore's cache server and a Python whose shared library it finds, or does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

from npudoctor.checks.python.libpython import libpython
from npudoctor.testing import Asked, Content, ask, fake_host

from ..elves import library  # noqa: TID252

ENV = "/opt/env"
SITE = f"{ENV}/lib/python3.11/site-packages"
SERVER = f"{SITE}/mindspore/utils/bin/dataset-cache-server"
LOADER = "/lib64/ld-linux-x86-64.so.2"
NAME = "libpython3.11.so.1.0"


def machine(name: str = NAME, shared: bool = True) -> dict[str, Content]:
    """An environment of its own; its Python knows where its shared library is."""
    needed = [NAME] if shared else []
    files: dict[str, Content] = {
        f"{ENV}/bin/python3": library(*needed, rpath="$ORIGIN/../lib", interpreter=LOADER),
        f"{SITE}/mindspore/_c_expression.cpython-311-x86_64-linux-gnu.so": library(),
        SERVER: library(name, rpath="$ORIGIN:$ORIGIN/../lib", interpreter=LOADER),
    }
    if shared:
        files[f"{ENV}/lib/{NAME}"] = library(soname=NAME)
    return files


def judge(files: Mapping[str, Content], variables: Optional[Mapping[str, str]] = None, **more: Any) -> Asked:
    """What libpython says of it."""
    host = fake_host(files, variables=variables, python=f"{ENV}/bin/python3", search_path=(SITE,), **more)
    return ask(libpython, host)


def scene(tmp: Path) -> Iterator[Asked]:
    """All that libpython can say."""
    yield judge({})
    yield judge(machine())
    yield judge(machine(shared=False))
    yield judge(machine("libpython3.7m.so.1.0"))
