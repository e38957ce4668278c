"""What is the cause and what follows from it: an engine that dies before an orderly shutdown, cancelled jobs,
interruptions, warnings of what then fails, messages that could not be formatted, whose call it was."""

from __future__ import annotations

import pytest
from tests.support.engines import late

from npudoctor.explain.ranking.judge import Judgement

ENGINE = late()
TRAINS = "epoch: 1, step: 10, loss: 2.31\nepoch: 1, step: 20, loss: 2.11\n"
TRACEBACK = 'Traceback (most recent call last):\n  File "/home/user/job/train.py", line 7, in <module>\n'
CANCELLED = "slurmstepd: error: *** JOB 4711 ON node7 CANCELLED AT 2025-06-06T11:58:22 ***\n"
BARS = "".join(f"\rTrain:  30%|###       | {n}/900 [18:32<37:11,  1.83it/s]" for n in range(270, 276)) + "\n"
STEPS = "".join(f"reading part {n} of the data\n" for n in range(120))


def judged(log: str) -> Judgement:
    return ENGINE.judge([ENGINE.scan_text(log)])


def best(log: str) -> tuple[str, str]:
    """Of a log that begins with a line of its own, so that no other is taken for its first words."""
    judgement = judged("preparing\n" + log)
    return judgement.verdict, judgement.diagnoses[0].signature.id if judgement.diagnoses else ""


SERVES = '(APIServer pid=7) INFO:     10.0.0.1:5000 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
DOWN = """(APIServer pid=7) INFO:     Shutting down
(APIServer pid=7) INFO:     Waiting for application shutdown.
(APIServer pid=7) INFO:     Application shutdown complete.
"""
ENGINE_DIED = """(EngineCore pid=9) ERROR 01-02 10:00:00 [core.py:700] EngineCore encountered a fatal error.
(EngineCore pid=9) ERROR 01-02 10:00:00 [core.py:700] Traceback (most recent call last):
(EngineCore pid=9) ERROR 01-02 10:00:00 [core.py:700] torch.OutOfMemoryError: CUDA out of memory.
(APIServer pid=7) ERROR 01-02 10:00:00 [async_llm.py:500] EngineDeadError: EngineCore encountered an issue.
"""


def test_an_orderly_shutdown_does_not_mend_an_engine_that_died() -> None:
    assert best(SERVES + ENGINE_DIED + SERVES + DOWN) == ("not_environment", "device-oom-torch")
    assert best(SERVES + DOWN) == ("clean", "")
    # Started anew, and much that went on: what was before is over.
    assert best(SERVES + ENGINE_DIED + "INFO:     Started server process [12]\n" + SERVES) == ("clean", "")
    assert best(SERVES + ENGINE_DIED + SERVES * 120 + DOWN) == ("clean", "")


def test_an_engine_that_failed_at_what_it_was_asked_is_no_clean_end() -> None:
    failed = (
        "CUDA Error: out of memory at /src/csrc/allocator.cpp:139\n"
        "(APIServer pid=7) Exception: Call to wake_up method failed: CUDA Error: out of memory\n"
    )
    assert judged("preparing\n" + SERVES + failed + SERVES + DOWN).verdict == "not_environment"
    # What an engine says while it is being ended is no failure of its own.
    ended = judged(
        "preparing\n"
        + SERVES
        + DOWN
        + "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.\n"
    )
    assert ended.verdict == "clean"


def test_bars_that_were_in_a_buffer_do_not_outlive_a_cancelled_job() -> None:
    assert best(TRAINS + BARS + CANCELLED + BARS) == ("not_environment", "slurm-cancelled")
    assert best(TRAINS + CANCELLED + "nohup: ignoring input\n" + TRAINS) == ("clean", "")
    assert best(TRAINS + CANCELLED + STEPS + TRAINS) == ("clean", "")  # requeued, and it goes on
    assert best(TRAINS + CANCELLED + TRAINS + "Training finished\n") == ("clean", "")


def test_an_error_that_nobody_died_of_is_not_why_a_job_was_cancelled() -> None:
    port = "[E socket.cpp:500] [c10d] The server socket has failed to listen on any local network address.\n"
    goes_on = "reading the settings\nbuilding the model\nreading the data\n"
    assert best(port + goes_on + CANCELLED) == ("not_environment", "slurm-cancelled")
    assert best(port + CANCELLED)[1] == "port-listen-failed"
    died = TRACEBACK + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    assert best(TRAINS + died + goes_on + CANCELLED)[1] == "device-oom-torch"


