"""The fixture `machine`, with System V IPC of its own where we are root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from . import ipc
from .machine import Machine


@pytest.fixture(scope="module")
def own_ipc() -> Iterator[None]:
    """An IPC namespace for this module's tests: nobody else's segments are seen, nor can ours stay."""
    with open("/proc/thread-self/ns/ipc", encoding="ascii") as before:
        if os.geteuid() == 0:
            with suppress(
                PermissionError
            ):  # a container without the right to: the segments are removed by id
                ipc.unshare("ipc")
        yield
        if os.geteuid() == 0:
            with suppress(PermissionError):
                ipc.checked(ipc.libc.setns(before.fileno(), ipc.NEW_NAMESPACE["ipc"]), "setns")


@pytest.fixture
def machine(own_ipc: None) -> Iterator[Machine]:
    """A machine of the test's own."""
    made = Machine()
    yield made
    made.close()
