"""Where one run of a log ends and the next begins, who ended a job, and what only sounds like its end."""

from __future__ import annotations

import pytest
from tests.support.engines import late

from npudoctor.explain.ranking.judge import Judgement

ENGINE = late()
TRAINS = "epoch: 1, step: 10, loss: 2.31\nepoch: 1, step: 20, loss: 2.11\n"
TRACEBACK = """Traceback (most recent call last):
  File "/home/user/job/train.py", line 7, in <module>
    main()
"""
BUG = TRACEBACK + "KeyError: 'lr'\n"
TYPE = TRACEBACK + "TypeError: main() takes 0 positional arguments but 1 was given\n"


def judged(log: str) -> Judgement:
    return ENGINE.judge([ENGINE.scan_text(log)])


def best(judgement: Judgement) -> tuple[str, str]:
    return judgement.verdict, judgement.diagnoses[0].signature.id if judgement.diagnoses else ""


@pytest.mark.parametrize(
    "start",
    [
        "W0729 12:02:35.461000 38167 torch/distributed/run.py:766] ********************",
        "[2024-03-02 10:11:12,000] torch.distributed.run: [WARNING] Setting OMP_NUM_THREADS to 1",
        "INFO:torch.distributed.launcher.api:Starting elastic_operator with launch configs:",
        "INFO:torch.distributed.elastic.agent.server.api:[default] Restarting worker group",
        "The following values were not passed to `accelerate launch` and had defaults used instead:",
        "[2024-05-21 17:42:52,433] [WARNING] [runner.py:196:fetch_hostfile] Unable to find hostfile",
        "Namespace(batch_size=8, lr=0.001, epochs=10)",
        "args used: Namespace(model='gpt', seed=1)",
        "I0610 16:20:15.366622 48829 gen_comm_id_helper.cc:205] Server listening on: 127.0.0.1:52847",
        "I0615 21:31:33.622751 7064 tcp_utils.cc:107] The server starts to listen on IP_ANY:44474",
        "======================= Modified FLAGS detected =======================",
        "2021-04-12 20:11:59,962 - mmdet - INFO - Environment info:",
        "------------Environment Information-------------",
        "2025-01-25 16:14:09.438323: I tensorflow/core/util/port.cc:153] oneDNN custom operations",
        "== PyTorch ==",
        "INFO:     Started server process [1944463]",
        "Running on host gpu07",
    ],
)
def test_a_run_begins_with_the_first_words_of_its_launcher(start: str) -> None:
    judgement = judged(f"loading\n{BUG}{start}\nbuilding the model\n")
    assert judgement.verdict == "clean"
    assert [run.last_error.text for run in judgement.runs if run.last_error] == ["KeyError: 'lr'"]
    assert best(judged(f"loading\n{BUG}{start}\nbuilding the model\n{TYPE}"))[1] == "python-type-error"
    assert best(judged(f"{start}\nbuilding the model\n{BUG}"))[1] == "python-key-error"


HEAD = """Reading the settings of experiment 12
Found 5000 pictures of cats and dogs
The network has 11689512 weights
Optimiser: SGD with momentum
"""


def test_a_run_begins_where_the_first_lines_of_the_log_come_again() -> None:
    first = "[rank: 0] Seed\n" + HEAD
    second = "[rank: 0] Seed\n" + HEAD.replace("12", "13").replace("5000", "4870")
    judgement = judged(first + BUG + second)
    assert judgement.verdict == "clean"
    assert len(judgement.runs) == 1
    assert best(judged(first + BUG + second + TYPE))[1] == "python-type-error"
    # One line of it may be said by anybody.
    assert best(judged(first + BUG + HEAD.splitlines(keepends=True)[2]))[1] == "python-key-error"


def test_a_table_that_is_drawn_at_both_ends_begins_no_run() -> None:
    table = "".join(f"| {name} of the first card of this machine | {n} |\n" for n, name in enumerate("abcd"))
    assert best(judged("job\n" + table + BUG + table))[1] == "python-key-error"


