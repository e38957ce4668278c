"""`npudoctor explain` as a command: what it reads, says and refuses, and what it never does."""

from __future__ import annotations

import json
import os
import tarfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from .command import Npudoctor

LINE = "ImportError: libhccl.so: cannot open shared object file: No such file or directory\n"
KEYS = "schema version seconds inputs verdict exit_code msg diagnoses"
DIAGNOSIS = "signature category environment confidence title cause remedy checks rank first count"
SCHEMA: Any = json.loads((files("npudoctor.render") / "schemas" / "explain-1.json").read_text("utf-8"))


@pytest.fixture
def npudoctor(npudoctor: Npudoctor) -> Npudoctor:
    """The command, with a cache that all these tests share: it is made once."""
    npudoctor.variables["NPUDOCTOR_KNOWLEDGE_DIR"] = ""
    return npudoctor


@pytest.fixture(autouse=True)
def shared_cache(npudoctor: Npudoctor, tmp_path_factory: pytest.TempPathFactory) -> None:
    npudoctor.variables["XDG_CACHE_HOME"] = str(tmp_path_factory.getbasetemp() / "explain-cache")


def log(folder: Path, content: str, name: str = "worker_3.log") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def test_the_json_is_that_of_the_contract(npudoctor: Npudoctor, tmp_path: Path) -> None:
    path = log(tmp_path, "quiet\n" + LINE)
    done = npudoctor("explain", str(path), "--format", "json", LANG="zh_CN.UTF-8")
    found = done.json
    assert (done.status, done.err) == (0, "") and list(found) == KEYS.split()
    assert list(Draft202012Validator(SCHEMA).iter_errors(found)) == []
    best = found["diagnoses"][0]
    assert list(best) == DIAGNOSIS.split()
    assert (found["verdict"], best["signature"], best["rank"]) == ("environment", "loader-cann-library", 3)
    assert best["first"] == {"path": str(path), "line": 2, "text": LINE.strip()}
    assert found["inputs"] == [{"path": str(path), "bytes": len(LINE) + 6, "lines": 2}]
    assert found["msg"].isascii() and "cann-env" in best["checks"]


def test_people_get_one_screen_in_their_language(npudoctor: Npudoctor, tmp_path: Path) -> None:
    path = log(tmp_path, LINE + "\x1b]0;pwned\x07 token=hunter2\nKeyError: 'password=hunter2'\n")
    english, chinese = npudoctor("explain", str(path)), npudoctor("explain", str(path), "--lang", "zh")
    assert english.out.startswith("ENVIRONMENT: ") and "npudoctor check" in english.out
    assert len(english.out.splitlines()) <= 40 and "\x1b" not in english.out and "hunter2" not in english.out
    assert any("\u4e00" <= char <= "\u9fff" for char in chinese.out) and chinese.status == 0


def test_clean_unknown_and_what_cannot_be_judged(npudoctor: Npudoctor, tmp_path: Path) -> None:
    assert npudoctor("explain", str(log(tmp_path, "Training finished\n"))).status == 0
    unknown = npudoctor("explain", str(log(tmp_path, "foo.BarError: out of tune\n")))
    assert unknown.status == 1 and "foo.BarError: out of tune" in unknown.out
    assert npudoctor("explain", str(log(tmp_path, ""))).status == 1


def test_usage(npudoctor: Npudoctor, tmp_path: Path) -> None:
    for words in (["nosuch.log"], ["EI00666"], ["cann-env.not-sourcd"], [str(tmp_path), "nosuch"]):
        done = npudoctor("explain", *words)
        assert (done.status, done.out, len(done.err.splitlines())) == (64, "", 1), words
    assert "cann-env.not-sourced" not in npudoctor("explain").out and npudoctor("explain").status == 64


def test_codes_of_cann_of_signatures_and_of_findings(npudoctor: Npudoctor) -> None:
    for word, known in (
        ("ei0006", ""),
        ("loader-cann-library", ""),
        ("cann-env.not-sourced", "cann-env"),
    ):
        done = npudoctor("explain", word, "--format", "json")
        assert done.status == 0 and done.json["inputs"] == [] and done.json["diagnoses"][0]["first"] is None
        assert known in done.json["msg"] + str(done.json["diagnoses"][0]["checks"])
        assert list(Draft202012Validator(SCHEMA).iter_errors(done.json)) == []


