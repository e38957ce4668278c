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

from npudoctor.explain.reading.newest import find_newest_logs, select_newest_run

from .command import Npudoctor

LINE = "ImportError: libhccl.so: cannot open shared object file: No such file or directory\n"
KEYS = "schema version seconds inputs verdict elsewhere exit_code msg diagnoses complete unread late"
DIAGNOSIS = "signature category environment confidence title cause remedy checks rank first count"
SCHEMA: Any = json.loads((files("npudoctor.render") / "schemas" / "explain-1.json").read_text("utf-8"))


@pytest.fixture
def npudoctor(npudoctor: Npudoctor) -> Npudoctor:
    """The command, without signatures of this machine's site."""
    npudoctor.variables["NPUDOCTOR_KNOWLEDGE_DIR"] = ""
    return npudoctor


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


def test_the_line_of_the_answer_is_not_found_once_more(npudoctor: Npudoctor, tmp_path: Path) -> None:
    memory = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
    logs = [log(tmp_path, memory, "a.log"), log(tmp_path, memory + LINE, "b.log")]
    alone, both = npudoctor.each([("explain", str(path)) for path in logs])
    assert "memory is exhausted" in alone.out and "also found" not in alone.out
    two = both.out.partition("also found")[2]
    assert ".log:2)" in two and ".log:1)" not in two


def test_clean_unknown_and_what_cannot_be_judged(npudoctor: Npudoctor, tmp_path: Path) -> None:
    contents = ("Training finished\n", "[ERROR] out of tune\n", "")
    logs = [log(tmp_path, content, f"{number}.log") for number, content in enumerate(contents)]
    done = npudoctor.each([("explain", str(path)) for path in logs])
    assert [one.status for one in done] == [0, 1, 1]
    assert "[ERROR] out of tune" in done[1].out


def test_usage(npudoctor: Npudoctor, tmp_path: Path) -> None:
    tried: list[list[str]] = [
        [],
        ["nosuch.log"],
        ["EI00666"],
        ["cann-env.not-sourcd"],
        [str(tmp_path), "nosuch"],
    ]
    for words, done in zip(tried, npudoctor.each([("explain", *words) for words in tried])):
        assert (done.status, done.out, len(done.err.splitlines())) == (64, "", 1), words


def test_codes_of_cann_of_signatures_and_of_findings(npudoctor: Npudoctor) -> None:
    words = {"ei0006": "", "loader-cann-library": "", "cann-env.not-sourced": "cann-env"}
    ended = npudoctor.each([("explain", word, "--format", "json") for word in words])
    for known, done in zip(words.values(), ended):
        assert done.status == 0 and done.json["inputs"] == [] and done.json["diagnoses"][0]["first"] is None
        assert known in done.json["msg"] + str(done.json["diagnoses"][0]["checks"])
        assert list(Draft202012Validator(SCHEMA).iter_errors(done.json)) == []


def test_return_numbers_and_their_names(npudoctor: Npudoctor) -> None:
    words = ("507022", "ACL_ERROR_RT_IPC_ERROR")
    texts = {"en": "(IPC)", "zh": "进程间通信异常"}
    lines = [("explain", word, "--lang", language) for language in texts for word in words]
    *known, small, none = npudoctor.each(
        [*lines, ("explain", "7", "--format", "json"), ("explain", "599999")]
    )
    for line, done in zip(lines, known):
        assert done.status == 0 and texts[line[-1]] in done.out and "507022" in done.out
    assert small.json["diagnoses"][0]["confidence"] == "possible" and "HCCL_E_UNAVAIL" in small.json["msg"]
    assert none.status == 64


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