def test_a_rank_that_starts_late_begins_no_run() -> None:
    late = "2025-01-25 16:14:09.438323: I tensorflow/core/util/port.cc:153] oneDNN custom operations\n"
    end = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    judgement = judged(late + BUG + late + end)
    assert best(judgement) == ("not_environment", "python-key-error")
    assert not judgement.runs


def test_a_restart_that_succeeded_is_a_success() -> None:
    restart = "INFO:torch.distributed.elastic.agent.server.api:[default] Restarting worker group\n"
    assert judged(TRAINS + BUG + restart + TRAINS + "Training finished\n").verdict == "clean"
    assert judged(TRAINS + BUG + restart + "rank 0 reads its data\n").verdict == "clean"


@pytest.mark.parametrize(
    ("line", "ident"),
    [
        (
            "[2024-01-01 00:00:00,500] [INFO] [launch.py:328:sigkill] Main process received SIGINT",
            "python-interrupted",
        ),
        (
            "[2024-01-01 00:00:00,500] [INFO] [launch.py:324:sigkill] Main process received SIGTERM",
            "shell-terminated",
        ),
        (
            "WARNING:torch.elastic.agent.server.api:Received 15 death signal, shutting down workers",
            "shell-terminated",
        ),
        (
            "W1122 10:00:00.1 14 api.py:740] Received Signals.SIGINT death signal, shutting down workers",
            "python-interrupted",
        ),
        (
            "elastic.agent.server.api: [WARNING] Received Signals.SIGHUP death signal, shutting down workers",
            "ended-hangup",
        ),
        ("LAUNCH INFO 2023-01-01 00:00:00,000 Terminating with signal 15", "shell-terminated"),
        ("[rank: 0] Received SIGTERM: 15", "shell-terminated"),
        (
            "trainer.py:54: UserWarning: Detected KeyboardInterrupt, attempting graceful shutdown...",
            "python-interrupted",
        ),
        (
            "FatalError: `Termination signal` is detected by the system.\n  SIGTERM (@0x14ef)",
            "shell-terminated",
        ),
        ("RuntimeError: DataLoader worker (pid 12) is killed by signal: Terminated.", "shell-terminated"),
        (
            "torch.multiprocessing.ProcessExitedException: process 0 terminated with signal SIGTERM",
            "shell-terminated",
        ),
        ("command terminated with exit code 143", "shell-terminated"),
        ("srun: error: n1: task 0: Killed", "ended-killed"),
        ("[1]+  Killed                  nohup python train.py", "host-killed-bare"),
        ("slurmstepd-n1: error: *** STEP 12.0 ON n1 CANCELLED AT 2024-01-01T00:00 ***", "slurm-cancelled"),
        (
            "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2024-01-01T00:00 DUE TO JOB REQUEUE ***",
            "ended-preempted",
        ),
        ('Container train exceeded its local ephemeral storage limit "20Gi".', "ended-evicted"),
        ("Process finished with exit code 130 (interrupted by signal 2: SIGINT)", "python-interrupted"),
        ("salloc: error: Job allocation 8 has been revoked due to time limit", "shell-time-limit"),
        ("failed     37  : qmaster enforced h_rt, h_cpu, or h_vmem limit", "shell-time-limit"),
        ("##[error]The operation was canceled.", "slurm-cancelled"),
        ("Spot instance interruption notice received, ending at 11:02:00", "ended-preempted"),
        ("zsh: terminated  python train.py", "shell-terminated"),
        ("zsh: killed     python train.py", "ended-killed"),
        ("trainer-1 exited with code 137", "ended-killed"),
        ("systemd[1]: train.service: Main process exited, code=killed, status=15/TERM", "shell-terminated"),
        ("exiting program after receiving SIGTERM.", "shell-terminated"),
        ("Connection to gpu-3 closed by remote host.", "ended-hangup"),
        ("YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Interrupt (signal 2)", "python-interrupted"),
    ],
)
def test_who_ended_a_job_is_said_at_whatever_level(line: str, ident: str) -> None:
    assert best(judged(f"{TRAINS}{line}\n")) == ("not_environment", ident)
    assert judged(f"{line}\n{TRAINS}").verdict == "clean"
    assert best(judged(f"{TRAINS}{BUG}{line}\n"))[1] in (ident, "python-key-error")


