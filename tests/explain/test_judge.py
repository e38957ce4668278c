"""Judgement: the root before its echoes, the rank that failed first, and nothing of a log that is well."""

from __future__ import annotations

import pytest
from tests.support.engines import late

from npudoctor.explain.answer import make_explanation
from npudoctor.explain.engine import make_engine
from npudoctor.explain.ranking.judge import Judgement
from npudoctor.explain.signatures.signatures import Signature

ENGINE = late()
TIMEOUT = (
    "EI0002: [PID: {pid}] 2026-11-20-10:30:00.000.000 The wait execution of the Notify register times out. "
    "Reason: The Notify register has not received the Notify record from remote rank [unknown]."
)
BUG = """Traceback (most recent call last):
  File "/data/job/train.py", line 7, in <module>
    print(config["lr"])
KeyError: 'lr'
"""


def judged(*logs: tuple[str, str]) -> Judgement:
    return ENGINE.judge([ENGINE.scan_text(log, path) for path, log in logs])


def best(judgement: Judgement) -> tuple[str, str]:
    return judgement.verdict, judgement.diagnoses[0].signature.id


def test_timeouts_of_the_others_are_the_echo_of_the_one_that_failed() -> None:
    logs = [(f"log/rank_{rank}.log", TIMEOUT.format(pid=rank) + "\n") for rank in range(7)]
    failing = ("log/rank_7.log", "2026-11-20 10:00:00 start\n" + BUG)
    judgement = judged(*logs, failing)
    assert best(judgement) == ("not_environment", "python-key-error")
    first = judgement.diagnoses[0].first
    assert first is not None and (first.path, first.log_line.rank, first.log_line.line) == (
        "log/rank_7.log",
        7,
        5,
    )
    assert judgement.diagnoses[1].signature.id == "hccl-notify-timeout" and judgement.diagnoses[1].count == 7


def test_timeouts_alone_are_what_they_are() -> None:
    logs = [(f"log/rank_{rank}.log", TIMEOUT.format(pid=rank) + "\n") for rank in range(7)]
    judgement = judged(*logs)
    assert best(judgement) == ("environment", "hccl-notify-timeout")
    assert judgement.diagnoses[0].confidence != "certain"


def test_the_first_in_time_is_shown_whatever_the_order_of_files() -> None:
    line = "ERROR RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB\n"
    logs = [(f"rank_{rank}.log", f"2026-11-20 10:0{9 - rank}:00 {line}") for rank in range(8)]
    judgement = judged(*logs)
    first = judgement.diagnoses[0].first
    assert first is not None and first.log_line.rank == 7 and judgement.diagnoses[0].count == 8


def test_the_launcher_names_the_rank() -> None:
    log = (
        "[rank2]: ValueError: no\n[rank5]: ImportError: libhccl.so: cannot open shared object file\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-20_10:00:00\n  host      : node1\n"
        "  rank      : 5 (local_rank: 5)\n  exitcode  : 1 (pid: 4711)\n"
    )
    evidence = ENGINE.scan_text(log)
    assert evidence.root == 5
    judgement = ENGINE.judge([evidence])
    assert best(judgement) == ("environment", "loader-cann-library")
    assert judgement.diagnoses[-1].signature.id == "launcher-torchrun"


def test_an_exception_that_was_handled_is_not_the_last_word() -> None:
    log = BUG + (
        "\nDuring handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "/data/job/train.py", line 9, in <module>\n'
        "NameError: name 'lr' is not defined\n"
    )
    assert judged(("-", log)).diagnoses[0].signature.id == "python-name-error"


def test_the_direct_cause_comes_before_what_it_caused() -> None:
    log = BUG.replace("KeyError: 'lr'", "TypeError: 'lr' is no number") + (
        "\nThe above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "/data/job/train.py", line 9, in <module>\n'
        "AssertionError: cannot start\n"
    )
    assert judged(("-", log)).diagnoses[0].signature.id == "python-type-error"


