"""The machine that cache servers are put on."""

from tests.support.fixtures import alone, machine, own_ipc
from tests.support.marks import marking

pytest_itemcollected = marking("once", "whole")

__all__ = ["alone", "machine", "own_ipc"]
