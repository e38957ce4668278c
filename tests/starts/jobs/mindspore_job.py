"""A job of MindSpore: ranks meet by way of msrun's scheduler, add up, and load data with two workers."""

import os

import mindspore
import numpy as np
from mindspore import Tensor, dataset, ops
from mindspore.communication import get_rank, init


class Ones:
    """Sixteen pieces of data."""

    def __getitem__(self, index: int) -> np.ndarray:
        return np.ones(1024, np.float32)

    def __len__(self) -> int:
        return 16


def main() -> None:
    """One rank."""
    mindspore.set_device("CPU")
    init()
    total = float(ops.AllReduce()(Tensor([get_rank() + 1.0], mindspore.float32)).asnumpy()[0])
    pieces = dataset.GeneratorDataset(
        Ones(), ["x"], num_parallel_workers=2, python_multiprocessing=True, shuffle=False
    )
    loaded = sum(float(row[0].sum()) for row in pieces.create_tuple_iterator(num_epochs=1, output_numpy=True))
    if (total, loaded) != (3.0, 16384.0):
        raise RuntimeError(f"wrong sums: {total}, {loaded}")
    os.write(1, f"STARTED rank {get_rank()}\n".encode())  # whole, whatever the other rank writes


if __name__ == "__main__":
    main()
