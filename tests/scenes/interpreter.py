"""Machines on which interpreter says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.python.interpreter import interpreter
from npudoctor.testing import Asked, ask, fake_host, package_files

from ..checks.python.stack_machine import cann, site  # noqa: TID252
from ..checks.python.test_interpreter import (  # noqa: TID252
    CONDA,
    ELSEWHERE,
    TORCH_NPU,
    broken,
    ending,
    notebook,
    told,
)


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each ending."""
    yield ask(interpreter, fake_host())
    yield ask(interpreter, broken(tmp, "echo broken >&2; exit 3"))
    yield ask(interpreter, ending(tmp / "own", "import posix; posix.write(2, b'broken'); posix._exit(3)"))
    yield told({**TORCH_NPU, **cann("8.3.RC1")}, python_version="3.12.1")
    yield told({**ELSEWHERE, **cann("8.3.RC1")}, variables={"PATH": "/usr/bin:/opt/conda/bin"})
    yield told({**TORCH_NPU, **ELSEWHERE, **notebook(CONDA)}, variables={"JPY_PARENT_PID": "70"})
    yield told(TORCH_NPU, knowledge=site(tmp / "k", "[[cann_python.python]]\n"))
    yield told(package_files("torch_npu", "2.5.1"), python_version="3.12.1")
    row = '[[torch_npu.python]]\ntorch = "2.7.1"\npython = "3.11"\nsource = "us"\nas_of = "2026-12"\n'
    yield told(TORCH_NPU, knowledge=site(tmp / "p", row + "compatible = false\n"))