def test_thousands_of_files(npudoctor: Npudoctor, tmp_path: Path) -> None:
    """More than a process may have open at once."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for rank in range(2000):
        (folder / f"worker_{rank}.log").write_text("quiet\n" if rank != 1777 else LINE)
    done = npudoctor.shell(f'ulimit -n 256; "$@" explain {folder} --format json')
    assert len(done.json["inputs"]) == 2000 and done.err == ""
    assert [one["rank"] for one in done.json["diagnoses"]] == [1777] * len(done.json["diagnoses"])


def test_the_newest_log_here(npudoctor: Npudoctor, tmp_path: Path) -> None:
    log(tmp_path, "Training finished\n", "slurm-1.out")
    os.utime(tmp_path / "slurm-1.out", (1, 1))
    log(tmp_path, LINE, "home/ascend/log/debug/plog/plog-1_2026.log")
    done = npudoctor("explain", "--format", "json")
    assert done.json["diagnoses"][0]["signature"] == "loader-cann-library"
    assert "ascend/log" in done.err.splitlines()[0] and "slurm-1.out (Slurm)" in done.err.splitlines()[1]


def test_logs_of_no_launcher_are_found_by_their_names(npudoctor: Npudoctor, tmp_path: Path) -> None:
    for number, name in enumerate(("a.log", "b.log", "c.out", "d.err", "logs/rank0.log"), 1):
        log(tmp_path, LINE if name == "c.out" else "quiet\n", name)
        when = 10_000 * (9 if name == "c.out" else number)
        os.utime(tmp_path / name, (when, when))
    log(tmp_path, "", "empty.log")
    log(tmp_path, LINE, "notes.txt")
    done = npudoctor("explain", "--format", "json")
    assert done.json["diagnoses"][0]["signature"] == "loader-cann-library"
    first, *others = done.err.splitlines()
    assert first.endswith("newest log in this directory: c.out")
    assert [line.split(": ")[-1] for line in others] == [
        "logs (log)",
        "d.err (log)",
        "b.log (log)",
        "a.log (log)",
    ]


NOW = 1_900_000_000
BESIDE = {
    # The rank that failed fell silent long before the watchdog of the others ended them.
    "ranks": ({f"rank_{number}.log": 0 for number in range(1, 8)}, {"rank_0.log": 30_000}, 8),
    "names": ({"train.log": 0}, {"stderr.err": 1800}, 2),
    "folder": ({"train.log": 0}, {"logs/any.log": 60}, 2),
    "nohup": ({"nohup.out": 0}, {"train.log": 60}, 2),
    "launcher": ({"train.log": 0}, {"nohup.out": 60}, 2),
    "one job": ({"slurm-7.out": 0, "slurm-6.out": 60}, {"slurm-7.err": 9000}, 2),
    "an array": ({"slurm-7_1.out": 0}, {"slurm-7_0.out": 9000}, 2),
}


def beside(folder: Path, case: str) -> int:
    """Write the logs of a case; how many of them are of the newest run."""
    healthy, failed, count = BESIDE[case]
    for name, age in {**healthy, **failed}.items():
        path = log(folder, LINE if name in failed else "step: 10 loss: 0.5\nTraining completed\n", name)
        os.utime(path, (NOW - age, NOW - age))
    return count


@pytest.mark.parametrize("case", ["ranks", "folder"])
def test_all_logs_of_the_newest_run_are_read(npudoctor: Npudoctor, tmp_path: Path, case: str) -> None:
    count = beside(tmp_path, case)
    done = npudoctor("explain", "--format", "json")
    assert done.json["verdict"] == "environment" and len(done.json["inputs"]) == count, done.err
    assert done.err.startswith(
        f"npudoctor: explaining the {count} logs of the newest run in this directory: "
    )


@pytest.mark.parametrize("case", BESIDE)
def test_the_logs_of_the_newest_run_are_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    count = beside(tmp_path, case)
    monkeypatch.chdir(tmp_path)
    chosen = select_newest_run(find_newest_logs({"HOME": str(tmp_path)}).places)
    failed = {name.partition("/")[0] for name in BESIDE[case][1]}
    assert len(chosen) == count and failed <= {place.path for place in chosen}


@pytest.mark.parametrize("names", [("slurm-8.out", "slurm-{}.out"), ("train.log", "old-{}.log")])
def test_logs_of_other_runs_are_named_and_counted(
    npudoctor: Npudoctor, tmp_path: Path, names: tuple[str, str]
) -> None:
    for number in range(8):
        path = log(tmp_path, LINE, names[1].format(number))
        os.utime(path, (NOW - 5000 - number, NOW - 5000 - number))
    os.utime(log(tmp_path, "step: 10 loss: 0.5\nTraining completed\n", names[0]), (NOW, NOW))
    done = npudoctor("explain", "--format", "json")
    assert (done.json["verdict"], done.json["inputs"][0]["path"]) == ("clean", names[0])
    assert done.err.count("also found:") == 5 and done.err.endswith("npudoctor: 3 more logs are not read\n")


def test_links_are_no_logs_of_this_folder(npudoctor: Npudoctor, tmp_path: Path) -> None:
    """Anybody who may write here could have put them: nobody asked for what they lead to."""
    elsewhere = tmp_path / "elsewhere"
    log(elsewhere, LINE, "secret.log")
    here = tmp_path / "here"
    here.mkdir()
    (here / "train.log").symlink_to(elsewhere / "secret.log")
    (here / "slurm-1.out").symlink_to(elsewhere / "secret.log")
    (here / "logs").symlink_to(elsewhere)
    os.mkfifo(here / "pipe.log")
    done = npudoctor.shell(f'cd {here} && "$@" explain')
    assert (done.status, done.out) == (64, "") and "found no CANN log" in done.err


def test_verify_asks_the_checks_that_prove_it(npudoctor: Npudoctor, tmp_path: Path) -> None:
    done = npudoctor("explain", str(log(tmp_path, LINE)), "--verify", "--format", "json")
    found = done.json
    assert {row["check"] for row in found["verified"]} == set(found["diagnoses"][0]["checks"])
    assert list(Draft202012Validator(SCHEMA).iter_errors(found)) == []


def test_a_check_that_could_not_look_refutes_nothing(npudoctor: Npudoctor) -> None:
    done = npudoctor("explain", "EI0006", "--verify", "--format", "json")
    rows = {row["check"]: row for row in done.json["verified"]}
    assert list(Draft202012Validator(SCHEMA).iter_errors(done.json)) == []
    ended = {"ok": "refuted", "problem": "confirmed"}
    assert all(row["outcome"] == ended.get(row["status"], "could-not-look") for row in rows.values())
    # No scene of this suite sets the variables of HCCL for its interfaces.
    assert rows["hccl-interface"]["outcome"] == "could-not-look" and rows["hccl-interface"]["messages"]
    text = npudoctor("explain", "EI0006", "--verify").out
    assert "hccl-interface: no result (skipped)" in text and "not confirm it (skipped)" not in text


def test_each_of_several_codes_is_answered(npudoctor: Npudoctor) -> None:
    codes = ("EE1010", "EI0006", "ERR00100")
    *ones, text, wrong = npudoctor.each(
        [
            *(("explain", code, "--format", "json") for code in codes),
            ("explain", *codes),
            ("explain", "EI0006", "EI9996X"),
        ]
    )
    alone = {code: one.json for code, one in zip(codes, ones)}
    done = npudoctor("explain", *codes, "--format", "json")
    assert (done.status, done.err) == (0, "")
    assert list(Draft202012Validator(SCHEMA).iter_errors(done.json)) == []
    for code, answer in zip(alone, done.json["answers"]):
        assert answer["code"] == code and answer["diagnoses"] == alone[code]["diagnoses"]
    # The worst of them is the verdict of all.
    assert (alone["EE1010"]["verdict"], done.json["verdict"]) == ("not_environment", "environment")
    assert done.json["diagnoses"][0] == alone["EI0006"]["diagnoses"][0]
    assert [line for line in text.out.splitlines() if line in alone] == list(alone)
    assert (wrong.status, wrong.out) == (64, "") and "EI9996X: not a file" in wrong.err


def test_a_code_beside_a_log_that_is_there_is_a_missing_log(npudoctor: Npudoctor, tmp_path: Path) -> None:
    done = npudoctor("explain", "EI0006", str(log(tmp_path, LINE)))
    assert (done.status, done.out) == (64, "") and done.err.startswith("npudoctor: EI0006: ")


def test_show_answers_to_the_codes_of_logs_as_explain_does(npudoctor: Npudoctor) -> None:
    lines = [(word, code) for code in ("EI0006", "ERR00100", "507033") for word in ("show", "explain")]
    ended = npudoctor.each(lines)
    ended += [npudoctor(word, "loader-cann-library") for word in ("show", "explain")]
    for shown, explained in zip(ended[::2], ended[1::2]):
        assert (shown.status, shown.err) == (0, "") and shown.out == explained.out


def test_collect_packs_what_is_asked_for_without_secrets(npudoctor: Npudoctor, tmp_path: Path) -> None:
    path = log(tmp_path, "quiet\n" * 1000 + "export API_TOKEN=hunter2\n" + LINE + "  at frame\n" * 1000)
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


def test_nothing_is_written_at_home(npudoctor: Npudoctor, tmp_path: Path) -> None:
    home, cache, work = (tmp_path / name for name in ("own home", "cache", "work"))
    for folder in (home, cache, work):
        folder.mkdir()
    path = log(work, LINE)
    lines = [("explain", str(path), "--format", form) for form in ("text", "json")]
    for done in npudoctor.each(lines, HOME=str(home), XDG_CACHE_HOME=str(cache)):
        assert (done.status, done.err) == (0, "")
    assert (list(home.iterdir()), list(cache.iterdir()), list(work.iterdir())) == ([], [], [path])


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


def test_a_link_out_of_a_healthy_folder_is_said_and_it_stays_healthy(
    npudoctor: Npudoctor, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    (tmp_path / "elsewhere").mkdir()
    log(tmp_path / "elsewhere", LINE)
    folder.mkdir()
    (folder / "latest").symlink_to(tmp_path / "elsewhere")
    alone = npudoctor("explain", str(folder), "--format", "json")
    assert (alone.status, alone.json["verdict"]) == (1, "unknown")
    log(folder, "step: 10 loss: 0.5\nTraining completed\n")
    done = npudoctor("explain", str(folder), "--format", "json")
    assert (done.status, done.json["verdict"], done.json["complete"]) == (0, "clean", True)
    assert done.err.count("\n") == 1
    assert f"latest: a link to {tmp_path / 'elsewhere'}, outside the folder: not followed" in done.err


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


# A pipe that the shell itself keeps open until the command has ended: its end never comes before.
NEVER_ENDS = 'mkfifo pipe; exec 3<>pipe; {writes} >&3; "$@" explain - <pipe 3>&- --deadline {seconds} {more}'


def test_a_deadline_is_said_and_what_was_read_until_then_explained(
    npudoctor: Npudoctor, tmp_path: Path
) -> None:
    writes = f"printf %s '{LINE}'"
    done = npudoctor.shell(NEVER_ENDS.format(writes=writes, seconds=3, more="--format json"))
    found = done.json
    assert (done.status, found["verdict"]) == (0, "environment"), done.err
    assert (found["complete"], found["late"], found["unread"]["count"]) == (False, 3, 1)
    assert list(Draft202012Validator(SCHEMA).iter_errors(found)) == []
    (tmp_path / "pipe").unlink()
    text = npudoctor.shell(NEVER_ENDS.format(writes="echo quiet", seconds=2, more=""))
    assert text.status == 1 and text.out.startswith("UNKNOWN") and "the deadline of 2 s" in text.out
    told = ("0", "-1", "nan", "soon")
    for done in npudoctor.each([("explain", str(tmp_path), "--deadline", seconds) for seconds in told]):
        assert (done.status, done.out, done.err.count("\n")) == (64, "", 1)


def test_a_link_out_of_the_folder_is_neither_read_nor_packed(npudoctor: Npudoctor, tmp_path: Path) -> None:
    log(tmp_path, "".join(["TOPSECRET\n", LINE]), "private/secret.log")
    log(tmp_path, LINE, "logs/worker_1.log")
    (tmp_path / "logs" / "worker_0.log").symlink_to(tmp_path / "private" / "secret.log")
    out = tmp_path / "bundle.tar.gz"
    done = npudoctor("explain", str(tmp_path / "logs"), "--collect", str(out), "--format", "json")
    assert [one["path"] for one in done.json["inputs"]] == [str(tmp_path / "logs" / "worker_1.log")]
    assert ", outside the folder" in done.json["unread"]["first"][0]["reason"] and done.json["late"] is None
    with tarfile.open(out) as bundle:
        texts = [bundle.extractfile(name).read() for name in bundle.getnames()]  # type: ignore[union-attr]
    assert not any(b"TOPSECRET" in text for text in texts)


def test_no_argument_means_no_link_either(npudoctor: Npudoctor, tmp_path: Path) -> None:
    log(tmp_path, LINE, "private/secret.log")
    (tmp_path / "slurm-1.out").symlink_to("private/secret.log")
    assert npudoctor("explain").status == 64