@pytest.mark.parametrize(
    "log",
    [
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\nFAILED\n",
        "starting\n[ERROR] FROB(1,python):2026-11-20-10:00:00.000.000 [frob.cc:1] out of tune\n",
        "frobd: error: node7: task 3: out of tune\n",
    ],
)  # fmt: skip
def test_a_failure_that_nobody_knows_is_answered_by_its_last_line(log: str) -> None:
    judgement = judged(("-", log))
    assert judgement.verdict == "not_environment" and judgement.errors
    assert judgement.diagnoses[0].signature.fallback
    assert make_explanation(judgement, [ENGINE.scan_text(log)], 0.1).exit_code == 1
    assert all(one.confidence == "possible" for one in judgement.diagnoses)


@pytest.mark.parametrize(
    ("message", "verdict"),
    [
        ("foo.BarError: out of tune", "not_environment"),
        ("RuntimeError: the driver is out of tune", "environment"),
    ],
)
def test_an_exception_that_nobody_knows_is_judged_by_what_it_speaks_of(message: str, verdict: str) -> None:
    judgement = judged(("-", f'Traceback (most recent call last):\n  File "x.py", line 1\n{message}\n'))
    assert judgement.verdict == verdict
    assert judgement.diagnoses[0].confidence == "possible"


@pytest.mark.parametrize(
    ("path", "module", "verdict"),
    [
        ("/data/segmenter/run.py", "segmenter", "not_environment"),
        ("/data/job/segmenter.py", "segmenter.core", "not_environment"),
        ("/data/job/run.py", "segmenter", "environment"),
        ("/opt/py/lib/python3.10/site-packages/segmenter/run.py", "segmenter", "environment"),
    ],
)
def test_a_module_in_a_folder_of_the_job_is_its_own(path: str, module: str, verdict: str) -> None:
    log = (
        f'Traceback (most recent call last):\n  File "{path}", line 3, in <module>\n'
        f"    import {module}\nModuleNotFoundError: No module named '{module}'\n"
    )
    assert judged(("-", log)).verdict == verdict


def test_what_is_shown_first_is_the_error_and_not_its_traceback() -> None:
    log = 'Traceback (most recent call last):\n  File "x.py", line 1\nfoo.BarError: out of tune\n'
    errors = judged(("-", log)).errors
    assert errors[0].log_line.text == "foo.BarError: out of tune"


@pytest.mark.parametrize(
    "log",
    [
        "0 errors, 3 warnings\nerror_rate: 0.01\nall done\n",
        "[WARNING] HCCL(1,python): connect to 192.0.2.1 timed out, retry\n[INFO] connected\n",
        "WARNING: Address already in use, trying the next port\nEpoch 1 step 10 loss: 0.5\n",
        "ImportError: libhccl.so: cannot open shared object file\nTraining finished\nbye\n",
        "x.py:3: UserWarning: CUDA initialization: no CUDA-capable device is detected\nTraining finished\n",
        "[INFO] [launch.py:350:main] Process 57893 exits successfully.\n",
        "x.py:3: UserWarning: CUDA initialization: CUDA unknown error\nINFO: Application startup complete.\n",
    ],
)  # fmt: skip
def test_a_job_that_went_on_is_clean(log: str) -> None:
    judgement = judged(("-", log))
    assert (judgement.verdict, judgement.diagnoses) == ("clean", ())


def test_nothing_is_well_that_was_not_read() -> None:
    empty = ENGINE.scan_text("")
    assert make_explanation(ENGINE.judge([empty]), [empty], 0.1).verdict == "unknown"
    well = ENGINE.scan_text("Training finished\n")
    assert make_explanation(ENGINE.judge([well]), [well], 0.1).verdict == "clean"
    found = make_explanation(ENGINE.judge([well]), [well], 0.1, unread=[("rank_1.log", "gone")])
    assert (found.verdict, found.exit_code) == ("unknown", 1) and "could not be read completely" in found.msg


