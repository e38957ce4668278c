"""The memory of a job, taken for real under limits."""

from __future__ import annotations

import errno
import resource
from pathlib import Path

import pytest
from tests.trial.starting import refusals, tried

pytestmark = pytest.mark.whole
MIB = 1 << 20


def test_without_limits_all_is_given() -> None:
    trial = tried("memory", reserve=64 << 30, touch=True)
    assert refusals(trial) == {} and (trial.hung, trial.died) == (None, None)
    assert [attempt.what for attempt in trial.attempts] == [
        *("reserve", "grow", "touch", "lock", "execute", "ctypes")
    ]


@pytest.mark.parametrize(
    ("limit", "value", "refused"),
    [
        (resource.RLIMIT_AS, 1 << 30, {"reserve"}),
        (resource.RLIMIT_AS, 200 * MIB, {"reserve", "touch"}),
        (resource.RLIMIT_DATA, 100 * MIB, {"touch"}),
        (resource.RLIMIT_DATA, 12 * MIB, {"grow", "touch"}),
    ],
)
def test_a_limit_refuses(limit: int, value: int, refused: set[str]) -> None:
    trial = tried("memory", {limit: value}, reserve=4 << 30, touch=True)
    assert refusals(trial) == dict.fromkeys(refused, errno.ENOMEM)


def test_locked_memory_is_refused() -> None:
    without = ("setpriv", "--bounding-set=-ipc_lock")
    trial = tried("memory", {resource.RLIMIT_MEMLOCK: 0}, without, reserve=4 << 30, touch=False)
    assert set(refusals(trial)) == {"lock"}
    assert "touch" not in [attempt.what for attempt in trial.attempts]


def test_nothing_is_tried_where_the_child_does_not_get_that_far() -> None:
    trial = tried("memory", python="/bin/false", reserve=1, touch=False)
    assert trial.attempts == () and trial.died == "" and trial.signal == 0


def test_what_another_prints_is_no_answer(tmp_path: Path) -> None:
    """The job's variables may start something in the child that prints lines like ours."""
    lines = r'{"what": "reserve", "facts": 5}\n{"end": true}\n'
    (tmp_path / "sitecustomize.py").write_text(f"import os\nos.write(1, b'{lines}')\nos._exit(0)\n")
    trial = tried("memory", before=("env", f"PYTHONPATH={tmp_path}"), reserve=1, touch=False)
    assert (trial.attempts, trial.died) == ((), "")
