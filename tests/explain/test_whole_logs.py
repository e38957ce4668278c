"""Whole logs as jobs leave them: what an error in one means is decided by where it stands and what came
after."""

from __future__ import annotations

from typing import Optional

import pytest
from tests.support.engines import late

from npudoctor.explain.ranking.judge import Judgement

pytestmark = pytest.mark.once

ENGINE = late()
TRACEBACK = """Traceback (most recent call last):
  File "/home/user/job/train.py", line 7, in <module>
    main()
"""
BUG = TRACEBACK + "KeyError: 'lr'\n"
SPENT = "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.97 GiB total capacity)\n"
OOM = TRACEBACK + SPENT
LIFE = "".join(f"Frame {number} of the sequence was written\n" for number in range(250))
START = "/opt/py/lib/python3.10/site-packages/job/layers.py:26: DeprecationWarning: `np.int` is deprecated\n"


def judged(*logs: str) -> Judgement:
    return ENGINE.judge([ENGINE.scan_text(log, f"rank_{number}.log") for number, log in enumerate(logs)])


def best(judgement: Judgement) -> tuple[str, Optional[str]]:
    return judgement.verdict, judgement.diagnoses[0].signature.id if judgement.diagnoses else None


@pytest.mark.parametrize(
    "after",
    [
        "[2026-01-04 01:18:21 TP0] Decode batch, #running-req: 2, gen throughput (token/s): 76.1\n",
        'INFO:     127.0.0.1:41806 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n',
        "INFO 05-12 02:50:53 [loggers.py:111] Engine 000: Avg generation throughput: 12.8 tokens/s\n",
        ".\n----------------------------------------\nRan 1 test in 9.1s\n\nOK\n",
        "===== 12 passed, 3 warnings in 4.21s =====\n",
        "result file saved to /home/user/expts/test_epochbest.json\n",
    ],
    ids="decode request throughput unittest pytest result".split(),
)
def test_what_went_on_after_an_error_outlived_it(after: str) -> None:
    assert judged(BUG + after).verdict == "clean"
    assert best(judged(after + BUG)) == ("not_environment", "python-key-error")


@pytest.mark.parametrize("failure", [BUG, OOM, "Segmentation fault (core dumped)\n"])
@pytest.mark.parametrize(
    "after",
    [
        LIFE,
        "".join(
            f"[2026-01-04 10:{at // 60:02d}:{at % 60:02d}] heartbeat: worker {at % 8} alive\n"
            for at in range(300)
        ),
        "".join(
            f"[rank{1 + at % 7}]: epoch: 1 step: {at}, loss is {2.5 - at / 1000:.4f}\n" for at in range(300)
        ),
        "".join(
            f"Epoch 3:  {at // 3}%|{'█' * (at // 30)}| {at}/300 [00:00<00:09, 3.1it/s]\n" for at in range(300)
        ),
        "Destroying the process group\nwriter flushed\nworker stopped\n" * 100,
        "[2021/05/05 19:15:24] root INFO: acc:0.2392874337987482\n",
    ],
    ids="words heartbeats ranks bars shutdown metric".split(),
)
def test_what_others_write_after_a_process_died_does_not_mend_it(failure: str, after: str) -> None:
    assert best(judged(failure + after)) == best(judged(failure)) != ("clean", None)
    assert judged(failure + after + "Training finished\n").verdict == "clean"


def test_what_is_tried_once_more_or_caught_ended_nothing() -> None:
    again = OOM + "retrying with half the batch\n"
    assert judged(again + "epoch: 1 step: 125, loss is 1.9\n").verdict == "clean"
    caught = BUG.replace("in <module>", "in step")
    assert judged(caught + "epoch: 1 step: 125, loss is 1.9\n").verdict == "clean"
    assert judged(BUG + "Please try again later\n" + LIFE).verdict != "clean"


def test_a_traceback_that_was_cut_off_is_a_failure_whatever_follows() -> None:
    assert judged(TRACEBACK + LIFE).verdict != "clean"