def test_a_node_that_ran_short_is_the_environment() -> None:
    line = "The node was low on resource: ephemeral-storage. Container train was using 90Gi."
    assert best(judged(f"{TRAINS}{line}\n")) == ("environment", "ended-evicted-node")


SERVES = """INFO:     Application startup complete.
INFO:     10.0.0.5:49152 - "POST /v1/completions HTTP/1.1" 200 OK
"""
STOPS = "INFO:     Shutting down\nINFO:     Application shutdown complete.\n"


@pytest.mark.parametrize(
    ("signal", "ident"),
    [
        ("INFO 03-02 11:00:00 [launcher.py:99] Received signal 15, shutting down", "shell-terminated"),
        (
            "[2025-03-02 11:00:00] SIGTERM received. signum=15 frame=None. Draining requests",
            "shell-terminated",
        ),
        (
            "2025-03-02T11:00:00Z  INFO router: signal received, starting graceful shutdown",
            "shell-terminated",
        ),
        ("^CINFO 03-02 11:00:00 [launcher.py:74] Shutting down the HTTP server", "python-interrupted"),
        ("^C", "ended-typed-interrupt"),
    ],
)
def test_a_server_that_is_told_to_end_was_ended_from_outside(signal: str, ident: str) -> None:
    assert best(judged(f"{SERVES}{signal}\n{STOPS}")) == ("not_environment", ident)
    assert judged(SERVES + STOPS).verdict == "clean"
    assert judged(f"{signal}\n{SERVES}").verdict == "clean"
    bug = f"{SERVES}{BUG}{signal}\n{STOPS}"
    assert best(judged(bug))[1] in ("python-key-error", ident)


@pytest.mark.parametrize(
    "line",
    [
        "Installed a handler for SIGTERM and SIGUSR1",
        "Press CTRL+C to quit",
        "W0302 10:00:00.1 71 multiprocessing/api.py:897] Sending process 80 closing signal SIGTERM",
        "WARNING: Sequence group 12 is preempted by PreemptionMode.RECOMPUTE mode",
        "systemd[1]: Stopping User Manager for UID 1000...",
    ],
)
def test_a_line_that_only_speaks_of_signals_ended_nothing(line: str) -> None:
    assert judged(f"start\n{line}\n").verdict == "clean"
    assert judged(f"{TRAINS}{line}\n").verdict == "clean"


def test_what_a_job_saves_while_it_is_ended_is_no_new_life() -> None:
    saved = "Saved checkpoint to out/last.pt\n"
    interrupted = "Training interrupted by user. Saving checkpoint...\n"
    assert best(judged(TRAINS + interrupted + saved)) == ("not_environment", "python-interrupted")
    assert best(judged(f"{TRAINS}Signal 15 received, saving\n{saved}"))[1] == "shell-terminated"
    assert judged(TRAINS + interrupted + saved + TRAINS).verdict == "clean"


def test_what_a_launcher_says_of_its_process_comes_before_the_signal_and_is_none_of_its_own() -> None:
    said = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    for code, name, ident in (
        ("-15", "15 (SIGTERM)", "shell-terminated"),
        ("-2", "2 (SIGINT)", "python-interrupted"),
    ):
        end = f"[0]:\n  exitcode  : {code} (pid: 80)\n  traceback : Signal {name} received by PID 80\n"
        assert best(judged(TRAINS + TRACEBACK + said + end)) == ("not_environment", ident)


CANCELLED = "slurmstepd: error: *** STEP 8.0 ON n1 CANCELLED AT 2024-01-01T00:00 ***\n"


def test_a_cancel_that_follows_a_task_or_the_memory_killer_is_not_the_cause() -> None:
    task = "srun: error: n1: task 5: Exited with exit code 255\nsrun: Terminating StepId=8.0\n"
    assert best(judged(TRAINS + CANCELLED))[1] == "slurm-cancelled"
    assert judged(TRAINS + task + CANCELLED).diagnoses[0].signature.category != "ended-from-outside"
    told = task.replace("255", "143")
    assert best(judged(TRAINS + told + CANCELLED))[1] in ("slurm-cancelled", "shell-terminated")
    killed = "command terminated with exit code 137\n"
    assert best(judged(TRAINS + killed)) == ("not_environment", "ended-killed")
    assert best(judged(TRAINS + killed + "Reason: OOMKilled\n")) == ("environment", "host-oom-killer")


