"""A job of PyTorch: each rank meets the other over gloo, adds up, and loads data with two workers."""

import datetime
import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    """One rank."""
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
    total = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(total)
    loader = DataLoader(TensorDataset(torch.ones(64, 1024)), batch_size=8, num_workers=2)
    loaded = sum(float(batch.sum()) for (batch,) in loader)
    if (total.item(), loaded) != (3.0, 65536.0):
        raise RuntimeError(f"wrong sums: {total.item()}, {loaded}")
    dist.barrier()
    os.write(1, f"STARTED rank {dist.get_rank()}\n".encode())  # whole, whatever the other rank writes
    dist.destroy_process_group()
    os._exit(0)  # gloo's threads may abort a plain exit


if __name__ == "__main__":
    main()