@pytest.mark.parametrize(
    "said",
    [
        "2024-08-04 06:03:23 - LOGS - Keyboard interruption. Exiting from early training",
        "Keyboard interrupt received, stopping",
        "Interrupted by user",
        "Exiting from training early",
    ],
)
def test_pickles_of_children_are_the_echo_of_an_interruption(said: str) -> None:
    echo = (
        'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\n'
        '  File "/usr/lib/python3.10/multiprocessing/spawn.py", line 126, in _main\n'
        "    self = reduction.pickle.load(from_parent)\n"
        "_pickle.UnpicklingError: pickle data was truncated\n"
    )
    assert best(TRAINS + said + "\n" + echo * 2) == ("not_environment", "python-interrupted")
    assert best(TRAINS + echo)[1] != "python-interrupted"


def test_a_request_that_a_user_interrupts_ends_no_server() -> None:
    assert best(SERVES + "Request 17 was interrupted by user\n") == ("clean", "")
    assert best(SERVES + "INFO: press Ctrl-C; a keyboard interrupt stops the server\n") == ("clean", "")
    assert best(TRAINS + "[main] Training interrupted by user\n")[1] == "python-interrupted"


def test_who_says_sigterm_was_not_interrupted_by_hand() -> None:
    noted = "*** SIGTERM received at time=1748300290 on cpu 8 ***\nPC: @ 0x7f pthread_cond_wait\n"
    assert best(SERVES + noted + TRACEBACK + "KeyboardInterrupt\n")[1] == "ended-sigterm-noted"
    assert best(SERVES + TRACEBACK + "KeyboardInterrupt\n")[1] == "python-interrupted"
    assert best(SERVES + noted) == ("clean", "")  # an orderly end of Ray's workers
    assert best(SERVES + TRACEBACK + "KeyboardInterrupt: terminated\n")[1] == "vllm-terminated"


LOGGING = """--- Logging error ---
Traceback (most recent call last):
  File "/usr/lib/python3.11/logging/__init__.py", line 377, in getMessage
    msg = msg % self.args
          ~~~~^~~~~~~~~~~
TypeError: not all arguments converted during string formatting
Call stack:
  File "/home/user/job/test.py", line 110, in <module>
    main()
Message: 'You seem to be using the pipelines sequentially'
Arguments: (<class 'UserWarning'>,)
"""


def test_a_message_that_could_not_be_formatted_is_no_failure() -> None:
    assert best("reading\n10it [00:07, 1.39it/s]" + LOGGING + "done with all\n") == ("clean", "")
    error = TRACEBACK + "TypeError: 'int' object is not callable\n"
    assert best("reading\n" + LOGGING + error) == ("not_environment", "python-type-error")
    open_end = LOGGING[: LOGGING.index("Message:")]
    assert best("reading\n" + open_end + error) == ("not_environment", "python-type-error")


def test_a_folder_that_a_script_cannot_make_is_outlived_by_its_job() -> None:
    denied = "mkdir: cannot create directory '/data/out': Permission denied\n"
    chatter = "".join(f"W0624 18:14:{n % 60:02}.663897 149207 printer.h:144] pass {n}\n" for n in range(120))
    assert best(denied + chatter) == ("clean", "")
    assert best(denied)[1] == "shell-permission-denied"
    assert best("PermissionError: [Errno 13] Permission denied: '/out'\n" + chatter)[0] == "environment"


def test_whose_call_it_was_decides_whether_a_package_is_at_fault() -> None:
    error = "TypeError: save() got an unexpected keyword argument 'is_best'\n"
    after = "W1229 21:58:40 655 site-packages/torch/distributed/elastic/api.py:897] Sending process 755\n"
    package = (
        '  File "/opt/py/lib/python3.10/site-packages/peft/mapping.py", line 3, in get\n    save(best=1)\n'
    )
    assert best(TRAINS + TRACEBACK + error + after)[1] == "python-type-error"
    assert best(TRAINS + TRACEBACK + package + error)[1] == "package-unexpected-argument"
    assert (
        best(TRAINS + TRACEBACK.replace("Traceback", package + "Traceback") + error)[1] == "python-type-error"
    )