@pytest.mark.parametrize("word", ["Terminated", "Killed"])
def test_the_last_word_may_stand_behind_a_bar(word: str) -> None:
    bar = "".join(f"\r {n}%|##   | {n}/100 [00:10<10:00,  2.74it/s]" for n in range(1, 50))
    assert judged(bar + word + "\n").diagnoses[0].signature.category == "ended-from-outside"
    assert judged(bar + "\n").verdict == "clean"


@pytest.mark.parametrize(
    "command",
    [
        "$ python train.py --lr 1",
        "+ torchrun --nproc_per_node 8 train.py",
        "(base) user@gpu-3:~/job$ CUDA_VISIBLE_DEVICES=0 nohup python3 -u train.py",
        "[root@gpu-3 job]# bash run.sh",
        "PS C:\\job> python train.py",
        "!accelerate launch train.py",
        "python train.py --cfg b.yaml",
        "nohup: 忽略输入",
        "wandb: Tracking run with wandb version 0.19.1",
    ],
)
def test_a_command_that_starts_a_job_begins_a_run(command: str) -> None:
    judgement = judged(f"{command}\nloading\n{BUG}{command}\nbuilding the model\n")
    assert (judgement.verdict, len(judgement.runs)) == ("clean", 1)


@pytest.mark.parametrize(
    "command", ["user@gpu-3:~$ ls", "user@gpu-3:~$ nvidia-smi", "+ rm -rf /tmp/x", "python -m bitsandbytes"]
)
def test_a_command_that_only_looks_around_begins_no_run(command: str) -> None:
    assert best(judged(f"loading\n{BUG}{command}\nsome words\n"))[1] == "python-key-error"


def test_hours_without_a_word_after_a_death_are_another_run() -> None:
    log = "2025-03-02 {}:00 INFO the data are read\n2025-03-02 {}:10 INFO the model is built\n"
    first, later = log.format("10:00", "10:00"), "2025-03-02 18:30:00 INFO other data are read\n"
    soon = later.replace("18:30", "11:00")
    assert (judged(first + BUG + later).verdict, len(judged(first + BUG + later).runs)) == ("clean", 1)
    assert best(judged(first + BUG + later + TYPE))[1] == "python-type-error"
    assert best(judged(first + BUG + soon))[1] == "python-key-error"
    assert not judged(first + later + BUG).runs


def test_a_scheduler_that_enforced_the_memory_is_the_environment() -> None:
    line = "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.\n"
    assert best(judged(TRAINS + line)) == ("environment", "scheduler-memory-limit")


def test_a_run_that_was_interrupted_is_followed_by_another_one() -> None:
    end = "[2024-01-01 00:00:00,500] [INFO] [launch.py:328:sigkill] Main process received SIGINT\n"
    start = "[2024-01-01 00:10:00,433] [WARNING] [runner.py:196:fetch_hostfile] Unable to find hostfile\n"
    judgement = judged(TRAINS + end + start + "building the model\n")
    assert judgement.verdict == "clean"
    assert len(judgement.runs) == 1


def test_what_logging_itself_could_not_write_ended_nothing() -> None:
    noise = "--- Logging error ---\n" + TYPE + "Call stack:\nMessage: 'loss %d'\nArguments: ('nan',)\n"
    assert judged("job\n" + noise).verdict == "clean"
    assert best(judged("job\n" + noise + BUG))[1] == "python-key-error"


def test_an_ignored_exception_takes_its_cause_with_it() -> None:
    ignored = (
        "Exception ignored in: <function Pool.__del__ at 0x7f3b>\n"
        + BUG
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + TYPE
    )
    assert judged("job\n" + ignored).verdict != "environment"
    assert best(judged("job\n" + ignored + BUG.replace("lr", "wd")))[1] == "python-key-error"


