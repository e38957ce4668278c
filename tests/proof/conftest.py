"""The machine that cache servers are put on."""

from tests.support.fixtures import alone, machine, own_ipc

__all__ = ["alone", "machine", "own_ipc"]
