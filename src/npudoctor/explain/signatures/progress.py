"""What a line says of the life of its job: that it went on or ended well, that it is being shut down, that
it starts.

What went on after an error has outlived it, whether it trains, serves, tests or evaluates.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Optional

from npudoctor.core.lazy import pattern

_TRAINS = pattern(
    r"(?i)\b(?:global[_ ]?step|step|epoch|iter(?:ation)?)s?\b['\"\]]?\s*[:=\[( ]+\s*\d+"
    r".*\b(?:loss|lr|time|acc|grad|eta|reward|throughput|ppl)"
    r"|^\{['\"](?:eval_)?loss['\"]: [\d.]+,|\bloss(?:_?\w{1,12})?\b['\"]?\s*(?:is|[:=])\s*-?\d+\.\d+"
    r"|\d+%\|[█#▏▎▍▌▋▊▉ -]*\| *\d+/\d+ \["
    r"|\b(?:val|eval|valid|test|train)\w*[ _/-](?:acc\w*|loss|f1|auc|bleu|mAP|ppl"
    r"|perplexity)\b['\"]?\s*[:=]\s*\d"
    r"|\b(?:acc(?:uracy)?|mAP|bleu|perplexity|top-?[15]|f1)\b['\"]?\s*[:=]\s*\d+\.\d+"
    r"|\b(?:step|epoch|iter)[:=] ?\d+ - \S|\b(?:train|test|val|valid|eval)\w*_(?:loss|acc\w*)\s+\d+\.\d+"
)
# What is also written while a job is being ended: it may be the last thing that it does.
_SAVES = pattern(
    r"(?i)\b(?:saved?|saving) (?:the )?(?:model|checkpoint|weights)\b[^!?]{0,80}(?:to|at|in|[:=])\s*\S"
)
_SERVES = pattern(
    r"\b(?:Decode|Prefill) batch[,. ]|\b[Aa]vg (?:prompt|generation) throughput|\bgen throughput \("
    r"|\"(?:GET|POST|PUT|HEAD|DELETE) (?!/(?:health|metrics|ping|version))"
    r"\S{1,300} HTTP/[\d.]+\" 2\d\d\b|\bGraph capturing finished\b"
    r"|Application startup complete|Uvicorn running on http|server is fired up and ready"
)
_SUCCEEDS = pattern(
    r"(?i)\b(?:training|train|job|task|run|inference|evaluation|all tests?|processing|generation|pretraining"
    r"|finetuning|fine-tuning|experiment|script|benchmark) (?:is |has |was )?"
    r"(?:done|completed?|finished|succe(?:ss(?:ful(?:ly)?)?|eded))\b(?! with (?:error|fail)| name=)"
    r"|exits? successfully|\bexit(?:ed with)? (?:code|status):? 0\b|^Successfully (?:ran|saved"
    r"|installed|built)\b"
    r"|\b(?:EXIT_CODE|exit_code|rc|RC)=0$|\b(?:results?|outputs?|predictions?"
    r"|metrics)\b(?: file)?.{0,20}\b(?:saved|written) (?:to|in)\b"
    r"|\bsuccessfully (?:indexed|processed|completed|finished|generated|exported|converted|trained)\b"
    r"|=+ (?:\d+ (?:skipped|deselected|warnings?), )*\d+ passed\b(?!.*\bfailed).* in [\d.]+"
    r"|\|\u00b1 *\| *(?:\d|N/A)|^[ \t]*all done[.!]*$|['\"]train_runtime['\"]: [\d.]+"
    r"|\"key\": \"run_stop\".*\"success\""
    r"|^\W{0,8}Final (?:validation |evaluation |test )?(?:metrics|results|scores)\s*[:=]\s*[^\s'\"]"
)
# What did not succeed says the same words.
_NOT = pattern(
    r"(?i)\b(?:not|never|cannot|\w+n't|un)\s+(?:\w+ ){0,2}(?:run|complet|finish|succe|be )|\bunsuccess"
)
_OK = pattern(r"OK(?: \(skipped=\d+\))?$")  # the last word of unittest
_BAR = pattern(r"\d+%\|[█#▏▎▍▌▋▊▉ -]*\| *(\d+)/(\d+) \[")
# The words without which none of these is found, in small letters: most lines are soon done with.
_TRAINING = (
    "loss", "acc", "%|", "epoch", "step", "iter", "reward", "ppl", "perplex", "map", "bleu", "auc", "f1",
    "top-1", "top-5", "top1", "top5",
)  # fmt: skip
_SAVING = ("save", "saving")
_SERVING = ("batch", "throughput", "http/1", "capturing", "startup", "uvicorn", "ready")
_SUCCESS = (
    "done", "complete", "finish", "succe", "exit", "rc=", "written", "saved", "passed",
    "final ", "train_runtime", "run_stop", "|\u00b1",
)  # fmt: skip
HINT = tuple({word.encode() for word in (*_TRAINING, *_SAVING, *_SERVING, *_SUCCESS)})
_SHUTS_DOWN = pattern(
    r"\[shutdown\]|^(?:INFO: +|.{0,60}\bINFO\b.{0,40})?(?:Shutting down|Waiting for application shutdown)"
    r"|\b[Gg]racefull?y? (?:shut|stop|exit|terminat)|\bSIGTERM received\b"
    r"|\b[Rr]eceived (?:SIGTERM|signal 15)\b"
    r"|receive shutdown event and so quit|[Ss]hut(?:ting)? ?down (?:requested|initiated|the server)"
)
# A command line that starts a job, as a person types it, or a shell or a notebook echoes it: to look around
# after a job has died starts nothing.
_LAUNCHES = (
    r"(?:\w+=\S* )*(?:(?:nohup|sudo|time|exec|env|uv run|poetry run|numactl|taskset|setsid|timeout) "
    r"(?:-\S+ )*(?:\w+=\S* )*){0,3}(?:\S*/)?(?:(?:python[\d.]*|pypy3?|ipython) (?:-[umBO] )*"
    r"(?!-[cV]\b|--version|-m pip\b)[\w./~-]"
    r"|(?:torchrun|accelerate launch|deepspeed|colossalai run|mpirun|mpiexec|msrun|horovodrun|srun|sbatch"
    r"|msprof|nsys profile|vllm serve|llamafactory-cli|swift sft|swift rlhf|xtuner train|lightning run"
    r"|trtllm-serve|docker run|kubectl apply) \S"
    r"|(?:ba|z)?sh (?:-\S+ )*[\w./~-]+\.sh\b|\./\S+\.(?:sh|py)\b|\S+/\S+\.sh\b)"
)
_PROMPT = (
    r"(?:\+{1,2} |!|[$#%>] |>>> !|(?:\([\w./-]+\) ?)*\[?[\w.-]+@[\w.-]+[: ][^$#%]{0,100}[$#%] ?"
    r"|(?:\([\w./-]+\) ?)*(?:(?:➜|❯|λ) .{0,60}? |PS [A-Z]:\S*> |[A-Z]:\\\S*>|[\w./~-]{1,60}[$#] ))"
)
TYPED = pattern(rf"(?m)^(?P<prompt>{_PROMPT})?{_LAUNCHES}".encode())  # without one, it may be a hint
# The first words of a program or its launcher: after something died, they begin another run.
_STARTS = pattern(
    r"^nohup: (?:ignoring input|忽略输入)|^wandb: (?:Currently logged in as|Tracking run with wandb version)"
    r"|^-{5,} *Configuration Arguments *-{5,}|\*{5,}Start logging\*{5,}"
    r"|^(?:\S{0,40}[\]:] ?)?LAUNCH INFO \S+ \S+ -{5,}"
    r"|\bAutomatically detected platform \w+|^\*{10,}$|^Setting OMP_NUM_THREADS environment variable"
    r"|^usage: \S+"
    r"|^(?:\[[^\]]{1,40}\] )*\[(?:INFO|WARNING)\] \[runner\.py:\d+:(?:\w+\] cmd = |fetch_hostfile)"
    r"|\bdistributed[./]run\S{0,30}[\]:] ?(?:\[WARNING\] ?)?(?:\*{10,}|Setting OMP_NUM)"
    r"|Starting elastic_operator with launch|\bRestarting worker group|\] Starting worker group"
    r"|^The following values were not passed to `accelerate launch`"
    r"|^(?:\S{1,40} )?(?:[Aa]rg(?:ument)?s?(?: used)?[:=] ?)?Namespace\(\w+="
    r"|gen_comm_id_helper\.cc:\d+\] Server listening|tcp_utils\.cc:\d+\] The server starts to listen"
    r"|^server not ready, wait 3 sec|^={5,} Modified FLAGS detected"
    r"|^-{5,} ?Environment [Ii]nformation ?-{5,}| - INFO - Environment info:$|\bSystem environment:$"
    r"|\bport\.cc:\d+\] oneDNN custom|\bcpu_feature_guard\.cc:\d+\]|^== (?:PyTorch|CUDA|TensorFlow) ==$"
    r"|\bStarted server process \[|^Running on (?:host|node)\b"
    r"|^(?:=|-|#|\*){3,} ?(?:start|begin|run|launch)\w*\b.*\d|^(?:[Ss]tart(?:ing|ed)?"
    r"|[Ll]aunch(?:ing)?) (?:training|the job|run|job)\b"
    r"|^SLURM_JOB_?ID[ =:]|^(?:Job|job) (?:started|start) (?:at|on|time)\b"
)

# What may begin or end a program in order, in small letters.
EDGE = (
    b"nohup", b"wandb: currently", b"wandb: tracking", b"argument",
    b"start", b"launch", b"platform", b"*****", b"omp_num", b"usage: ", b"runner.py", b"slurm",
    b"job", b"$ ", b"# ", b"shut", b"graceful", b"sigterm", b"signal 15", b"begin", b"run ", b"run-", b"run=",
    b"run.py", b"run:", b"worker group", b"`accelerate", b"namespace(", b"gen_comm_id", b"tcp_utils",
    b"not ready, wait", b"modified flags", b"environment", b"port.cc", b"feature_guard", b"== pytorch",
    b"== cuda", b"== tensor", b"running on",
)  # fmt: skip


def parse_bar(line: str) -> Optional[tuple[int, int]]:
    """Where the bar on a line stands, and where it ends; None when there is none."""
    match = _BAR.search(line[:1000])
    return match and (int(match.group(1)), int(match.group(2)))


def goes_on(line: str) -> bool:
    """Whether a line says that the job went on."""
    line = line[:1000]
    return _says(line, _TRAINING, _TRAINS) or _says(line, _SERVING, _SERVES)


def serves(line: str) -> bool:
    """Whether a line says that a server answered or generates."""
    return _says(line[:1000], _SERVING, _SERVES)


def saves(line: str) -> bool:
    """Whether a line says that a job saved how far it came."""
    return _says(line[:1000], _SAVING, _SAVES)


def succeeds(line: str) -> bool:
    """Whether a line says that the job, or a part of it, ended well."""
    return (line.startswith("OK") and bool(_OK.match(line))) or (
        _says(line[:1000], _SUCCESS, _SUCCEEDS) and not _NOT.search(line[:1000]) and "[shutdown]" not in line
    )


def _says(line: str, words: Sequence[str], pattern: re.Pattern[str]) -> bool:
    return any(map(line.lower().__contains__, words)) and bool(pattern.search(line))


def is_epilogue(line: bytes) -> bool:
    """Whether a line is written at the end of a process whether or not it failed."""
    # W&B's summary and multiprocessing's complaint about semaphores may follow any end.
    return line.startswith(b"wandb: ") or b"resource_tracker" in line


def shuts_down(line: str) -> bool:
    """Whether a line says that somebody ends the job in order."""
    return bool(_SHUTS_DOWN.search(line[:300]))


def starts(line: str) -> bool:
    """Whether a line is what a program or its launcher says first."""
    return bool(_STARTS.search(line[:300]))
