"""The whole torture: NPUDOCTOR_ROUNDS rounds (1000), by NPUDOCTOR_SEED, from NPUDOCTOR_FIRST (0) on.

Ends with 1 when something alive or foreign was touched, or something dead was left.
"""

from __future__ import annotations

import os
import secrets
import sys

from .run import Answer, torture


def _progress(answer: Answer) -> None:
    if answer.rounds % 50 == 0:
        sys.stderr.write(f"{answer.rounds} rounds, {answer.wrong_rounds} wrong\n")


def main() -> int:
    """Play them and print the table."""
    seed = os.environ.get("NPUDOCTOR_SEED") or secrets.token_hex(4)
    first, rounds = (int(os.environ.get(f"NPUDOCTOR_{name}") or default)
                     for name, default in (("FIRST", 0), ("ROUNDS", 1000)))  # fmt: skip
    sys.stderr.write(f"NPUDOCTOR_SEED={seed}\n")
    answer = torture(seed, first, rounds, heard=_progress)
    for wrong in answer.wrongs:
        print(wrong)
    print(answer.table())
    return 1 if answer.wrongs else 0


if __name__ == "__main__":
    sys.exit(main())