def test_standard_input(npudoctor: Npudoctor) -> None:
    done = npudoctor.shell(f"printf %s '{LINE.strip()}' | \"$@\" explain - --format json")
    assert done.json["inputs"] == [{"path": "-", "bytes": len(LINE) - 1, "lines": 1}] and done.status == 0
    done = npudoctor.shell(f"\"$@\" explain <(printf %s '{LINE.strip()}') --format json")
    assert done.json["diagnoses"][0]["signature"] == "loader-cann-library"


def test_odd_things_are_one_line_each_and_the_rest_is_read(npudoctor: Npudoctor, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    log(folder, LINE)
    os.mkfifo(folder / "fifo")
    (folder / "loop").symlink_to("loop")
    (folder / "up").symlink_to(folder)
    (folder / "garbage").write_bytes(bytes(range(256)) * 100)
    (folder / "cut.log.gz").write_bytes(b"\x1f\x8b\x08\0")
    (folder / "evil\x1b[2J\n.log").write_text("fine\n")
    done = npudoctor("explain", str(folder), "--format", "json")
    assert done.status == 0 and done.json["diagnoses"][0]["rank"] == 3
    assert len(done.json["inputs"]) == 3 and "Traceback" not in done.err and "\x1b" not in done.err
    for name in ("fifo", "loop", "up", "garbage", "cut.log.gz"):
        (line,) = [line for line in done.err.splitlines() if f"/{name}" in line]
        assert line.startswith("npudoctor: ")


def test_ten_thousand_files(npudoctor: Npudoctor, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for rank in range(10_000):
        (folder / f"worker_{rank}.log").write_text("quiet\n" if rank != 7777 else LINE)
    done = npudoctor("explain", str(folder), "--format", "json")
    assert len(done.json["inputs"]) == 10_000 and done.err == ""
    assert [one["rank"] for one in done.json["diagnoses"]] == [7777] * len(done.json["diagnoses"])


def test_the_newest_log_here(npudoctor: Npudoctor, tmp_path: Path) -> None:
    log(tmp_path, "Training finished\n", "slurm-1.out")
    os.utime(tmp_path / "slurm-1.out", (1, 1))
    log(tmp_path, LINE, "home/ascend/log/debug/plog/plog-1_2026.log")
    done = npudoctor("explain", "--format", "json")
    assert done.json["diagnoses"][0]["signature"] == "loader-cann-library"
    assert "ascend/log" in done.err.splitlines()[0] and "slurm-1.out (Slurm)" in done.err.splitlines()[1]


def test_verify_asks_the_checks_that_prove_it(npudoctor: Npudoctor, tmp_path: Path) -> None:
    done = npudoctor("explain", str(log(tmp_path, LINE)), "--verify", "--format", "json")
    found = done.json
    assert {row["check"] for row in found["verified"]} == set(found["diagnoses"][0]["checks"])
    assert list(Draft202012Validator(SCHEMA).iter_errors(found)) == []


def test_collect_packs_what_is_asked_for_without_secrets(npudoctor: Npudoctor, tmp_path: Path) -> None:
    path = log(tmp_path, "quiet\n" * 1000 + "export API_TOKEN=hunter2\n" + LINE + "quiet\n" * 1000)
    out = tmp_path / "bundle.tar.gz"
    done = npudoctor("explain", str(path), "--collect", str(out))
    assert done.status == 0, done.err
    with tarfile.open(out) as bundle:
        names = bundle.getnames()
        texts = {name: bundle.extractfile(name).read().decode() for name in names}  # type: ignore[union-attr]
    assert {"bundle/report.json", "bundle/explain.json", "bundle/versions.txt"} <= set(names)
    (excerpt,) = [text for name, text in texts.items() if "/logs/" in name]
    assert f"1002: {LINE}" in excerpt and "1001: export API_TOKEN=***" in excerpt
    assert 350 < len(excerpt.splitlines()) < 410 and not any("hunter2" in text for text in texts.values())
    before = out.read_bytes()
    again = npudoctor("explain", str(path), "--collect", str(out))
    assert (again.status, again.out) == (64, "") and out.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir() if one.name.startswith(".npu")) == []


def test_without_a_place_for_a_cache_it_says_the_same(npudoctor: Npudoctor, tmp_path: Path) -> None:
    path = log(tmp_path, LINE)
    for place in ("/proc/nowhere", str(path), "relative"):
        done = npudoctor("explain", str(path), "--format", "json", XDG_CACHE_HOME=place, HOME="/proc/nowhere")
        assert done.json["diagnoses"][0]["signature"] == "loader-cann-library" and done.err == ""


def test_signatures_of_a_site(npudoctor: Npudoctor, tmp_path: Path, trusted: Path) -> None:
    row = """
source = "own work"
as_of = "2026-11-21"
[[signature]]
id = "site-frobnicator"
category = "other"
environment = true
weight = 90
patterns = ['frobnicator is out of tune']
title = { en = "Out of tune", zh = "跑调" }
cause = { en = "It is old.", zh = "旧了。" }
remedy = { en = ["Tune it."], zh = ["调音。"] }
"""
    knowledge = trusted / "knowledge.d"
    knowledge.mkdir(mode=0o755)
    (knowledge / "own.toml").write_text(row, encoding="utf-8")
    (knowledge / "bad.toml").write_text(row.replace("weight = 90", "weight = 900"), encoding="utf-8")
    path = log(tmp_path, "ERROR: the frobnicator is out of tune\n")
    done = npudoctor("explain", str(path), "--format", "json", NPUDOCTOR_KNOWLEDGE_DIR=str(knowledge))
    assert done.json["diagnoses"][0]["signature"] == "site-frobnicator"
    (line,) = done.err.splitlines()
    assert "bad.toml" in line and "weight: 900" in line


def test_a_result_goes_to_a_file_as_a_whole(npudoctor: Npudoctor, tmp_path: Path) -> None:
    out = tmp_path / "explained.json"
    done = npudoctor("explain", str(log(tmp_path, LINE)), "--format", "json", "--output", str(out))
    assert done.out == "" and json.loads(out.read_text())["verdict"] == "environment"


def test_what_is_no_log_of_its_own_does_not_make_a_healthy_folder_unknown(
    npudoctor: Npudoctor, tmp_path: Path
) -> None:
    log(tmp_path, "step: 10 loss: 0.5\nTraining completed\n")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "again").symlink_to(tmp_path)
    (tmp_path / "gone").symlink_to("nowhere")
    done = npudoctor("explain", str(tmp_path), "--format", "json")
    assert (done.status, done.json["verdict"], len(done.err.splitlines())) == (0, "clean", 3)