def test_what_was_warned_of_is_the_cause_of_what_fails_of_it() -> None:
    no_library = (
        "WARNING 02-28 20:57:36 _core_ext.py:180] Failed to import from vllm._core_C with "
        "ImportError('libtorch_hip.so: cannot open shared object file: No such file or directory')\n"
    )
    of_it = (
        TRACEBACK + "RuntimeError: Tried to instantiate class '_core_C.ScalarType', but it does not exist!\n"
    )
    assert best(no_library + of_it) == ("environment", "loader-torch-cuda-library")
    assert best(no_library + TRACEBACK + "KeyError: 'lr'\n") == ("not_environment", "python-key-error")
    no_gpu = (
        "cuda/__init__.py:182: UserWarning: CUDA initialization: CUDA unknown error - this may be due to\n"
    )
    needs = TRACEBACK + "NotImplementedError: Cannot find any torch accelerator? You need a GPU.\n"
    assert best(no_gpu + STEPS + needs) == ("environment", "cuda-no-device")
    other = TRACEBACK + "NotImplementedError: this optimizer\n"
    assert best(no_gpu + STEPS + other) == ("not_environment", "python-not-implemented")
    on_cpu = TRACEBACK + 'RuntimeError: "add_cpu" not implemented for the device CPU\n'
    assert best(no_gpu + STEPS + on_cpu) == ("environment", "cuda-no-device")


def test_a_breakpoint_is_a_cause_and_a_summary_is_none() -> None:
    quits = (
        "[rank1]: Traceback (most recent call last):\n"
        "[rank1]:     if self.quitting: raise BdbQuit\n"
        "[rank1]: bdb.BdbQuit\n"
    )
    summary = (
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        "srun: error: h01: task 0: Exited with exit code 1\n"
    )
    assert best(quits + summary) == ("not_environment", "python-breakpoint")


@pytest.mark.parametrize(
    ("log", "verdict", "signature"),
    [
        (
            """ValueError: Free memory on device (8.0/64.0 GiB) on startup is less than desired
GPU memory utilization (0.9, 57.6 GiB). Decrease it.
""",
            "environment",
            "device-busy-occupied",
        ),
        (
            "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.\n",
            "environment",
            "deepspeed-builder",
        ),
        ("NVIDIA: no NVIDIA devices found\n", "environment", "cuda-no-device"),
        (
            "THCudaCheck FAIL file=engine.cpp line=352 error=30 : unknown error\n",
            "environment",
            "cuda-no-device",
        ),
        ("Call aclInit(nullptr) failed : 507008\n", "environment", "cann-soc-version-mismatch"),
        ("Call aclrtFoo(nullptr) failed : 599999\n", "environment", "python-device-exception-any"),
        (
            "ERROR:root:An error occurred: The pointer[GetDevicePtr()] is null.\n",
            "not_environment",
            "mindspore-framework-exception",
        ),
        ("RuntimeError: Not support device type: npu\n", "environment", "package-no-npu-support"),
    ],
)
def test_short_excerpts_have_an_answer(log: str, verdict: str, signature: str) -> None:
    assert best(log) == (verdict, signature)


def test_a_line_of_the_script_that_the_shell_does_not_know_is_no_run_of_its_own() -> None:
    unknown = "/var/spool/slurm/d/job19/slurm_script: line 9: SBATCH: command not found\nloading\n"
    assert judged(unknown + TRACEBACK + "KeyError: 'lr'\n").runs == ()


def test_after_a_source_that_python_cannot_read_comes_another_run() -> None:
    unread = (
        '  File "/home/user/job/train.py", line 71\n    data = (\n           ^\nSyntaxError: invalid syntax\n'
    )
    launched = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    again = judged(unread + TRACEBACK + "KeyError: 'lr'\n")
    assert [run.last_error.text for run in again.runs if run.last_error] == ["SyntaxError: invalid syntax"]
    assert best(unread + TRACEBACK + "KeyError: 'lr'\n")[1] == "python-key-error"
    assert len(judged(unread + TRACEBACK + "ModuleNotFoundError: No module named 'other'\n").runs) == 1
    assert judged(unread + TRACEBACK + launched).runs == ()
    handled = "\nDuring handling of the above exception, another exception occurred:\n\n"
    assert judged(TRACEBACK + unread + handled + TRACEBACK + "KeyError: 'lr'\n").runs == ()
