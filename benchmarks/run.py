"""Measure the speed promises; status 0: all are kept, 1: one is missed, 2: one could not be measured."""

import sys
from pathlib import Path


def start() -> int:
    """Run with the checkout, not this folder, at the head of the path: our file names shadow nothing then."""
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from benchmarks.bench import main

    return main()


if __name__ == "__main__":
    sys.exit(start())
