"""gpu-busy: nobody else holds the GPUs that this job gets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional, Union

import pytest
from tests.checks.device.test_npu_busy import SELF, USERS, me, one

from npudoctor import Action, Severity, Status
from npudoctor.checks.gpu.gpu_busy import gpu_busy
from npudoctor.facts.gpu.nvml import APPS, FORMAT, GPUS, NO_MODULE, SCRIPT
from npudoctor.host.process.commands import Answer
from npudoctor.testing import Asked, Content, ask, fake_host, link
from npudoctor.testing import device as device_node

PYTHON = os.path.basename(sys.executable)
NODES: dict[str, Content] = {f"/dev/nvidia{number}": device_node() for number in range(2)}
CONTAINER: dict[str, Content] = {"/.dockerenv": ""}
ABSENT = Answer((PYTHON,), "exited", NO_MODULE)


def gpu(
    index: int, *processes: tuple[int, Optional[int], bool], used: int = 4, **more: Any
) -> dict[str, Any]:
    """One GPU as the child tells it; memory in MiB, in `processes` too."""
    held = [[pid, None if memory is None else memory << 20, compute] for pid, memory, compute in processes]
    told = {"index": index, "uuid": f"GPU-{index}a2b", "name": "NVIDIA H100", "mig": False}
    return {**told, "used": used << 20, "total": 81559 << 20, "processes": held, **more}


def judge(
    told: Union[str, Answer, list[dict[str, Any]], None],
    *parts: Mapping[str, Content],
    tool: Optional[tuple[str, str]] = None,
    **more: Any,
) -> Asked:
    """What gpu-busy says of it. `tool`: what nvidia-smi answers instead to its two questions."""
    answer = json.dumps(told) if isinstance(told, list) else told
    commands: dict[Any, Any] = {} if answer is None else {PYTHON: answer}
    if tool is not None:
        for question, text in zip((f"--query-gpu={GPUS}", f"--query-compute-apps={APPS}"), tool):
            commands["nvidia-smi", question, FORMAT] = text
    files = dict(NODES)
    for part in (USERS, *parts):
        files.update(part)
    return ask(gpu_busy, fake_host(files, commands=commands, **more))


IDLE = [gpu(0), gpu(1)]
BUSY = [gpu(0, (71001, 30000, True), used=30010), gpu(1)]
FULL = [gpu(0), gpu(1, used=60000)]


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield ask(gpu_busy, fake_host())
    yield judge(BUSY, me(), one(71001, uid=1001))
    yield judge(BUSY, me(), one(71001, 600, 500))
    yield judge(FULL)
    yield judge(FULL, CONTAINER)
    yield judge([gpu(0, mig=True)])
    yield judge([gpu(0), gpu(1, name="NVIDIA T4")], variables={"CUDA_VISIBLE_DEVICES": "1"})
    yield judge([gpu(0), gpu(1, trouble="GPU requires reset")])
    yield judge([gpu(0), gpu(1, trouble="GPU is lost")])
    yield judge([gpu(0, (0, 30000, True), used=30010)])
    yield judge(Answer((PYTHON,), "exited", 1, stderr="x" * 300))
    yield judge("?")
    yield judge(ABSENT)
    yield judge(ABSENT, tool=("no table", ""))
    yield judge(Answer((PYTHON,), "timeout"))
    yield judge(Answer((PYTHON,), "exited", 1, stderr="NVML: Driver/library version mismatch\n"))


VISIBLE = "CUDA_VISIBLE_DEVICES"
SMI_IDLE = (
    "0, GPU-0a2b, NVIDIA H100 80GB HBM3, 4, 81559, Disabled, Disabled\n"
    "1, GPU-1a2b, NVIDIA H100 80GB HBM3, 4, 81559, Disabled, Disabled\n"
)


def test_quiet_when_idle() -> None:
    for parts in ((), (CONTAINER,)):
        asked = judge(IDLE, *parts)
        assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts["devices"] == {
        f"GPU {number}": {"used": 4, "total": 81559, "pids": []} for number in (0, 1)
    }


def test_held_by_a_stranger() -> None:
    (finding,) = judge(BUSY, me(), one(71001, uid=1001), variables={VISIBLE: "0,1"}).findings
    assert (finding.code, finding.device, finding.severity) == ("gpu-busy.held", "GPU 0", Severity.WARNING)
    assert finding.message == "GPU 0 is held by pid 71001 (python3, bob): 30000 MB of 81559 MB"


@pytest.mark.parametrize(
    ("variables", "uid", "severity"),
    [({}, 1001, Severity.INFO), ({}, 0, Severity.WARNING), ({VISIBLE: "0"}, 1001, Severity.WARNING)],
)
def test_how_bad_it_is(variables: Mapping[str, str], uid: int, severity: Severity) -> None:
    (finding,) = judge(BUSY, me(), one(71001, uid=uid), variables=variables).findings
    assert finding.severity is severity


@pytest.mark.parametrize(
    ("value", "labels"),
    [
        ("1", ["GPU 1"]),
        ("1,0", ["GPU 1", "GPU 0"]),
        ("GPU-1", ["GPU 1"]),
        ("1,-1,0", ["GPU 1"]),
        ("1,1", ["GPU 1"]),
        ("", []),
        ("-1", []),
        ("7", []),
        ("GPU-", []),
        ("MIG-1a2b", []),
    ],
)
def test_only_the_gpus_of_this_job(value: str, labels: list[str]) -> None:
    asked = judge(IDLE, variables={VISIBLE: value})
    assert list(asked.facts["devices"]) == labels  # type: ignore[call-overload]
    assert asked.status is (Status.OK if labels else Status.SKIPPED)


def test_numbers_of_several_models() -> None:
    mixed = [gpu(0), gpu(1, name="NVIDIA T4", used=9000)]
    asked = judge(mixed, variables={VISIBLE: "1"})
    assert (asked.status, asked.advisory, asked.codes) == (Status.UNKNOWN, True, [])
    by_bus = {VISIBLE: "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert judge(mixed, variables=by_bus).codes == ["gpu-busy.memory-held"]
    assert judge(mixed, variables={VISIBLE: "GPU-0a2b"}).codes == []


def test_our_own_and_services_are_no_strangers() -> None:
    assert judge(BUSY, me(), one(71001, SELF)).codes == []
    assert judge(BUSY, me(), one(71001, name="nvidia-cuda-mps")).codes == []
    drawing = [gpu(0, (71001, 3000, False), used=3010), gpu(1)]
    assert judge(drawing, me(), one(71001, uid=1001, name="Xorg")).codes == []


def test_memory_without_an_owner() -> None:
    (finding,) = judge(FULL).findings
    assert (finding.code, finding.severity, finding.device) == (
        "gpu-busy.memory-held",
        Severity.WARNING,
        "GPU 1",
    )
    assert "no visible process accounts for 60000 MB" in finding.message
    assert judge([gpu(0, used=1000)]).codes == []
    secret = [gpu(0, (SELF, None, True), used=60000)]
    assert judge(secret, me()).codes == []


def test_in_a_container() -> None:
    pid_of_the_host = judge(BUSY, CONTAINER, me())
    for asked, device in ((judge(FULL, CONTAINER), "GPU 1"), (pid_of_the_host, "GPU 0")):
        (finding,) = asked.findings
        assert (asked.status, finding.code) == (Status.PROBLEM, "gpu-busy.memory-held")
        assert (finding.device, finding.severity) == (device, Severity.WARNING)
        assert "this container cannot see which process uses it" in finding.message
    opened: dict[str, Content] = {f"/proc/{SELF}/fd/7": link("/dev/nvidia1")}
    asked = judge(FULL, CONTAINER, me(), opened)
    assert (asked.status, asked.advisory, asked.codes) == (Status.UNKNOWN, True, [])
    assert "GPU 1" in asked.reason
    assert judge(BUSY, CONTAINER, me(), one(71001)).codes == ["gpu-busy.held"]
    assert judge(BUSY, CONTAINER, me(), one(71001, SELF)).status is Status.OK


def test_split_gpus() -> None:
    asked = judge([gpu(0, mig=True, used=60000)])
    assert (asked.status, asked.advisory, asked.codes) == (Status.UNKNOWN, True, [])


def test_by_nvidia_smi() -> None:
    held = "GPU-0a2b, 71001, 30000\n"
    assert judge(ABSENT, tool=(SMI_IDLE, "")).status is Status.OK
    busy = SMI_IDLE.replace(" 4, 81559", " 30010, 81559", 1)
    (finding,) = judge(ABSENT, me(), one(71001, uid=0), tool=(busy, held)).findings
    assert finding.code == "gpu-busy.held"
    assert judge(ABSENT, tool=(busy, "")).codes == ["gpu-busy.memory-held"]
    screen = busy.replace("Disabled\n", "Enabled\n", 1)
    assert judge(ABSENT, tool=(screen, "")).codes == []
    secret = judge(ABSENT, me(), one(71001), tool=(busy, "GPU-0a2b, 71001, [N/A]\n"))
    assert secret.codes == ["gpu-busy.held"]
    split = SMI_IDLE.replace("Disabled, Disabled", "Enabled, Disabled")
    assert judge(ABSENT, tool=(split, "")).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("told", "tool", "advisory", "words"),
    [
        (ABSENT, None, True, "nvidia-smi is not installed"),
        (Answer((PYTHON,), "untrusted"), None, True, "nvidia-smi is not installed"),
        (
            Answer((PYTHON,), "exited", 1, stderr="NVML Shared Library Not Found"),
            None,
            True,
            "nvidia-ml-py is not installed",
        ),
        ("?", None, False, "the output of nvidia-ml-py cannot be parsed"),
        ('[{"index": 0}]', None, False, "the output of nvidia-ml-py cannot be parsed"),
        (Answer((PYTHON,), "timeout"), None, False, "does not answer"),
        (Answer((PYTHON,), "exited", 1, stderr="NVML: mismatch\n"), None, False, "NVML: mismatch"),
        (ABSENT, ("Field is not a valid field\n", ""), False, "the output of nvidia-smi cannot be parsed"),
        (ABSENT, (Answer(("nvidia-smi",), "timeout"), ""), False, "timeout"),
    ],
)
def test_cannot_tell(told: object, tool: object, advisory: bool, words: str) -> None:
    asked = judge(told, tool=tool)  # type: ignore[arg-type]
    assert (asked.status, asked.advisory, asked.codes) == (Status.UNKNOWN, advisory, [])
    assert words in asked.reason


LOST = SMI_IDLE.replace("H100 80GB HBM3, 4, 81559, Disabled", "H100 80GB HBM3, {0}, {1}, {0}", 1)


@pytest.mark.parametrize(
    ("used", "total", "words"),
    [
        ("[Unknown Error]", "[Unknown Error]", "GPU 0: Unknown Error"),
        ("[GPU is lost]", "81559", "GPU 0: GPU is lost"),
        ("0", "0", "GPU 0: memory.total 0"),
        ("[" + "x" * 5000, "0", "x... (the output was cut)"),
    ],
)
def test_a_gpu_that_the_tool_cannot_ask(used: str, total: str, words: str) -> None:
    held = "GPU-1a2b, 71001, 30000\n"
    asked = judge(ABSENT, me(), one(71001, uid=0), tool=(LOST.format(used, total), held))
    assert (asked.status, asked.advisory, asked.codes) == (Status.UNKNOWN, False, ["gpu-busy.held"])
    assert asked.reason.endswith(words) and len(asked.reason) < 300
    assert judge(ABSENT, tool=(LOST.format(used, total), ""), variables={VISIBLE: "1"}).status is Status.OK


@pytest.mark.parametrize("told", ["[N/A]", "[Insufficient Permissions]", "[Not Supported]"])
def test_what_the_driver_has_not_is_no_trouble(told: str) -> None:
    assert judge(ABSENT, tool=(LOST.format(told, told), "")).status is Status.OK


def test_a_gpu_that_must_be_reset() -> None:
    row = ", ".join(["[GPU requires reset]"] * 7) + "\n"
    table = SMI_IDLE.splitlines(keepends=True)[0] + row
    for variables in ({}, {VISIBLE: "1"}, {VISIBLE: "GPU-1a2b"}):
        (finding,) = judge(ABSENT, tool=(table, ""), variables=variables).findings
        assert (finding.code, finding.device) == ("gpu-busy.reset-required", "GPU 1")
        assert (finding.severity, finding.action) == (Severity.WARNING, Action.RESET_DEVICE)
    assert judge(ABSENT, tool=(table, ""), variables={VISIBLE: "GPU-0a2b"}).status is Status.OK
    for words in ("GPU requires reset", "GPU requires restart"):
        assert judge([gpu(0), gpu(1, trouble=words)]).codes == ["gpu-busy.reset-required"]


def test_by_nvml_a_gpu_that_cannot_be_asked() -> None:
    asked = judge([gpu(0), gpu(1, trouble="GPU is lost", used=0, total=None)], CONTAINER)
    assert (asked.status, asked.advisory) == (Status.UNKNOWN, False) and "GPU 1: GPU is lost" in asked.reason
    assert "GPU 1: memory.total 0" in judge([gpu(0), gpu(1, total=0)]).reason


def test_a_process_without_a_number() -> None:
    busy = SMI_IDLE.replace(" 4, 81559", " 30010, 81559")
    held = "GPU-0a2b, [N/A], 30000\nGPU-1a2b, 71001, 30000\n"
    asked = judge(ABSENT, me(), one(71001, uid=1001), tool=(busy, held))
    assert (asked.status, asked.advisory, asked.codes) == (Status.UNKNOWN, False, ["gpu-busy.held"])
    assert asked.reason == "GPU 0: in use, but the driver does not report by which process"
    assert asked.findings[0].severity is Severity.WARNING  # no GPU is known to be free
    inside = judge(ABSENT, CONTAINER, me(), one(71001, uid=1001), tool=(busy, held))
    assert (inside.status, inside.codes) == (Status.PROBLEM, ["gpu-busy.held", "gpu-busy.memory-held"])


def test_what_a_tool_says_is_a_line() -> None:
    mismatch = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161\n"
    failed = Answer(("nvidia-smi",), "exited", 18, mismatch)
    assert judge(ABSENT, tool=(failed, "")).reason.endswith(mismatch.splitlines()[0])  # type: ignore[arg-type]
    for text, words in (("y" * (1 << 20), "y" * 200), ("y\n" * (1 << 19), "y")):
        flood = Answer(("nvidia-smi",), "flooded", None, text)
        reason = judge(ABSENT, tool=(flood, "")).reason  # type: ignore[arg-type]
        assert reason.endswith(f": {words}... (the output was cut)") and len(reason) < 300
    broken = Answer(
        (PYTHON,), "exited", 1, stderr='Traceback (most recent call last):\n  File "x"\nOSError: x'
    )
    assert judge(broken).reason.endswith(": OSError: x")


def test_skipped() -> None:
    assert ask(gpu_busy, fake_host()).status is Status.SKIPPED
    image: dict[str, Content] = dict(NODES)
    assert ask(gpu_busy, fake_host(image, root="/image")).status is Status.SKIPPED
    assert not gpu_busy.quick


STAND_IN = """
class NVMLError(Exception): pass
nvmlMemory_v2 = 2
def nvmlInit():
    import os
    if os.environ.get("BROKEN"): raise NVMLError("Driver/library version mismatch")
