"""What says that a job failed, whether or not anybody knows why: looked for by the same scan."""

from __future__ import annotations

from npudoctor.core.frozen import dataclass


@dataclass(frozen=True)
class Mark:
    """A sign of failure. `sure`: nothing that ends well writes it; else it counts where it ends a log.

    `own`: it is the last word of the process that failed, and not of who started it.
    """

    name: str
    patterns: tuple[str, ...]
    sure: bool = True
    own: bool = True


WORDS = "words"
ENDED = ("ended", "closed", "cancelled")  # that a signal came counts at whatever level it is told
_BY_USER = (
    r"(?i)(?:^|[\]:-] ?)(?:(?:training|run|job|program|process|script|execution) )?(?:was )?"
    r"interrupted by (?:the )?user\b"
)
_TOLD_TO_END = (
    r"(?i)\b(?:received|caught|got|after receiving) (?:a |the )?(?:signal:? ?\(?(?:15|2|1)\b"
    r"|(?:signal )?[^\w\s]?SIG(?:TERM|INT|HUP)\b)|\bSIG(?:TERM|INT) (?:was )?(?:received|caught)\b"
    r"(?: ?[.,;:!)]|$| by )|\bsignal:? (?:15|2) .{0,12}(?:received|caught)\b"
)
MARKS = (
    # The line itself only begins what failed; it is shown when there is no better one.
    Mark("traceback", (r"Traceback \(most recent call last\)",), sure=False),
    Mark(
        "exception",
        (
            r"^(?:[\w.]*\.)?\w*(?:Error|Exception|Interrupt|Exit)(?:: |$)",
            r"\]: (?:[\w.]*\.)?\w*(?:Error|Exception)(?:: |$)",
            r"^\w+(?:\.\w+)*\.\w*(?:NotFound|Timeout|Failure)(?:: |$)",
            r"^[ \t]+raise [\w.]*(?:Error|Exception)\(",
            r"^(?:\[\w+\]: ?)?(?:bdb\.)?BdbQuit$",
            r"^(?:\[\w+\]: ?)?StopIteration(?:: |$|\\n\")",
        ),
        sure=False,
    ),
    Mark(
        "crash",
        (
            r"(?i)segmentation fault",
            r"\bcore dumped\b",
            r"^(?:.*: line \d+: +\d+ )?Aborted\b",
            r"^(?:.*: line \d+: +\d+ )?Killed\b|\]Killed$",
            r"^Bus error\b",
            r"\bIllegal instruction\b",
            r"^Floating point exception\b",
            r"terminate called (?:after throwing|without an active)",
            r"Fatal Python error",
            r"段错误|已放弃|已杀死|总线错误|核心已转储|吐核",
            r"\b(?:SIGSEGV|SIGABRT|SIGBUS|SIGILL|SIGFPE|SIGKILL)\b",
        ),
    ),
    Mark(
        "launcher",
        (
            r"Root Cause \(first observed failure\)",
            r"\bChildFailedError\b",
            r"(?i)\bexit(?:ed|s)?[ _]?(?:with )?(?:exit )?(?:code|status)[ =:]*-?[1-9]",
            r"(?i)\bexitcode *: -?[1-9]",
            r"(?i)returned non-zero exit status [1-9]",
            r"exits with return code = -?[1-9]",
            r"^srun: error: .*(?:Exited|Killed|task)",
            r"slurmstepd: error:",
            r"MPI_ABORT was invoked|mpirun noticed that process|Primary job  terminated normally, but",
            r"died with <Signals",
        ),
        own=False,
    ),
    # A program that did not come to its first line of work: what follows is of another one.
    Mark(
        "stillborn",
        (
            r"^[\w./-]+: error: (?:argument |unrecognized arguments|the following arguments)",
            r"^[\w./-]+: error: ambiguous option",
            r"^\S*python[\d.]*: can't open file |^\S*python[\d.]*: No module named \S+$",
            r"^(?:\S+: line \d+: )?\S+: command not found$",
        ),
        sure=False,
    ),
    # The last word of who started everything: what follows was only in a buffer, or is of another run.
    Mark(
        "closed",
        (
            r"\bSignalException: Process \d+ got signal: \d+",
            r"\bTERM_[A-Z_]+: job killed",
            r"job killed: walltime",
            r"slurmstepd: error: Detected \d+ oom[-_]kill event",
        ),
        own=False,
    ),
    # A scheduler has ended the job for good: what follows was only in a buffer, or said while it was killed.
    Mark(
        "cancelled",
        (
            r"\*\*\* JOB \S+ ON \S+ CANCELLED AT \S+ (?:\*\*\*|DUE TO TIME LIMIT)",
            r"\] Shutting down FastAPI HTTP server|\[shutdown\] API server: shutdown triggered",
        ),
        own=False,
    ),
    # An engine of a server says that it is dead, or that it could not do what it was asked to.
    Mark(
        "engine",
        (
            r"\bEngineCore encountered (?:a fatal error|an issue)",
            r"\bEngineDeadError\b",
            r"\bException: Call to \w+ method failed: ",
        ),
    ),
    Mark(
        "ended",
        (
            r"signal`? is detected by the operating system",
            r"(?:^|\])Terminated$|已终止$|: line \d+: +\d+ (?:Terminated|Hangup)\b",
            r"death signal, shutting down workers|rocess received SIG(?:INT|TERM|HUP)\b",
            r"Terminating with signal \d|Detected KeyboardInterrupt, attempting graceful",
            _BY_USER,
            _TOLD_TO_END,
        ),
        own=False,
    ),
    Mark(
        "cann",
        (
            r"\bERR[0-9]{5}\b",
            r"\bInner Error!",
            r"\bTraceBack \(most recent call last\)",
            r"\bacl\w+\(.{0,80}\) failed ?[:,]",
            r"\bTHCudaCheck FAIL\b",
        ),
        sure=False,
    ),
    Mark(
        "level",
        (
            r"^[ \t]*\[?(?:ERROR|FATAL|CRITICAL)\b",
            # "| ERROR | stderr | INFO: ..." says only where a server wrote it.
            r"[\[\s|](?:ERROR|FATAL|CRITICAL)(?:\]| -| ?\|(?: [^s]| s[^t]|[^ ]|$)| \d\d-\d\d \d\d:| \[)",
            r"^(?:\S+: )?(?:fatal )?error: \S",
            r"^make(?:\[\d+\])?: \*\*\*",
        ),
        sure=False,
    ),
    # What the last lines say in words for which no scan looks (see `last_words`).
    Mark(WORDS, (), sure=False),
)
