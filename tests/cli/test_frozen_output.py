"""A file system that takes nothing holds no run: what could not be written is said, in time."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from npudoctor.cli import bundle
from npudoctor.cli.arguments import paths
from npudoctor.cli.config import UsageError
from npudoctor.cli.terminal import output
from npudoctor.core import forked
from npudoctor.host.fs.files import Files, LocalDisk


def _frozen(*_told: Any, **_named: Any) -> None:
    time.sleep(60)


def test_an_output_on_a_frozen_file_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(output, "WRITING", 0.3)
    monkeypatch.setattr(os, "rename", _frozen)
    started = time.monotonic()
    with pytest.raises(
        output.OutputLost, match=f"{tmp_path}/report: its file system accepts no data within 0.3 s"
    ):
        output.save(str(tmp_path / "report"), "text")
    assert time.monotonic() - started < 10
    assert not (tmp_path / "report").exists()


def test_a_bundle_on_a_frozen_file_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(output, "WRITING", 0.3)
    monkeypatch.setattr(os, "link", _frozen)
    with pytest.raises(output.OutputLost, match=r"accepts no data within 0\.3 s"):
        bundle.pack_bundle(str(tmp_path / "bundle.tar.gz"), {"a": b"text"})


def test_it_is_refused_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(forked.ask, "__defaults__", (0.3,))
    monkeypatch.setattr(os, "unlink", _frozen)
    with pytest.raises(UsageError, match=r"--output: .*/report: its file system accepts no data within"):
        paths.resolve_output(str(tmp_path / "report"), Files(LocalDisk()))


def test_a_disk_that_is_well(tmp_path: Path) -> None:
    target = paths.resolve_output(str(tmp_path / "report"), Files(LocalDisk()))
    assert target is not None
    output.save(target, "text")
    assert (tmp_path / "report").read_text() == "text"
    assert os.listdir(tmp_path) == ["report"]
    with pytest.raises(output.OutputLost, match="No such file"):
        output.save(str(tmp_path / "no/report"), "text")
