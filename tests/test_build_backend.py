"""An editable install finds the sources, and a start of its Python imports nothing for that."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent / "build_backend"))
from npudoctor_archives import quick

pytestmark = [pytest.mark.once, pytest.mark.whole]

FINDER = "__editable___mine_1_finder.py"
TELLS = """
import sys
before = set(sys.modules)
import {finder}
{finder}.install()
print(sorted(set(sys.modules) - before))
import mine.parts.one
print(mine.__file__, mine.parts.one.__file__, mine.__spec__.cached)
"""


def test_an_editable_wheel_gets_a_finder_that_imports_nothing(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for name in ("src/mine/__init__.py", "parts/__init__.py", "parts/one.py"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    mapping = {"mine": f"{tree}/src/mine", "mine.parts": f"{tree}/parts"}
    wheel = tmp_path / "mine-1-0.editable-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("mine-1.data/scripts/mine", "#!python\n")
        file.writestr(FINDER, f"import pathlib\nMAPPING: dict[str, str] = {mapping!r}\n")
        file.writestr("mine-1.dist-info/RECORD", f"{FINDER},sha256=old,1\nmine-1.dist-info/RECORD,,\n")

    quick(wheel)

    with zipfile.ZipFile(wheel) as file:
        content = file.read(FINDER)
        record = file.read("mine-1.dist-info/RECORD").decode().splitlines()
        assert file.read("mine-1.data/scripts/mine") == b"#!python\n"
        file.extract(FINDER, tmp_path)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    assert record == [f"{FINDER},sha256={digest},{len(content)}", "mine-1.dist-info/RECORD,,"]
    told = subprocess.run(
        [sys.executable, "-S", "-E", "-c", TELLS.format(finder=FINDER[:-3])],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    assert told[0] == f"[{FINDER[:-3]!r}]"
    files = told[1].split()
    assert files[:2] == [f"{tree}/src/mine/__init__.py", f"{tree}/parts/one.py"]
    assert "__pycache__" in files[2]


def test_an_editable_wheel_without_a_finder_stays_as_it_is(tmp_path: Path) -> None:
    """As with `--config-settings editable_mode=strict`."""
    wheel = tmp_path / "mine-1-0.editable-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("mine-1.dist-info/RECORD", "mine-1.dist-info/RECORD,,\n")
    before = wheel.read_bytes()
    quick(wheel)
    assert wheel.read_bytes() == before
