"""Machines on which package-files says all that it can say."""

from __future__ import annotations

import importlib.util
import marshal
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.python.package_files import package_files as check
from npudoctor.testing import SITE, Asked, Content, Node, ask, fake_host, package_files

from ..elves import library  # noqa: TID252

RECORD = "torch/__init__.py,sha256=a,9\ntorch/lib/libtorch.so,sha256=b,99\n"
TORCH: dict[str, Content] = {
    **package_files("torch", "2.13.0"),
    f"{SITE}/torch-2.13.0.dist-info/RECORD": RECORD,
    f"{SITE}/torch/__init__.py": "import os",
}
OTHER: dict[str, Content] = {
    **package_files("torch", "2.13.0", "Requires-Dist: typing-extensions"),
    **package_files("typing_extensions", "4.16.0"),
    f"{SITE}/typing_extensions-4.16.0.dist-info/RECORD": "typing_extensions.py,sha256=x,6\n",
    f"{SITE}/typing_extensions.py": "x = 12\n",
}
SHORT: dict[str, Content] = {**TORCH, f"{SITE}/torch/lib/libtorch.so": "\x7fELF"}


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each ending; what pip left with its package and without."""
    left: dict[str, Content] = {f"{SITE}/~orch/__init__.py": ""}
    twice = {**SHORT, **package_files("torch", "2.5.1")}
    for files in ({}, TORCH, SHORT, twice, left, {**SHORT, **left}):
        yield ask(check, fake_host(files))
    whole: dict[str, Content] = {**TORCH, f"{SITE}/torch/lib/libtorch.so": "x" * 99}
    yield ask(check, fake_host({**whole, f"{SITE}/torch/__init__.py": bytes(9)}))
    yield ask(check, fake_host({**whole, **OTHER}))
    closed: dict[str, Content] = {f"{SITE}/torch/lib/libtorch.so": Node(b"x" * 99, permissions=0o600)}
    yield ask(check, fake_host({**TORCH, **closed}, euid=1000))
    yield ask(check, fake_host(_stale(), python_version=RELEASE))
    yield ask(check, fake_host(_exchanged()))


# The running Python's: of its own byte code it can tell whether it is stale.
RELEASE = platform.python_version()


def _stale() -> dict[str, Content]:
    head = importlib.util.MAGIC_NUMBER + b"\1\0\0\0" + bytes(8)
    code = marshal.dumps(compile("import sys", "torch/__init__.py", "exec"))
    name = f"__init__.{sys.implementation.cache_tag}.pyc"
    return {
        **package_files("torch", "2.13.0"),
        f"{SITE}/torch-2.13.0.dist-info/RECORD": "torch/__init__.py,sha256=a,9\n",
        f"{SITE}/torch/__init__.py": "import os",
        f"{SITE}/torch/__pycache__/{name}": head + code,
    }


def _exchanged() -> dict[str, Content]:
    content = library("libc.so.6")
    return {
        **package_files("torch", "2.13.0"),
        f"{SITE}/torch-2.13.0.dist-info/RECORD": f"torch/_C.so,sha256=other,{len(content)}\n",
        f"{SITE}/torch-2.13.0.dist-info/INSTALLER": "pip\n",
        f"{SITE}/torch/_C.so": Node(content, mtime=99),
    }
