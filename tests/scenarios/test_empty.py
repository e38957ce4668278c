"""Where a thing is absent, nothing is said to be well with it: which checks may be ok on a machine that
lacks it."""

from __future__ import annotations

import functools

import pytest

from npudoctor.core.model import Report, Status
from npudoctor.registry.registry import load_all

from . import python_env
from .gpu import gpu_machines
from .machines import Machine, healthy, judge

LOADED = load_all({"NPUDOCTOR_CHECKS_DIR": ""})
KINDS = [("8.3.RC1", "torch"), ("8.3.RC1", "mindspore"), ("8.5.0", "vllm"), ("8.0.0", "paddle")]

# What any machine has: a clock, memory, folders, processes, a user.
MACHINE = frozenset(
    "clock disk-space file-limits memory shm-size temporary-folders working-directory cache-server "
    "shared-memory stale-processes temp-files identity source-shadowing "
    "trial-files trial-memory trial-processes trial-python trial-rendezvous trial-shared-memory".split()
)
# What is looked at where there is an NPU, whatever is installed.
NPU = frozenset(
    "accelerator device-nodes driver-firmware npu-busy npu-health npu-tool hccl-ports hccn-config".split()
)
CANN = frozenset("aicpu-path cann-driver cann-env cann-install library-path log-directory soc-match".split())
GPU = frozenset("accelerator gpu-busy gpu-nodes".split())
# What speaks of CANN in its title.
BESIDE_CANN = frozenset(
    "cann-python-deps te-topi mindspore-cann torch-npu vllm-ascend paddle-npu nnal-atb".split()
)


def fine(report: Report) -> set[str]:
    return {row.check for row in report.results if row.status is Status.OK}


def without_frameworks(machine: Machine) -> None:
    machine.remove(machine.site)


def without_cann(machine: Machine) -> None:
    own = ("/usr/local/Ascend/driver", "/usr/local/Ascend/firmware")
    machine.remove("/etc/Ascend", *(
        path for path in machine.files if path.startswith("/usr/local/Ascend/") and not path.startswith(own)
    ))  # fmt: skip
    machine.variables = {name: machine.variables[name] for name in ("HOME", "USER", "LANG")}
    machine.variables["PATH"] = f"{python_env.PREFIX}/bin:/usr/bin:/bin"


def without_npus(machine: Machine) -> None:
    cards = ("/dev/davinci", "/dev/devmm_svm", "/dev/hisi_hdc", "/sys/bus/pci", "/proc/driver")
    machine.remove(
        *(path for path in machine.files if path.startswith(cards)),
        *("/usr/local/Ascend", "/etc/ascend_install.info", "/etc/hccn.conf"),
    )
    machine.npu_smi = None


def bare(expect: str) -> Machine:
    """One that has nothing of what only nodes for training have."""
    machine = healthy("8.3.RC1", "aarch64", "torch")
    for strip in (without_cann, without_frameworks, without_npus):
        strip(machine)
    machine.expect = expect
    return machine


@functools.cache
def anywhere() -> set[str]:
    """What is well on a bare machine. One test holds it to MACHINE: there alone a new check fails."""
    return fine(judge(LOADED, bare("auto")))


def no_others(well: set[str], known: frozenset[str], name: str) -> None:
    """Nothing is well but what may be; a new check is told where it is entered."""
    new = sorted(well - known)
    assert not new, (
        f"{new} says that all is well on a machine that has nothing but what {name} of "
        "tests/scenarios/test_empty.py is about. If every such machine has what the check looks at, add its "
        f"id to {name}; else let it raise Skip."
    )


def test_a_bare_machine() -> None:
    no_others(anywhere(), MACHINE, "MACHINE")


@pytest.mark.parametrize(
    ("expect", "more"), [("npu", ("hccl-ports",)), ("gpu", ()), ("none", ("accelerator",))]
)
def test_a_bare_machine_of_which_something_is_expected(expect: str, more: tuple[str, ...]) -> None:
    assert fine(judge(LOADED, bare(expect))) - anywhere() == set(more)


@pytest.mark.parametrize(("version", "framework"), KINDS)
def test_npus_without_cann(version: str, framework: str) -> None:
    machine = healthy(version, "aarch64", framework)
    without_cann(machine)
    seen = fine(judge(LOADED, machine))
    assert seen & (CANN | BESIDE_CANN) == set()
    assert NPU - {"hccn-config"} <= seen


def test_cann_without_frameworks() -> None:
    machine = healthy("8.3.RC1", "aarch64", "torch")
    without_frameworks(machine)
    no_others(fine(judge(LOADED, machine)) - anywhere(), NPU | CANN, "NPU or CANN")


def test_npus_alone() -> None:
    machine = healthy("8.3.RC1", "aarch64", "torch")
    without_cann(machine)
    without_frameworks(machine)
    no_others(fine(judge(LOADED, machine)) - anywhere(), NPU, "NPU")


def test_gpus_alone() -> None:
    machine = gpu_machines()[0]
    without_frameworks(machine)
    no_others(fine(judge(LOADED, machine)) - anywhere(), GPU, "GPU")


def test_a_job_that_gets_no_device() -> None:
    machine = healthy("8.3.RC1", "aarch64", "torch")
    machine.variables["ASCEND_RT_VISIBLE_DEVICES"] = "9"
    assert "npu-busy" not in fine(judge(LOADED, machine))


def test_variables_that_name_nothing() -> None:
    machine = healthy("8.3.RC1", "aarch64", "torch")
    names = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
    machine.variables.update(dict.fromkeys(names, ""))
    machine.unset("HCCL_SOCKET_IFNAME")
    assert "socket-interfaces" not in fine(judge(LOADED, machine))
