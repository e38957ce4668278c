"""`npudoctor --version` costs little more than starting Python: nothing heavy may be loaded before it."""

from __future__ import annotations

import re

from benchmarks.promise import CHECKOUT, CannotMeasureError, Command, Output, Promise


def prints_a_version(output: Output) -> str:
    """A start-up that fails early, or prints help instead, would be fast too."""
    text = output.stdout.decode().strip()
    if not re.fullmatch(r"(npudoctor )?\d+\.\d+\S*", text):
        raise CannotMeasureError(f"npudoctor --version printed no version: {text[:80]!r}")
    return f"printed {text!r}"


def prints_nothing(output: Output) -> str:
    """A bare interpreter is silent."""
    if output.stdout or output.stderr:
        raise CannotMeasureError(f"python -c pass printed {(output.stdout + output.stderr)[:80]!r}")
    return "printed nothing"


PROMISE = Promise(
    ours=Command(CHECKOUT, ("npudoctor", "--version"), frozenset({0}), prints_a_version),
    theirs=Command(CHECKOUT, ("python", "-c", "pass"), frozenset({0}), prints_nothing),
    at_most=1.4,  # 1.26 measured; a shell starts the Python that runs nothing else first
    aim=1.2,
    runs=21,
)
