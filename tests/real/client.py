"""A client of the dataset cache, run by the Python that has MindSpore.

usage: client.py PORT SESSION SEED memory|spill|none [hold]

Reads a data set of random rows through the cache of SESSION, filling it where it is empty, and prints one
line of JSON: how many rows, a checksum of all of them, and the cache's statistics. SEED decides the rows
unless they come out of a cache: another seed with the same checksum proves that the cached rows were read.
`hold` stays attached to the server's segment until stdin ends.
"""

from __future__ import annotations

import json
import sys
import zlib
from typing import Any

import mindspore
import mindspore.dataset as data

ROWS = 200
ROW_BYTES = 65536
MEMORY_MIB = {
    "memory": 0,
    "spill": 1,
}  # 0 is without limit; 1 MiB of 12.5 MiB makes the server spill the rest


def cache_of(port: int, session: int, kind: str) -> Any:
    """The cache that the rows go through, or none."""
    if kind == "none":
        return None
    return data.DatasetCache(session, MEMORY_MIB[kind], kind == "spill", "127.0.0.1", port, num_connections=1)


def main(port: int, session: int, seed: int, kind: str, hold: bool) -> None:
    """Read all rows once."""
    data.config.set_seed(seed)
    schema = data.Schema()
    schema.add_column("image", mindspore.uint8, [ROW_BYTES])
    cache = cache_of(port, session, kind)
    rows = data.RandomDataset(ROWS, schema, num_parallel_workers=1, cache=cache)
    read, checksum = 0, 0
    for (row,) in rows.create_tuple_iterator(num_epochs=1, output_numpy=True):
        read += 1
        checksum = (checksum + zlib.crc32(row.tobytes())) % 2**32  # the order of rows is not promised
    statistics = cache.get_stat() if cache else None
    counts = {name: getattr(statistics, name, None) for name in ("num_mem_cached", "num_disk_cached")}
    print(json.dumps({"rows": read, "checksum": f"{checksum:08x}", **counts}), flush=True)
    if hold:
        sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], "hold" in sys.argv[5:])
