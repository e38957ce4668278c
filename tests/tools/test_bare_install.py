"""The wheel alone, without any extra, in a Python that has nothing else: each command says what it lacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import packages

DRIVER = Path(__file__).with_name("bare_driver.py")
FLEET = ("check", "fix", "pairs", "report")


@pytest.mark.slow
def test_every_command_option_and_choice_without_any_extra(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Once, on the newest Python: the two fleet lines and the absence of tracebacks hang on no version."""
    wheel = packages.provide(tmp_path_factory).wheel
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (site,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile"]
    subprocess.run([*pip, "--target", site, wheel], check=True)
    (tmp_path / "there").write_text("{}")
    (tmp_path / "script.sh").write_text("export HCCL_CONNECT_TIMEOUT=120\n")
    (tmp_path / "job.log").write_text("RuntimeError: EI0006\n")
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NPUDOCTOR_CHECKS_DIR": ""}
    done = subprocess.run(
        [tmp_path / "venv/bin/python", "-I", DRIVER], env=variables, cwd=tmp_path, capture_output=True,
        encoding="utf-8", timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert len(rows) > 250
    bad = [row for row in rows if "Traceback" in row[2] or not 0 <= row[1] <= 127 or row[1] in (70, 98, 99)]
    assert bad == []
    missing = [(words, status) for words, status, said in rows if "npudoctor[fleet]" in said]
    assert {status for _words, status in missing} == {64}
    assert {words[1] for words, _status in missing} == set(FLEET)
    assert all(words[0] == "fleet" for words, _status in missing)