def nvmlDeviceGetCount(): return 1
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetUUID(h): return b"GPU-77"
def nvmlDeviceGetName(h): return "NVIDIA H200"
class Thing:
    def __init__(self, **values): self.__dict__.update(values)
def nvmlDeviceGetMemoryInfo(h, version=None):
    if version: raise NVMLError("too new")
    return Thing(used=5 << 30, total=139 << 30)
def nvmlDeviceGetComputeRunningProcesses(h): return [Thing(pid=PID, usedGpuMemory=5 << 30)]
def nvmlDeviceGetMigMode(h): raise NVMLError("Not Supported")
"""


def test_the_child_itself(tmp_path: Path) -> None:
    """With a stand-in for nvidia-ml-py, on a driver that has not all."""

    def run(**more: str) -> subprocess.CompletedProcess[str]:
        environment = {"PYTHONPATH": str(tmp_path), "PATH": os.environ["PATH"], **more}
        command = [sys.executable, "-S", "-c", SCRIPT]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert run().returncode == NO_MODULE
    (tmp_path / "pynvml.py").write_text(STAND_IN.replace("PID", str(SELF)))
    told = json.loads(run().stdout)
    (found,) = judge(told, me()).facts["devices"].items()  # type: ignore[attr-defined]
    assert found == ("GPU 0", {"used": 5120, "total": 142336, "pids": [SELF]})
    ill = "def nvmlDeviceGetHandleByIndex(index): raise NVMLError('GPU is lost')\n"
    for more, words in ((ill, "GPU is lost"), (ill.replace("HandleByIndex", "MemoryInfo"), "GPU is lost")):
        (tmp_path / "pynvml.py").write_text(STAND_IN.replace("PID", "1") + more)
        assert [gpu["trouble"] for gpu in json.loads(run().stdout)] == [words]
    (tmp_path / "pynvml.py").write_text(STAND_IN.replace("PID", "1"))
    broken = run(BROKEN="1")
    assert (broken.returncode, broken.stderr) == (1, "NVML: Driver/library version mismatch\n")


def test_what_was_left_in_the_background_is_told() -> None:
    (finding,) = judge(BUSY, me(), one(71001, 600, 500), variables={VISIBLE: "0"}).findings
    assert (finding.code, finding.weight) == ("gpu-busy.held-by-session", Severity.INFO)
    assert "pid 71001" in finding.message
