"""Machines on which stale-processes says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.checks.leftovers.stale_machine import CONTAINER, JOB, NPU, judged, process, slurm, smi

from npudoctor.testing import Asked, Content


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    many: dict[str, Content] = {}
    for pid in range(100, 130):
        many.update(process(pid, cgroup=JOB))
    yield judged({**many, **process(71, cgroup=CONTAINER)})
    said = {"77": "JobId=77\n   JobState=COMPLETED\n"}
    files = {
        **process(70, variables={"SLURM_JOB_ID": "77"}),
        **process(71, variables={"SLURM_JOB_ID": "78"}),
    }
    yield judged(files, commands=slurm(said))
    yield judged(
        {**NPU, **process(70, state="D", descriptors={3: "/dev/davinci1"}), **process(71, state="D")}
    )
    yield judged({**process(70, state="Z", parent=60), **process(71, state="Z", threads=3)})
    yield judged(process(70, argv=("python", "/opt/kernel_build_server_akg.py")))
    yield judged({**NPU, **process(70, descriptors={3: "/dev/davinci1"})}, commands=smi(0, 0))
    yield judged({**process(70, cgroup=JOB), "/.dockerenv": ""})
