"""How certain an answer may be, whose memory ran out, and what is said where the cause is elsewhere."""

from __future__ import annotations

import importlib
import json
import sys
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from tests.support.engines import late

from npudoctor.explain.answer import Explanation, make_explanation
from npudoctor.explain.engine import make_engine
from npudoctor.explain.ranking.judge import Judgement
from npudoctor.explain.signatures import signatures
from npudoctor.explain.signatures.signatures import Signature, built_in, signature_of
from npudoctor.knowledge.tables import parse_toml
from npudoctor.render.explain_json import explain_object
from npudoctor.render.explain_text import explain_text

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = files("npudoctor.render") / "schemas" / "explain-1.json"
ENGINE = late()
FAILS = 'Traceback (most recent call last):\n  File "/data/job/train.py", line 7, in <module>\n'
LAUNCHER = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
ROW = {
    "id": "frob-out-of-tune",
    "category": "other",
    "environment": True,
    "weight": 95,
    "patterns": ["frobnicator out of tune"],
    "title": {"en": "t", "zh": "t"},
    "cause": {"en": "c", "zh": "c"},
    "remedy": {"en": ["r"], "zh": ["r"]},
    "source": "https://example.org",
    "as_of": "2026-11",
}
LOG = f"{FAILS}RuntimeError: frobnicator out of tune\n"

OWN = """\
RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity \
of 79.15 GiB of which 1.02 GiB is free. Including non-PyTorch memory, this process has 78.1 GiB \
memory in use.
RuntimeError: Device(id:0) memory isn't enough and alloc failed, kernel name: Default/Add-op1
[MS_RUNTIME_PROF] TotalUsedMemStatistics : 29356337664 plus TotalUsedByEventMemStatistics : 0 and \
plus alloc size : 301990400 is more than total mem size : 29464985600.
ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate 1.2GB memory on GPU 0, 30.9GB \
memory has been allocated and available memory is only 400MB.
ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.
ValueError: To serve at least one request with the model's max seq len (131072), (16.0 GiB KV cache \
is needed, which is larger than the available KV cache memory (9.1 GiB).
jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate \
17179869184 bytes.
EL0004: [PID: 77] 2026-03-01-01:02:03.004.005 Failed to allocate memory.
""".splitlines()
OF_OTHERS = """\
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity \
of 23.65 GiB of which 68.19 MiB is free. Process 2424 has 14.00 GiB memory in use. Including \
non-PyTorch memory, this process has 9.50 GiB memory in use.
RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.97 GiB total capacity; 9.1 \
GiB already allocated; 1.01 GiB free; 10.0 GiB reserved in total by PyTorch)
RuntimeError: CUDA out of memory. Tried to allocate 304.00 MiB (GPU 0; 8.00 GiB total capacity; \
142.76 MiB already allocated; 6.32 GiB free; 158.00 MiB reserved in total by PyTorch)
Malloc device memory failed, size[32212254720], ret[207001], Device 6 may be other processes \
occupying this card, check as: ps -ef|grep python
ValueError: Free memory on device (5.11/79.15 GiB) on startup is less than desired GPU memory \
utilization (0.9, 71.24 GiB).
""".splitlines()


def judged(log: str) -> Judgement:
    return ENGINE.judge([ENGINE.scan_text(log)])


def explained(log: str) -> Explanation:
    evidence = ENGINE.scan_text(log)
    return make_explanation(ENGINE.judge([evidence]), [evidence], 0.1)


def _row(origin: str) -> Signature:
    return signature_of(ROW, origin)


