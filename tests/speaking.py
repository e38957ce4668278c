"""For every check, the machines on which it says all that it can say: `scene` of its own test file."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Callable

from npudoctor.checking.check import Check
from npudoctor.testing import Asked

Scene = Callable[[Path], Iterator[Asked]]
ROOT = Path(__file__).resolve().parent.parent


def scene_of(check: Check) -> Scene:
    """The scene of a check; AssertionError says what to write where when there is none."""
    name = check.id.replace("-", "_")
    path = Path("tests/checks") / check.group / f"test_{name}.py"
    wanted = f"{path}: write `def scene(tmp: Path) -> Iterator[Asked]`, which shows each code of {check.id}"
    assert (ROOT / path).is_file(), wanted
    scene = getattr(import_module(f"tests.checks.{check.group}.test_{name}"), "scene", None)
    assert scene is not None, wanted
    return scene  # type: ignore[no-any-return]
