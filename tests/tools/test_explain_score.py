"""The scores of whole logs: what a reader says of each, against what explain says."""

from __future__ import annotations

import importlib
import sys
import tarfile
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
BUG = "Traceback (most recent call last):\n  File \"train.py\", line 7, in <module>\nKeyError: 'lr'\n"
LOGS = {
    "well.log": "epoch: 1 step: 1, loss is 1.9\n",
    "ill.out": "start\n" + BUG,
    "ended.txt": "Traceback (most recent call last):\nKeyboardInterrupt\n",
    "twice.err": "nohup: ignoring input\n" + BUG + "nohup: ignoring input\nepoch: 1 step: 1, loss is 1.9\n",
    "wrong.log": BUG,
}
TRUTH = """# name\twhat happened\tenvironment to blame\tdecisive line\twhat it was
well\tsucceeded\t-\t-\t
ill\tfailed\tn\t4\ta key
ended\tended-from-outside\t-\t-\tCtrl-C
twice\tseveral-runs\t-\t-\ta key; last OK
wrong\trunning\t-\t-\tnot at all
absent\trunning\t-\t-\t
"""


def scores(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    monkeypatch.syspath_prepend(str(TOOLS))
    tool = importlib.import_module("explain_score")
    try:
        assert tool.main(list(words)) == 0
    finally:
        for name in ("explain_score", "long_logs", "signature_audit"):
            sys.modules.pop(name, None)
    return capsys.readouterr().out


@pytest.mark.parametrize("packed", [False, True], ids="files packed".split())
def test_a_folder_of_whole_logs_is_scored_by_its_truth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    for name, log in LOGS.items():
        (tmp_path / name).write_text(log, encoding="utf-8")
    if packed:
        with tarfile.open(tmp_path / "logs.tar.xz", "w:xz") as archive:
            for name in LOGS:
                archive.add(tmp_path / name, name)
                (tmp_path / name).unlink()
    (tmp_path / "truth.tsv").write_text(TRUTH, encoding="utf-8")
    said = scores(capsys, monkeypatch, str(tmp_path))
    table = {line.split(":")[0].strip(): line for line in said.splitlines() if "%" in line}
    assert "1/1" in table["succeeded"] and "1/1" in table["failed"] and "0/1" in table["running"]
    assert "1/1" in table["ended-from-outside"] and "1/1" in table["several-runs"]
    assert "wrong: running" in said and "python-key-error" in said and "absent: there is no such log" in said


def test_signatures_that_are_loud_on_healthy_logs_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "well.log").write_text(BUG + "epoch: 1 step: 1, loss is 1.9\n", encoding="utf-8")
    (tmp_path / "truth.tsv").write_text("well\tsucceeded\t-\t-\t\n", encoding="utf-8")
    loud, never = scores(capsys, monkeypatch, "--signatures", str(tmp_path)).split("never on a real log here")
    assert "python-key-error (1): well:3: KeyError: 'lr'" in loud and "cann-codes" not in loud
    assert "device-oom-torch" in never and "python-key-error" not in never
