"""The last lines of a log: what speaks of a failure there is answered; what only sounds so is not."""

from __future__ import annotations

import time

import pytest
from tests.support.engines import plain

from npudoctor.explain.answer import make_explanation
from npudoctor.explain.ranking.judge import Judgement
from npudoctor.explain.scanning.last_words import find_last_words

FRAMES = 'Traceback (most recent call last):\n  File "run.py", line 3, in <module>\n    main()\n'
TRAINED = "".join(f"epoch: 1 step: {number} loss: 0.5\n" for number in range(30))


def judged(log: str) -> Judgement:
    return plain().judge([plain().scan_text(log)])


@pytest.mark.parametrize(
    ("log", "category"),
    [
        ("[12:00:05] FAILED: export returned without a model\n", "script-bug-not-environment"),
        ("gmake[1]: *** [CMakeFiles/Makefile2:83: all] Error 2\n", "gcc-glibc-toolchain"),
        ("#32 1968.4 gmake: *** [Makefile:136: all] 错误 2\n", "gcc-glibc-toolchain"),
        ("F0101 10:20:31.123456 2211 blob.cpp:168] Check failed: a >= b\n", "script-bug-not-environment"),
        ("thread 'main' panicked at src/lib.rs:3:5\n", "script-bug-not-environment"),
        ("Program exited with status 3\n", "script-bug-not-environment"),
        ("INFO - Task exited with return code 1\n", "script-bug-not-environment"),
        ("/opt/run: 9: exec: --fast: not found\n", "script-bug-not-environment"),
        ("exporter: cannot read the file system\n", "host-memory-shm-ulimit-disk"),
        ("exporter: cannot talk to its peer\n", "network-hccl-link-or-ip"),
        ("exporter: cannot open libfoo.so.3\n", "missing-library"),
        ("exporter: no answer, GPU 3 failed\n", "nccl-gpu-env"),
        ("kubelet: cannot start the sandbox\n", "container-runtime"),
        ("loading 3%\rloading 9%\rFAILED: the export\n", "script-bug-not-environment"),
        (FRAMES, "script-bug-not-environment"),
        (
            '  File "net.py", line 8, in f\n    raise Mismatch("768")\n',
            "script-bug-not-environment",
        ),
    ],
)
def test_the_line_that_ended_a_log_is_answered_and_is_no_more_than_possible(log: str, category: str) -> None:
    judgement = judged("step 1\n" + log)
    best = judgement.diagnoses[0]
    assert (best.signature.category, best.confidence) == (category, "possible")
    assert best.signature.environment is (judgement.verdict == "environment")
    assert best.first is not None and best.first.log_line.text
    if best.signature.fallback:
        assert make_explanation(judgement, [plain().scan_text(log)], 0.1).exit_code == 1


@pytest.mark.parametrize(
    "log",
    [
        "0 errors, 3 warnings\n",
        "12 passed, 0 failed\n",
        "mean squared error: 0.12\n",
        "error_rate = 0.01\n",
        "errors: 0\n",
        "Could not find TensorRT, falling back to cuDNN\n",
        "failed to read sample 7, skipping it\n",
        "WARNING: connection refused, will try again\n",
        "INFO the server is not ready yet\n",
        "E0000 00:00:17.7 4671 cuda_blas.cc:1407] Unable to register cuBLAS factory: one is registered\n",
        "FAILED: the export\n" + TRAINED,
        "Process finished with exit code 0\n",
        "+ python run.py --fail-fast\n",
        "Exception ignored in: <function f at 0x7f>\n" + FRAMES + "OSError: [Errno 9] closed\n",
    ],
)
def test_what_only_sounds_like_a_failure_is_clean(log: str) -> None:
    assert judged(TRAINED + log).verdict == "clean"


def test_a_traceback_that_is_whole_is_known_by_its_last_line() -> None:
    log = FRAMES + "foo.BarError: out of tune\n"
    assert [log[start:stop] for start, stop in reversed(list(find_last_words(log.encode())))] == [
        "foo.BarError: out of tune"
    ]


def test_pip_that_did_not_succeed_is_no_success() -> None:
    log = (
        "  × python setup.py egg_info did not run successfully.\n  │ exit code: 1\n"
        "  ╰─> [2 lines of output]\n"
        "      ModuleNotFoundError: No module named 'packaging'\n      [end of output]\n"
    )
    assert judged(log).diagnoses[0].signature.category == "python-package-missing-or-conflict"


@pytest.mark.parametrize("piece", ["  ", "## ", "[a] ", "12:00:00 ", "a/b: ", "error ", "'a", "with ", "-"])
def test_no_line_takes_long(piece: str) -> None:
    begun = time.process_time()
    list(find_last_words((piece * 2000 + "\n").encode() * 8))
    assert time.process_time() - begun < 1
