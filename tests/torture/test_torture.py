"""Some rounds of the torture: nothing alive or foreign is touched, and one more run finishes the rest.

`make torture` plays a thousand. One that failed is played again by the printed seed and its number.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from typing import Callable

import pytest
from tests.torture.run import UNSHARE, torture

ROUNDS = 40


@pytest.mark.needs_root
def test_nothing_alive_is_touched_and_the_rest_is_finished(lack: Callable[[str], None]) -> None:
    """A few tenths of a second each, on a random seed, for every run of the suite to try others."""
    try:
        subprocess.run([*UNSHARE, "--", "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        lack(f"no namespaces of our own: {error}")
    seed = os.environ.get("NPUDOCTOR_SEED") or secrets.token_hex(4)
    print(f"NPUDOCTOR_SEED={seed}")
    answer = torture(seed, 0, ROUNDS)
    print(answer.table())
    assert not answer.wrongs, answer.wrongs
    assert answer.rounds == ROUNDS
    numbers = answer.numbers
    assert sum(numbers[f"{kind} removed"] for kind in ("segments", "sockets", "spills")) > ROUNDS / 2
    assert numbers["runs killed at a point"] > 0
    assert numbers["foreign segments"] > 0
