"""All machines of the corpus."""

from __future__ import annotations

from . import folders, kernel, limits, names, network, spaces
from .machine import Machine

MACHINES: tuple[Machine, ...] = (
    Machine("torchrun-healthy", "torchrun", False, "the healthy machine"),
    Machine("msrun-healthy", "msrun", False, "the healthy machine"),
    Machine("multiprocessing-healthy", "multiprocessing", False, "the healthy machine"),
    *network.MACHINES,
    *names.MACHINES,
    *limits.MACHINES,
    *folders.MACHINES,
    *kernel.MACHINES,
    *spaces.MACHINES,
)

__all__ = ["MACHINES", "Machine"]
