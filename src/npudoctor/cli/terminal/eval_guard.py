"""What a shell evaluates must fail where no answer came: whatever ends `npudoctor env`, however early."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from npudoctor.cli.terminal import output

# These leave standard output empty: usage and configuration errors, and what could not be written.
EMPTY = (64, 74)
ELSEWHERE = ("--f", "--w")  # --format and --write: no shell evaluates what is printed then


def fail_evaluation(argv: Sequence[str], status: int) -> None:
    """Print what makes `eval` fail, where the command was to print lines and has not."""
    if argv[:1] != ["env"] or status in (0, *EMPTY) or output.was_emitted():
        return
    if not any(word.startswith(ELSEWHERE) for word in argv):
        from npudoctor.render.environment import FALSE

        with contextlib.suppress(output.Lost):
            output.emit(FALSE)