@pytest.mark.parametrize(
    ("right", "wrong", "confidence"),
    [
        (["a/a#1", "b/b#1", "c/c#1", "d/d#1", "e/e#1"], [], "certain"),
        (["a/a#1", "b/b#1", "c/c#1", "d/d#1"], [], "likely"),
        (["a/a#1", "a/a#2", "A/a#3", "a/a#4", "a/a#5"], [], "likely"),
        (["a/a#1", "b/b#1", "c/c#1", "d/d#1", "e/e#1"], ["f/f#1"], "likely"),
    ],
    ids=["five", "four", "one repository", "once wrong"],
)
def test_certain_needs_real_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, right: list[str], wrong: list[str], confidence: str
) -> None:
    file = tmp_path / "evidence.toml"
    file.write_text(f"[frob-out-of-tune]\nright = {json.dumps(right)}\nwrong = {json.dumps(wrong)}\n")
    monkeypatch.setattr(signatures, "EVIDENCE", str(file))
    monkeypatch.setattr(signatures, "names", lambda: ["row.toml"])
    monkeypatch.setattr(signatures, "FOLDER", str(tmp_path))
    (tmp_path / "row.toml").write_text("", encoding="utf-8")
    monkeypatch.setattr(signatures, "signatures_of", lambda _document, origin: [_row(origin)])
    built_in.cache_clear()
    try:
        engine = make_engine(built_in())
        assert engine.judge([engine.scan_text(LOG)]).diagnoses[0].confidence == confidence
    finally:
        built_in.cache_clear()


def test_a_site_answers_for_its_own_signatures() -> None:
    engine = make_engine([_row("/site/signatures.toml")])
    assert engine.judge([engine.scan_text(LOG)]).diagnoses[0].confidence == "certain"


def test_the_evidence_is_of_signatures_that_there_are() -> None:
    known = {signature.id for signature in built_in()}
    evidence = parse_toml(Path(signatures.EVIDENCE).read_text(encoding="utf-8"))
    assert set(evidence) <= known
    assert all(set(logs) <= {"right", "wrong"} for logs in evidence.values())
    proven = [signature for signature in built_in() if signature.proven]
    assert proven and len(proven) < len(known) / 2


@pytest.mark.parametrize("line", OWN)
def test_memory_is_the_jobs_own_where_nobody_else_is_named(line: str) -> None:
    judgement = judged(f"{FAILS}{line}\n")
    assert (judgement.verdict, judgement.diagnoses[0].signature.category) == (
        "not_environment",
        "out-of-device-memory",
    )


@pytest.mark.parametrize("line", OF_OTHERS)
def test_memory_that_others_hold_is_the_environment(line: str) -> None:
    assert judged(f"{FAILS}{line}\n").verdict == "environment"