def test_a_link_to_nowhere_is_no_log_of_slurm(npudoctor: Npudoctor, tmp_path: Path) -> None:
    (tmp_path / "slurm-1.out").symlink_to("nowhere")
    assert npudoctor("explain").status == 64
    log(tmp_path, LINE, "slurm-2.out")
    done = npudoctor("explain")
    assert done.status == 0 and "slurm-2.out" in done.err


def test_lines_around_that_begin_within_a_key_do_not_show_it(npudoctor: Npudoctor, tmp_path: Path) -> None:
    key = "-----BEGIN PRIVATE KEY-----\n" + "keymaterial\n" * 50 + "-----END PRIVATE KEY-----\n"
    path = log(tmp_path, key + "quiet\n" * 180 + LINE)
    assert npudoctor("explain", str(path), "--collect", str(tmp_path / "o.tar.gz")).status == 0
    with tarfile.open(tmp_path / "o.tar.gz") as bundle:
        for member in bundle.getmembers():
            file = bundle.extractfile(member)
            assert file is not None and b"keymaterial" not in file.read()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be led astray by another user's HOME")
def test_root_writes_nothing_where_another_user_leads(npudoctor: Npudoctor, tmp_path: Path) -> None:
    home, target = tmp_path / "their home", tmp_path / "target"
    target.mkdir()
    home.mkdir()
    (home / ".cache").symlink_to(target)
    os.chown(home, 65534, 65534)
    done = npudoctor("explain", str(log(tmp_path, LINE)), HOME=str(home), XDG_CACHE_HOME="")
    assert done.status == 0 and list(target.iterdir()) == []
    (home / ".cache").unlink()
    assert npudoctor("explain", str(tmp_path / "worker_3.log"), HOME=str(home), XDG_CACHE_HOME="").status == 0
    assert list(home.iterdir()) == []
