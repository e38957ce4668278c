"""How serious a line says it is itself."""

from __future__ import annotations

from npudoctor.core.lazy import pattern

_LOW = pattern(
    r"^[ \t]*\[?(?:WARNING|WARN|INFO|DEBUG|EVENT|TRACE|NOTICE)\b"
    r"|^\[?[IW]\d{3,4} \d\d:|^\[[IWD]\d* |^\(\w+ pid=\d+\) (?:INFO|WARNING|DEBUG) "
    r"|[\[\s|:-](?:WARNING|WARN|INFO|DEBUG)(?:\]| -| ?\||:| \d\d-\d\d \d\d:| \[)"
    r"|(?:User|Deprecation|Future|Runtime|Resource|Import|Syntax)Warning: |: warning: |NCCL INFO "
    r"|\] (?:WARNING|INFO|DEBUG) \S+:\d+|\blevel=(?:warn|info|debug)|\s(?:DEBUG|TRACE)\s"
    r"|\[[IWD]\d{3,4} \d\d:\d\d|^\S+ [\d:.]+: [IWD] \w"
)
# What NCCL warns of is what it then fails with; of a GPU that it cannot use PyTorch only warns, and nothing
# that follows says why; a warning may carry the error of CANN.
_NOT_LOW = pattern(
    r"NCCL WARN|CUDA initialization: |\b(?:ERROR|CRITICAL|FATAL)\b|^\[?[EF]\d{4} "
    # The last word of a launcher that was told to end, whatever level it gives that.
    r"|death signal, shutting down workers|[Pp]rocess received SIG(?:INT|TERM|HUP)\b|Received SIGTERM: 15"
    r"|Terminating with signal \d|signal 15 received|Detected KeyboardInterrupt, attempting graceful"
    r"|[Kk]eyboard ?[Ii]nterrupt(?:ion)?\b"
)
# What was done without: "ERROR: ld.so: object '...' from LD_PRELOAD cannot be preloaded (...): ignored."
_IGNORED = pattern(r"from LD_PRELOAD cannot be preloaded .*: ignored\.?$")
_WARNS = pattern(r"\bWARN|^\[?W\d* ?\d|^\[W|\[W\d|[Ww]arning: |: W ")
_ERROR = pattern(
    r"^[ \t]*\[?(?:ERROR|FATAL|CRITICAL)\b(?![_=%]| (?:rate|count|code: 0\b))|^\[[EF]\d* |^\[?[EF]\d{4} \d\d:"
    r"|[\[\s|](?:ERROR|FATAL|CRITICAL)(?:\]| -| ?\|(?! stderr \|)| \d\d-\d\d \d\d:| \[)"
)


def is_mild(line: str) -> bool:
    """Whether a line calls itself information or a warning."""
    # A level stands at the beginning of a line, behind a time and a name at most.
    if _IGNORED.search(line[-400:].rstrip()):
        return True
    return bool(_LOW.search(line[:300])) and not _NOT_LOW.search(line[:300])


def is_error(line: str) -> bool:
    """Whether a line calls itself an error."""
    return bool(_ERROR.search(line[:300]))


def is_warning(line: str) -> bool:
    """Whether a line calls itself a warning, rather than information."""
    return bool(_WARNS.search(line[:300]))
