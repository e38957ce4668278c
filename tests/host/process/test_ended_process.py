"""Of a process that has ended and was not waited for, the kernel gives the variables to nobody but root."""

from __future__ import annotations

import pytest

from npudoctor.core.errors import CannotTell
from npudoctor.host.process.examined_variables import read_process_variables
from npudoctor.testing import MemoryDisk, process_files, unreadable


@pytest.mark.parametrize(("state", "said"), [("Z", "process 70 does not exist"), ("S", "cannot be read")])
def test_variables_that_are_forbidden(state: str, said: str) -> None:
    disk = MemoryDisk({**process_files(70, state=state), "/proc/70/environ": unreadable()}, 1000)
    with pytest.raises(CannotTell, match=said):
        read_process_variables(disk, 70)
