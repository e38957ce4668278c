"""A tree of plogs as a job of eight ranks leaves it: in the forms of CANN, with three real failures."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
RANKS = 8
FILE = 20 << 20  # where CANN begins a new file
_DISTINCT = 20_000  # lines of a rank that differ; then they come again in another order

_FORMS = (HERE / "plog_forms.txt").read_text(encoding="ascii").splitlines()
_LEVELS = ("[INFO]", "[INFO]", "[INFO]", "[DEBUG]", "[EVENT]", "[TRACE]")

# What failed, as CANN writes it, and on which rank; the rest of the ranks knows nothing of it yet.
NEEDLES = {
    int(line.split()[0]): line.partition(" ")[2]
    for line in (HERE / "plog_needles.txt").read_text(encoding="ascii").splitlines()
}


def build(folder: Path, size: int) -> int:
    """Write a tree of about this size; its bytes."""
    written = 0
    for rank in range(RANKS):
        written += _rank(folder / f"rank_{rank}" / "debug" / "plog", rank, size // RANKS)
    return written


def _rank(folder: Path, rank: int, size: int) -> int:
    """The files of a rank; its failure, if it has one, stands in the middle."""
    folder.mkdir(parents=True)
    chance = random.Random(rank)  # noqa: S311  (the same tree every time)
    lines = list(_lines(chance, rank))
    needle = NEEDLES.get(rank)
    total = number = 0
    while total < size:
        path = folder / f"plog-{4100 + rank}_202611201000{number:05d}.log"
        with path.open("w", encoding="ascii") as file:
            while file.tell() < min(FILE, size - total):
                file.write("".join(chance.sample(lines, 2000)))
                if needle is not None and total + file.tell() >= size // 2:
                    file.write(needle + "\n")
                    needle = None
            total += file.tell()
        number += 1
    return total


def _lines(chance: random.Random, rank: int) -> Iterator[str]:
    for _number in range(_DISTINCT):
        clock = f"{chance.randrange(24):02d}:{chance.randrange(60):02d}:{chance.randrange(60):02d}"
        text = chance.choice(_FORMS).format(
            pid=4100 + rank,
            time=f"2026-11-20-{clock}.{chance.randrange(1000):03d}.{chance.randrange(1000):03d}",
            line=chance.randrange(20, 3000),
            tid=chance.randrange(4000, 9000),
            big=chance.randrange(10**14, 10**15),
            hex=f"{chance.randrange(16**8):08x}",
            count=chance.randrange(1, 10**7),
            id=chance.randrange(64),
            rank=chance.randrange(RANKS),
            octet=chance.randrange(256),
        )
        yield f"{chance.choice(_LEVELS)} {text}\n"