def test_a_server_that_is_shut_down_in_order_did_not_fail_of_its_noise() -> None:
    request = 'INFO:     127.0.0.1:41806 - "GET /v1/models HTTP/1.1" 200 OK\n'
    end = "INFO 08-15 01:50:29 launcher.py:45] Gracefully stopping http server\nINFO:     Shutting down\n"
    noise = TRACEBACK + "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.\n"
    assert judged(request + end + noise).verdict == "clean"
    assert judged(request + noise + end).verdict != "clean"
    asked = 'INFO:     127.0.0.1:41806 - "GET /metrics HTTP/1.1" 200 OK\n'
    assert judged(request + noise + asked).verdict != "clean"


def test_the_last_words_after_a_good_end_do_not_undo_it() -> None:
    end = "Training finished\n"
    assert judged(end + "error: resource(s) were provided, but no name was specified\n").verdict == "clean"
    assert judged(end + "run.sh: line 41: run.workers=0: command not found\n").verdict == "clean"
    assert best(judged(end + BUG)) == ("not_environment", "python-key-error")


@pytest.mark.parametrize(
    "line",
    [
        "+ docker run --rm --ulimit=memlock=-1 --ulimit=stack=67108864 image python train.py",
        "server_args=ServerArgs(" + ", ".join(f"option_{n}='out of memory {n}'" for n in range(20)) + ")",
        "[TP0] Ignore import error when loading sglang.srt.models.x: No module named 'torchaudio'",
        "[1579244744.255074] [node1:56309:0] sock.c:32 UCX  DEBUG ioctl failed: Network is unreachable",
        '[rank1]:[W104 07:05:29.775 depend.ts:198] Warning: Driver Version: "" is invalid or not supported.',
        "pyxis: starting container ...",
        '10.0.0.1:5555 - "POST /v1/completions HTTP/1.1" 400 Bad Request: CUDA out of memory',
        "train.py:3: RuntimeWarning: CUDA out of memory may follow",
    ],
    ids="echoed dump ignored debug torch pyxis client warning".split(),
)  # fmt: skip
def test_a_line_that_says_itself_that_it_is_harmless_is_no_failure(line: str) -> None:
    assert judged(f"start\n{line}\n").verdict == "clean"
    assert best(judged(f"start\n{line}\n{BUG}"))[1] == "python-key-error"


def test_a_source_line_in_a_traceback_is_no_message() -> None:
    log = (
        'Traceback (most recent call last):\n  File "/home/user/job/train.py", line 7, in <module>\n'
        '    raise RuntimeError("CUDA out of memory") if free < 1 else KeyError("lr")\nKeyError: \'lr\'\n'
    )
    assert best(judged(log)) == ("not_environment", "python-key-error")


def test_what_ended_the_job_beats_a_loud_error_that_it_outlived() -> None:
    loud = "ImportError: libhccl.so: cannot open shared object file: No such file or directory\n"
    assert best(judged(loud + BUG))[1] == "loader-cann-library"
    quiet = "".join(f"request {number} was answered\n" for number in range(30))
    assert best(judged(loud + quiet + BUG)) == ("not_environment", "python-key-error")


def test_an_exception_that_python_ignored_ended_nothing() -> None:
    ignored = "Exception ignored in: <function Pool.__del__ at 0x7f3b>\n" + OOM
    assert judged(ignored).verdict == "clean"
    assert best(judged(ignored + BUG))[1] == "python-key-error"


@pytest.mark.parametrize(
    ("line", "ident"),
    [
        ("slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2025-01-01T00:00:00 DUE TO TIME LIMIT ***",
        "shell-time-limit"),
        ("TERM_RUNLIMIT: job killed after reaching LSF run time limit.", "shell-time-limit"),
        ("=>> PBS: job killed: walltime 86453 exceeded limit 86400", "shell-time-limit"),
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2025-01-01T00:00:00 DUE TO PREEMPTION ***",
        "ended-preempted"),
        ("slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2025-01-01T00:00:00 ***", "slurm-cancelled"),
        ("[2025-01-01 00:00:00,000] [ERROR] [launch.py:325] exits with return code = -15",
        "shell-terminated"),
        ("FatalError: `Termination signal` is detected by the operating system.", "shell-terminated"),
        ("torch.distributed.elastic.multiprocessing.api.SignalException: Process 42 got signal: 15",
        "shell-terminated"),
        ("torch.distributed.elastic.multiprocessing.api.SignalException: Process 42 got signal: 1",
        "ended-hangup"),
        (TRACEBACK + "KeyboardInterrupt", "python-interrupted"),
        ("run.sh: line 12: 4242 Killed                  python train.py", "host-killed-bare"),
    ],
)  # fmt: skip
def test_an_ending_from_outside_is_an_answer_of_its_own(line: str, ident: str) -> None:
    judgement = judged("epoch: 1 step: 125, loss is 1.9\n" + line + "\n")
    assert best(judgement) == ("not_environment", ident)
    assert judgement.diagnoses[0].signature.category == "ended-from-outside"


