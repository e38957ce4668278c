"""One worker in namespaces of its own: plays the rounds it is told, and prints a line of JSON for each.

    unshare -m -i -p -n -f --mount-proc -- python -m tests.torture.worker SEED FIRST STEP END

NPUDOCTOR_TORTURE_PLACE is an empty folder for all that it makes. Every other worker stays on the disk, where
the kernel gives inodes again at once; the rest put a tmpfs over it, which goes with their namespace.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter

from .doctor import Patient
from .scene import PLACE, SPILL, STATE, SUITE, TMP
from .torment import play, states

BLOCK = 10  # rounds that share journals: what an earlier round wrote down must not mislead a later one


def stage(disk: bool) -> None:
    """What is /tmp to npudoctor, and places for spilled data, journals and the suite's own files."""
    if not disk:
        options = "mode=0755,size=1g"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "npudoctor-test", str(PLACE)], check=True)
    PLACE.chmod(0o755)
    for place in (TMP, SPILL, STATE, SUITE):
        place.mkdir(mode=0o755)
    TMP.chmod(0o1777)
    tempfile.tempdir = str(SUITE)


def warm_up() -> None:
    """Load all that a run needs: another user may not be able to read it."""
    machine = Patient()
    machine.dead_server(spill=True)
    machine.state = STATE / "warm"
    assert machine.fix().exit_code == 0
    machine.close()


def main(words: list[str]) -> None:
    """Play."""
    seed, first, step, end = words[0], *map(int, words[1:4])
    os.umask(0o022)
    stage(disk=first % 2 == 0)
    warm_up()
    for number in range(first, end, step):
        began = time.monotonic()
        numbers: Counter[str] = Counter()
        block = STATE / str(number // step // BLOCK)
        try:
            wrongs = play(number, seed, numbers, block if block.exists() else states(block))
        except Exception:
            wrongs = [f"the round itself failed: {traceback.format_exc()}"]
        told = {"round": number, "wrongs": wrongs, "numbers": numbers, "seconds": time.monotonic() - began}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
