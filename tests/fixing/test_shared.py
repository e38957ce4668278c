"""Files of shared memory are removed only while all that proved them left behind still holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from tests.checks.leftovers.test_shared_files_real import SCENE

# In a /dev/shm of its own: `run` carries the fix out after `between`, `took` takes one step alone.
FIXING = (
    SCENE
    + """
from dataclasses import replace
from npudoctor.fixing.apply import apply_step
from npudoctor.fixing.steps import RemoveSharedFile
from npudoctor.host.identity import current_identity

def host(hours=1.0, owners=frozenset(), **more):
    files = Files(LocalDisk())
    return Host(Options(expect="none"), clock=FakeClock(time.time() + hours * 3600),
                system=Bare(files.disk, files), identity=current_identity(owners))

def step_of(path, pid):
    found = os.stat(path)
    return RemoveSharedFile(path, found.st_dev, found.st_ino, found.st_ctime_ns, found.st_uid, pid)

def took(step, **more):
    outcome = apply_step(step, host(**more))
    print(json.dumps([outcome.ending.value, outcome.reason, os.path.exists(step.path)]), flush=True)

pid = dead()
path = make("torch_%d_77_0" % pid)
step = step_of(path, pid)
"""
)


def said(body: str) -> list[Any]:
    mount = 'mount -t tmpfs -o mode=1777 tmpfs /dev/shm && exec "$@"'
    own = ["unshare", "-m", "-i", "--propagation", "private", "sh", "-c", mount, "sh"]
    done = subprocess.run(
        [*own, sys.executable, "-c", FIXING + body], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(autouse=True)
def _first_namespace(lack: Any) -> None:
    if os.geteuid() != 0 or os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
        lack("root of the first pid namespace: elsewhere nothing is proven")


def test_it_goes_and_a_second_time_is_gone() -> None:
    assert said("took(step)\ntook(step)") == [
        ["applied", "", False],
        ["already", "it is gone already", False],
    ]


@pytest.mark.parametrize(
    ("between", "why"),
    [
        ("child = mapper(path)", "uses it"),
        (
            "kept = os.open(path, os.O_RDONLY); child = subprocess.Popen(['sleep', '9'], pass_fds=[kept])",
            "uses it",
        ),
        ("os.unlink(path); make(path.rpartition('/')[2])", "was replaced"),
        ("os.unlink(path); os.symlink('/etc/passwd', path)", "was replaced"),
        ("time.sleep(0.01); os.truncate(path, 5)", "was replaced"),
        ("os.chown(path, 61234, 61234)", "was replaced"),
        ("os.link(path, path + '_x'); step = step_of(path, pid)", "2 names"),
        (
            "os.chmod('/dev/shm', 0o777); os.chown(path, 61234, 61234); step = step_of(path, pid)",
            "belongs to",
        ),
        ("step = replace(step, pid=os.getpid())", "is not what training makes"),
        ("step = replace(step, path='/dev/null')", "is not what training makes"),
        ("path = make('psm_1a2b3c4d'); step = step_of(path, 0)", "is not what training makes"),
    ],
)
def test_what_changed_since_stays(between: str, why: str) -> None:
    ((ending, reason, there),) = said(f"child = None\n{between}\ntook(step)\nchild and child.kill()")
    assert (ending, there) == ("refused", True)
    assert why in reason


def test_a_maker_that_lives_and_one_that_is_young() -> None:
    body = """
living = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(9)"])
name = make("torch_%d_1" % living.pid)
took(step_of(name, living.pid))
took(step, hours=0.01)
living.kill()
"""
    lives, young = said(body)
    assert lives[0] == young[0] == "refused"
    assert "lives" in lives[1] and "minutes old" in young[1]


def test_anothers_only_when_he_was_named() -> None:
    body = """
os.chown(path, 61234, 61234)
step = step_of(path, pid)
took(step)
took(step, owners=frozenset({61234}))
"""
    refused, applied = said(body)
    assert refused[0] == "refused" and "--owner" in refused[1]
    assert applied == ["applied", "", False]


def test_where_others_may_replace_it_another_users_stays() -> None:
    body = """
os.chown(path, 61234, 61234)
step = step_of(path, pid)
os.chmod("/dev/shm", 0o777)
took(step, owners=frozenset({61234}))
"""
    ((ending, reason, there),) = said(body)
    assert (ending, there) == ("refused", True) and "others may write /dev/shm" in reason


def test_from_the_check_to_the_removal() -> None:
    body = """
(finding,) = asked(shared_memory, host()).findings
print(json.dumps([finding.fix.risk.name, [list(one.lines()) for one in finding.fix.steps]]))
for one in finding.fix.steps:
    took(one)
print(json.dumps([one.code for one in asked(shared_memory, host()).findings]))
"""
    shown, ended, after = said(body)
    assert shown[0] == "CAUTION" and len(shown[1]) == 1
    assert ended[0] == "applied" and after == []