def test_a_node_that_failed_is_the_environment() -> None:
    line = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2025-01-01T00:00:00 DUE TO NODE FAILURE ***\n"
    assert best(judged(line)) == ("environment", "ended-node-failure")


def test_who_was_cancelled_after_it_had_failed_failed() -> None:
    cancelled = "slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2025-01-01T00:00:00 ***\n"
    assert best(judged(BUG + cancelled)) == ("not_environment", "python-key-error")
    assert best(judged(BUG, cancelled)) == ("not_environment", "python-key-error")
    assert best(judged(BUG + LIFE + cancelled)) == ("not_environment", "slurm-cancelled")
    unknown = TRACEBACK + "foo.BarError: out of tune\n"
    assert best(judged(unknown + cancelled)) == ("not_environment", "python-exception-any")


def test_the_time_limit_ends_whatever_was_before() -> None:
    limit = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2025-01-01T00:00:00 DUE TO TIME LIMIT ***\n"
    assert best(judged(OOM + limit)) == ("not_environment", "shell-time-limit")


def test_ctrl_c_is_one_verdict() -> None:
    judgement = judged(TRACEBACK + "KeyboardInterrupt\n")
    assert [one.signature.id for one in judgement.diagnoses] == ["python-interrupted"]


def test_of_several_runs_the_last_is_judged_and_the_others_are_listed() -> None:
    first, second = START + "loading\n" + OOM, START + "loading\n" + BUG
    judgement = judged(first + second + START + "epoch: 1 step: 1, loss is 1.9\n")
    assert judgement.verdict == "clean"
    assert [(run.first, run.last) for run in judgement.runs] == [(1, 6), (7, 12)]
    named = [run.signature and run.signature.id for run in judgement.runs]
    assert named == ["device-oom-torch", "python-key-error"]
    judgement = judged(first + second)
    assert best(judgement) == ("not_environment", "python-key-error")
    found = judgement.diagnoses[0].first
    assert found is not None and found.log_line.line == 12 and len(judgement.runs) == 1


def test_a_program_that_did_not_start_is_of_an_earlier_run() -> None:
    usage = "usage: train.py [-h] [--lr LR]\ntrain.py: error: unrecognized arguments: --optimizer adam\n"
    judgement = judged(usage + TRACEBACK + "KeyboardInterrupt\n")
    assert best(judgement) == ("not_environment", "python-interrupted") and len(judgement.runs) == 1
    assert judged(usage).verdict == "not_environment"


@pytest.mark.parametrize(
    ("numbers", "ident"),
    [
        (
            "total capacity of 44.5 GiB of which 73 MiB is free. this process has 1.40 GiB memory in use",
            "device-busy-occupied",
        ),
        (
            "total capacity of 44.5 GiB of which 73 MiB is free. this process has 44.4 GiB memory in use",
            "device-oom-own",
        ),
        (
            "(GPU 0; 8.00 GiB total capacity; 142.76 MiB already allocated; 6.32 GiB free)",
            "device-oom-beside-free",
        ),
        (
            "(8.00 GiB total capacity; 5.5 GiB already allocated; 50 MiB free; 7.8 GiB reserved in total)",
            "device-oom-own",
        ),
    ],
    ids="another this nobody reserved".split(),
)
def test_the_numbers_say_who_holds_the_memory(numbers: str, ident: str) -> None:
    log = f"{TRACEBACK}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 112.00 MiB. {numbers}\n"
    # What would not fit if nobody else were on the card is the job's own affair.
    assert best(judged(log)) == ("not_environment" if ident == "device-oom-own" else "environment", ident)


