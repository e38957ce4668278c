"""The messages that the frameworks' guides answer by hand, each as it is quoted there and inside a log."""

from __future__ import annotations

import json
from typing import Callable

import pytest
from tests.support.engines import late

ENGINE = late()
YES, NO, CLEAN = "environment", "not_environment", "clean"
ATEXIT = """Error in atexit._run_exitfuncs:
Traceback (most recent call last):
  File "/opt/py/lib/python3.7/site-packages/torch_npu/npu/__init__.py", line 40, in _shutdown
    torch_npu._C._npu_shutdown()
RuntimeError: Initialize device failed"""
# By the number of the question in the guides; "-": of what is not the environment.
MESSAGES = (
    ("2", YES, "Loading libgpu_collective.so failed"),
    (
        "2",
        YES,
        (
            "Loading libgpu_collective.so failed. Many reasons could cause this: 1.libgpu_collective.so is "
            "not installed 2.nccl is not installed or found 3.mpi is not installed or found"
        ),
    ),
    ("3", YES, "libpython3.7m.so.1.0 not found"),
    (
        "3",
        YES,
        (
            "error while loading shared libraries: libpython3.7m.so.1.0: cannot open shared object file: No "
            "such file or directory"
        ),
    ),
    ("7", YES, "ImportError: libhccl.so"),
    ("7", YES, "ImportError: libhccl.so: cannot open shared object file: No such file or directory"),
    ("8", YES, "aicpu_kernels/libpt_kernels.so does not exist"),
    ("9", YES, "TVM/te/cce error"),
    ("10", YES, "RuntimeError: Initialize"),
    ("10", YES, "RuntimeError: Initialize."),
    ("12", YES, "Malloc device memory failed"),
    (
        "12",
        YES,
        (
            "Malloc device memory failed, size[32212254720], ret[207001], Device 0 may be other processes "
            "occupying this card, check as: ps -ef|grep python"
        ),
    ),
    (
        "13",
        NO,
        (
            "Out of Memory!!! total[3212254720] (dynamic[0] memory poll[524288000]) malloc[32611480064] "
            "failed!"
        ),
    ),
    (
        "13",
        NO,
        (
            "RuntimeError: Out of Memory!!! total[3212254720] (dynamic[0] memory poll[524288000]) "
            "malloc[32611480064] failed!"
        ),
    ),
    ("14", YES, "connect() timed out"),
    ("14", YES, "RuntimeError: connect() timed out."),
    ("15", YES, "host not found"),
    ("15", YES, "RuntimeError: host not found: Name or service not known"),
    ("16", YES, "HCCL() error"),
    ("16", YES, "RuntimeError: HCCL() error"),
    ("19", NO, "run task error"),
    ("21", YES, "OSError: [Errno 24] Too many open files"),
    ("24", YES, "The headers or library files could not be found for jpeg,"),
    ("24", YES, "The headers or library files could not be found for zlib,"),
    ("24", YES, "fatal error: Python.h: No such file or directory"),
    ("25", YES, "No module named 'tensorboard'"),
    ("25", YES, "ModuleNotFoundError: No module named 'tensorboard'"),
    ("29", YES, "RuntimeError: Distributed package doesn't have NCCL built in"),
    ("29", YES, "RuntimeError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!"),
    ("30", YES, "NCCL error"),
    ("31", YES, "Error：Out of all 4 Trainers"),
    ("31", YES, "Error: Out of all 4 Trainers"),
    ("31", YES, "Error：Out of all 4 Trainers, the trainer process with rank_id=[1, 3] was aborted."),
    (
        "32",
        NO,
        "ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate 1.2GB memory on GPU 0",
    ),
    ("-", NO, "RuntimeError: ExchangeDevice:"),
    ("-", NO, "Error in atexit._run_exitfuncs:"),
    ("-", NO, "Error in atexit._run_exitfuncs: ... Initialize device failed"),
    ("-", NO, ATEXIT),
    ("-", NO, "c10::Error"),
    (
        "-",
        NO,
        "terminate called after throwing an instance of 'c10::Error'\n  what():  HelpACLExecute:x.cpp:65",
    ),
    ("-", NO, "HelpACLExecute"),
    ("-", NO, "RuntimeError: HelpACLExecute:"),
    ("-", NO, "0 INTERNAL ASSERT"),
    ("-", NO, 'RuntimeError: 0 INTERNAL ASSERT FAILED at "/home/user/torch_npu/csrc/x.cpp":28'),
    ("-", NO, "MemCopySync:drvMemcpy failed"),
    ("-", NO, "MemCopySync:drvMemcpy failed. [aicpu timeout]"),
    ("-", CLEAN, "55056 GetInputConstDataOut: ErrorNo: -1(failed)"),
    (
        "-",
        CLEAN,
        (
            "[ERROR] GE(55056,python3):2022-01-02-10:00:00.000.001 [node.cc:12]55056 GetInputConstDataOut: "
            "ErrorNo: -1(failed)"
        ),
    ),
    ("-", NO, "match op inputs failed"),
    ("-", NO, "match op inputs failed, acl_dynamic_shape_op"),
    ("-", NO, "SigmoidCrossEntropyWithLogitsV2 is unsupported"),
    ("-", NO, "RuntimeError: op type SigmoidCrossEntropyWithLogitsV2 is unsupported"),
    ("-", NO, "StopIteration"),
    ("-", NO, "load state_dict error"),
    ("-", NO, "RuntimeError: load state_dict error"),
    ("-", NO, "device target [CPU] is not supported in pynative mode"),
    ("-", NO, "Pynative run op ExpandDims failed"),
    ("-", NO, "wrong shape of image"),
)
BEFORE = "loading the dataset\nepoch: 1 step: 125, loss is 1.9\n"
LIFE = "".join(f"heartbeat {number}: worker {number % 8} is alive\n" for number in range(300))


