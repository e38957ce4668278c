"""What says that a job failed, whether or not anybody knows why: looked for by the same scan."""

from __future__ import annotations

from npudoctor.frozen import dataclass


@dataclass(frozen=True)
class Mark:
    """A sign of failure. `sure`: nothing that ends well writes it; else it counts where it ends a log.

    `own`: it is the last word of the process that failed, and not of who started it.
    """

    name: str
    patterns: tuple[str, ...]
    sure: bool = True
    own: bool = True


MARKS = (
    # The line itself only begins what failed; it is shown when there is no better one.
    Mark("traceback", (r"Traceback \(most recent call last\)",), sure=False),
    Mark(
        "exception",
        (
            r"^(?:[\w.]*\.)?\w*(?:Error|Exception|Interrupt|Exit)(?:: |$)",
            r"\]: (?:[\w.]*\.)?\w*(?:Error|Exception)(?:: |$)",
            r"^\w+(?:\.\w+)*\.\w*(?:NotFound|Timeout|Failure)(?:: |$)",
        ),
        sure=False,
    ),
    Mark(
        "crash",
        (
            r"(?i)segmentation fault",
            r"\bcore dumped\b",
            r"^(?:.*: line \d+: +\d+ )?Aborted\b",
            r"^(?:.*: line \d+: +\d+ )?Killed\b",
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
            r"^srun: error: .*(?:Exited|Killed|task)",
            r"slurmstepd: error:",
            r"MPI_ABORT was invoked|mpirun noticed that process|Primary job  terminated normally, but",
            r"died with <Signals",
        ),
        own=False,
    ),
    Mark(
        "cann", (r"\bERR[0-9]{5}\b", r"\bInner Error!", r"\bTraceBack \(most recent call last\)"), sure=False
    ),
    Mark(
        "level",
        (
            r"^[ \t]*\[?(?:ERROR|FATAL|CRITICAL)\b",
            r"[\[\s|](?:ERROR|FATAL|CRITICAL)(?:\]| -| ?\|| \d\d-\d\d \d\d:| \[)",
            r"^(?:\S+: )?(?:fatal )?error: \S",
            r"^make(?:\[\d+\])?: \*\*\*",
        ),
        sure=False,
    ),
)
