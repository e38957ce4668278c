"""run sets what the shell lacks: a job is judged as it will be started, and refused only for what is left."""

from __future__ import annotations

import os
import platform
import re
import sys
from pathlib import Path

import pytest

from ..cli.command import Npudoctor  # noqa: TID252
from ..cli.running import quiet_machine  # noqa: TID252
from ..real import cann_tree  # noqa: TID252

SET = 'echo "$ASCEND_HOME_PATH|$ASCEND_OPP_PATH"; case "$LD_LIBRARY_PATH" in *::*) exit 9; esac'


@pytest.fixture
def cann(npudoctor: Npudoctor) -> Path:
    """A CANN in the home of its user, whose script nobody sourced."""
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
    cann_tree.write(npudoctor.folder, "8.1.RC1", minor, platform.machine())
    (npudoctor.home / "Ascend").symlink_to(npudoctor.folder / "usr/local/Ascend")
    quiet_machine(npudoctor)
    return npudoctor.home / "Ascend/ascend-toolkit/latest"


def test_what_was_only_not_sourced_is_set_and_not_refused(npudoctor: Npudoctor, cann: Path) -> None:
    npudoctor.variables["NPUDOCTOR_EXPECT"] = "npu"
    npudoctor.variables["NPUDOCTOR_IGNORE"] = "accelerator"  # there is none here
    before = npudoctor("check", "cann-env", "--fail-on", "warning")
    assert before.status == 1 and "cann-env.not-sourced" in before.out
    done = npudoctor("run", "sh", "-c", SET)
    assert (done.status, done.out) == (0, f"{cann}|{cann}/opp\n"), done.err
    told = npudoctor("run", "-v", "true").err
    assert "npudoctor: set for the job: ASCEND_" in told and re.search(r"ok +cann-env", told)


def test_what_is_right_already_is_left_alone(npudoctor: Npudoctor, cann: Path) -> None:
    done = npudoctor.shell('eval "$("$@" env)"; "$@" run -v sh -c \'env | sort >job\'; env | sort >shell')
    assert done.status == 0 and "set for the job" not in done.err
    mine = [
        [
            line
            for line in (npudoctor.folder / name).read_text().splitlines()
            if line.split("=")[0] not in ("_", "SHLVL")
        ]
        for name in ("job", "shell")
    ]
    assert mine[0] == mine[1]


def test_what_cannot_be_set_is_refused(npudoctor: Npudoctor, cann: Path) -> None:
    done = npudoctor("run", "--expect", "npu", "touch", "begun")
    assert done.status == 125 and "accelerator." in done.err
    assert not (npudoctor.folder / "begun").exists()


def test_eight_ranks_get_what_the_first_one_computed(npudoctor: Npudoctor, cann: Path) -> None:
    line = '"$@" run sh -c \'echo "$LOCAL_RANK $ASCEND_OPP_PATH"; sleep 1\''
    start = f"for rank in 0 1 2 3 4 5 6 7; do LOCAL_RANK=$rank LOCAL_WORLD_SIZE=8 {line} & done; wait"
    done = npudoctor.shell(start)
    assert sorted(done.out.splitlines()) == [f"{rank} {cann}/opp" for rank in range(8)]
    assert os.environ.get("ASCEND_OPP_PATH") is None or done.err == ""