@pytest.mark.parametrize(
    ("last", "ident"),
    [
        (
            "[W1008 23:40:00.7 socket.cpp:767] [c10d] (gai error: -2 - Name or service not known).",
            "name-resolution",
        ),
        ("RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB", "device-oom-torch"),
        (
            '  File "train.py", line 7, in f\n    raise ValueError("no objects to concatenate")',
            "python-raised-last",
        ),
    ],
    ids="c10d bare raise".split(),
)
def test_the_last_line_alone_is_enough(last: str, ident: str) -> None:
    judgement = judged(f"start\n{last}\n")
    assert judgement.verdict != "clean" and best(judgement)[1] == ident


def test_a_warning_that_is_not_the_last_word_is_none() -> None:
    warning = "[W1008 23:40:00.781 socket.cpp:767] [c10d] The server failed: Address already in use\n"
    assert judged(warning + "listening on the next port\n").verdict == "clean"


def test_a_broken_byte_does_not_make_chinese_of_a_bar() -> None:
    bar = "  3%|███▎      | 3/100 [00:10<05:12,  3.2s/it]".encode()
    broken = bar.replace("█".encode(), "█".encode() + b"\xe2", 1)
    log = b"step\n" + broken + b" RuntimeError: NPU out of memory\n"
    texts = [seen.text for one in ENGINE.scan_bytes(log).matches.values() for seen in one.ranks.values()]
    assert texts and all("██" in text and "\\xe2" in text for text in texts)
    chinese = "run.sh: 行 3: 4242 段错误 (核心已转储)\n".encode("gb18030")
    assert ENGINE.judge([ENGINE.scan_bytes(b"start\n" + chinese)]).verdict != "clean"


def test_of_a_flood_the_rest_is_counted_and_its_end_is_known() -> None:
    line = f"[rank0]: {SPENT}"
    flood = line * 4_000  # more than are judged one by one, and more than a piece that is read at a time
    judgement = judged(flood)
    assert judgement.diagnoses[0].count == 4_000 and judgement.verdict == "not_environment"
    assert judged(flood + "epoch: 1 step: 125, loss is 1.9\n").verdict == "not_environment"
    assert judged(flood + "Training finished\n").verdict == "clean"
    other = judged(line * 30_000 + line.replace("[rank0]", "[rank7]") + "[rank7]: KeyError: 'lr'\n")
    assert {one.signature.id for one in other.diagnoses} >= {"device-oom-torch", "python-key-error"}
    assert other.diagnoses[0].count == 30_001
    (key,) = (one for one in other.diagnoses if one.signature.id == "python-key-error")
    assert key.first is not None and (key.first.log_line.line, key.first.log_line.rank) == (30_002, 7)


def test_after_the_last_word_of_a_launcher_only_a_new_start_counts() -> None:
    ended = "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4242 got signal: 15\n"
    buffered = "rank 1: epoch: 1 step: 125, loss is 1.9\n"
    assert best(judged(ended + buffered)) == ("not_environment", "shell-terminated")
    assert judged("nohup: ignoring input\n" + ended + "nohup: ignoring input\n" + buffered).verdict == "clean"


def test_a_listing_after_an_error_is_not_the_life_of_a_job() -> None:
    listing = "".join(f"package-{number}==1.{number}.0\n" for number in range(60))
    assert best(judged(OOM + listing)) == ("not_environment", "device-oom-torch")


def test_the_own_log_of_a_library_says_nothing_of_the_job() -> None:
    error = "[ERROR] HCCL(1,python):2026-11-20-10:30:00.000.000 libhccl.so: cannot open shared object file\n"
    line = "[INFO] RUNTIME(1,python):2026-11-20-10:30:01.000.000 [runtime.cc:55] stream 3 is destroyed\n"
    assert judged(error + line * 500).verdict == "environment"


def test_a_warning_is_no_cause_of_an_exception_that_nobody_knows() -> None:
    warning = "[WARNING] please upgrade the NPU driver version, it is too old\n"
    judgement = judged("start\n" + warning + TRACEBACK + "foo.BarError: out of tune\n")
    assert best(judgement) == ("not_environment", "python-exception-any")
    assert "BarError" in judgement.errors[0].log_line.text