def test_a_thread_that_is_left_at_the_end_undoes_no_success() -> None:
    thread = "Exception in thread Thread-5:\n" + TRACEBACK
    end = TRAINS + "Training completed\n"
    assert judged(end + thread + "EOFError\n").verdict == "clean"
    assert judged(end + thread + "ConnectionResetError: [Errno 104] reset by peer\n").verdict == "clean"
    # What did the work may be a thread.
    assert judged(end + thread + "TimeoutError: Server failed to start\n").verdict != "clean"
    assert judged(TRAINS + thread + "EOFError\n").verdict != "clean"


@pytest.mark.parametrize(
    "line",
    [
        "2024-07-30 17:01:52 | ERROR | stderr | INFO:     Uvicorn running on http://0.0.0.0:10000",
        "[skip] Failed to load extra/plugin.so: cannot open shared object file: No such file or directory",
        "ERROR:2025-03-02 11:56:34,332:git root error: Cmd('git') failed due to: exit code(128)",
    ],
    ids="stderr skipped git".split(),
)
def test_a_line_that_only_sounds_like_an_error_is_none(line: str) -> None:
    assert judged(f"start\n{line}\n").verdict == "clean"
    assert best(judged(f"start\n{line}\n{BUG}"))[1] == "python-key-error"


def test_what_went_to_stderr_may_still_be_an_error() -> None:
    log = "2024-07-30 17:01:52 | ERROR | stderr | KeyError: 'lr'\n2024-07-30 17:01:52 | ERROR | root | end\n"
    assert judged("start\n" + log).verdict != "clean"


def test_colours_before_the_name_of_a_rank_hide_nothing() -> None:
    name = "\x1b[1;36m(EngineCore_DP0 pid=1067763)\x1b[0;0m "
    log = "".join(f"{name}{line}\n" for line in BUG.splitlines())
    judgement = judged("start\n" + log)
    assert best(judgement)[1] == "python-key-error"
    start = "INFO 02-23 09:06:29 [__init__.py:216] Automatically detected platform cuda.\n"
    assert judged("start\n" + log + start).verdict == "clean"


@pytest.mark.parametrize(
    ("account", "ident"),
    [
        # Reserved and not used by the job itself: nobody else holds it.
        (
            "GPU 0; 15.7 GiB total capacity; 5.1 GiB already allocated; 1.2 GiB free; 13.9",
            "device-oom-own",
        ),
        (
            "GPU 0; 79.1 GiB total capacity; 30.1 GiB already allocated; 1.1 GiB free; 31.0",
            "device-busy-occupied",
        ),
    ],
    ids="fragmented nobody".split(),
)
def test_what_is_reserved_is_held_by_the_job(account: str, ident: str) -> None:
    said = f"CUDA out of memory. Tried to allocate 2.00 GiB ({account} GiB reserved in total by PyTorch)"
    assert best(judged(f"{TRACEBACK}RuntimeError: {said}\n"))[1] == ident


def test_the_buffers_of_collectives_are_no_other_process() -> None:
    account = "NPU 0; 60.9 GiB total capacity; 48.9 GiB already allocated; 1.27 GiB free; 50.9 GiB reserved"
    said = f"NPU out of memory. Tried to allocate 2.00 GiB ({account} in total by PyTorch)"
    assert best(judged(f"{TRACEBACK}RuntimeError: {said}\n"))[1] != "device-busy-occupied"


def test_of_processes_that_are_named_less_is_enough() -> None:
    account = "GPU 0 has a total capacity of 23.65 GiB of which 68.19 MiB is free."
    mine = "Including non-PyTorch memory, this process has 19.50 GiB memory in use."
    said = f"CUDA out of memory. Tried to allocate 2.00 GiB. {account}"
    named = f"{said} Process 2424 has 4.00 GiB memory in use. {mine}"
    assert best(judged(f"{TRACEBACK}RuntimeError: {named}\n"))[1] == "device-busy-occupied"
    assert best(judged(f"{TRACEBACK}RuntimeError: {said} {mine}\n"))[1] == "device-oom-torch"
