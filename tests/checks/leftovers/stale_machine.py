"""Machines with processes of every kind, and a clock on which something happens between two looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, Union

from npudoctor.checks.leftovers.stale_processes import stale_processes
from npudoctor.host import Host
from npudoctor.host.process.commands import CommandResult
from npudoctor.testing import (
    OUR_PID,
    UPTIME,
    Asked,
    Content,
    FakeClock,
    MemoryDisk,
    ask,
    device,
    fake_host,
    link,
    process_files,
)

NOW = 1_800_000_000.0
ID = "5f" * 32
JOB = "0::/system.slice/slurmstepd.scope/job_4242/step_0/user/task_0\n"
CONTAINER = f"0::/system.slice/docker-{ID}.scope\n"
SHELL = "0::/user.slice/user-1000.slice/session-3.scope\n"
SERVICE = "0::/system.slice/serving.service\n"
USER = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope\n"
OURS = OUR_PID
NPU: dict[str, Content] = {"/dev/davinci0": device(), "/dev/davinci1": device()}
GPU: dict[str, Content] = {"/dev/nvidia0": device()}


def process(
    pid: int,
    name: str = "python3",
    cgroup: str = SHELL,
    *,
    variables: Union[Mapping[str, str], None] = None,
    threads: int = 1,
    cpu: int = 7,
    **more: Any,
) -> dict[str, Content]:
    more.setdefault("argv", (name, "train.py"))
    files = process_files(pid, name, **more)
    stat = str(files[f"/proc/{pid}/stat"])
    head, _bracket, tail = stat.rpartition(")")
    fields = tail.split()
    fields[11], fields[17] = str(cpu), str(threads)
    environ = "".join(f"{key}={value}\0" for key, value in (variables or {}).items())
    return {
        **files,
        f"/proc/{pid}/stat": f"{head}) {' '.join(fields)}",
        f"/proc/{pid}/cgroup": cgroup,
        f"/proc/{pid}/environ": environ,
    }


BASE: dict[str, Content] = {
    "/proc/self/ns/pid": link("pid:[4026531836]"),
    "/proc/self/ns/cgroup": link("cgroup:[4026531835]"),
    **process(1, "systemd", "0::/init.scope\n", parent=0, argv=("/sbin/init",)),
    **process(2, "kthreadd", "0::/\n", parent=0, argv=()),
    **process(30, "slurmd", "0::/system.slice/slurmd.service\n", argv=("/usr/sbin/slurmd", "-D")),
    **process(980, "bash", argv=("bash",)),
    **process(OURS, "npudoctor", parent=980),
    "/etc/passwd": "root:x:0:0::/root:/bin/sh\nanna:x:1001:1001::/home/anna:/bin/sh\n",
}


class Between(FakeClock):
    """Calls `happens` when it is told to wait."""

    def __init__(self, happens: Callable[[], object]) -> None:
        super().__init__(NOW, uptime=UPTIME)
        self._happens = happens

    def wait_until(self, steady: float) -> None:
        super().wait_until(steady)
        self._happens()


def machine(files: Mapping[str, Content], between: Mapping[str, Content] = {}, **more: Any) -> Host:
    """A host with these processes; `between` is put in place between two looks."""
    host = fake_host({**BASE, **files}, now=NOW, **more)
    disk = host.disk
    assert isinstance(disk, MemoryDisk)

    def happen() -> None:
        for path, content in between.items():
            disk.put(path, content)

    host._parts["clock"] = Between(happen)
    return host


def judged(files: Mapping[str, Content], between: Mapping[str, Content] = {}, **more: Any) -> Asked:
    return ask(stale_processes, machine(files, between, **more))


RULE = f"+{'-' * 27}+{'-' * 15}+{'-' * 70}+"
HEAD = f"""{RULE}
| npu-smi 25.0.1                              Version: 25.0.1 |
{RULE}
| NPU   Name         | Health        | Power(W)      Temp(C)            Hugepages-Usage(page)   |
| Chip               | Bus-Id        | AICore(%)     Memory-Usage(MB)   HBM-Usage(MB)           |
{RULE}
"""
FIRST_LINE = "| {number}     910B3 | OK            | 90.0    40               0    / 0         |"
SECOND_LINE = "| 0           | 0000:01:00.0  | {rate}    0    / 0       3400 / 65536 |"


def screen(*rates: int) -> str:
    """What npu-smi prints for NPUs of one chip each, so busy."""
    lines = []
    for number, rate in enumerate(rates):
        lines += [FIRST_LINE.format(number=number), SECOND_LINE.format(rate=rate), RULE]
    return HEAD + "\n".join(lines) + "\n"


def smi(*rates: int) -> dict[Union[str, tuple[str, ...]], Union[str, CommandResult]]:
    return {"npu-smi": screen(*rates)}


def slurm(
    answers: Mapping[str, Union[str, CommandResult]],
) -> dict[Union[str, tuple[str, ...]], Union[str, CommandResult]]:
    """A scontrol that knows these jobs; all others are invalid."""
    told: dict[Union[str, tuple[str, ...]], Union[str, CommandResult]] = {
        ("scontrol", "show", "job", job): answer for job, answer in answers.items()
    }
    refusal = "slurm_load_jobs error: Invalid job id specified\n"
    told["scontrol"] = CommandResult(("scontrol",), "exited", 1, "", refusal)
    return told


def pids(asked: Asked, code: str) -> list[int]:
    """The processes that the findings with this code name in their evidence."""
    lines = [line for one in asked.findings if one.code.endswith(code) for line in one.evidence]
    return [int(line.split()[1].rstrip(",")) for line in lines if line.startswith("pid ")]