def test_near_and_without_of_a_whole_file() -> None:
    def signature(name: str, **more: object) -> Signature:
        texts = {"en": name, "zh": name}
        return Signature(
            id=name, category="other", environment=True, weight=90, patterns=(name + " failed",), title=texts,
            cause=texts, remedy={"en": ("x",), "zh": ("x",)}, checks=(), source="own work", as_of="2026-11",
            **more,  # type: ignore[arg-type]
        )  # fmt: skip

    engine = make_engine(
        [
            signature("frobnicator", near=("tuning fork",), within=0),
            signature("gargoyle", without=("tuning fork",), within=0),
            signature("basilisk", near=("tuning fork",), within=2),
        ]
    )
    lines = "frobnicator failed\ngargoyle failed\nbasilisk failed\n"

    def ids(log: str) -> list[str]:
        return [one.signature.id for one in engine.judge([engine.scan_text(log)]).diagnoses]

    assert ids(lines) == ["gargoyle"]
    assert ids(lines + "  quiet\n" * 500_000 + "a tuning fork\n") == ["frobnicator"]
    assert ids(lines + "a tuning fork\n") == ["frobnicator", "basilisk"]


@pytest.mark.parametrize(
    "before",
    [
        "[WARNING] please upgrade CANN to 8.1.RC1 for more speed\n",
        (
            "[W socket.cpp:464] [c10d] The server socket has failed to bind to [::]:29500 "
            "(errno: 98 - Address already in use).\n"
        ),
        (
            "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB\nretrying with half the batch\n"
            "step: 3 loss: 2.5\n"
        ),
    ],
)
def test_what_only_warned_or_was_outlived_does_not_beat_what_ended_the_job(before: str) -> None:
    assert best(judged(("train.log", before + BUG))) == ("not_environment", "python-key-error")


def test_a_warning_may_say_why_a_node_cannot_be_reached() -> None:
    log = (
        "[W socket.cpp:860] [c10d] The IPv4 network addresses of (node0, 29500) cannot be retrieved "
        "(gai error: -3 - Temporary failure in name resolution).\n"
        "[E socket.cpp:957] [c10d] The client socket has timed out after 60s while trying to connect to "
        "(node0, 29500).\n"
    )
    assert best(judged(("train.log", log))) == ("environment", "name-resolution")


def test_a_bar_that_is_drawn_once_more_is_no_progress() -> None:
    bar = "  3%|▎         | 3/100 [00:10<05:12,  3.2s/it]"
    assert best(judged(("train.log", f"{bar}{BUG}{bar}\n")))[1] == "python-key-error"
    further, more = bar.replace("3/100", "4/100"), bar.replace("3/100", "5/100")
    assert best(judged(("train.log", f"{bar}{BUG}{further}\n")))[1] == "python-key-error"
    caught = BUG.replace("in <module>", "in step")
    assert judged(("train.log", f"{bar}{caught}{further}\r{more}\n")).verdict == "clean"
    # Whoever nobody caught is dead: the bar is another process's.
    assert best(judged(("train.log", f"{bar}{BUG}{further}\r{more}\n")))[1] == "python-key-error"


def test_a_bar_of_a_process_that_failed_before_it_was_full_is_no_progress() -> None:
    log = (
        "RuntimeError: NPU out of memory. Tried to allocate 386.00 MiB (NPU 2; 60.97 GiB total capacity)\n"
        "Loading checkpoint shards:  42%|████▏     | 16/38 [00:14<00:19,  1.13it/s]\n"
    )
    assert best(judged(("train.log", log))) == ("not_environment", "device-oom-torch")
    full = log.replace("42%|████▏     | 16/38", "100%|██████████| 38/38")
    # A full bar may be another process's.
    assert best(judged(("train.log", full))) == ("not_environment", "device-oom-torch")
    assert judged(("train.log", full + "Training finished\n")).verdict == "clean"


def test_a_gpu_that_cannot_be_used_is_a_failure_though_pytorch_only_warns() -> None:
    warning = (
        "torch/cuda/__init__.py:124: UserWarning: CUDA initialization: The NVIDIA driver on your system is "
        "too old (found version 11000). (Triggered internally at c10/cuda/CUDAFunctions.cpp:108.)\n"
    )
    failing = 'Traceback (most recent call last):\n  File "x.py", line 1\nAssertionError: no GPU\n'
    assert best(judged(("train.log", warning))) == ("environment", "cuda-driver-too-old")
    assert best(judged(("train.log", warning + failing))) == ("environment", "cuda-driver-too-old")
    assert judged(("train.log", warning + "epoch: 1 step: 125, loss is 1.9\n")).verdict == "clean"