def _each(put: Callable[[str], str]) -> Callable[[str], bytes]:
    """Something done to each line of a log, its last words."""
    return lambda message: "".join(f"{put(line)}\n" for line in f"{BEFORE}{message}".splitlines()).encode()


FORMS: dict[str, Callable[[str], bytes]] = {
    "bare": lambda message: f"{message}\n".encode(),
    "unended": lambda message: f"{BEFORE}{message}".encode(),
    "clock": _each(lambda line: f"2026-01-04T01:18:21.123456789Z {line}"),
    "rank": _each(lambda line: f"[rank3]: {line}"),
    "colour": _each(lambda line: f"\x1b[31m{line}\x1b[0m"),
    "crlf": _each(lambda line: f"{line}\r"),
    "gbk": lambda message: f"开始训练，加载数据集\n{BEFORE}{message}\n".encode("gb18030"),
    "json": _each(lambda line: json.dumps({"log": line + "\n", "stream": "stderr"}, ensure_ascii=False)),
}
_SURE = 40  # the weight of what is known beyond doubt; a word alone does not stand against what follows


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("verdict", "message"), [row[1:] for row in MESSAGES], ids=[f"{row[0]}-{row[2][:40]}" for row in MESSAGES]
)
def test_a_message_of_the_guides_has_its_answer(verdict: str, message: str, form: str) -> None:
    judgement = ENGINE.judge([ENGINE.scan_bytes(FORMS[form](message))])
    assert judgement.verdict == verdict
    assert all(one.first is None or one.first.log_line.text for one in judgement.diagnoses)


def test_what_is_written_after_it_does_not_make_it_well() -> None:
    """One test: which are sure is known only to the engine, which only the process of this test makes."""
    sure = [
        row
        for row in MESSAGES
        if any(
            one.signature.weight >= _SURE for one in ENGINE.judge([ENGINE.scan_text(row[2])]).diagnoses[:1]
        )
    ]
    assert len(sure) > len(MESSAGES) / 2
    for _question, verdict, message in sure:
        assert ENGINE.judge([ENGINE.scan_text(f"{BEFORE}{message}\n{LIFE}")]).verdict == verdict, message


@pytest.mark.parametrize("message", [row[2] for row in MESSAGES if row[1] == CLEAN])
def test_what_is_harmless_hides_no_failure(message: str) -> None:
    assert (
        ENGINE.judge([ENGINE.scan_text(f"{message}\nImportError: libhccl.so: cannot open\n")]).verdict == YES
    )


@pytest.mark.parametrize(
    "line",
    [
        "[12345.678] Out of memory: Killed process 4242 (python) total-vm:812345678kB, anon-rss:512345678kB",
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=abc,mems_allowed=0-1,task=python,pid=42",
        "Memory cgroup out of memory: Killed process 99 (python3)",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Tasks have been OOM Killed.",
        "  Reason:       OOMKilled",
    ],
)
@pytest.mark.parametrize("after", ["", LIFE, "Killed\n", "Killed\n[ERROR] process exited with code 137\n"])
def test_who_was_killed_for_memory_is_told_so(line: str, after: str) -> None:
    judgement = ENGINE.judge([ENGINE.scan_text(f"{BEFORE}{line}\n{after}")])
    assert judgement.diagnoses[0].signature.id == "host-oom-killer"
    assert judgement.verdict == YES


@pytest.mark.parametrize("after", ["", LIFE])
def test_who_was_killed_by_nobody_knows_whom_is_told_so(after: str) -> None:
    log = f"{BEFORE}run.sh: line 12: 4242 Killed                  python train.py\nexit code 137\n{after}"
    judgement = ENGINE.judge([ENGINE.scan_text(log)])
    assert judgement.diagnoses[0].signature.id == "host-killed-bare"
