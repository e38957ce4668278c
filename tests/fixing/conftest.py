"""The machine that cache servers are put on."""

from tests.support.fixtures import machine, own_ipc

__all__ = ["machine", "own_ipc"]
