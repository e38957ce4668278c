"""The one file npudoctor.pyz for tests: what `make package` built last, unless the sources are newer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import packages

BUILT = packages.ROOT / "dist/npudoctor.pyz"


def provide(factory: pytest.TempPathFactory) -> Path:
    """Its path; built where that must be."""
    folders = ("src", "checks", "tools")
    newest = max(path.stat().st_mtime for name in folders for path in (packages.ROOT / name).rglob("*.py"))
    if BUILT.exists() and BUILT.stat().st_mtime > newest:
        return BUILT
    return packed(factory)[0]


def packed(factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """It and the bill of its materials, packed once for all processes of a run."""
    wheel = packages.provide(factory).wheel
    with packages.shared(factory, "one-file") as folder:
        one_file, bill = folder / "npudoctor.pyz", folder / "npudoctor.cdx.json"
        if not one_file.exists():
            pack(wheel, one_file, bill)
    return one_file, bill


def pack(wheel: Path, one_file: Path, bill: Path) -> None:
    """As `make package` does; the file is there once it is whole."""
    tool, half = packages.ROOT / "tools/one_file.py", one_file.with_suffix(".half")
    done = subprocess.run(
        [sys.executable, tool, wheel, half, bill],
        env=packages.MOMENT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    half.rename(one_file)
