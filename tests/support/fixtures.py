"""The fixture `machine`, with System V IPC of its own where we are root."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from . import ipc
from .machine import Machine

PATIENCE = 120.0  # seconds; then it is tried beside the other


@pytest.fixture(scope="module")
def alone() -> Iterator[None]:
    """Wait for other suites on this machine: a server that lives, or that is just starting and does not show
    its port yet, rightly keeps all of ours from being called dead."""
    # Who is in another pid namespace sees none of our servers, nor we theirs.
    space = os.stat("/proc/self/ns/pid").st_ino
    path = Path(tempfile.gettempdir()) / f"npudoctor-tests-{space}.lock"
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except PermissionError:  # another user's
        yield
        return
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        time.sleep(0.05)
    yield
    os.close(lock)


@pytest.fixture(scope="module")
def own_ipc(alone: None) -> Iterator[None]:
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
