"""Lines that are no message of the job: what it shows of scripts, sources, settings and usage, and what it
says itself that it ignores. A word in them means nothing."""

from __future__ import annotations

from npudoctor.core.lazy import pattern

_QUOTED = pattern(
    r"^\++ (?! )"  # what `set -x` echoes
    r"|^#(?:!|SBATCH|PBS|BSUB|\$ -)"
    r"|^usage: |^ {2,}\[?-{1,2}\w[\w-]*[ =\]]"
    r"|[Ii]gnor(?:e|ed|ing) (?:import |this |the )?(?:error|exception|warning)"
    r"|^\[?[Ss]kip(?:ped|ping)?\b\]?:? .{0,80}(?:[Ff]ail|[Ee]rror|[Cc]annot|not found)"
    r"|^--- Logging error ---$"
    r"|:git root error: "  # W&B looks for a repository, and needs none
    r"|\bException ignored (?:in|on calling)"
    r"|\bHTTP/[\d.]+\"? 4\d\d\b"
)
# What the vendor's own documents call harmless, whatever level it has.
_HARMLESS = pattern(r"\bGetInputConstDataOut: ErrorNo: -1\(failed\)")
_SOURCE = pattern(r"^[ \t]*File \"[^\"]+\", line \d+(?:, in \S|$)")
# key=value, or 'key': value of a dict that is printed.
_PAIR = pattern(r"\w=[^,;\s]{0,80}[,;]? |['\"]\w+['\"]: ")
_TROUBLE = pattern(r"(?i)error|fail|exception|fatal|abort")
_DUMP, _PAIRS = 300, 8  # a line so long with so many settings is a dump of the configuration


def is_quotation(line: str) -> bool:
    """Whether a line only shows something."""
    if _QUOTED.search(line[:400]):
        return True
    dump = len(line) >= _DUMP and not _TROUBLE.search(line[:120])
    return dump and sum(1 for _pair in _PAIR.finditer(line[:4096])) >= _PAIRS


def is_harmless(line: str) -> bool:
    """Whether a line is an error by its words alone."""
    return bool(_HARMLESS.search(line[:400]))


def shows_source(before: str) -> bool:
    """Whether the line after this one is a line of a source that a traceback shows."""
    return bool(_SOURCE.match(before))