def test_where_only_a_launcher_speaks_the_cause_is_elsewhere(language: str) -> None:
    explanation = explained(f"start\n{LAUNCHER}")
    assert (explanation.verdict, explanation.exit_code) == ("unknown", 0)
    document = explain_object(explanation)
    jsonschema.validate(document, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert set(document["elsewhere"]) == {"what", "where"} and all(document["elsewhere"].values())
    text = " ".join(explain_text(explanation).split())
    assert document["elsewhere"]["where"].split()[0] in text and document["msg"][:8] in text


def test_where_the_cause_is_there_nothing_is_elsewhere() -> None:
    explanation = explained(f"{FAILS}KeyError: 'lr'\n{LAUNCHER}")
    said = (explanation.verdict, explanation.elsewhere, explanation.exit_code)
    assert said == ("not_environment", None, 0)
    assert explain_object(explanation)["elsewhere"] is None


def test_an_unknown_failure_beside_a_launcher_is_not_elsewhere() -> None:
    """Its own last word is in the log: who wrote that is to be asked, and not another log."""
    explanation = explained(f"start\nfrobd: fatal: the frobnicator is out of tune\n{LAUNCHER}")
    assert explanation.elsewhere is None and explanation.exit_code == 1


def test_a_cause_in_another_log_comes_before_who_waited_for_it() -> None:
    waits = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
    logs = {"rank0.log": waits, "rank1.log": f"{FAILS}ValueError: no such scheduler\n"}
    judgement = ENGINE.judge([ENGINE.scan_text(log, path) for path, log in logs.items()])
    assert judgement.verdict == "not_environment" and judgement.elsewhere is None
    assert judgement.diagnoses[0].signature.id == "python-value-error"


def test_what_only_tells_of_another_process_is_never_the_cause() -> None:
    rows = [signature for signature in built_in() if signature.consequence]
    assert len(rows) > 8 and all(row.elsewhere for row in rows)
    for row in rows:
        for example in (example for example in row.examples if example.match):
            judgement = judged(f"start\n{example.log}\n")
            assert (
                not judgement.diagnoses
                or judgement.diagnoses[0].signature.id != row.id
                or (judgement.verdict in ("unknown", "clean"))
            ), row.id


def test_a_log_that_was_read_in_part_is_no_answer() -> None:
    evidence = ENGINE.scan_text(f"start\n{LAUNCHER}")
    explanation = make_explanation(
        ENGINE.judge([evidence]), [evidence], 0.1, unread=[("b.log", "no permission")]
    )
    assert explanation.elsewhere is not None and explanation.exit_code == 1


@pytest.mark.parametrize(
    "last",
    [
        "PASS: test_a",
        "Passed: 3, Failed: 2",
        "Done loading checkpoint shards",
        "done",
        "failed to gather final scores",
        "could not write final results to /data/out",
    ],
)
def test_words_of_success_outlive_no_failure(last: str) -> None:
    """stdout comes after stderr where it is a file: `python train.py > log 2>&1`."""
    assert judged(f"{FAILS}KeyError: 'lr'\n{last}\n").verdict == "not_environment"


def test_final_metrics_are_a_good_end() -> None:
    died = "(pid=7) RuntimeError: DataLoader worker (pid 42) is killed by signal: Terminated.\n"
    assert (
        judged(f"epoch: 1 step: 1, loss is 1.9\n{died}Final validation metrics: acc 0.9\n").verdict == "clean"
    )


PRELOAD = (
    "ERROR: ld.so: object '/usr/lib/libjemalloc.so' from LD_PRELOAD cannot be preloaded "
    "(cannot open shared object file): ignored."
)


@pytest.mark.parametrize(("line", "verdict"), [("KeyError: ignored", "not_environment"), (PRELOAD, "clean")])
def test_what_is_ignored(line: str, verdict: str) -> None:
    """Colab saves "KeyError: ignored" as the last line of each traceback."""
    assert judged(f"{FAILS if verdict != 'clean' else ''}{line}\n").verdict == verdict


def test_a_rank_that_waited_says_where_the_cause_is(language: str) -> None:
    line = "EI0002: [PID: 7] 2026-11-20-10:30:00.000.000 The wait execution of the Notify register times out."
    explanation = explained(f"{line}\n")
    assert explanation.verdict == "environment" and explanation.elsewhere is not None
    assert explanation.elsewhere.place.split()[0] in explain_text(explanation)


@pytest.mark.parametrize("wrong", [{"what": {"en": "a", "zh": "b"}}, {"what": "a", "where": "b"}, "plog"])
def test_elsewhere_is_said_in_both_languages(wrong: object) -> None:
    with pytest.raises(signatures.InvalidSignature, match="elsewhere"):
        signature_of({**ROW, "elsewhere": wrong}, "/site")


def test_judged_logs_are_counted_where_they_are_answered_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    tool = importlib.import_module("explain_evidence")
    sys.modules.pop("explain_evidence", None)
    file = tmp_path / "evidence.toml"
    file.write_text('[python-key-error]\nwrong = ["old/mended#3"]\n')
    monkeypatch.setattr(tool, "EVIDENCE", str(file))

    def row(number: int, outcome: str, log: str) -> dict[str, str]:
        url = f"https://github.com/owner/name/issues/{number}"
        return {"signature": "python-key-error", "url": url, "outcome": outcome, "log": log}

    rows = [
        row(1, "right", f"{FAILS}KeyError: 'lr'\n"),
        row(2, "wrong", f"{FAILS}KeyError: 'x'\n"),
        row(4, "right", f"{FAILS}ValueError: no\n"),  # another answer
        row(6, "wrong", f"{FAILS}KeyError: 'first'\n"),
        row(6, "right", f"{FAILS}KeyError: 'second'\n"),
        row(5, "unclear", f"{FAILS}KeyError: 'y'\n"),
        {**row(3, "wrong", f"{FAILS}ValueError: no\n"), "url": "https://github.com/old/mended/issues/3"},
    ]
    judgements = tmp_path / "judged.jsonl"
    judgements.write_text("".join(f"{json.dumps(one)}\n" for one in rows), encoding="utf-8")
    assert tool.main([str(judgements)]) == 0
    written = parse_toml(file.read_text(encoding="utf-8"))
    assert written == {
        "python-key-error": {
            "right": ["owner/name#1", "owner/name#6"],
            "wrong": ["owner/name#2", "owner/name#6"],
        }
    }
